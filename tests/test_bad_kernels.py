"""Mistakes in kernels: outside their arrays, or what kernels may not do. Each is named with its line, never a crash."""

from __future__ import annotations

import numpy as np
import pytest

import belated as bl
from belated import checks
from belated.checks import CheckFailed, bounds
from belated.errors import BadKernel
from belated.kernels import blame, guard, states
from belated.kernels.asked import Closed, Looked, bad_law
from belated.kernels.compile import COMPILED
from tests import broken_kernels as broken

GAME = bl.games.Bernoulli([0.2, 0.5, 0.9])
LAW = bl.delays.Constant(1)


def assert_told(message, spec, name, function):
    assert repr(spec)[:40] in message and f", {name}, " in message, message
    assert f"{broken.HERE}, line {broken.marked(function)}" in message, message


@pytest.mark.parametrize("kind", broken.OUTSIDE, ids=lambda kind: kind.__name__)
def test_an_index_outside_an_array_of_a_learner_is_found(kind):
    (name, said), spec = broken.OUTSIDE[kind], kind()
    with pytest.raises(CheckFailed) as caught:
        checks.check_learner(spec)
    assert_told(str(caught.value), spec, name, getattr(kind, name))
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", broken.OUTSIDE_GAMES, ids=lambda kind: kind.__name__)
def test_an_index_outside_a_vector_of_a_game_is_found(kind):
    (name, said), spec = broken.OUTSIDE_GAMES[kind], kind()
    with pytest.raises(CheckFailed) as caught:
        checks.check_game(spec)
    assert_told(str(caught.value), spec, name, getattr(kind, name))
    assert said in str(caught.value)


@pytest.mark.parametrize("function", [broken.past_the_end, broken.when_late], ids=lambda f: f.__name__)
def test_an_index_outside_the_numbers_of_a_delay_law_is_found(function):
    spec = broken.law_of(function)
    with pytest.raises(CheckFailed, match="is outside") as caught:
        checks.check_delays(spec)
    assert_told(str(caught.value), spec, "kernel", function)


def test_the_right_ones_pass():
    bounds.stays_in_its_arrays(broken.Right())
    bounds.keeps_to_the_rules(broken.Right())
    bounds.stays_in_its_arrays(bl.PerContext(bl.UCB1(3), 2))


def test_a_guard_reads_as_the_array_it_stands_for():
    table = np.arange(12.0).reshape(3, 4)
    guarded = guard.Guarded.over(table, "table")
    assert guarded[1, 2] == 6.0 and type(guarded[1, 2]) is np.float64
    assert guarded[1][2] == 6.0 and guarded[1, 1:3].tolist() == [5.0, 6.0] and guarded[...].shape == (3, 4)
    assert type(guarded + 1.0) is type(2.0 * guarded[0]) is np.ndarray and type(guarded.sum()) is np.float64
    assert [row.tolist() for row in guarded] == table.tolist() and len(guarded) == 3 and guarded.shape == (3, 4)
    guarded[2, 3] = 5.0
    guarded[0] += 1.0
    assert table[2, 3] == 5.0 and table[0, 0] == 1.0
    for key in [3, -1, (0, 4), (0, -1), (3, 0), slice(0, 4), slice(-1, None), np.int64(3), np.uint64(3)]:
        with pytest.raises(guard.Outside, match="table"):
            guarded[key]
        with pytest.raises(guard.Outside, match="table"):
            guarded[key] = 1.0


def test_a_bare_pointer_can_be_indexed_and_nothing_else():
    numbers = np.zeros(3)
    pointer = guard.Pointer(numbers, "memory")
    pointer[2] += 4.0
    assert numbers[2] == 4.0 and pointer.behind(1)[1] == 4.0
    for wrong in (
        lambda: pointer[3],
        lambda: pointer.behind(1)[2],
        lambda: pointer[1.0],
        lambda: pointer[:1],
        lambda: len(pointer),
        lambda: list(pointer),
        lambda: np.sum(pointer),
        lambda: pointer.shape,
        lambda: pointer.behind(4),
    ):
        with pytest.raises(guard.Outside, match="memory"):
            wrong()


