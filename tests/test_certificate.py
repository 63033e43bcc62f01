"""The certificate: every count again, by other code, from what was recorded; and engines that lie are caught."""

import dataclasses

import numpy as np
import pytest

import belated as bl
from belated.engine import play as playing
from belated.errors import CertificateError
from belated.forecasters import BOLD, QPMD

KINDS = [bl.Direct, bl.BOLD, bl.QPMD]
kinds = pytest.mark.parametrize("kind", KINDS)
engines = pytest.mark.parametrize("engine", ["compiled", "python"])
EVERY = (
    "sum of pulls = n",
    "pulled - observed - cancelled - dropped = G_{n+1}",
    "feedback due by n came exactly once",
    "G*_i <= G* <= n - 1",
    "G* <= sum of G*_i",
    "no action has more feedback than pulls",
)
OF_KIND = {
    bl.Direct: (),
    bl.BOLD: ("M = G* + 1",),
    bl.QPMD: ("n' <= n", "n' = sum of T'_i", "0 <= T_i - T'_i <= G*_i (+ cancelled)"),
}
DELAYS = [
    bl.delays.Constant(0),
    bl.delays.Constant(7),
    bl.delays.Geometric(mean=25),
    bl.delays.Lossy(bl.delays.Geometric(mean=10), 0.05),
    bl.delays.PerAction([bl.delays.Constant(1), bl.delays.Geometric(mean=30), bl.delays.Constant(90)]),
]


def play(kind=bl.BOLD, delays=None, rounds=300, replications=5, **options):
    return bl.play(
        kind(bl.UCB1(actions=3)),
        bl.games.Bernoulli([0.3, 0.5, 0.6]),
        delays or bl.delays.Geometric(mean=25),
        rounds,
        replications,
        record=True,
        **options,
    )


def recount(actions, delays, expiry, n):
    """Everything that follows from what was played and how long it took, as matrices of rounds x rounds."""
    s = np.arange(1, n + 1)
    wait = np.minimum(delays, bl.NEVER if expiry is None else expiry)
    end = np.where(wait < bl.NEVER, s + np.minimum(wait, 2**60), 2**61)
    answered = delays <= (bl.NEVER - 1 if expiry is None else expiry)
    t = np.arange(1, n + 2)
    open_ = (s[None, :] < t[:, None]) & (end[None, :] >= t[:, None])  # ticket s is outstanding when round t predicts
    mine = actions[:, None] == np.arange(3)
    each = open_.astype(np.int64) @ mine
    done = end <= n
    return {
        "peak": open_[:-1].sum(axis=1).max(),
        "outstanding": open_[-1].sum(),
        "peaks": each[:-1].max(axis=0),
        "pulls": mine.sum(axis=0),
        "observed": (mine & (done & answered)[:, None]).sum(axis=0),
        "cancelled": (mine & (done & ~answered)[:, None]).sum(axis=0),
    }


@kinds
@engines
@pytest.mark.parametrize("delays", DELAYS, ids=repr)
@pytest.mark.parametrize("expiry", [None, 12])
def test_every_count_follows_from_the_recorded_rounds(kind, delays, expiry, engine):
    r = play(kind, delays, replications=2, expiry=expiry, engine=engine)
    for row in range(2):
        expected = recount(r.actions[row], r.delays[row], expiry, r.rounds)
        for name, value in expected.items():
            np.testing.assert_array_equal(getattr(r, name)[row], value, err_msg=name)
        if kind is bl.BOLD:
            assert r.instances[row] == expected["peak"] + 1
        if kind is bl.QPMD:
            ahead = expected["pulls"] - r.base_pulls[row]
            assert (ahead >= 0).all()
            assert (ahead <= expected["peaks"] + expected["cancelled"]).all()
            assert 1 <= r.steps[row] <= r.rounds
            assert r.steps[row] == r.base_pulls[row].sum()
            assert r.steps[row] <= 1 + expected["observed"].sum()
        if kind is not bl.QPMD:
            assert r.steps[row] == 0
            assert not r.base_pulls[row].any()


@kinds
def test_the_certificate_names_its_identities_and_holds_in_every_replication(kind):
    certificate = play(kind).certificate
    assert tuple(certificate) == EVERY + OF_KIND[kind]
    assert len(certificate) == len(EVERY + OF_KIND[kind])
    assert certificate.holds
    assert bool(certificate) is True
    for name in certificate:
        assert certificate[name].shape == (5,)
        assert certificate[name].dtype == bool
        assert certificate[name].all()
    with pytest.raises(KeyError):
        certificate["no such identity"]


def test_it_fits_a_line_and_so_does_a_result_whose_regrets_are_alike():
    r = bl.play(bl.QPMD(bl.UCB1(3)), bl.games.Bernoulli([0.3, 0.5, 0.7]), bl.delays.Constant(2), 50, replications=40)
    assert repr(r.certificate) == "<certificate of 9 identities in 40 replications: all hold>"
    alike = dataclasses.replace(r, regret=np.array([[0.0], [6e-15], [1e-14], [0.0]]))
    assert alike.spread == np.inf and "+-" not in repr(alike) and np.isfinite(r.spread)


