"""PerContext: one learner for each value of the side information, under every forecaster."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import belated as bl
from belated import checks
from belated.errors import InvalidArgument, Unsupported
from belated.kernels.compile import kernel, plain
from belated.kernels.random import key_of
from tests import broken

GROUPS = bl.games.Grouped([bl.games.Bernoulli([0.2, 0.8, 0.5]), bl.games.Bernoulli([0.7, 0.3, 0.1])], shares=[0.3, 0.7])
UCB = bl.PerContext(bl.UCB1(actions=3), contexts=2)


def mixed(forecaster: Any, apart: list[Any], rounds: int = 400) -> None:
    """One forecaster with contexts does what one for each context does, whatever the order of feedback."""
    rng = np.random.default_rng(4)
    waiting = []
    for _ in range(rounds):
        value = int(rng.integers(len(apart)))
        one, two = forecaster.predict(value), apart[value].predict()
        assert one.action == two.action
        waiting.append((value, one, two))
        while waiting and rng.random() < 0.55:
            value, one, two = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < 0.1:
                forecaster.cancel(one.ticket)
                apart[value].cancel(two.ticket)
            else:
                reward = float(rng.random())
                forecaster.update(one.ticket, reward)
                apart[value].update(two.ticket, reward)


@pytest.mark.parametrize("learner", [bl.UCB1(actions=3), bl.KLUCB(actions=3)], ids=repr)
@pytest.mark.parametrize("kind", [bl.QPMD, bl.Direct])
def test_qpmd_and_direct_repeat_the_whole_procedure_for_each_context(kind: Any, learner: Any) -> None:
    mixed(kind(bl.PerContext(learner, 3)), [kind(learner) for _ in range(3)])


def test_qpmd_over_cbp_for_each_context() -> None:
    game = bl.games.apple_tasting()
    learner = bl.CBP(game.loss, game.symbols)
    together, apart = bl.QPMD(bl.PerContext(learner, 2)), [bl.QPMD(learner) for _ in range(2)]
    rng = np.random.default_rng(1)
    for _ in range(200):
        value = int(rng.integers(2))
        one, two = together.predict(value), apart[value].predict()
        assert one.action == two.action
        symbol = game.symbols[one.action][int(rng.random() < (0.2, 0.7)[value])]
        together.update(one.ticket, symbol)
        apart[value].update(two.ticket, symbol)
    assert together.steps == sum(f.steps for f in apart)


def test_bold_has_one_pool_whose_instances_hold_a_copy_for_each_context() -> None:
    f = bl.BOLD(UCB)
    first = [f.predict(0) for _ in range(3)]
    for decision in first:
        f.update(decision.ticket, 1.0)
    f.predict(1)
    assert f.instances == 3
    copies = f._instances[0].state["copies"][0]
    assert copies["predictions"].tolist() == [1, 1]
    assert f.peak == 2


@pytest.mark.parametrize("kind", [bl.QPMD, bl.BOLD, bl.Direct])
def test_compiled_is_python_and_counts_add_up_for_each_context(kind: Any) -> None:
    one, two = (
        bl.play(
            kind(UCB), GROUPS, bl.delays.Geometric(mean=20), 1500, 2, expiry=60, record=True, progress=False, engine=e
        )
        for e in ("compiled", "python")
    )
    assert np.array_equal(one.actions, two.actions)
    assert np.array_equal(one.regret, two.regret)
    for name, counts in one.groups.items():
        assert np.array_equal(counts, two.groups[name]), name
        assert counts.shape == (2, 2, 3)
    assert np.array_equal(one.groups["pulls"].sum(axis=1), one.pulls)
    share = one.groups["pulls"][:, 0].sum() / one.pulls.sum()
    assert abs(share - 0.3) < 0.04
    assert one.certificate


def test_the_identity_of_qpmd_holds_for_each_context_and_a_fault_in_one_is_found() -> None:
    from belated.engine.certificate import certify, counts_of
    from belated.engine.workspace import Setting, Tables, Workspace
    from belated.errors import CertificateError

    forecaster = bl.QPMD(UCB)
    setting = Setting(forecaster, GROUPS, bl.delays.Constant(30), 500, 0, np.array([500]))
    tables = Tables.make(1, 3, 1, 500, False, 2)
    Workspace(setting, tables).run(0, 1, lambda rounds: True)
    assert certify(setting, counts_of(setting, tables))
    tables.groups["base"][0, 1, 0] += 40
    tables.groups["base"][0, 0, 0] -= 40
    with pytest.raises(CertificateError):
        certify(setting, counts_of(setting, tables))


def test_regret_is_against_the_best_map_and_stays_under_the_bounds() -> None:
    law = bl.delays.Constant(50)
    for forecaster in (bl.QPMD(UCB), bl.Direct(UCB)):
        result = bl.play(forecaster, GROUPS, law, 20_000, 8, progress=False)
        assert result.bound is not None
        assert result.regret[:, -1].mean() < result.bound
        assert result.regret[:, -1].max() < 700  # one action for both contexts loses 3,600 at least
    blind = bl.play(bl.Direct(bl.UCB1(actions=3)), GROUPS, law, 20_000, 2, progress=False)
    assert blind.regret[:, -1].min() > 3000
    assert blind.bound is None and "map" in blind.bound_reason


def test_the_bound_under_bold_is_that_of_a_pool_of_copies() -> None:
    learner = bl.PerContext(bl.Exp3(actions=3), 2)
    assert learner.bound(1000.0) == 2 * bl.Exp3(actions=3).bound(500.0)
    result = bl.play(bl.BOLD(learner), GROUPS, bl.delays.Constant(5), 20_000, 4, progress=False)
    assert result.bound is not None and result.regret[:, -1].mean() < result.bound


def test_saved_in_the_middle_it_continues() -> None:
    f = bl.QPMD(UCB, seed=1)
    for t in range(20):
        decision = f.predict(t % 2)
        if t % 3:
            f.update(decision.ticket, 0.5)
    g = bl.from_bytes(f.to_bytes())
    assert [f.predict(t % 2).action for t in range(10)] == [g.predict(t % 2).action for t in range(10)]
    assert f.queued == g.queued


@pytest.mark.parametrize("context", [2, -1, 0.5, None, [0, 1], "a", float("nan")])
def test_what_is_no_context_is_refused_by_name(context: Any) -> None:
    with pytest.raises(InvalidArgument, match="context"):
        bl.QPMD(UCB).predict(context)


def test_which_learners_read_what_they_answer() -> None:
    """All copies that Direct takes are those it took when the kernels' names were looked at."""
    made = {name: each.example() for name, each in bl.catalog.LEARNERS.items()}
    reading = {"exp3ix", "mdpexp3", "bobw24", "cappedexp3", "conversions", "otflinucb"}
    reading |= {"slidingucb", "discounteducb", "discountedthompson"}
    assert {name for name, learner in made.items() if learner.reads_answering} == reading
    free = {name: learner for name, learner in made.items() if not learner.context_size and not learner.point_size}
    refused = {name for name, learner in free.items() if not bl.PerContext(learner, 2).tolerates_delay}
    assert refused == (reading & free.keys()) | {"neighborhoodwatch2"}


