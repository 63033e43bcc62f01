"""The laws of delay: exact in distribution, in their means, and in every way of running them."""

import copy
import ctypes
import dataclasses
import json
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import belated as bl
from belated import delays
from belated.delays import (
    NEVER,
    Batched,
    Constant,
    Empirical,
    Geometric,
    Lossy,
    Pareto,
    PerAction,
    Poisson,
    Trace,
    Uniform,
)
from belated.errors import InvalidArgument
from belated.kernels.compile import COMPILED, pointer
from belated.kernels.pointers import LAW_SIGNATURE, law_filler

LEVEL = 1e-4
KEY = np.uint64(17), np.uint64(3)

LAWS = [
    Constant(7),
    Batched(5),
    Uniform(3, 12),
    Geometric(mean=4.5),
    Geometric(mean=0),
    Poisson(mean=3),
    Poisson(mean=30),
    Pareto(mean=10),
    Pareto(mean=0.2, alpha=3),
    Pareto(scale=4, alpha=0.7),
    Empirical([0, 5, 5, NEVER]),
    Trace(list(range(100, 0, -1))),
    Trace([[t, NEVER, 2 * t] for t in range(100)]),
    Lossy(Geometric(mean=4.5), 0.25),
    Lossy(Lossy(Uniform(0, 3), 0.5), 0.25),
    PerAction([Constant(1), Geometric(mean=4.5), Geometric(mean=9)]),
    PerAction([Lossy(Geometric(mean=4.5), 0.25), Trace(list(range(100))), PerAction([Constant(1)] * 3)]),
    Lossy(PerAction([Constant(1), Empirical([1, 2]), Lossy(Poisson(mean=3), 0.5)]), 0.1),
]


def draw(law, rounds, action=0, key=KEY):
    """The delays of the first rounds."""
    kernel, params = law.kernel, law.params()
    return np.array([kernel(params, *key, t, action) for t in range(1, rounds + 1)], np.int64)


def mass_fits(values, tail, width=1):
    """Chi-square against P(tau >= k), in cells of the given width and one that holds the tail."""
    edges = np.arange(0, min(values.max(), 60 * width) + width, width)
    upper = np.array([tail(k) for k in edges], float)
    enough = upper * len(values) > 20
    edges, upper = edges[enough], upper[enough]
    expected = (upper - np.append(upper[1:], 0)) * len(values)
    seen = np.bincount(np.searchsorted(edges, values, side="right") - 1, minlength=len(edges))
    positive = expected > 0
    assert seen[~positive].sum() == 0
    return stats.chisquare(seen[positive], expected[positive]).pvalue > LEVEL


