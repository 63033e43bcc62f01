"""Rewards that come late in Gymnasium's environments, and our games as environments."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import belated as bl
from belated.adapters.gymnasium import DelayedFeedback, GameEnv
from belated.errors import InvalidArgument
from belated.protocols import Delays

ENVIRONMENTS = ["CartPole-v1", "MountainCar-v0", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4", "CliffWalking-v1"]
TABLE = np.random.default_rng(2).random((40, 3))
GAMES = {
    "bernoulli": bl.games.Bernoulli([0.2, 0.5, 0.9]),
    "full": bl.games.Bernoulli([0.2, 0.5, 0.9], feedback="full"),
    "table": bl.games.RewardTable(TABLE),
    "table with contexts": bl.games.RewardTable(TABLE, contexts=TABLE[:, :2]),
    "monitoring": bl.games.apple_tasting(law=[0.3, 0.7]),
    "linear": bl.games.Linear([[1.0, 0.0], [0.2, 0.6], [0.3, 0.3]]),
    "grouped": bl.games.Grouped([bl.games.Bernoulli([0.2, 0.8, 0.5]), bl.games.Bernoulli([0.7, 0.3, 0.1])]),
    "replaced": bl.games.Replaced(actions=3, probability=0.2, announced=True),
    "switching": bl.games.Switching(actions=3, probability=0.1),
}
LEARNERS = {
    "bernoulli": bl.Exp3(actions=3),
    "full": bl.Hedge(actions=3),
    "table": bl.UCB1(actions=3),
    "table with contexts": bl.LinUCB(actions=3, features=2),
    "monitoring": bl.GlobalExp3(GAMES["monitoring"].loss, GAMES["monitoring"].symbols),
    "linear": bl.LinUCB(actions=3, features=2),
    "grouped": bl.PerContext(bl.UCB1(actions=3), contexts=2),
    "replaced": bl.UCB1(actions=3),
    "switching": bl.Exp3(actions=3),
}


def run(env, steps, seed=3):
    """Random actions; all that was returned, episode after episode."""
    env.action_space.seed(seed)
    env.reset(seed=seed)
    seen = []
    for _ in range(steps):
        seen.append(env.step(env.action_space.sample()))
        if seen[-1][2] or seen[-1][3]:
            env.reset()
    return seen


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_without_delay_all_is_as_in_the_environment(name):
    alone = run(gymnasium.make(name), 150)
    late = run(DelayedFeedback(gymnasium.make(name), bl.delays.Constant(0)), 150)
    for t, (theirs, ours) in enumerate(zip(alone, late, strict=True), start=1):
        assert np.array_equal(theirs[0], ours[0]) and theirs[2:4] == ours[2:4]
        assert ours[1] is None
        assert ours[4]["ticket"] == t and ours[4]["arrived"] == [(t, theirs[1])]
        assert set(ours[4]) - set(theirs[4]) == {"ticket", "arrived"}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_reward_comes_once_and_when_it_is_due(name):
    rewards = [step[1] for step in run(gymnasium.make(name), 200)]
    taus = np.random.default_rng(0).integers(0, 40, 200)
    taus[::7] = bl.NEVER
    env = DelayedFeedback(gymnasium.make(name), bl.delays.Trace(taus))
    late = run(env, 200)
    for t, step in enumerate(late, start=1):
        due = [(s, rewards[s - 1]) for s in range(1, t + 1) if taus[s - 1] < bl.NEVER and s + taus[s - 1] == t]
        assert step[4]["arrived"] == due
    came = sum(len(step[4]["arrived"]) for step in late)
    assert env.outstanding == 200 - came > 29
    with pytest.raises(InvalidArgument, match="200 steps"):
        env.step(env.action_space.sample())


def episode(env):
    """Push the cart to the left until the pole falls."""
    tickets, arrived, over = [], [], False
    while not over:
        _, _, over, _, info = env.step(0)
        tickets.append(info["ticket"])
        arrived.append(info["arrived"])
    return tickets, arrived


def test_at_the_end_of_an_episode_rewards_are_kept():
    env = DelayedFeedback(gymnasium.make("CartPole-v1"), bl.delays.Constant(4), at_end="keep")
    env.reset(seed=1)
    tickets, arrived = episode(env)
    n = len(tickets)
    assert tickets == list(range(1, n + 1))
    assert arrived[-1] == [(n - 4, 1.0)] and env.outstanding == 4
    _, info = env.reset()
    assert info["arrived"] == [] and env.outstanding == 4
    tickets, arrived = episode(env)
    assert tickets[0] == n + 1
    assert arrived[:5] == [[(n - 3 + i, 1.0)] for i in range(5)]


def test_at_the_end_of_an_episode_rewards_are_flushed():
    law = bl.delays.Trace([4, 4, bl.NEVER, 4, 0, *[4] * 95])
    env = DelayedFeedback(gymnasium.make("CartPole-v1"), law, at_end="flush")
    env.reset(seed=1)
    tickets, arrived = episode(env)
    n = len(tickets)
    assert arrived[-1] == [(s, 1.0) for s in range(n - 4, n + 1) if s not in (3, 5)]
    assert env.outstanding == 1  # the one that never comes
    assert env.reset()[1]["arrived"] == []
    env.step(0)
    env.step(1)
    assert env.reset()[1]["arrived"] == [(n + 1, 1.0), (n + 2, 1.0)]
    assert env.outstanding == 1


def test_a_seed_starts_everything_again():
    env = DelayedFeedback(gymnasium.make("FrozenLake-v1"), bl.delays.Geometric(mean=5))
    first = run(env, 60, seed=4)
    assert env.outstanding > 0
    env.reset(seed=9)
    assert env.outstanding == 0
    assert [step[4]["arrived"] for step in run(env, 60, seed=4)] == [step[4]["arrived"] for step in first]


def test_the_seed_of_the_wrapper_decides_the_delays():
    def tickets(env, seed):
        return [[ticket for ticket, _ in step[4]["arrived"]] for step in run(env, 60, seed=seed)]

    made = [DelayedFeedback(gymnasium.make("Taxi-v4"), bl.delays.Geometric(mean=5), seed=seed) for seed in (1, 1, 2)]
    assert tickets(made[0], 3) == tickets(made[1], 4) != tickets(made[2], 3)
    unseeded = DelayedFeedback(gymnasium.make("Taxi-v4"), bl.delays.Geometric(mean=5))
    assert tickets(unseeded, 3) == tickets(unseeded, 3) != tickets(unseeded, 4)


def test_delays_that_look_at_the_action():
    law = bl.delays.PerAction([bl.delays.Constant(0), bl.delays.Constant(3)])
    env = DelayedFeedback(gymnasium.make("CartPole-v1"), law)
    env.reset(seed=0)
    came = [[ticket for ticket, _ in env.step(action)[4]["arrived"]] for action in (1, 0, 1, 0, 1, 0)]
    assert came == [[], [2], [], [1, 4], [], [3, 6]]
    with pytest.raises(InvalidArgument, match="2 actions, the game has 4"):
        DelayedFeedback(gymnasium.make("FrozenLake-v1"), law)
    with pytest.raises(InvalidArgument, match="which must be a number, got Box"):
        DelayedFeedback(gymnasium.make("Pendulum-v1"), law)


def warned(env):
    """What Gymnasium's checker warns of. (To render, which nothing changes, other packages would be needed.)"""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    return {str(warning.message).partition("<")[0] for warning in said}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasium_checks_it(name):
    """It warns of what cannot hold, a number as reward, and of nothing else."""
    env = DelayedFeedback(gymnasium.make(name), bl.delays.Geometric(mean=3), seed=1)
    (only,) = warned(env) - warned(gymnasium.make(name))
    assert "reward returned by `step()` must be a float, int" in only


