"""Gymnasium: rewards that come late in any environment, and our games as environments.

    env = bl.adapters.gymnasium.DelayedFeedback(gymnasium.make("CartPole-v1"), bl.delays.Geometric(mean=20), seed=7)
    env = bl.adapters.gymnasium.GameEnv(bl.games.Bernoulli([0.2, 0.9]), rounds=1000)

For code that wants a number from every step (vector environments, `RecordEpisodeStatistics`, the loops of reinforcement
learning) say `reward="sum"`: the reward of a step is the sum of what arrived with it.

    make = lambda: bl.adapters.gymnasium.DelayedFeedback(gymnasium.make("CartPole-v1"), delays, reward="sum")
    envs = gymnasium.vector.SyncVectorEnv([make] * 4)

What cannot hold:

* Without `reward="sum"` `step` of `DelayedFeedback` returns the reward None: it has not come, and what has not come is
  neither zero nor NaN. So Gymnasium's checker warns that the reward is no number (all else that it checks holds), a
  wrapper that computes with rewards fails when it stands outside of this one, and a vector environment makes it NaN.
* With it a learner cannot tell which step a reward belongs to, nor a reward of 0 from none. `info["arrived"]` says it.
* A vector environment is refused here, because its steps have no tickets of their own: wrap each environment in it.
* `GameEnv` hands out the reward of each round, because Gymnasium wants one. In a game of partial monitoring nobody
  would see it: learn from `info["feedback"]`.
* The contexts of a game have no stated limits: such an observation space is not bounded, and the checker says so.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from typing import Any

import gymnasium as gym
import numpy as np

from belated import require
from belated.errors import InvalidArgument
from belated.kernels.compile import kernel
from belated.kernels.random import key_of
from belated.protocols import NEVER, Delays, Game


class DelayedFeedback(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """An environment whose rewards come due later, each under the ticket of its step.

    `step` returns None as reward (but see `reward`). `info["ticket"]` is the number of the step, from 1 on through all
    episodes, and `info["arrived"]` lists what came at its end, (ticket, reward), in the order of tickets: the reward of
    step s comes with step s + delay. (A forecaster that predicts once a step gives out the same tickets.)

    * `delays`: a law of `belated.delays`. One that looks at the action needs a `Discrete` space of actions.
    * `at_end`: what happens to rewards that are outstanding when an episode ends. "keep": they come in later episodes,
      when they are due. "flush": they all come with its last step (if it is broken off, with the `reset`), except
      those whose delay is `NEVER`.
    * `key`: delay `info[key]` instead of the reward, which is dropped; for `GameEnv` say "feedback". The rest of the
      info is passed on at once.
    * `reward`: what `step` returns as reward. "none": None. "sum": the sum of what arrived, 0.0 if nothing did. What
      comes with a `reset` is in its info alone.
    * `seed`: decides the delays; without it the seed of the last `reset` does, or a fresh one.

    `reset(seed=...)` starts everything again: tickets from 1, nothing outstanding. `reset()` starts an episode.

    >>> import belated as bl, gymnasium
    >>> env = bl.adapters.gymnasium.DelayedFeedback(gymnasium.make("CartPole-v1"), bl.delays.Constant(2))
    >>> observation, info = env.reset(seed=1)
    >>> for t in range(4):
    ...     observation, reward, terminated, truncated, info = env.step(t % 2)
    ...     print(reward, info)
    None {'ticket': 1, 'arrived': []}
    None {'ticket': 2, 'arrived': []}
    None {'ticket': 3, 'arrived': [(1, 1.0)]}
    None {'ticket': 4, 'arrived': [(2, 1.0)]}
    >>> env.outstanding
    2
    """

    _round: int
    _arrived: int

    def __init__(
        self,
        env: gym.Env[Any, Any],
        delays: Delays,
        *,
        seed: int | None = None,
        at_end: str = "keep",
        key: str | None = None,
        reward: str = "none",
    ) -> None:
        _check_env(env)
        if not isinstance(delays, Delays):
            raise InvalidArgument(f"delays must be something like bl.delays.Geometric(mean=50), got {delays!r}")
        if delays.depends_on_action:
            if not isinstance(env.action_space, gym.spaces.Discrete):
                raise InvalidArgument(f"{delays!r} looks at the action, which must be a number, got {env.action_space}")
            delays.check_actions(int(env.action_space.n))
        gym.utils.RecordConstructorArgs.__init__(self, delays=delays, seed=seed, at_end=at_end, key=key, reward=reward)
        gym.Wrapper.__init__(self, env)
        self.delays = delays
        self.at_end = require.one_of("at_end", at_end, ("keep", "flush"))
        self.key = key
        self.reward = require.one_of("reward", reward, ("none", "sum"))
        self.seed = None if seed is None else require.integer("seed", seed, low=0, high=2**64 - 1)
        self._delay_of = kernel(delays.kernel)
        self._params = delays.params()
        self._begin(secrets.randbits(64))

    @property
    def outstanding(self) -> int:
        """How many rewards have not come, those that never will included."""
        return self._round - self._arrived

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; with a seed, everything."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._begin(seed)
        return observation, {**info, "arrived": self._flush() if self.at_end == "flush" else []}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Act; what has come is in `info["arrived"]`, and the reward is None or its sum."""
        longest = self.delays.longest()
        if longest is not None and self._round >= longest:
            raise InvalidArgument(f"{self.delays!r} is given for {longest} steps, and this is one more")
        observation, reward, terminated, truncated, info = self.env.step(action)
        ticket = self._round = self._round + 1
        told = dict(info)
        feedback = reward if self.key is None else self._taken(told)
        if self.reward == "sum":
            feedback = self._number(feedback)
        due = self._due(ticket, action)
        if due is not None:
            self._waiting[due].append((ticket, feedback))
        arrived = self._waiting.pop(ticket, [])
        self._arrived += len(arrived)
        if self.at_end == "flush" and (terminated or truncated):
            arrived += self._flush()
            arrived.sort(key=lambda pair: pair[0])
        shown = sum((each for _, each in arrived), 0.0) if self.reward == "sum" else None
        return observation, shown, terminated, truncated, {**told, "ticket": ticket, "arrived": arrived}

    def _begin(self, seed: int) -> None:
        self._key = key_of(seed if self.seed is None else self.seed, 0)
        self._round = 0
        self._arrived = 0
        self._waiting: defaultdict[int, list[tuple[int, Any]]] = defaultdict(list)

    def _due(self, ticket: int, action: Any) -> int | None:
        """The step with which the reward of a step comes; None if it never does."""
        number = int(action) - int(self.action_space.start) if self.delays.depends_on_action else 0  # type: ignore[attr-defined]
        delay = int(self._delay_of(self._params, *self._key, ticket, number))
        if delay < 0:
            raise InvalidArgument(f"{self.delays!r} gave a delay below 0 in step {ticket}")
        return None if delay == NEVER else ticket + delay

    def _flush(self) -> list[tuple[int, Any]]:
        """All that would come later, now."""
        arrived = sorted((pair for pairs in self._waiting.values() for pair in pairs), key=lambda pair: pair[0])
        self._waiting.clear()
        self._arrived += len(arrived)
        return arrived

    def _number(self, feedback: Any) -> float:
        try:
            return float(feedback)
        except (TypeError, ValueError):
            raise InvalidArgument(f'reward="sum" needs numbers to add up, got {feedback!r}') from None

    def _taken(self, info: dict[str, Any]) -> Any:
        if self.key not in info:
            raise InvalidArgument(f"key must be one that the info of every step has, got {self.key!r} and {info!r}")
        return info.pop(self.key)


