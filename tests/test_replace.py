"""An action is retired and a new one takes its number: online, in both engines, and in the bytes of a forecaster."""

import json
import math
import pickle
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import belated as bl
from belated.checks.contract import COMPARED
from belated.errors import BelatedError, ClosedTicket, InvalidArgument, InvalidFeedback, Unsupported
from belated.forecasters.instance import Instance
from belated.kernels import states
from belated.kernels.compile import kernel
from belated.kernels.random import key_of
from tests import broken, reference
from tests.plain_learners import Scribe

KINDS = [bl.Direct, bl.BOLD]
CAPABLE = [
    bl.UCB1(3),
    bl.KLUCB(3),
    bl.ThompsonBernoulli(3),
    bl.EpsilonGreedy(3),
    bl.ChernoffUCB(3),
    bl.ChernoffUCB(3, "age"),
    bl.RoundRobin(3),
    bl.Uniform(3),
    bl.SlidingUCB(3, 20),
    bl.DiscountedUCB(3, 0.95),
    bl.DiscountedThompson(3, 0.95),
    bl.PatientBandits(3, 200, 0.4),
]
MODELLED = [spec for spec in CAPABLE if type(spec).__name__ in reference.LEARNERS]
kinds = pytest.mark.parametrize("kind", KINDS)
capable = pytest.mark.parametrize("learner", CAPABLE, ids=repr)
DELAYS = [bl.delays.Constant(8), bl.delays.Batched(12), bl.delays.Geometric(mean=15)]
GAME = bl.games.Replaced(3, probability=0.03, announced=True)


def model(kind, learner, seed, replication=0):
    """The same forecaster in the reference."""
    options = {key: value for key, value in vars(learner).items() if key != "actions"}

    def make(instance):
        made = reference.LEARNERS[type(learner).__name__](
            learner.actions, reference.key_of(seed, replication), instance
        )
        vars(made).update(options)
        return made

    return reference.FORECASTERS[kind.__name__](make)


def shuffle(f, draw, steps):
    """Predict, update, cancel and replace in some order; return all that was decided."""
    decisions = []
    for _ in range(steps):
        open_ = sorted(f._room.pending)
        chance = draw.random()
        if chance < 0.5 or not open_:
            decisions.append(f.predict())
        elif chance < 0.85:
            f.update(draw.choice(open_), draw.random())
        elif chance < 0.92:
            f.cancel(draw.choice(open_))
        else:
            f.replace(draw.randrange(f.actions))
    return decisions


def test_the_list_of_learners_is_complete():
    able = {type(learner) for learner in CAPABLE}
    free = [spec for spec in bl.catalog.LEARNERS.values() if spec.example().context_size == 0]
    assert able == {spec for spec in free if spec.replace is not None}
    assert len(MODELLED) == 6


# --- learners ---


@capable
def test_a_replaced_action_is_as_it_was_at_the_start_and_the_others_as_they_were(learner):
    instance = Instance(learner, key_of(3, 0), 0)
    draw = random.Random(1)
    for _ in range(80):
        action, probability = instance.predict(None)
        instance.update(None, action, probability, np.array([draw.random()]))
    before, blank = np.asarray(instance.state.copy()), np.asarray(states.blank(learner))
    instance.replace(1)
    after = np.asarray(instance.state)
    for name in after.dtype.names:
        if after[name].ndim == 2 and after[name].shape[1] != learner.actions:
            continue  # of rounds
        if after[name].ndim == 2:
            fresh = [80] if name == "since" else blank[name][:, 1]
            assert after[name][:, 1] == fresh, name
            assert np.array_equal(after[name][:, [0, 2]], before[name][:, [0, 2]]), name
        elif name == "leader" and before[name][0] == 1:
            assert after[name][0] in (0, 1)
        else:
            assert after[name] == before[name], name


@pytest.mark.parametrize("learner", [bl.UCB1(3), bl.KLUCB(3), bl.ChernoffUCB(3), bl.EpsilonGreedy(3, 0.0)], ids=repr)
def test_a_replaced_action_is_played_next(learner):
    f = bl.Direct(learner, seed=1)
    for _ in range(50):
        d = f.predict()
        f.update(d.ticket, [0.9, 0.1, 0.0][d.action])
    f.replace(2)
    assert f.predict().action == 2