@pytest.mark.parametrize("mean", [0.1, 3.0, 50.0])
def test_geometric_is_exact(mean):
    q = mean / (1 + mean)
    assert mass_fits(draw(Geometric(mean=mean), 20_000), lambda k: q**k, width=max(1, int(mean // 5)))


@pytest.mark.parametrize("mean", [0.5, 9.0, 60.0])
def test_poisson_is_exact(mean):
    assert mass_fits(draw(Poisson(mean=mean), 20_000), lambda k: stats.poisson.sf(k - 1, mean))


@pytest.mark.parametrize("low, high", [(0, 1), (3, 12), (4, 4), (0, 2**53 - 1)])
def test_uniform_is_exact(low, high):
    values = draw(Uniform(low, high), 20_000)
    assert values.min() >= low and values.max() <= high
    if 0 < high - low < 100:
        seen = np.bincount(values - low, minlength=high - low + 1)
        assert stats.chisquare(seen).pvalue > LEVEL
    if high - low > 100:
        assert stats.kstest(values / high, "uniform").pvalue > LEVEL


@pytest.mark.parametrize("mean, alpha", [(10, 1.5), (0.2, 3.0), (500, 1.2), (40, 2.5)])
def test_pareto_is_exact(mean, alpha):
    law = Pareto(mean=mean, alpha=alpha)
    width = max(1, int(mean // 5))
    assert mass_fits(draw(law, 20_000), lambda k: (1 + k / law.scale) ** -alpha, width=width)


@pytest.mark.parametrize("scale, alpha", [(5, 1.0), (10, 0.8), (30, 2.0), (2, 0.5)])
def test_pareto_takes_a_scale_and_then_any_tail(scale, alpha):
    law = Pareto(scale=scale, alpha=alpha)
    assert law.scale == scale and (law.mean == math.inf) == (alpha <= 1)
    assert mass_fits(draw(law, 20_000), lambda k: (1 + k / scale) ** -alpha, width=max(1, scale // 3))


@pytest.mark.parametrize("mean, alpha", [(10, 1.5), (0.2, 3.0), (500, 1.2), (1e-9, 1.0001), (1e12, 20)])
def test_pareto_by_its_scale_is_pareto_by_its_mean(mean, alpha):
    known = Pareto(mean=mean, alpha=alpha)
    again = Pareto(scale=known.scale, alpha=alpha)
    assert np.array_equal(again.params(), known.params()) and again.mean == pytest.approx(mean, rel=1e-9)
    assert repr(known) == f"Pareto(mean={mean!r}, alpha={alpha!r})" and known != again
    assert bl.catalog.to_data(known) == {"name": "pareto", "mean": mean, "alpha": alpha}
    for law in (known, again):
        assert bl.catalog.from_data("delays", bl.catalog.to_data(law)) == law
        assert bl.notation.delays(bl.notation.text("delays", law)) == law
        assert pickle.loads(pickle.dumps(law)) == law and hash(copy.copy(law)) == hash(law)


#: E tau is infinite, though all feedback comes.
ENDLESS = Pareto(scale=10, alpha=0.8)


def test_an_infinite_mean_is_no_obstacle_to_a_play_or_a_study(tmp_path):
    for forecaster in (bl.BOLD(bl.Exp3(2)), bl.QPMD(bl.UCB1(2)), bl.DelayedUCB1(2)):
        game = bl.games.Bernoulli([0.2, 0.8])
        one, two = (bl.play(forecaster, game, ENDLESS, rounds=2000, engine=e) for e in ("compiled", "python"))
        assert np.array_equal(one.regret, two.regret) and one.certificate and one.peak[0] > 50
        assert one.bound is not None, "the theorems speak of peaks, which are finite"
    assert PerAction([ENDLESS, ENDLESS]).mean == math.inf and PerAction([ENDLESS, Constant(1)]).mean_of(0) == math.inf
    for bound in (bl.bounds.outstanding, lambda n, mean: bl.bounds.bold_iid(math.sqrt, n, mean)):
        with pytest.raises(InvalidArgument, match="mean_delay must be finite, got inf"):
            bound(1000, ENDLESS.mean)
    laws = ["pareto(scale=10, alpha=0.8)", "pareto(mean=10)"]
    study = bl.studies.Study.make(
        forecasters=["bold(exp3)"], games=["bernoulli([0.2, 0.8])"], delays=laws, rounds=500, replications=3
    )
    results = study.run(tmp_path)
    assert results.frame()["delays"].to_list() == laws and results.frame()["mean_delay"].to_list() == [None, 10.0]
    assert bl.studies.Results.load(tmp_path).frame().equals(results.frame())
    assert "pareto(scale=10, alpha=0.8)" in results.report(tmp_path / "page").read_text(encoding="utf-8")
    only = bl.studies.Study.make(
        forecasters=["bold(exp3)"], games=["bernoulli([0.2, 0.8])"], delays=laws[:1], rounds=500, replications=3
    ).run(tmp_path)
    assert only.plot() and only.report(tmp_path / "other").exists()


@pytest.mark.parametrize(
    "mean, alpha",
    [(10, 1.5), (0.2, 3.0), (500, 1.2), (1e-9, 1.5), (1e12, 20), (1e-9, 1.0001), (7, 20), (1e12, 1.01)],
)
def test_pareto_has_exactly_the_mean(mean, alpha):
    """Sum the first terms of E tau, then Euler and Maclaurin for the rest."""
    scale = Pareto(mean=mean, alpha=alpha).scale
    n = 1000
    terms = (1 + np.arange(1, n) / scale) ** -alpha
    last = (1 + n / scale) ** -alpha
    rest = (scale + n) / (alpha - 1) * last + last / 2 + alpha / 12 / (scale + n) * last
    assert math.fsum(terms) + rest == pytest.approx(mean, rel=1e-11)


def test_empirical_draws_with_replacement():
    law = Empirical([5, 0, 5, NEVER])
    values, seen = np.unique(draw(law, 20_000), return_counts=True)
    assert values.tolist() == [0, 5, NEVER]
    assert stats.chisquare(seen, [5000, 10000, 5000]).pvalue > LEVEL
    assert law.mean == math.inf and law.maximum == NEVER
    assert Empirical([1, 2]).mean == 1.5


@given(st.integers(1, 50), st.integers(0, 100))
def test_batched_is_the_next_multiple(d, s):
    s += 1
    arrival = next(t for t in range(s, s + d) if t % d == 0)
    assert Batched(d).kernel(Batched(d).params(), *KEY, s, 0) == arrival - s <= Batched(d).maximum


def test_trace_replays_and_ends():
    law = Trace([4, 0, NEVER, 2**53])
    assert draw(law, 6).tolist() == [4, 0, NEVER, 2**53, NEVER, NEVER]
    assert (law.longest(), law.maximum, law.mean, law.iid) == (4, NEVER, None, False)
    assert not law.depends_on_action and law.actions is None
    table = Trace(np.arange(6).reshape(3, 2))
    assert [draw(table, 3, action).tolist() for action in (0, 1)] == [[0, 2, 4], [1, 3, 5]]
    assert table.depends_on_action and table.actions == 2 and table.longest() == 3
    assert not Trace([1]).depends_on_action


def test_lossy_keeps_the_delays_of_what_comes():
    bare, lossy = draw(Geometric(mean=20), 20_000), draw(Lossy(Geometric(mean=20), 0.3), 20_000)
    came = lossy != NEVER
    assert np.array_equal(bare[came], lossy[came])
    assert stats.binomtest(int((~came).sum()), 20_000, 0.3).pvalue > LEVEL
    assert abs(np.corrcoef(bare, came)[0, 1]) < 4 / math.sqrt(20_000)


def test_losses_within_losses_are_independent():
    inner, outer = Lossy(Constant(2), 0.5), Lossy(Lossy(Constant(2), 0.5), 0.4)
    lost = draw(outer, 20_000) == NEVER
    assert stats.binomtest(int(lost.sum()), 20_000, 0.7).pvalue > LEVEL
    assert (inner.mean, inner.maximum) == (math.inf, NEVER)
    assert (Lossy(Constant(2), 0).mean, Lossy(Constant(2), 0).maximum) == (2, 2)
    assert set(draw(Lossy(Constant(2), 1), 50)) == {NEVER}


def test_per_action_is_the_law_of_each_action():
    inner = [Lossy(Geometric(mean=4), 0.25), Constant(3), Geometric(mean=9), Lossy(Poisson(mean=20), 0.1)]
    law = PerAction(inner)
    for action, one in enumerate(inner):
        assert np.array_equal(draw(law, 300, action), draw(one, 300, action))
        assert law.mean_of(action) == one.mean
    assert law.depends_on_action and law.iid and law.actions == 4
    assert (law.mean, law.maximum) == (None, NEVER)


def test_laws_for_another_number_of_actions_are_refused():
    for law in (PerAction([Constant(1)] * 3), Trace([[1, 2, 3]]), Lossy(PerAction([Constant(1)] * 3), 0.5)):
        law.check_actions(3)
        with pytest.raises(InvalidArgument, match="given for 3 actions, the game has 2"):
            law.check_actions(2)
    for law in (Constant(1), Trace([1]), Lossy(Constant(1), 0.5)):
        law.check_actions(2)


def test_what_composite_laws_say_of_themselves():
    assert PerAction([Constant(1), Uniform(0, 2)]).mean == 1
    assert PerAction([Constant(1), Uniform(0, 2)]).maximum == 2
    assert PerAction([Constant(1), Poisson(mean=1)]).maximum is None
    mixed = PerAction([Constant(1), Trace([1, 2, 3]), Trace([1, 2])])
    assert (mixed.iid, mixed.longest()) == (False, 2)
    around = Lossy(mixed, 0.5)
    assert around.depends_on_action and not around.iid and around.actions == 3 and around.longest() == 2
    assert Lossy(PerAction([Constant(1), Constant(4)]), 0).mean_of(1) == 4
    assert not Lossy(Constant(1), 0.5).depends_on_action
    assert [law.maximum for law in (Geometric(mean=1), Geometric(mean=0), Pareto(mean=1))] == [None, 0, None]


TWO = Trace([[1, 2]] * 50)


@pytest.mark.parametrize(
    "law",
    [
        TWO,
        Lossy(TWO, 0.5),
        PerAction([TWO] * 3),
        PerAction([Constant(1), Lossy(TWO, 0.1), Constant(2)]),
        PerAction([PerAction([Constant(1)] * 2)] * 3),
        Lossy(PerAction([Constant(1), Lossy(PerAction([TWO, TWO]), 0.1), Constant(2)]), 0.1),
    ],
    ids=repr,
)
def test_a_law_within_a_law_made_for_other_actions_is_refused(law):
    with pytest.raises(InvalidArgument, match="given for 2 actions, the game has 3"):
        bl.play(bl.DelayedUCB1(3), bl.games.Bernoulli([0.1, 0.2, 0.3]), law, rounds=50)
    with pytest.raises(InvalidArgument, match="given for 2 actions"):
        law.check_actions(3)


def test_a_law_within_a_law_made_for_these_actions_is_taken():
    for law in (PerAction([TWO, Constant(1)]), Lossy(PerAction([Lossy(TWO, 0.1)] * 2), 0.1)):
        game = bl.games.Bernoulli([0.1, 0.2])
        one, two = (bl.play(bl.DelayedUCB1(2), game, law, rounds=50, record=True, engine=e) for e in ("auto", "python"))
        assert np.array_equal(one.delays, two.delays) and set(one.delays[0].tolist()) <= {1, 2, NEVER}


def test_a_law_of_ones_own_says_within_others_too_what_it_is_made_for():
    class Picky(Constant):
        def check_actions(self, actions):
            raise InvalidArgument(f"not for {actions}")

    for law in (Picky(1), Lossy(Picky(1), 0.5), PerAction([Constant(1), Picky(1)])):
        with pytest.raises(InvalidArgument, match="not for 2"):
            bl.play(bl.DelayedUCB1(2), bl.games.Bernoulli([0.1, 0.2]), law, rounds=50)


def test_delays_of_actions_and_rounds_differ():
    law = PerAction([Geometric(mean=50)] * 2)
    assert abs(np.corrcoef(draw(law, 4000, 0), draw(law, 4000, 1))[0, 1]) < 4 / math.sqrt(4000)
    other = draw(Geometric(mean=50), 4000, key=(np.uint64(18), np.uint64(3)))
    assert abs(np.corrcoef(draw(Geometric(mean=50), 4000), other)[0, 1]) < 4 / math.sqrt(4000)


@pytest.mark.skipif(not COMPILED, reason="addresses exist only where kernels are compiled")
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_through_an_address(law):
    integer, word, vector = ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(integer, vector, word, word, integer, integer, ctypes.c_double, integer, vector)
    fill = kind(pointer(law_filler(law.kernel), LAW_SIGNATURE))
    params, filled = law.params(), np.zeros(100, np.int64)
    for action in range(3 if law.depends_on_action else 1):
        fill(params.ctypes.data, int(KEY[0]), int(KEY[1]), 1, action, 0.5, 100, filled.ctypes.data)
        assert np.array_equal(filled, draw(law, 100, action))


def fingerprint():
    """Delays that must not depend on how kernels are run."""
    return [draw(law, 30, action).tolist() for law in LAWS for action in range(3 if law.depends_on_action else 1)]


def test_plain_python_gives_the_same_delays():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-W", "error", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == fingerprint()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Constant(-1), "d must be >= 0, got -1"),
        (lambda: Constant(1.5), "d must be a whole number, got 1.5"),
        (lambda: Constant(NEVER), f"d must be <= {2**53}, got {NEVER}"),
        (lambda: Batched(0), "d must be >= 1, got 0"),
        (lambda: Uniform(5, 4), "high must be >= 5, got 4"),
        (lambda: Uniform(-1, 4), "low must be >= 0, got -1"),
        (lambda: Geometric(mean=-3), "mean must be >= 0, got -3"),
        (lambda: Geometric(mean=math.inf), "mean must be finite, got inf"),
        (lambda: Poisson(mean=math.nan), "mean must be finite, got nan"),
        (lambda: Pareto(mean=0), "mean must be >= 1e-09, got 0"),
        (lambda: Pareto(mean=5, alpha=1), "alpha must be > 1, got 1: else the mean is infinite"),
        (lambda: Pareto(mean=5, alpha=0), "alpha must be > 0, got 0"),
        (lambda: Pareto(scale=0), "scale must be > 0, got 0"),
        (lambda: Pareto(), "either a mean or a scale, got mean=None and scale=None"),
        (lambda: Pareto(mean=5, scale=5), "either a mean or a scale, got mean=5 and scale=5"),
        (lambda: Empirical([]), "sample must be a vector, not empty"),
        (lambda: Empirical([[1]]), "sample must be a vector"),
        (lambda: Empirical([0.5]), "sample must be whole numbers"),
        (lambda: Trace([1, -2]), r"taus\[1\] must be between 0 and 2\^53, or NEVER, got -2"),
        (lambda: Trace([[0, 1], [2**60, 0]]), r"taus\[1, 0\] must be between"),
        (lambda: Trace([[1], [1, 2]]), "taus must be whole numbers in rows of one length"),
        (lambda: Trace(["a"]), "taus must be whole numbers"),
        (lambda: Trace(np.zeros((1, 1, 1), int)), "rounds x actions"),
        (lambda: Lossy(Constant(1), 1.5), "p must be <= 1, got 1.5"),
        (lambda: Lossy(3, 0.5), "law must be a law of belated.delays, got 3"),
        (lambda: PerAction([]), "laws must have at least 1 item"),
        (lambda: PerAction([Constant(1), None]), r"laws\[1\] must be a law of belated.delays, got None"),
    ],
)
def test_errors_name_the_value(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def plain(value):
    """A spec as plain data: a walk over its fields."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        known = value.to_fields() if hasattr(value, "to_fields") else fields
        return {"name": type(value).__name__, **{name: plain(each) for name, each in known.items()}}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def rebuilt(data):
    if isinstance(data, dict):
        return getattr(delays, data.pop("name"))(**{key: rebuilt(value) for key, value in data.items()})
    return [rebuilt(item) for item in data] if isinstance(data, list) else data


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_specs_are_data(law):
    again = rebuilt(json.loads(json.dumps(plain(law))))
    assert again == law and hash(again) == hash(law) and repr(again) == repr(law)
    assert np.array_equal(again.params(), law.params())
    assert again.kernel is law.kernel
    assert pickle.loads(pickle.dumps(law)) == law
    assert sum(other == law for other in LAWS) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        law.anything = 1


def test_a_long_trace_cannot_be_changed():
    taus = np.arange(2_000_000).reshape(-1, 2)
    law = Trace(taus)
    assert law == Trace(taus) and hash(law) == hash(Trace(taus)) and law.params().size == taus.size + 2
    taus[:] = 0
    assert law.maximum == 1_999_999 and repr(law) == "Trace(1000000 x 2 delays)"
    with pytest.raises(ValueError):
        law.array[0] = 1
    assert Trace([1, 2]) != Empirical([1, 2]) and Trace([1, 2]) != Trace([[1, 2]]) and Trace([1]) != 1


def test_importing_loads_no_scipy():
    heavy = "{'scipy.special', 'scipy.optimize', 'scipy.stats'}"
    code = f"import sys, belated.delays, belated.games; sys.exit(bool({heavy} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


if __name__ == "__main__":
    print(json.dumps(fingerprint()))