def _check_env(env: Any) -> None:
    if isinstance(env, gym.vector.VectorEnv):
        raise InvalidArgument(
            f"env must be one environment, got {env!r}: wrap each of those in it, with reward='sum', because a vector "
            "keeps rewards as numbers"
        )
    if not isinstance(env, gym.Env):
        raise InvalidArgument(f"env must be an environment of Gymnasium, got {env!r}")
    inner = env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, DelayedFeedback):
            raise InvalidArgument(f"env must have rewards to delay, got {env!r}: they are late already")
        inner = inner.env


class GameEnv(gym.Env[Any, Any]):
    """One of our games as an environment. An episode is a replication of `rounds` rounds, truncated at its end.

    The observation is the side information before the next action: one of a few values, a vector of numbers, or without
    any always 0. Actions are numbers from 0. In the info are the `feedback` of the round (the reward, the rewards of
    all actions, or a symbol), the `regret` so far, and of a game that announces replaced actions `replaced`: the action
    that is a new one from now on, or None.

    `rounds` is by default as many as the game has; most games never end. After `reset(seed=s)` the outcomes are those
    of `play(..., seed=s)`, first those of replication 0, and with each `reset()` those of the next.

    >>> import belated as bl
    >>> env = bl.adapters.gymnasium.GameEnv(bl.games.Bernoulli([0.2, 0.9]), rounds=100)
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> reward, info
    (1.0, {'feedback': 1.0, 'regret': 0.7})
    """

    metadata = {"render_modes": []}

    def __init__(self, game: Game, rounds: int | None = None) -> None:
        if not isinstance(game, Game):
            raise InvalidArgument(f"game must be something like bl.games.Bernoulli([.2, .5, .9]), got {game!r}")
        if game.point_size:
            raise InvalidArgument(f"an environment takes numbers of actions, {game!r} takes points")
        game.check_playable()
        longest = game.longest()
        self.game = game
        self.rounds = longest if rounds is None else require.integer("rounds", rounds, low=1, high=longest)
        self.action_space = gym.spaces.Discrete(game.actions)
        self.observation_space: gym.spaces.Space[Any]
        if game.context_size == 0 or game.values:
            self.observation_space = gym.spaces.Discrete(game.values or 1)
        else:
            self.observation_space = gym.spaces.Box(-np.inf, np.inf, (game.context_size,), np.float64)
        self._outcome, self._regret = kernel(game.outcome), kernel(game.regret)
        self._observe = kernel(game.observe) if game.context_size else None
        self._event = kernel(game.event) if game.announces else None
        self._params = game.params()
        self._root = secrets.randbits(64)
        self._episode = -1
        self._round = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a replication: the next one, or with a seed the first one of that seed."""
        super().reset(seed=seed)
        if seed is not None:
            self._root, self._episode = seed, -1
        self._episode += 1
        self._key = key_of(self._root, self._episode)
        self._memory = np.zeros(self.game.memory())
        self._context = np.zeros(self.game.context_size)
        self._round = 1
        return self._next()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play a round."""
        if not self._round:
            raise gym.error.ResetNeeded("call reset before step: no replication is under way")
        if not self.action_space.contains(action):
            raise InvalidArgument(f"action must be a whole number from 0 to {self.game.actions - 1}, got {action!r}")
        vector = np.zeros(self.game.actions if self.game.feedback == "full" else 1)
        reward = self._outcome(self._params, self._memory, *self._key, self._round, int(action), vector)
        info = {"feedback": self._told(int(action), vector), "regret": float(self._regret(self._params, self._memory))}
        over = self._round == self.rounds
        self._round = 0 if over else self._round + 1
        observation, news = self._next()
        return observation, float(reward), False, over, {**info, **news}

    def _next(self) -> tuple[Any, dict[str, Any]]:
        """What is seen before the next round. When there is none, that is what was seen last."""
        info = {}
        if self._observe is not None and self._round:
            self._observe(self._params, self._memory, *self._key, self._round, self._context)
        if self._event is not None:
            event = self._event(self._params, self._memory, *self._key, self._round) if self._round else -1
            info["replaced"] = int(event) if event >= 0 else None
        if isinstance(self.observation_space, gym.spaces.Discrete):
            return (int(self._context[0]) if self.game.values else 0), info
        return self._context.copy(), info

    def _told(self, action: int, vector: Any) -> Any:
        if self.game.feedback == "symbol":
            return self.game.decode(action, float(vector[0]))
        return vector if self.game.feedback == "full" else float(vector[0])