def calls(spec):
    """Everywhere that a learner's kernels are run."""
    yield lambda: run(bl.Direct(spec))
    yield lambda: bl.play(bl.BOLD(spec), GAME, LAW, rounds=20)
    yield lambda: bl.play(bl.BOLD(spec), GAME, LAW, rounds=20, engine="python")


def run(forecaster):
    for _ in range(3):
        forecaster.update(forecaster.predict().ticket, 1.0)


@pytest.mark.parametrize("kind", broken.MISTAKES, ids=lambda kind: kind.__name__)
def test_a_mistake_in_a_kernel_is_named_wherever_it_runs(kind):
    name, compiled, plain = broken.MISTAKES[kind]
    said = compiled if COMPILED else plain
    if said is None:
        return  # plain Python can do it
    spec = kind()
    for call in calls(spec):
        with pytest.raises(BadKernel) as caught:
            call()
        assert said in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 2 and caught.value.__cause__ is not None
        if kind is broken.FieldInHelper:
            assert f"line {broken.marked(getattr(broken.decorated, 'py_func', broken.decorated))}" in str(caught.value)
        elif kind in (broken.TooFew, broken.NotStatic):
            assert repr(spec) in str(caught.value) and f", {name}, {broken.HERE}, line " in str(caught.value)
        else:
            assert_told(str(caught.value), spec, name, getattr(kind, name))


@pytest.mark.parametrize("kind", broken.MISTAKES, ids=lambda kind: kind.__name__)
def test_the_checks_find_it_too(kind):
    if not COMPILED and kind is broken.Undecorated:
        return  # plain Python can do it
    with pytest.raises((CheckFailed, BadKernel), match=f"{broken.MISTAKES[kind][0]}, .*line "):
        checks.check_learner(kind())


@pytest.mark.parametrize("kind", broken.RULES, ids=lambda kind: kind.__name__)
def test_what_kernels_may_not_do_is_found_by_the_check(kind):
    (name, said), spec = broken.RULES[kind], kind()
    with pytest.raises(CheckFailed, match=said) as caught:
        checks.check_learner(spec)
    assert_told(str(caught.value), spec, name, getattr(kind, name))


def test_the_learner_inside_another_is_named():
    with pytest.raises(BadKernel, match=r"^WrongField\(.*predict, .*there is no field 'meen'"):
        bl.BOLD(bl.PerContext(broken.WrongField(), 2)).predict(1)


@pytest.mark.parametrize("kind", [broken.Measures, broken.Slices])
def test_a_game_that_cannot_be_compiled_is_named(kind):
    if not COMPILED:
        return  # plain Python can do it
    with pytest.raises(BadKernel, match="bare pointer") as caught:
        bl.play(bl.Direct(bl.UCB1(2)), kind(), LAW, rounds=9)
    assert_told(str(caught.value), kind(), "regret", kind.regret)


LOOKS = [broken.by_action, broken.is_action]