def test_the_reward_is_the_sum_of_what_arrived():
    env = DelayedFeedback(gymnasium.make("CartPole-v1"), bl.delays.Trace([2, 1, 0, bl.NEVER, *[1] * 96]), reward="sum")
    env.reset(seed=1)
    seen = [env.step(t % 2) for t in range(6)]
    assert [step[1] for step in seen] == [0.0, 0.0, 3.0, 0.0, 0.0, 1.0]
    assert all(step[1] == sum(reward for _, reward in step[4]["arrived"]) for step in seen)
    assert {type(step[1]) for step in seen} == {float}
    game = DelayedFeedback(GameEnv(GAMES["full"], 5), bl.delays.Constant(0), key="feedback", reward="sum")
    game.reset(seed=1)
    with pytest.raises(InvalidArgument, match='reward="sum" needs numbers to add up, got array'):
        game.step(0)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_gymnasium_has_nothing_against_sums(name):
    env = DelayedFeedback(gymnasium.make(name), bl.delays.Geometric(mean=3), seed=1, reward="sum")
    assert warned(env) == warned(gymnasium.make(name))


def test_sums_in_vectors_and_statistics():
    def make():
        return DelayedFeedback(gymnasium.make("CartPole-v1"), bl.delays.Constant(3), reward="sum", at_end="flush")

    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.vector.SyncVectorEnv([make] * 2))
    envs.reset(seed=1)
    rewards, ended = [], []
    for _ in range(30):
        _, reward, over, _, info = envs.step(np.zeros(2, np.int64))
        rewards.append(reward)
        ended += [(info["episode"]["r"][i], info["episode"]["l"][i]) for i in np.flatnonzero(over)]
    envs.close()
    assert np.array(rewards).dtype.kind == "f" and np.array(rewards)[:3].sum() == 0.0
    one = gymnasium.wrappers.RecordEpisodeStatistics(make())
    one.reset(seed=1)
    while True:
        _, _, over, _, info = one.step(0)
        if over:
            break
    ended.append((info["episode"]["r"], info["episode"]["l"]))
    assert len(ended) > 3 and all(total == length for total, length in ended)  # a reward of 1 a step, none lost


