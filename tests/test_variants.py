"""The variants of belated.studies: compiled equals Python, and each differs from the original as it says."""

import numpy as np
import pytest

import belated as bl
from belated.errors import Unsupported
from belated.kernels import states
from belated.studies.variants import CHOICE, LowestUCB1, PolicyExp4, RandomBOLD, TicketQPMD, place

MEANS = (0.3, 0.4, 0.5, 0.6, 0.7)
GAME = bl.games.Bernoulli(MEANS)
LAWS = [bl.delays.Constant(7), bl.delays.Geometric(mean=12), bl.delays.Lossy(bl.delays.Geometric(mean=5), p=0.1)]
VARIANTS = [
    RandomBOLD(bl.Exp3(5)),
    RandomBOLD(bl.UCB1(5)),
    bl.Direct(LowestUCB1(5)),
    bl.QPMD(LowestUCB1(5)),
    TicketQPMD(bl.Exp3(5)),
]
laws = pytest.mark.parametrize("law", LAWS, ids=str)


@laws
@pytest.mark.parametrize("forecaster", VARIANTS, ids=str)
def test_compiled_equals_python_action_for_action(forecaster, law):
    settings = {"rounds": 300, "replications": 2, "seed": 3, "expiry": 40, "record": True}
    compiled = bl.play(forecaster, GAME, law, engine="compiled", threads=1, **settings)
    plain = bl.play(forecaster, GAME, law, engine="python", **settings)
    assert (compiled.actions == plain.actions).all()
    assert np.allclose(compiled.probabilities, plain.probabilities, rtol=1e-12)
    for name in ("peak", "instances", "steps", "outstanding", "base_pulls"):
        assert (getattr(compiled, name) == getattr(plain, name)).all(), name


@laws
@pytest.mark.parametrize("learner", [bl.UCB1(5), bl.Exp3(5)], ids=str)
def test_compiled_equals_python_for_each_context(learner, law):
    game = bl.games.Grouped([GAME, bl.games.Bernoulli(MEANS[::-1]), GAME], [0.5, 0.3, 0.2])
    settings = {"rounds": 300, "replications": 2, "seed": 3, "expiry": 40, "record": True}
    forecaster = RandomBOLD(bl.PerContext(learner, 3))
    compiled = bl.play(forecaster, game, law, engine="compiled", threads=1, **settings)
    plain = bl.play(forecaster, game, law, engine="python", **settings)
    lowest = bl.play(bl.BOLD(forecaster.learner), game, law, engine="compiled", threads=1, **settings)
    assert (compiled.actions == plain.actions).all() and (compiled.instances == plain.instances).all()
    for name, counts in compiled.groups.items():
        assert (counts == plain.groups[name]).all(), name
    for name, counts in compiled.pools.items():
        assert (counts == plain.pools[name]).all(), name
    assert isinstance(law, bl.delays.Constant) or (compiled.actions != lowest.actions).any()


def test_random_bold_has_one_pool():
    with pytest.raises(Unsupported, match="one pool"):
        RandomBOLD(bl.PerContext(bl.UCB1(5), 2), pools="value")


def test_compiled_equals_python_beyond_the_first_room_for_instances():
    forecaster, law = RandomBOLD(bl.UCB1(5)), bl.delays.Uniform(0, 900)
    settings = {"rounds": 1500, "seed": 3, "record": True}
    compiled = bl.play(forecaster, GAME, law, engine="compiled", threads=1, **settings)
    plain = bl.play(forecaster, GAME, law, engine="python", **settings)
    assert compiled.instances[0] > 300
    assert (compiled.actions == plain.actions).all()


@laws
def test_a_random_free_instance_keeps_the_certificate_and_the_theorem(law):
    settings = {"rounds": 2000, "replications": 3, "seed": 1, "threads": 1}
    random, lowest = (bl.play(kind(bl.Exp3(5)), GAME, law, **settings) for kind in (RandomBOLD, bl.BOLD))
    assert random.certificate["M = G* + 1"].all()
    assert (random.instances == lowest.instances).all()
    assert random.bound == lowest.bound


def test_the_free_instance_is_uniform():
    chi2 = pytest.importorskip("scipy.stats").chisquare
    for count in (2, 7):
        places = [int(place(np.uint64(5), np.uint64(6), t, count)) for t in range(1, 4001)]
        assert chi2(np.bincount(places, minlength=count)).pvalue > 1e-3


def test_every_free_instance_is_handed_out_equally_often():
    """Five tickets are open and all come back: the next prediction may take any of the six instances."""
    chi2 = pytest.importorskip("scipy.stats").chisquare
    counts = np.zeros(6)
    for seed in range(900):
        f = RandomBOLD(bl.RoundRobin(actions=2), seed=seed)
        for ticket in [f.predict().ticket for _ in range(6)][::-1]:
            f.update(ticket, 1.0)
        f.predict()
        counts += [instance.predictions - 1 for instance in f._instances]
    assert counts.sum() == 900
    assert chi2(counts).pvalue > 1e-3


def test_the_choice_has_a_stream_of_its_own():
    from belated.kernels import random

    taken = {int(getattr(random, name)) for name in ("OUTCOME", "DELAY", "LEARNER", "EVENT")}
    assert int(CHOICE) not in taken | {0}
    assert int(CHOICE) < 16  # four bits of the counter


