"""Forecasters as bytes: they continue identically, and what is not one is refused by name."""

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.checks.contract import allowed
from belated.errors import BelatedError, InvalidState
from belated.forecasters import saving

KINDS = [bl.Direct, bl.BOLD, bl.QPMD, bl.Paced, bl.SDB]
kinds = pytest.mark.parametrize("kind", KINDS)


def make(name):
    return bl.catalog.LEARNERS[name].example()


ALLOWED = [(kind, name) for name in sorted(bl.catalog.LEARNERS) for kind in KINDS if kind in allowed(make(name))]


def feedback(f, draw, ticket):
    if f.learner.feedback == "symbol":
        return draw.choice(f.learner.symbols[f._room.pending[ticket].action])
    rewards = [draw.random() for _ in range(f.learner.feedback_size)]
    if f.learner.one_hot:
        rewards = [float(each == max(rewards)) for each in rewards]
    return rewards if f.learner.feedback in ("full", "gradient") else rewards[0]


def context(f, draw):
    """Side information for a prediction, if the learner takes any."""
    if not f.learner.context_size:
        return None
    return f.learner.example_context(np.random.default_rng(draw.randrange(2**32)))


def interleave(f, draw, steps):
    """Predict, update and cancel in some order; return all that was decided."""
    decisions = []
    for _ in range(steps):
        open_ = sorted(f._room.pending)
        chance = draw.random()
        if chance < 0.5 or not open_:
            decision = f.predict(context(f, draw))
            points = f.learner.point_size
            decisions.append(decision._replace(action=decision.action.tolist()) if points else decision)
        elif chance < 0.9:
            ticket = draw.choice(open_)
            f.update(ticket, feedback(f, draw, ticket))
        else:
            f.cancel(draw.choice(open_))
    return decisions


@pytest.mark.parametrize(("kind", "learner"), ALLOWED)
def test_a_saved_forecaster_continues_identically(kind, learner):
    f = kind(make(learner), seed=12)
    for part in range(4):
        interleave(f, random.Random(part), 25)
        saved = f.to_bytes()
        g = bl.from_bytes(saved)
        assert type(g) is kind
        assert (g.learner, g.seed, g.actions) == (f.learner, f.seed, f.actions)
        assert (g.outstanding, g.peak, g.instances) == (f.outstanding, f.peak, f.instances)
        assert g.to_bytes() == saved
        assert interleave(g, random.Random(99), 40) == interleave(f, random.Random(99), 40)
        assert g.to_bytes() == f.to_bytes()


@kinds
def test_a_fresh_forecaster_can_be_saved(kind):
    f = kind(bl.Uniform(actions=3), seed=4)
    g = bl.from_bytes(f.to_bytes())
    assert [f.predict() for _ in range(5)] == [g.predict() for _ in range(5)]


@kinds
def test_a_forecaster_of_a_later_replication_keeps_its_draws(kind):
    f = kind(bl.Uniform(actions=3)).fresh(seed=4, replication=7)
    f.predict()
    g = bl.from_bytes(f.to_bytes())
    assert [f.predict() for _ in range(30)] == [g.predict() for _ in range(30)]


def test_bytes_do_not_change_when_the_copy_goes_on():
    f = bl.QPMD(bl.UCB1(actions=3), seed=1)
    interleave(f, random.Random(0), 30)
    saved = f.to_bytes()
    interleave(bl.from_bytes(saved), random.Random(1), 30)
    assert f.to_bytes() == saved


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_will_do(kind):
    f = bl.Direct(bl.UCB1(actions=3), seed=1)
    assert bl.from_bytes(kind(f.to_bytes())).to_bytes() == f.to_bytes()


def test_a_learner_with_options_comes_back_with_them():
    for learner in (bl.KLUCB(actions=2, c=0.5), bl.EpsilonGreedy(actions=np.int64(5), epsilon=np.float64(0.25))):
        assert bl.from_bytes(bl.BOLD(learner).to_bytes()).learner == learner


FIRST = json.loads((Path(__file__).parent / "saved_first.json").read_text())


@pytest.mark.parametrize("name", FIRST)
def test_bytes_of_the_first_format_continue_as_they_did(name):
    """Written by the version before forecasters were rules, with what it decided next."""
    kept = FIRST[name]
    f = bl.from_bytes(bytes.fromhex(kept["saved"]))
    assert repr(f) == kept["shown"]
    assert [f.outstanding, f.peak, f.instances, f.dropped] == kept["counts"]
    said, draw = [], random.Random(2)
    for _ in range(40):
        open_, chance = sorted(f._room.pending), draw.random()
        if chance < 0.5 or not open_:
            made = f.predict([draw.randrange(2)] if f.learner.context_size else None)
            said.append([made.ticket, made.action, made.probability])
        elif chance < 0.85:
            ticket = draw.choice(open_)
            rewards = [round(draw.random(), 3) for _ in range(3 if f.learner.feedback == "full" else 1)]
            f.update(ticket, rewards if len(rewards) > 1 else rewards[0])
        elif chance < 0.95 or name not in ("direct", "bold"):
            f.cancel(draw.choice(open_))
        else:
            f.replace(draw.randrange(3))
    assert [each[:2] for each in said] == [each[:2] for each in kept["next"]]
    assert [each[2] for each in said] == pytest.approx([each[2] for each in kept["next"]], rel=1e-12)