@pytest.mark.parametrize("function", LOOKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_law_that_looks_at_the_action_and_does_not_say_so_is_refused(function, engine):
    law = broken.law_of(function)
    with pytest.raises(CheckFailed, match="say True") as caught:
        checks.check_delays(law)
    assert_told(str(caught.value), law, "kernel", function)
    with pytest.raises(BadKernel, match="say True") as found:
        bl.play(bl.Direct(bl.UCB1(3)), GAME, law, rounds=9, engine=engine)
    assert_told(str(found.value), law, "kernel", function)


def test_a_law_whose_delays_differ_with_the_action_is_found_however_it_looks():
    law = broken.law_of(broken.by_number)
    with pytest.raises(CheckFailed, match=r"\[4, 5, 6\] for actions 0, 1, 2") as caught:
        bounds.looks_at_actions_only_if_it_says(law)
    assert_told(str(caught.value), law, "kernel", broken.by_number)


def test_a_law_that_says_so_may_look():
    class Says(type(broken.law_of(broken.by_action))):
        depends_on_action = True

    assert bad_law(Says()) is None
    checks.check_delays(Says())
    bl.play(bl.Direct(bl.UCB1(3)), GAME, Says(), rounds=9)


def test_a_closed_action_can_only_be_handed_on():
    closed = Closed(0)
    for look in (
        lambda: closed + 1,
        lambda: 1 - closed,
        lambda: closed == 0,
        lambda: bool(closed),
        lambda: int(closed),
        lambda: float(closed),
        lambda: max(closed, 2),
        lambda: -closed,
        lambda: guard.Pointer(np.zeros(3), "params")[closed],
    ):
        with pytest.raises(Looked):
            look()


def test_plain_records_say_which_fields_there_are():
    record = states.blank(broken.Right()).view(states.PlainRecords)[0]
    with pytest.raises(AttributeError, match=r"no field 'meen': there are predictions, .*did you mean 'mean'"):
        record.meen  # noqa: B018
    with pytest.raises(AttributeError, match="no field 'meen'"):
        record.meen = 1.0


def test_an_error_of_somebody_else_comes_through_as_it_is():
    def progress(done, total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        bl.play(bl.Direct(broken.Right()), GAME, LAW, rounds=50, progress=progress)


def test_a_spec_that_cannot_be_looked_at_fails_with_its_own_error(monkeypatch):
    monkeypatch.setattr(blame, "kernels_of", lambda spec: 1 / 0)
    with pytest.raises((KeyError, AttributeError), match="meen"):
        bl.Direct(broken.WrongField()).predict()


@pytest.mark.parametrize("engine", ["compiled", "python"])
@pytest.mark.parametrize("kind", [broken.OutOfCards, broken.OutOfCardsAtTheEnd])
def test_an_exception_in_a_game_ends_the_play(kind, engine):
    """It was lost where a kernel is called by its address, and what happened to be in memory was played on with."""
    name = "outcome" if kind is broken.OutOfCards else "regret"
    with pytest.raises(BadKernel, match="ValueError: out of cards") as caught:
        bl.play(bl.Direct(bl.UCB1(2)), kind(), LAW, rounds=20, engine=engine)
    assert_told(str(caught.value), kind(), name, getattr(kind, name))


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_an_exception_in_a_delay_law_ends_the_play(engine):
    law = broken.law_of(broken.raises_late)
    with pytest.raises(BadKernel, match="ValueError: no delay is known") as caught:
        bl.play(bl.Direct(bl.UCB1(3)), GAME, law, rounds=20, engine=engine)
    assert_told(str(caught.value), law, "kernel", broken.raises_late)


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_an_exception_in_a_learner_is_named(engine):
    with pytest.raises(BadKernel, match="ValueError: no rewards") as caught:
        bl.play(bl.Direct(broken.NoRewards()), GAME, LAW, rounds=20, engine=engine)
    assert_told(str(caught.value), broken.NoRewards(), "update", broken.NoRewards.update)


@pytest.mark.parametrize("kind", [broken.WritesContext, broken.WritesFeedback])
def test_what_a_kernel_is_given_to_read_it_does_not_write(kind):
    with pytest.raises(CheckFailed, match="which kernels only read") as caught:
        checks.check_learner(kind())
    assert f"line {broken.marked(kind.update)}" in str(caught.value)


@pytest.mark.skipif(not COMPILED, reason="the compiler refuses them")
@pytest.mark.parametrize("kind", [broken.ReturnsTruth, broken.WritesGlobal])
def test_the_checks_say_that_they_failed(kind):
    """Whatever is wrong: who runs a check catches one error."""
    with pytest.raises(CheckFailed, match="predict"):
        checks.check_learner(kind())


@pytest.mark.skipif(not COMPILED, reason="the compiler refuses it")
def test_a_game_without_an_answer_fails_its_check():
    with pytest.raises(CheckFailed, match="outcome"):
        checks.check_game(broken.SaysNothing())