def test_without_cancelled_tickets_qpmd_lags_by_no_more_than_the_peak_of_each_action():
    r = play(bl.QPMD, bl.delays.Geometric(mean=60), replications=20)
    ahead = r.pulls - r.base_pulls
    assert ((ahead >= 0) & (ahead <= r.peaks)).all()


def corrupted(monkeypatch, change):
    """An engine that plays rightly and then tells something else."""
    honest = playing.run_compiled

    def lying(setting, tables, *rest):
        honest(setting, tables, *rest)
        change(tables)

    monkeypatch.setattr(playing, "run_compiled", lying)


def add(table, name, value, at=2):
    def change(tables):
        getattr(tables, table)[name][at] += value

    return change


def delivered_twice(tables):
    tables.tally["observed"][2, 1] += 1
    tables.summary["came_count"][2] += 1
    tables.summary["came_sum"][2] += 17
    tables.summary["outstanding"][2] -= 1


def dropped(tables):
    tables.tally["observed"][2, 1] -= 1
    tables.summary["came_count"][2] -= 1
    tables.summary["came_sum"][2] -= 17
    tables.summary["outstanding"][2] += 1


def delivered_one_for_another(tables):
    tables.summary["came_sum"][2] += 3


LIES = [
    (bl.Direct, delivered_twice, EVERY[2]),
    (bl.Direct, dropped, EVERY[2]),
    (bl.Direct, delivered_one_for_another, EVERY[2]),
    (bl.BOLD, add("summary", "peak", 1), "M = G* + 1"),
    (bl.BOLD, add("summary", "peak", -1), "M = G* + 1"),
    (bl.BOLD, add("summary", "instances", 1), "M = G* + 1"),
    (bl.BOLD, add("summary", "instances", -1), "M = G* + 1"),
    (bl.Direct, add("summary", "outstanding", 1), EVERY[1]),
    (bl.Direct, add("tally", "pulls", 1, (2, 1)), EVERY[0]),
    (bl.Direct, add("tally", "cancelled", 1, (2, 1)), EVERY[1]),
    (bl.Direct, add("tally", "peak", 300, (2, 1)), EVERY[3]),
    (bl.Direct, add("summary", "peak", 300), EVERY[3]),
    (bl.QPMD, add("summary", "steps", 1), OF_KIND[bl.QPMD][1]),
    (bl.QPMD, add("summary", "steps", 300), OF_KIND[bl.QPMD][0]),
    (bl.QPMD, add("tally", "base", 1, (2, 1)), OF_KIND[bl.QPMD][1]),
]


@pytest.mark.parametrize(("kind", "change", "identity"), LIES)
def test_an_engine_that_lies_is_caught(kind, change, identity, monkeypatch):
    corrupted(monkeypatch, change)
    with pytest.raises(CertificateError) as caught:
        play(kind)
    assert f"'{identity}' fails in replication 2" in str(caught.value)


# --- forecasters that break the paper's rules ---


def test_bold_that_wastes_an_instance_is_caught(monkeypatch):
    honest = BOLD.choose

    def wasteful(self, room, context):
        if len(room.seats) == 3:
            room.make(0)
        return honest(self, room, context)

    monkeypatch.setattr(BOLD, "choose", wasteful)
    with pytest.raises(CertificateError, match=r"M = G\* \+ 1"):
        play(bl.BOLD, replications=1, engine="python")


def test_qpmd_that_queues_a_feedback_twice_is_caught(monkeypatch):
    honest = QPMD.deliver

    def generous(self, *what):
        honest(self, *what)
        honest(self, *what)

    monkeypatch.setattr(QPMD, "deliver", generous)
    with pytest.raises(CertificateError, match=r"n' <= n|T_i - T'_i"):
        play(bl.QPMD, bl.delays.Constant(3), replications=1, engine="python")


def test_qpmd_that_loses_feedback_is_caught(monkeypatch):
    honest = QPMD.deliver

    def careless(self, room, *what):
        if room.issued % 3:
            honest(self, room, *what)

    monkeypatch.setattr(QPMD, "deliver", careless)
    with pytest.raises(CertificateError, match=r"T_i - T'_i"):
        play(bl.QPMD, bl.delays.Constant(3), replications=1, engine="python")


def test_qpmd_that_consumes_on_arrival_is_caught(monkeypatch):
    """The base must be asked when the next prediction is made: else it may ask for what is never played."""
    honest = QPMD.deliver

    def hasty(self, room, *what):
        honest(self, room, *what)
        self.choose(room, None)

    monkeypatch.setattr(QPMD, "deliver", hasty)
    with pytest.raises(CertificateError, match=r"n' <= n|T_i - T'_i"):
        play(bl.QPMD, bl.delays.Constant(0), replications=1, engine="python")