def test_it_can_be_made_from_its_spec():
    env = DelayedFeedback(gymnasium.make("CartPole-v1"), bl.delays.Constant(2), seed=5, at_end="flush", reward="sum")
    again = gymnasium.make(env.spec)
    assert isinstance(again, DelayedFeedback)
    assert (again.delays, again.seed, again.at_end, again.reward) == (bl.delays.Constant(2), 5, "flush", "sum")


class Backwards(Delays):
    """A law that somebody got wrong."""

    def params(self):
        return np.zeros(1)

    @property
    def kernel(self):
        return backwards


def backwards(params, k0, k1, round_, action):
    return -round_


def test_delays_below_zero_are_refused():
    env = DelayedFeedback(gymnasium.make("CartPole-v1"), Backwards())
    env.reset(seed=0)
    with pytest.raises(InvalidArgument, match="gave a delay below 0 in step 1"):
        env.step(0)


def test_what_is_refused():
    law = bl.delays.Constant(2)
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(InvalidArgument, match="must be one environment, got SyncVectorEnv"):
        DelayedFeedback(vector, law)
    vector.close()
    with pytest.raises(InvalidArgument, match="an environment of Gymnasium, got 'CartPole-v1'"):
        DelayedFeedback("CartPole-v1", law)
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(InvalidArgument, match="late already"):
        DelayedFeedback(gymnasium.wrappers.TimeLimit(DelayedFeedback(env, law), 10), law)
    with pytest.raises(InvalidArgument, match="delays must be"):
        DelayedFeedback(env, 3)
    with pytest.raises(InvalidArgument, match="at_end must be one of keep, flush, got 'drop'"):
        DelayedFeedback(env, law, at_end="drop")
    with pytest.raises(InvalidArgument, match="reward must be one of none, sum, got 'mean'"):
        DelayedFeedback(env, law, reward="mean")
    with pytest.raises(InvalidArgument, match="seed"):
        DelayedFeedback(env, law, seed=-1)
    late = DelayedFeedback(env, law, key="feedback")
    late.reset()
    with pytest.raises(InvalidArgument, match="got 'feedback' and"):
        late.step(0)