def test_pairs_without_meaning_are_refused() -> None:
    with pytest.raises(Unsupported, match="side information of their own"):
        bl.PerContext(bl.LinUCB(3, 2), 2)
    with pytest.raises(InvalidArgument, match="spec"):
        bl.PerContext(lambda: None, 2)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="contexts"):
        bl.PerContext(bl.UCB1(3), 0)
    with pytest.raises(Unsupported, match="Direct cannot play"):
        bl.Direct(bl.PerContext(bl.Exp3IX(3), 2))  # its update asks which prediction it answers
    for refused in (broken.Peeks, broken.Wrong):  # what an update reads through a kernel; what is not said
        learner = dataclasses.make_dataclass("Unsaid", [("actions", int)], bases=(refused,), frozen=True)
        learner.reads_answering = bl.Learner.reads_answering  # type: ignore[attr-defined]
        with pytest.raises(Unsupported, match="which of its copy's predictions it answers, unless Unsaid says"):
            bl.Direct(bl.PerContext(learner(3), 2))
        bl.BOLD(bl.PerContext(learner(3), 2))
        learner.reads_answering = False  # type: ignore[attr-defined]
        bl.Direct(bl.PerContext(learner(3), 2))
    with pytest.raises(Unsupported, match="for its last prediction only"):
        bl.Direct(bl.PerContext(broken.Fragile(3), 2))
    with pytest.raises(InvalidArgument, match=r"2 values.*3 values"):
        three = bl.games.Grouped([bl.games.Bernoulli([0.1, 0.2, 0.3])] * 3)
        bl.play(bl.Direct(UCB), three, bl.delays.Constant(0), 10)
    for contexts in (1, 3, 5):
        wider = bl.PerContext(bl.UCB1(3), contexts)
        for forecaster in (bl.Direct, bl.BOLD, bl.QPMD):
            with pytest.raises(InvalidArgument, match=f"needs a context of {contexts} values.*gives 2 values"):
                bl.play(forecaster(wider), GROUPS, bl.delays.Constant(0), 10)
    with pytest.raises(InvalidArgument, match="endlessly many"):
        bl.play(bl.Direct(UCB), bl.games.Linear([[0.1], [0.2], [0.3]]), bl.delays.Constant(0), 10)