@pytest.mark.parametrize("clock", ["round", "age"])
def test_chernoff_ucb_is_its_formula(clock):
    draw = random.Random(4)
    f = bl.Direct(bl.ChernoffUCB(4, clock))
    paid, played, births = [[] for _ in range(4)], [0] * 4, [0] * 4
    for t in range(1, 1500):
        if draw.random() < 0.02:
            i = draw.randrange(4)
            f.replace(i)
            paid[i], played[i], births[i] = [], 0, t - 1
        indices = []
        for i in range(4):
            k, m = math.fsum(paid[i]), len(paid[i])
            d = math.sqrt(1 / (t - births[i] if clock == "age" else t))
            bonus = 2 * math.log(1 / d)
            indices.append(k / m + math.sqrt(bonus * (k / m) / m) + bonus / m if m else math.inf)
        tied = [i for i in range(4) if indices[i] == max(indices) or indices[i] >= max(indices) - 1e-9]
        decision = f.predict()
        assert decision.action == min(tied, key=lambda i: (played[i], i))
        reward = float(draw.random() < (0.8, 0.6, 0.1, 0.0)[decision.action])
        f.update(decision.ticket, reward)
        paid[decision.action].append(reward)
        played[decision.action] += 1
    assert min(map(len, paid)) > 0