def test_under_constant_delay_only_one_instance_is_free():
    settings = {"rounds": 500, "seed": 2, "record": True, "threads": 1}
    random, lowest = (
        bl.play(kind(bl.Exp3(5)), GAME, bl.delays.Constant(9), **settings) for kind in (RandomBOLD, bl.BOLD)
    )
    assert (random.actions == lowest.actions).all()


def index_states(count):
    """States as UCB1 meets them, many of them with ties."""
    rng = np.random.default_rng(1)
    for _ in range(count):
        pool = states.blank(bl.UCB1(4))
        seen = rng.integers(0, 3, 4)
        total = np.array([rng.integers(0, s + 1) for s in seen], float)
        known = seen > 0
        pool["seen"][0], pool["total"][0] = seen, total
        pool["mean"][0][known] = total[known] / seen[known]
        pool["radius"][0][known] = 1 / np.sqrt(seen[known])
        pool["predicted"][0] = seen + rng.integers(0, 4, 4)
        pool["predictions"] = pool["predicted"].sum() + 1
        yield pool


def test_lowest_ucb1_differs_from_ucb1_exactly_in_ties():
    ties = 0
    for pool in index_states(400):
        index = pool["mean"][0] + np.sqrt(2 * np.log(float(pool["predictions"][0]))) * pool["radius"][0]
        best = np.flatnonzero(index >= index.max() - 1e-9)
        fewest = min(best, key=lambda i: (pool["predicted"][0][i], i))
        assert chosen(bl.UCB1(4), pool) == fewest
        pool["predicted"] = 0
        assert chosen(LowestUCB1(4), pool) == best[0]
        ties += best[0] != fewest
    assert 50 < ties < 350


def chosen(learner, pool):
    instance = bl.Direct(learner)._instances[0]
    instance.state[:] = pool
    instance.state["predictions"] -= 1
    return instance.predict(None)[0]


def test_by_the_lowest_number_each_action_waits_for_its_first_feedback():
    actions = bl.play(bl.Direct(LowestUCB1(5)), GAME, bl.delays.Constant(3), rounds=20, record=True).actions[0]
    assert actions.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4


def test_without_delay_the_ticket_is_the_query():
    settings = {"rounds": 400, "replications": 2, "seed": 4, "record": True, "threads": 1}
    ticket, query = (
        bl.play(kind(bl.Exp3(5)), GAME, bl.delays.Constant(0), **settings) for kind in (TicketQPMD, bl.QPMD)
    )
    assert (ticket.actions == query.actions).all()
    assert (ticket.probabilities == query.probabilities).all()


def test_with_delay_the_ticket_is_not_the_query():
    settings = {"rounds": 400, "seed": 4, "record": True, "threads": 1}
    ticket, query = (
        bl.play(kind(bl.Exp3(5)), GAME, bl.delays.Constant(20), **settings) for kind in (TicketQPMD, bl.QPMD)
    )
    assert (ticket.actions != query.actions).any()


def test_a_base_that_needs_no_probability_cannot_tell():
    settings = {"rounds": 400, "seed": 4, "record": True, "threads": 1}
    law = bl.delays.Geometric(mean=20)
    ticket, query = (bl.play(kind(bl.UCB1(5)), GAME, law, **settings) for kind in (TicketQPMD, bl.QPMD))
    assert (ticket.actions == query.actions).all()


def test_the_ticket_s_probability_is_the_one_that_is_fed():
    """The base asks twice for action 0 with different probabilities; what it is fed shows which one was used."""

    class Told:
        actions = 2

        def __init__(self):
            self.asked, self.fed = 0, []

        def predict(self, context):
            self.asked += 1
            return 0, 1.0 / self.asked

        def update(self, context, action, probability, feedback):
            self.fed.append(probability)

    for kind, expected in ((TicketQPMD, [1.0, 1.0, 0.5]), (bl.QPMD, [1.0, 0.5, 1.0 / 3])):
        f = kind(Told)
        first, second = f.predict(), f.predict()
        f.update(first.ticket, 1.0)
        third = f.predict()
        f.update(second.ticket, 1.0)
        f.update(third.ticket, 1.0)
        f.predict()
        assert f._instances[0].fed == expected


@pytest.mark.parametrize("forecaster", [RandomBOLD(bl.Exp3(5)), TicketQPMD(bl.Exp3(5))], ids=str)
def test_variants_are_not_saved(forecaster):
    with pytest.raises(Unsupported, match="for studies only"):
        forecaster.to_bytes()


def test_policies_under_exp4_are_experts_whose_advice_is_looked_up():
    policies, draws = ((0, 1, 2), (2, 2, 0), (1, 1, 1), (0, 0, 0)), np.random.default_rng(4)
    known, shown = bl.Direct(PolicyExp4(policies, 3), seed=2), bl.Direct(bl.Exp4(3, len(policies)), seed=2)
    late = []
    for _ in range(60):
        context = int(draws.integers(3))
        advice = np.eye(3)[[policy[context] for policy in policies]]
        one, other = known.predict(context), shown.predict(advice.ravel())
        assert one.action == other.action and one.probability == pytest.approx(other.probability, rel=1e-12)
        late.append((one.ticket, float(draws.random())))
        if len(late) > 7:
            ticket, reward = late.pop(int(draws.integers(len(late))))
            known.update(ticket, reward)
            shown.update(ticket, reward)
    assert PolicyExp4(policies, 3).bound(1000) == bl.Exp4(3, 4).bound(1000)