def test_groups_that_do_not_fit_together_are_refused() -> None:
    small, large = bl.games.Bernoulli([0.1, 0.2]), bl.games.Bernoulli([0.1, 0.2, 0.3])
    for games, shares in (
        ([small, large], None),
        ([small, bl.games.RandomWalk(2)], None),
        ([small, small], [0.5, 0.6]),
        ([small, small], [1.0]),
        ([3], None),
        ([], None),
        ([bl.games.Linear([[0.5], [0.5]])], None),
    ):
        with pytest.raises(InvalidArgument):
            bl.games.Grouped(games, shares)


def test_groups_of_any_game() -> None:
    game = bl.games.Grouped([bl.games.apple_tasting(law=[0.2, 0.8]), bl.games.apple_tasting(law=[0.9, 0.1])])
    learner = bl.PerContext(bl.CBP(game.games[0].loss, game.games[0].symbols), 2)
    result = bl.play(bl.QPMD(learner), game, bl.delays.Constant(10), 3000, progress=False, engine="python")
    assert result.regret[0, -1] < 150
    trace = [[0, 1], [1, 0]] * 50
    tables = bl.games.Grouped([bl.games.RewardTable(trace), bl.games.RewardTable(trace)])
    assert tables.longest() == 100 and not tables.stochastic
    adversary = bl.games.Grouped([bl.games.RandomWalk(3, feedback="full")] * 2)
    hedge = bl.BOLD(bl.PerContext(bl.Hedge(3), 2))
    exact = bl.play(hedge, adversary, bl.delays.Constant(2), 500, progress=False, engine="python")
    assert exact.bound is not None and exact.regret[0, -1] < exact.bound


def test_it_can_be_written_as_text() -> None:
    from belated import notation

    game = notation.game("grouped([bernoulli([0.2, 0.8]), bernoulli([0.7, 0.3])])")
    assert game.values == 2
    forecaster = notation.forecaster("qpmd(percontext(ucb1))", actions=2, game=game)
    assert forecaster.learner == bl.PerContext(bl.UCB1(2), 2)
    assert notation.text("forecaster", forecaster) == "qpmd(percontext(ucb1))"


COURSES = {
    "walk": bl.games.RandomWalk(2, step=0.125, start=0.5),
    "switching": bl.games.Switching(2, probability=0.2, good=1, bad=0),
    "block": bl.games.Block(2, 4),
    "replaced": bl.games.Replaced(2, probability=0.2),
}


def contexts_of(game, rounds, seed=0):
    observe, key, context = kernel(game.observe), key_of(seed, 0), np.zeros(1)
    found = []
    for t in range(1, rounds + 1):
        observe(game.params(), np.zeros(game.memory()), *key, t, context)
        found.append(int(context[0]))
    return np.array(found)


@pytest.mark.parametrize("inner", COURSES.values(), ids=COURSES)
def test_a_game_with_a_course_starts_when_its_context_is_first_drawn(inner):
    game = bl.games.Grouped([inner] * 3, shares=[0.3, 0.6, 0.1])
    shown, dealt = contexts_of(game, 120), bl.games.deal(game, rounds=120)
    alone = bl.games.deal(inner, rounds=120)
    assert np.array_equal(dealt[shown == 0], alone[: (shown == 0).sum()]), "each context goes through the whole course"
    others = [dealt[shown == value] for value in (1, 2)]
    for own in others:
        assert not np.array_equal(own, alone[: len(own)]), "and has numbers of its own"
    one = bl.games.Grouped([inner])
    assert np.array_equal(bl.games.deal(one, rounds=60), alone[:60])