def test_the_clocks_of_chernoff_ucb_part_when_an_action_is_replaced():
    def plays(clock, replaces):
        f = bl.Direct(bl.ChernoffUCB(3, clock))
        draw = random.Random(0)
        actions = []
        for t in range(400):
            if replaces and t % 60 == 59:
                f.replace(t // 60 % 3)
            d = f.predict()
            f.update(d.ticket, float(draw.random() < 0.3 + 0.2 * d.action))
            actions.append(d.action)
        return actions

    assert plays("round", False) == plays("age", False)
    assert plays("round", True) != plays("age", True)


@pytest.mark.parametrize("bad", ["rounds", None, 1])
def test_another_clock_is_refused(bad):
    with pytest.raises(InvalidArgument, match=f"clock must be one of round, age, got {bad!r}"):
        bl.ChernoffUCB(3, bad)


# --- online ---


def machine(kind, learner, seed=6):
    """A state machine for one forecaster over one learner, beside the reference."""

    class Replacing(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.f = kind(learner, seed=seed)
            self.model = model(kind, learner, seed)

        @rule()
        def predict(self):
            decision = self.f.predict()
            ticket, action, probability = self.model.predict()
            assert (decision.ticket, decision.action) == (ticket, action)
            assert math.isclose(decision.probability, probability, rel_tol=1e-9)

        @precondition(lambda self: self.model.open)
        @rule(place=st.integers(0, 10**6), feedback=st.sampled_from([0.0, 0.25, 1.0]))
        def update(self, place, feedback):
            ticket = sorted(self.model.open)[place % len(self.model.open)]
            self.f.update(ticket, feedback)
            self.model.arrive(ticket, feedback)
            with pytest.raises(ClosedTicket):
                self.f.update(ticket, feedback)

        @precondition(lambda self: self.model.open)
        @rule(place=st.integers(0, 10**6))
        def cancel(self, place):
            ticket = sorted(self.model.open)[place % len(self.model.open)]
            self.f.cancel(ticket)
            self.model.cancel(ticket)

        @rule(action=st.integers(0, learner.actions - 1))
        def replace(self, action):
            self.f.replace(action)
            self.model.replace(action)

        @rule()
        def save_and_go_on_with_the_copy(self):
            saved = self.f.to_bytes()
            self.f = bl.from_bytes(saved)
            assert self.f.to_bytes() == saved

        @invariant()
        def counts_agree(self):
            assert self.f.outstanding == len(self.model.open)
            assert self.f.dropped == len(self.model.dropped)
            assert (self.f.peak, self.f.instances) == (self.model.peak, len(self.model.bases))

    Replacing.__name__ = f"{kind.__name__}Over{learner!r}"
    return Replacing


@kinds
@pytest.mark.parametrize("learner", MODELLED, ids=repr)
def test_any_order_of_calls_agrees_with_the_reference(kind, learner):
    case = machine(kind, learner).TestCase
    case.settings = settings(
        max_examples=25,
        stateful_step_count=50,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").runTest()


@kinds
@capable
def test_feedback_of_an_older_ticket_is_dropped_and_counted(kind, learner):
    f = kind(learner, seed=2)
    decisions = [f.predict() for _ in range(6)]
    victim = decisions[0].action
    old = [d.ticket for d in decisions if d.action == victim]
    f.replace(victim)
    taught = [np.asarray(instance.state).tobytes() for instance in f._instances]
    with pytest.raises(InvalidFeedback, match="7"):
        f.update(old[0], 7.0)
    with pytest.raises(InvalidFeedback):
        f.update(old[0], None)
    assert (f.dropped, f.outstanding) == (0, 6)
    for count, ticket in enumerate(old, start=1):
        f.update(ticket, 1.0)
        assert (f.dropped, f.outstanding) == (count, 6 - count)
        with pytest.raises(ClosedTicket):
            f.update(ticket, 1.0)
    assert [np.asarray(instance.state).tobytes() for instance in f._instances] == taught


@kinds
def test_only_feedback_from_before_the_last_replacement_is_dropped(kind):
    f = kind(bl.UCB1(1), seed=0)
    first = f.predict()
    f.replace(0)
    second = f.predict()
    f.replace(0)
    third = f.predict()
    for d in (third, second, first):
        f.update(d.ticket, 1.0)
    assert f.dropped == 2
    assert sum(int(instance.state["seen"][0, 0]) for instance in f._instances) == 1


def test_an_instance_of_bold_that_waits_for_dropped_feedback_is_free_again():
    f = bl.BOLD(bl.UCB1(2), seed=0)
    f.predict()
    f.predict()
    f.replace(0)
    f.predict()
    assert f.instances == 3
    f.update(1, 1.0)
    f.cancel(2)
    assert (f.dropped, f.outstanding) == (1, 1)
    f.predict()
    f.predict()
    assert f.instances == 3


def test_a_cancelled_ticket_of_a_replaced_action_is_not_counted_as_dropped():
    f = bl.BOLD(bl.UCB1(2), seed=0)
    ticket = f.predict().ticket
    f.replace(0)
    f.cancel(ticket)
    assert (f.dropped, f.outstanding) == (0, 0)
    f.predict()
    assert f.instances == 1


@kinds
@capable
def test_what_is_saved_in_the_middle_continues_identically(kind, learner):
    f = kind(learner, seed=12)
    for part in range(3):
        shuffle(f, random.Random(part), 60)
        for g in (bl.from_bytes(f.to_bytes()), pickle.loads(pickle.dumps(f))):
            assert (g.dropped, g.outstanding, g.instances) == (f.dropped, f.outstanding, f.instances)
            assert g._room.stale == f._room.stale <= f._room.pending.keys()
            twin = bl.from_bytes(f.to_bytes())
            assert shuffle(g, random.Random(9), 60) == shuffle(twin, random.Random(9), 60)
            assert g.to_bytes() == twin.to_bytes()
    assert f.dropped > 0


def test_bytes_with_a_stale_ticket_that_is_not_open_are_refused():
    f = bl.Direct(bl.UCB1(3), seed=1)
    f.predict()
    f._room.stale.add(5)
    f._room.pending[5] = f._room.pending[1]._replace(ticket=7)
    with pytest.raises(BelatedError):
        bl.from_bytes(f.to_bytes())


# --- plain learners ---


class Replacing(Scribe):
    """Writes down what is replaced; refuses action 2."""

    def replace(self, action):
        if action == 2:
            raise RuntimeError("not this one")
        self.past.append(("replaced", action))


@kinds
def test_a_plain_learner_may_have_replace(kind):
    made = []
    f = kind(lambda: made.append(Replacing()) or made[-1])
    decisions = [f.predict() for _ in range(3)]
    f.replace(decisions[0].action % 2)
    assert len(made) == (3 if kind is bl.BOLD else 1)
    assert all(one.past == [("replaced", decisions[0].action % 2)] for one in made)
    with pytest.raises(RuntimeError):
        f.replace(2)
    assert not any(f._room.pending[ticket].action == 2 for ticket in f._room.stale)
    for d in decisions:
        f.update(d.ticket, 0.5)
    assert f.dropped == sum(d.action == decisions[0].action % 2 for d in decisions)
    r = bl.play(kind(lambda: Replacing(2)), bl.games.Replaced(2, 0.1, announced=True), DELAYS[0], rounds=100)
    assert r.dropped.sum() > 0 and r.certificate


# --- what is refused ---


@kinds
@pytest.mark.parametrize("action", [-1, 3, 1.5, "1", None, True, 2**70])
def test_an_action_that_does_not_exist_is_named(kind, action):
    f = kind(bl.UCB1(3), seed=0)
    shuffle(f, random.Random(1), 40)
    before = f.to_bytes()
    with pytest.raises(InvalidArgument, match=rf"action must be .*, got {action!r}"):
        f.replace(action)
    assert f.to_bytes() == before


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (bl.Direct(bl.Exp3IX(3)), "Exp3IX has no replace"),
        (bl.BOLD(bl.TsallisINF(3)), "TsallisINF has no replace"),
        (bl.BOLD(Scribe), "Scribe has no replace"),
        (bl.QPMD(bl.UCB1(3)), r"QPMD\(UCB1\(actions=3\)\) .* queues"),
        (bl.QPMD(Replacing), "queues"),
    ],
    ids=repr,
)
def test_who_cannot_replace_says_so(f, reason):
    f.predict()
    with pytest.raises(Unsupported, match=reason):
        f.replace(0)
    assert not f._room.stale
    for engine in ("auto", "python"):
        with pytest.raises(Unsupported, match=reason):
            bl.play(f, GAME, bl.delays.Constant(1), rounds=10, engine=engine)


def test_full_information_tells_of_the_old_action_too():
    class Knows(bl.Hedge):
        @staticmethod
        def replace(params, state, action):
            pass

    with pytest.raises(Unsupported, match="full information"):
        bl.Direct(Knows(3)).replace(0)


@kinds
def test_a_kernel_that_fails_leaves_all_as_it_was(kind):
    f = kind(bl.UCB1(3), seed=0)
    shuffle(f, random.Random(1), 40)
    before = f.to_bytes()
    last = f._instances[-1]

    def fails(params, state, action):
        state["seen"][:] = 0
        raise RuntimeError("half way")

    last._replace = fails
    with pytest.raises(RuntimeError, match="half way"):
        f.replace(0)
    assert f.to_bytes() == before


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_a_game_that_replaces_what_does_not_exist_is_named(engine):
    where = r"Overreaches.* replaced action 2, outside 0..1, in round 3 of replication 0"
    with pytest.raises(InvalidArgument, match=where):
        bl.play(bl.Direct(bl.UCB1(2)), broken.Overreaches(), bl.delays.Constant(1), rounds=10, engine=engine)


def test_a_game_that_announces_needs_a_kernel_for_it():
    class Silent(broken.WrongGame):
        announces = True

    with pytest.raises(InvalidArgument, match="no event kernel"):
        bl.play(bl.Direct(bl.UCB1(2)), Silent(), bl.delays.Constant(1), rounds=10)


# --- in play ---


def watch(game, rounds, seed=0, replication=0):
    """The means of each round when nothing is announced, and the action replaced in each."""
    outcome, params, memory, told = kernel(type(game).outcome), game.params(), np.zeros(game.memory()), np.zeros(1)
    means = []
    for t in range(1, rounds + 1):
        outcome(params, memory, *key_of(seed, replication), t, 0, told)
        means.append(memory[3:].copy())
    changed = np.diff(np.array(means), axis=0) != 0
    return np.array(means), {t + 2: int(np.argmax(row)) for t, row in enumerate(changed) if row.any()}


def test_announced_or_not_the_arms_are_the_same():
    silent = bl.games.Replaced(4, probability=0.2, a=2, b=3)
    told = bl.games.Replaced(4, probability=0.2, a=2, b=3, announced=True)
    means, replaced = watch(silent, 500)
    assert len(replaced) > 50
    outcome, event, memory = kernel(type(told).outcome), kernel(type(told).event), np.zeros(told.memory())
    feedback = np.zeros(1)
    for t in range(1, 501):
        assert event(told.params(), memory, *key_of(0, 0), t) == replaced.get(t, -1)
        assert event(told.params(), memory, *key_of(0, 0), t) == -1
        if t > 1:
            assert memory[3:].tolist() == means[t - 1].tolist()
        outcome(told.params(), memory, *key_of(0, 0), t, 0, feedback)
        assert memory[3:].tolist() == means[t - 1].tolist()
    assert np.array_equal(bl.games.deal(silent, 300), bl.games.deal(told, 300))
    one, two = (bl.play(bl.Direct(bl.Uniform(4)), game, DELAYS[0], rounds=400, record=True) for game in (silent, told))
    assert np.array_equal(one.actions, two.actions) and np.array_equal(one.regret, two.regret)
    assert not one.dropped.any() and two.dropped.any()
    assert json.loads(json.dumps(bl.catalog.to_data(told)))["announced"] is True


@kinds
@capable
@pytest.mark.parametrize("law", DELAYS, ids=repr)
def test_compiled_is_python(kind, learner, law):
    one, two = (
        bl.play(kind(learner), GAME, law, rounds=400, replications=2, record=True, engine=e, seed=3)
        for e in ("compiled", "python")
    )
    for name in COMPARED:
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    assert one.dropped.sum() > 10
    assert one.certificate and two.certificate
    assert np.array_equal((one.pulls - one.observed - one.dropped).sum(axis=1), one.outstanding)
    assert one.bound is None and "replaced" in one.bound_reason
    if kind is bl.BOLD:
        assert np.array_equal(one.instances, one.peak + 1)


@kinds
@pytest.mark.parametrize("learner", MODELLED, ids=repr)
@pytest.mark.parametrize("law", DELAYS, ids=repr)
def test_a_play_is_that_of_the_reference(kind, learner, law):
    rounds, seed, replication = 300, 4, 1
    ours = bl.play(kind(learner), GAME, law, rounds=rounds, replications=2, record=True, seed=seed)
    means, replaced = watch(GAME, rounds, seed, replication)
    rewards = bl.games.deal(GAME, rounds, seed=seed, replication=replication)
    player, arrivals, regret = model(kind, learner, seed, replication), {}, 0.0
    for t in range(1, rounds + 1):
        if t in replaced:
            player.replace(replaced[t])
        _, action, _ = player.predict()
        assert ours.actions[replication, t - 1] == action, t
        regret += means[t - 1].max() - means[t - 1, action]
        arrivals.setdefault(t + int(ours.delays[replication, t - 1]), []).append((t, rewards[t - 1, action]))
        for ticket, reward in arrivals.get(t, []):
            player.arrive(ticket, reward)
    assert ours.dropped[replication].tolist() == [player.dropped.count(i) for i in range(3)]
    assert (ours.peak[replication], ours.outstanding[replication]) == (player.peak, len(player.open))
    assert ours.regret[replication, -1] == pytest.approx(regret)


@kinds
@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_every_count_follows_from_the_recorded_rounds(kind, engine):
    rounds, expiry = 400, 25
    law = bl.delays.Geometric(mean=15)
    r = bl.play(kind(bl.UCB1(3)), GAME, law, rounds=rounds, record=True, expiry=expiry, engine=engine)
    _, replaced = watch(GAME, rounds)
    counts = {name: np.zeros(3, int) for name in ("observed", "cancelled", "dropped")}
    for s, (action, delay) in enumerate(zip(r.actions[0].tolist(), r.delays[0].tolist(), strict=True), start=1):
        end = s + min(delay, expiry)
        if end <= rounds:
            stale = any(s < t <= end and replaced[t] == action for t in replaced)
            counts["cancelled" if delay > expiry else "dropped" if stale else "observed"][action] += 1
    for name, expected in counts.items():
        assert getattr(r, name)[0].tolist() == expected.tolist(), name
        assert expected.sum() > 0


def test_growth_and_pauses_anywhere_change_nothing(monkeypatch):
    from belated.engine import lanes, workspace

    def played():
        return bl.play(bl.BOLD(bl.UCB1(3)), GAME, DELAYS[2], rounds=400, replications=3, record=True, threads=1)

    whole = played()
    monkeypatch.setattr(lanes, "ROOM", 2)
    monkeypatch.setattr(workspace, "FIRST_CHUNK", 1)
    parts = played()
    for name in COMPARED:
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name


def test_being_told_helps():
    told, silent = (
        bl.play(bl.Direct(bl.ThompsonBernoulli(3)), game, DELAYS[0], rounds=5000, replications=10)
        for game in (GAME, bl.games.Replaced(3, probability=0.03))
    )
    assert told.mean_regret < 0.9 * silent.mean_regret