# --- our games ---


@pytest.mark.parametrize("name", GAMES)
def test_gymnasium_checks_our_games(name):
    env = GameEnv(GAMES[name], rounds=40)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(not having a spec|is -infinity|is infinity).*")
        check_env(env)
    assert isinstance(env.observation_space, gymnasium.spaces.Box) == (name in ("linear", "table with contexts"))


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("law", [bl.delays.Constant(0), bl.delays.Geometric(mean=4)], ids=repr)
def test_a_forecaster_in_the_environment_plays_as_in_play(name, law):
    """Actions and regret are those of `play`."""
    game, learner, rounds = GAMES[name], LEARNERS[name], 40
    played = bl.play(bl.Direct(learner), game, law, rounds, seed=6, record=True, engine="python")
    env = DelayedFeedback(GameEnv(game, rounds), law, seed=6, key="feedback", at_end="flush")
    seen, info = env.reset(seed=6)
    f = bl.Direct(learner, seed=6)
    actions, over = [], False
    while not over:
        if info.get("replaced") is not None:
            f.replace(info["replaced"])
        d = f.predict(seen if game.context_size else None)
        seen, _, terminated, over, info = env.step(d.action)
        assert not terminated and "feedback" not in info
        actions.append(d.action)
        for ticket, feedback in info["arrived"]:
            f.update(ticket, feedback)
    assert actions == played.actions[0].tolist()
    assert info["regret"] == pytest.approx(played.regret[0, -1], abs=1e-12)
    assert env.outstanding == f.outstanding == 0


def test_episodes_are_replications():
    law = bl.delays.Constant(0)
    played = bl.play(bl.Direct(bl.UCB1(actions=3)), GAMES["bernoulli"], law, 30, replications=3, seed=2, record=True)
    env = GameEnv(GAMES["bernoulli"], 30)
    for replication in range(3):
        env.reset(seed=2) if replication == 0 else env.reset()
        f = bl.Direct(bl.UCB1(actions=3))
        actions = []
        for _ in range(30):
            d = f.predict()
            f.update(d.ticket, env.step(d.action)[1])
            actions.append(d.action)
        assert actions == played.actions[replication].tolist()


def test_what_an_episode_tells():
    env = GameEnv(GAMES["table"])
    env.reset(seed=0)
    total = np.zeros(3)
    for t in range(40):
        _, reward, terminated, truncated, info = env.step(np.int64(1))
        assert reward == info["feedback"] == TABLE[t, 1]
        total += TABLE[t]
        assert info["regret"] == pytest.approx(total.max() - total[1])
        assert not terminated and truncated == (t == 39)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    full = GameEnv(GAMES["full"])
    full.reset(seed=0)
    assert full.step(2)[4]["feedback"].shape == (3,)
    spam = GameEnv(GAMES["monitoring"])
    spam.reset(seed=0)
    assert {spam.step(t % 2)[4]["feedback"] for t in range(50)} <= set(np.ravel(GAMES["monitoring"].symbols).tolist())


def test_what_games_refuse():
    with pytest.raises(InvalidArgument, match="game must be"):
        GameEnv("bernoulli")
    with pytest.raises(InvalidArgument, match="rounds must be <= 40, got 41"):
        GameEnv(GAMES["table"], rounds=41)
    with pytest.raises(InvalidArgument, match="says nothing about its outcomes"):
        GameEnv(bl.games.apple_tasting())
    env = GameEnv(GAMES["bernoulli"])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for action in (3, -1, 0.5, None, "a"):
        with pytest.raises(InvalidArgument, match="from 0 to 2, got"):
            env.step(action)