# --- what is refused ---


@pytest.fixture(scope="module")
def saved():
    f = bl.QPMD(bl.UCB1(actions=3), seed=1)
    interleave(f, random.Random(3), 40)
    return f.to_bytes()


@pytest.mark.parametrize(
    "data", [b"", b"x", b"PK\x03\x04" + bytes(200), bytes(1000), b"belate", b"Belated\x01" + bytes(99)]
)
def test_foreign_bytes_are_refused(data):
    with pytest.raises(InvalidState, match="not a saved forecaster"):
        bl.from_bytes(data)


@pytest.mark.parametrize("data", [None, "belated", 7, [1, 2], np.zeros(3)], ids=lambda value: type(value).__name__)
def test_what_is_not_bytes_is_refused(data):
    with pytest.raises(InvalidState, match=f"got {type(data).__name__}"):
        bl.from_bytes(data)


def test_truncated_bytes_are_refused(saved):
    for length in (*range(8, 60, 7), 100, len(saved) // 2, len(saved) - 33, len(saved) - 32, len(saved) - 1):
        with pytest.raises(InvalidState, match=rf"damaged.*{length} bytes"):
            bl.from_bytes(saved[:length])
    with pytest.raises(InvalidState, match="damaged"):
        bl.from_bytes(saved + b"\0")
    for length in range(8):
        with pytest.raises(InvalidState):
            bl.from_bytes(saved[:length])


def test_any_flipped_bit_is_refused(saved):
    draw = random.Random(1)
    for place in [*range(60), *(draw.randrange(len(saved)) for _ in range(300)), len(saved) - 1]:
        broken = bytearray(saved)
        broken[place] ^= 1 << draw.randrange(8)
        with pytest.raises(InvalidState):
            bl.from_bytes(bytes(broken))


def test_another_format_is_named(saved):
    with pytest.raises(InvalidState, match="format 3, this version reads formats 1 to 2"):
        bl.from_bytes(b"belated\x03" + saved[8:])


def test_another_version_of_the_learner_is_named(saved, monkeypatch):
    monkeypatch.setattr(bl.UCB1, "version", bl.UCB1.version + 4)
    monkeypatch.setattr(bl.UCB1, "migrate", None)
    now = bl.UCB1.version
    with pytest.raises(InvalidState, match=f"UCB1 version {now - 4}, this is version {now}"):
        bl.from_bytes(saved)


def test_another_layout_of_the_learner_is_named(saved, monkeypatch):
    monkeypatch.setattr(bl.UCB1, "layout", lambda self: np.dtype([("other", "f8", (self.actions,))]))
    with pytest.raises(InvalidState, match=r"UCB1 was saved as .*other"):
        bl.from_bytes(saved)


def rewritten(data, change):
    """The same bytes with another header and a digest that fits: made by hand, not by an accident."""
    start = len(saving.MAGIC) + 8
    length = int.from_bytes(data[len(saving.MAGIC) : start], "little")
    header = json.loads(data[start : start + length])
    text = change(header)
    text = text if isinstance(text, bytes) else json.dumps(header).encode()
    whole = saving.MAGIC + len(text).to_bytes(8, "little") + text + data[start + length : -saving.DIGEST]
    return whole + hashlib.sha256(whole).digest()


def test_headers_can_be_rewritten_at_all(saved):
    assert bl.from_bytes(rewritten(saved, lambda header: None)).to_bytes() == saved


CHANGES = {
    "an unknown learner": lambda header: header["forecaster"]["learner"].update(name="ucb7"),
    "an unknown forecaster": lambda header: header["forecaster"].update(name="gold"),
    "a shorthand": lambda header: header["forecaster"].update(name="delayeducb1"),
    "a bad argument": lambda header: header["forecaster"]["learner"].update(actions=-3),
    "a strange argument": lambda header: header["forecaster"]["learner"].update(colour="red"),
    "a bad seed": lambda header: header.update(seed=-1),
    "more actions": lambda header: header["forecaster"]["learner"].update(actions=4),
    "too long an array": lambda header: header["arrays"]["states"][1].__setitem__(0, 50),
    "no arrays": lambda header: header.update(arrays={}),
    "nothing": lambda header: header.clear(),
    "no JSON": lambda header: b"{]",
    "a list": lambda header: b"[]",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_header_that_makes_no_sense_is_refused_and_never_misread(saved, change):
    with pytest.raises(BelatedError):
        bl.from_bytes(rewritten(saved, change))


class Mine(bl.RoundRobin):
    """A learner from outside the catalog."""


def test_a_learner_of_ones_own_comes_back_once_it_is_in_the_catalog():
    f = bl.Direct(Mine(actions=3), seed=1)
    f.update(f.predict().ticket, 1.0)
    with pytest.raises(BelatedError, match="'mine'"):
        bl.from_bytes(f.to_bytes())
    bl.catalog.add(Mine)
    try:
        g = bl.from_bytes(f.to_bytes())
        assert g.learner == f.learner
        assert g.predict() == f.predict()
    finally:
        del bl.catalog.LEARNERS["mine"]