def test_a_walk_in_a_group_begins_at_its_start():
    game = bl.games.Grouped([bl.games.RandomWalk(2, step=0.125, start=0.5)] * 3)
    shown, dealt = contexts_of(game, 200), bl.games.deal(game, rounds=200)
    for value in range(3):
        walk = dealt[shown == value]
        assert (walk[0] == 0.5).all() and (np.abs(np.diff(walk, axis=0)) == 0.125).all()


@pytest.mark.parametrize("feedback", ["bandit", "full"])
def test_both_engines_play_groups_with_a_course(feedback):
    game = bl.games.Grouped([bl.games.Switching(3, feedback=feedback), bl.games.Switching(3, 0.1, feedback=feedback)])
    learner = bl.PerContext(bl.Exp3(3) if feedback == "bandit" else bl.Hedge(3), 2)
    one, two = (
        bl.play(bl.BOLD(learner), game, bl.delays.Constant(3), rounds=300, replications=2, record=True, engine=e)
        for e in ("compiled", "python")
    )
    assert np.array_equal(one.regret, two.regret) and np.array_equal(one.actions, two.actions)


def test_a_deal_of_groups_is_what_is_met_in_play():
    dealt = bl.games.deal(GROUPS, rounds=50, seed=3)
    r = bl.play(bl.Direct(bl.RoundRobin(3)), bl.games.RewardTable(dealt), bl.delays.Constant(0), rounds=50)
    assert dealt.shape == (50, 3) and r.pulls.sum() == 50
    shown = contexts_of(GROUPS, 50, seed=3)
    for value, inner in enumerate(GROUPS.games):
        mine = shown == value
        assert np.array_equal(dealt[mine], bl.games.deal(inner, rounds=50, seed=3)[mine]), "drawn by the real round"


def test_groups_of_games_without_a_course_pay_as_ever():
    """The regret of round robin, as it was before groups had clocks of their own."""
    table = np.random.default_rng(0).random((300, 2))
    tables = bl.games.Grouped([bl.games.RewardTable(table), bl.games.RewardTable(1 - table)])
    apples = bl.games.Grouped([bl.games.apple_tasting(law=[0.2, 0.8]), bl.games.apple_tasting(law=[0.9, 0.1])])
    for game, regret in ((tables, 11.182688813294618), (apples, 109.2), (GROUPS, 95.6)):
        r = bl.play(bl.Direct(bl.RoundRobin(game.actions)), game, bl.delays.Constant(3), rounds=300)
        assert r.regret[0, -1] == pytest.approx(regret, rel=1e-12)


GROUPABLE = {
    "arms": bl.games.Arms([bl.games.laws.Beta(2, 3), bl.games.laws.Uniform(0, 0.4)]),
    "arms, full": bl.games.Arms([bl.games.laws.Beta(2, 3), bl.games.laws.Uniform(0, 0.4)], "full"),
    "bernoulli": bl.games.Bernoulli([0.2, 0.8]),
    "bernoulli, full": bl.games.Bernoulli([0.2, 0.8], "full"),
    "table": bl.games.RewardTable([[0.1, 0.9]] * 80),
    "monitoring": bl.games.apple_tasting(law=[0.2, 0.8]),
    "trace": bl.games.apple_tasting(trace=[0, 1, 1, 0] * 20),
    **COURSES,
}


@pytest.mark.parametrize("inner", GROUPABLE.values(), ids=GROUPABLE)
def test_the_account_of_every_game_is_kept_in_groups(inner):
    """Compiled kernels write to the memory of the group, whatever they do with it afterwards."""
    game = bl.games.Grouped([inner] * 2)
    outcome, regret = (kernel(each) for each in (game.outcome, game.regret))
    plainly, plain_regret = plain(game.outcome), plain(game.regret)
    memory, other = np.zeros(game.memory()), np.zeros(game.memory())
    for t in range(1, 61):
        one, two = (np.zeros(game.actions if game.feedback == "full" else 1) for _ in range(2))
        paid = outcome(game.params(), memory, *key_of(0, 0), t, t % 2, one)
        assert paid == plainly(game.params(), other, *key_of(0, 0), t, t % 2, two) and np.array_equal(one, two)
    assert np.array_equal(memory, other) and regret(game.params(), memory) == plain_regret(game.params(), other)
    assert bl.play(bl.Direct(bl.RoundRobin(2)), game, bl.delays.Constant(1), rounds=60).regret[0, -1] != 0
    checks.check_game(game)
