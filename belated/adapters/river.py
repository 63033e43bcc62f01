"""River: its policies and models under delay, and our learners as policies of River.

    f = bl.BOLD(bl.adapters.river.bandit(policy, actions=3))
    f = bl.Direct(bl.adapters.river.classifier(tree.HoeffdingTreeClassifier()))

* **What a policy or a model has learned is taken along**: every copy (under BOLD each instance, however late it is
  made) starts from what it knew when it was given. `fresh=True`: from nothing.
* **Weights**: `f.update(ticket, bl.adapters.Weighted(label, weight=2.0))`, where `learn_one` takes `w`.
* A pipeline is a model like others. A policy that looks at no context is refused one.

What cannot hold:

* A policy that keeps something from `pull` for `update` (River's Exp3 keeps the probabilities of its last pull) is
  refused by Direct; BOLD and QPM-D play it. Of a policy or a model of your own say so with `tolerates_delay=False`.
* River does not tell with which probability an arm was pulled: decisions say NaN, and are of no use for off-policy
  estimates.
* River counts a pull when it is answered. So under Direct, while nothing is known of an arm (burn-in, UCB), it is
  pulled until its first reward comes. Our UCB1 counts open pulls and spreads them.
* What learns without an answer (clusters, anomalies) or from users and items (`reco`) is refused by name.
* Where River says delay d (`simulate_qa`, `progressive_val_score`) an answer comes before the d-th question after its
  own: that is a delay of d - 1 here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from river import bandit as policies
from river import base, compose, reco

from belated import require
from belated.adapters.copies import Copies, copied, weighed
from belated.adapters.rewards import UNIT, limits_of, scaled
from belated.errors import InvalidArgument, UnknownTicket
from belated.forecasters import BOLD, Forecaster
from belated.forecasters.keeping import kept
from belated.protocols import Learner, PlainLearner

#: Policies whose `update` reads what their last `pull` left.
KEEP_LAST_PULL = (policies.Exp3,)


def bandit(
    policy: policies.base.Policy,
    actions: int | Sequence[Any] | None = None,
    *,
    fresh: bool = False,
    tolerates_delay: bool | None = None,
) -> Copies:
    """A policy of `river.bandit` as a learner: `pull` to predict, `update` to learn.

    `actions` says how many arms there are, or names them: then actions are their numbers, from 0. Without it every
    prediction is given the arms, as in River, and the decision's action is one of them: `predict(arms)`, with a policy
    that looks at a context `predict((arms, context))`. Such arms may change; QPM-D and `play` need numbers.

    A context is a dictionary, as in River, or a sequence of numbers, which become the features 0, 1, 2, ...

    What the policy has learned is taken along, by every copy, unless `fresh`.

    >>> import belated as bl
    >>> from river import bandit
    >>> f = bl.BOLD(bl.adapters.river.bandit(bandit.UCB(delta=1, seed=1), actions=3))
    >>> first, second = f.predict(), f.predict()
    >>> f.update(second.ticket, 1.0)
    >>> f, f.instances
    (BOLD(river.bandit(UCB)), 2)
    """
    if not isinstance(policy, policies.base.Policy):
        raise InvalidArgument(f"policy must be one of river.bandit, got {policy!s}")
    arms = None
    if isinstance(actions, Sequence) and not isinstance(actions, str | bytes):
        arms = list(require.sequence("actions", actions))
    elif actions is not None:
        arms = list(range(require.integer("actions", actions, low=1)))
    if tolerates_delay is None:
        tolerates_delay = not isinstance(policy, KEEP_LAST_PULL)
    return _copies("bandit", policy, partial(_Bandit, _taken(policy, fresh), arms, tolerates_delay))


def classifier(
    model: base.Classifier, *, proba: bool = False, fresh: bool = False, tolerates_delay: bool = True
) -> Copies:
    """A classifier of River for labels that come late: `predict_one` to predict, `learn_one` to learn.

    Contexts are River's features, the decision's action is the predicted label (None while the model knows none), and
    the feedback is the true one. With `proba=True` the prediction is that of `predict_proba_one`. What the model has
    learned is taken along, by every copy, unless `fresh`.

    >>> import belated as bl
    >>> from river import naive_bayes
    >>> f = bl.Direct(bl.adapters.river.classifier(naive_bayes.GaussianNB()))
    >>> early = f.predict({"length": 1.0})
    >>> f.update(early.ticket, "short")
    >>> f.predict({"length": 1.1}).action
    'short'
    """
    _check_methods(model, "predict_one", "learn_one", *(["predict_proba_one"] if proba else []))
    _check_kind(model, "classifier", base.Classifier, base.Regressor)
    make = partial(_Model, _taken(model, fresh), "predict_proba_one" if proba else "predict_one", tolerates_delay)
    return _copies("classifier", model, make)


def regressor(model: base.Regressor, *, fresh: bool = False, tolerates_delay: bool = True) -> Copies:
    """A regressor of River for targets that come late; as `classifier`.

    >>> import belated as bl
    >>> from river import linear_model
    >>> f = bl.BOLD(bl.adapters.river.regressor(linear_model.LinearRegression()))
    >>> f.predict({"x": 2.0})
    Decision(ticket=1, action=0.0, probability=1.0)
    """
    _check_methods(model, "predict_one", "learn_one")
    _check_kind(model, "regressor", base.Regressor, base.Classifier)
    return _copies("regressor", model, partial(_Model, _taken(model, fresh), "predict_one", tolerates_delay))


def _taken(model: Any, fresh: bool) -> Any:
    """The model as it is now, so that it may change afterwards."""
    return model.clone() if require.boolean("fresh", fresh) else copied(model)


def _copies(kind: str, model: Any, make: Callable[[int], PlainLearner]) -> Copies:
    return Copies(f"river.{kind}({type(model).__name__})", make)


def _check_methods(model: Any, *names: str) -> None:
    missing = [name for name in (*names, "clone") if not callable(getattr(model, name, None))]
    if missing or isinstance(model, type):
        raise InvalidArgument(f"model must be one of River with {' and '.join(names)}, got {model!s}")


def _check_kind(model: Any, kind: str, wanted: type, other: type) -> None:
    """Refuse what says that it is of the other kind, or learns otherwise; a pipeline is what its last step is."""
    last = _last(model)
    if not getattr(last, "_supervised", True):
        raise InvalidArgument(f"model must be a {kind}, got {model!s}, which learns without answers")
    if isinstance(last, reco.base.Ranker):
        raise InvalidArgument(f"model must be a {kind}, got {model!s}, which learns from users and items")
    if isinstance(last, other) and not isinstance(last, wanted):
        raise InvalidArgument(f"model must be a {kind}, got {model!s}, which is a {other.__name__.lower()}")


def _last(model: Any) -> Any:
    """The step of a pipeline that predicts."""
    while isinstance(model, compose.Pipeline) and model.steps:
        model = list(model.steps.values())[-1]
    return model


class _Bandit:
    """A copy of a policy as a plain learner. `arms` names the actions; None if arms come with each prediction."""

    states_probability = False

    def __init__(
        self, policy: policies.base.Policy, arms: list[Any] | None, tolerates_delay: bool, number: int
    ) -> None:
        self.policy: Any = copied(policy, number, *policy._rewards.values())
        self.arms = arms
        self.actions = None if arms is None else len(arms)
        self.tolerates_delay = tolerates_delay
        self.contextual = isinstance(policy, policies.base.ContextualPolicy)
        self.plain = not self.contextual and arms == list(range(len(arms or ())))

    def predict(self, context: Any) -> tuple[Any, float]:
        if self.plain and context is None:
            return self.policy.pull(self.arms), math.nan
        arms, features = self._split(context)
        arm = self.policy.pull(arms, context=features) if self.contextual else self.policy.pull(arms)
        return (arm if self.arms is None else self.arms.index(arm)), math.nan

    def update(self, context: Any, action: Any, probability: float, feedback: Any) -> None:
        weighed(type(self.policy).__name__, feedback, takes=False)
        if self.plain:
            self.policy.update(action, feedback)
            return
        arm = action if self.arms is None else self.arms[action]
        if self.contextual:
            self.policy.update(arm, self._split(context)[1], feedback)
        else:
            self.policy.update(arm, feedback)

    def _split(self, context: Any) -> tuple[Any, Any]:
        """The arms and the features."""
        name, arms, features = type(self.policy).__name__, self.arms, context
        if arms is not None and not self.contextual and context is not None:
            raise InvalidArgument(f"{name} looks at no context, got {context!r}")
        if arms is None:
            pair = context if self.contextual else (context, None)
            if not (isinstance(pair, tuple | list) and len(pair) == 2 and _are_arms(pair[0])):
                wanted = "predict((arms, context))" if self.contextual else "predict(arms)"
                raise InvalidArgument(
                    f"{name} needs the arms with each prediction, {wanted}, or their number as `actions` of `bandit`, "
                    f"got {context!r}"
                )
            arms, features = pair
        if self.contextual and not isinstance(features, Mapping):
            try:
                features = {i: float(x) for i, x in enumerate(features)}
            except (TypeError, ValueError):
                raise InvalidArgument(
                    f"{name} needs a context, a dictionary or a sequence of numbers, got {features!r}"
                ) from None
        return arms, features


def _are_arms(arms: Any) -> bool:
    if not isinstance(arms, Collection) or isinstance(arms, str | bytes | Mapping) or not len(arms):
        return False
    return all(isinstance(arm, Hashable) for arm in arms)  # River keeps them in dictionaries


class _Model:
    """A copy of a classifier or regressor as a plain learner that predicts anything."""

    actions: int | None = None

    def __init__(self, model: Any, says: str, tolerates_delay: bool, number: int) -> None:
        self.model = copied(model)
        self.says = says
        self.tolerates_delay = tolerates_delay

    def predict(self, context: Any) -> tuple[Any, float]:
        return getattr(self.model, self.says)(context), 1.0

    def update(self, context: Any, action: Any, probability: float, feedback: Any) -> None:
        last = _last(self.model)
        takes = isinstance(feedback, tuple) and "w" in inspect.signature(last.learn_one).parameters
        answer, weight = weighed(type(last).__name__, feedback, takes)
        if weight is None:
            self.model.learn_one(context, answer)
        else:
            self.model.learn_one(context, answer, w=weight)


class _Ours:
    """What the two kinds of policy share: a forecaster, the names of its actions, and its open pulls."""

    def _start(self, learner: Any, expiry: int | None, seed: int | None, reward_range: Any) -> None:
        self.reward_range = limits_of(reward_range)
        if expiry is not None:
            require.integer("expiry", expiry, low=0)
        self.learner, self.expiry, self.seed = learner, expiry, seed
        if isinstance(learner, Forecaster):
            self._forecaster: Forecaster = learner.fresh(seed=learner.seed if seed is None else seed)
            self._patience = expiry
        else:
            self._forecaster = BOLD(learner, seed=seed)
            self._patience = expiry or 0
        if self._forecaster.actions is None:
            raise InvalidArgument(f"a policy needs a learner with a number of actions, got {learner!r}")
        self._arms: list[Any] = []
        self._open: dict[int, tuple[Any, Any]] = {}
        self._last = 0
        self._cancelled = 0

    def _decide(self, arms: Sequence[Any], context: Any, seen: Any) -> Any:
        """Pull; `context` is what the policy was given, `seen` what the forecaster is given."""
        self._check_arms(arms)
        if self._patience is not None and self._last - self._patience in self._open:
            self._forecaster.cancel(self._last - self._patience)
            del self._open[self._last - self._patience]
            self._cancelled += 1
        self._last, action, _ = self._forecaster.predict(seen)
        self._open[self._last] = self._arms[action], kept(context)
        return self._arms[action]

    def _answer(self, arm: Any, context: Any, reward: Any) -> None:
        ticket = next((ticket for ticket, pull in self._open.items() if pull == (arm, context)), None)
        if ticket is None:
            where = "" if context is None else f" with {context!r}"
            raise UnknownTicket(f"arm {arm!r} has no open pull{where}{self._why()}")
        self._forecaster.update(ticket, scaled(self._forecaster, reward, self.reward_range))
        del self._open[ticket]

    def _why(self) -> str:
        """What may have become of a pull."""
        if not self._cancelled:
            return ""
        count = "1 pull was" if self._cancelled == 1 else f"{self._cancelled} pulls were"
        return (
            f": {count} cancelled because expiry is {self._patience}, which is how many pulls may stay open while more "
            "are made; give a larger expiry"
        )

    def _check_arms(self, arms: Sequence[Any]) -> None:
        if not self._arms:
            self._arms = list(arms)
        if len(arms) != self._forecaster.actions or any(arm not in self._arms for arm in arms):
            wanted = f"{self._forecaster.actions} arms, always the same"
            raise InvalidArgument(f"{self._forecaster!r} needs {wanted}, got {list(arms)!r} after {self._arms!r}")


class Policy(_Ours, policies.base.Policy):
    """Our learner, or a forecaster over one, as a policy of River: for its `evaluate`, `evaluate_offline` and loops.

    The arms are the learner's actions, numbered as the first `pull` names them, and must stay the same.

    River has no tickets: `update(arm, reward)` answers the oldest open pull of that arm. A pull that is not answered
    before `expiry` more pulls are made is cancelled. Over a learner that is 0: River's own way, in which a pull is
    answered at once or never. Over a forecaster it is None: open pulls are kept, and under BOLD an instance with each.
    (`evaluate_offline` never answers most pulls: over a forecaster give it `expiry=0`.)

    `reward_range`: the least and the greatest reward that can come. Our learners take rewards in [0, 1], and are told
    where in that range a reward lies.

    A copy (`clone`, as River's functions make) starts afresh; with a seed it draws the same.

    >>> import belated as bl
    >>> from river import bandit
    >>> policy = bl.adapters.river.Policy(bl.UCB1(actions=2))
    >>> history = [(["a", "b"], None, "ab"[t % 2], t % 2) for t in range(100)]
    >>> bandit.evaluate_offline(policy, history)
    (Sum: 50., 55)
    """

    def __init__(
        self,
        learner: Learner | Callable[..., PlainLearner] | Forecaster,
        expiry: int | None = None,
        reward_obj: Any = None,
        seed: int | None = None,
        reward_range: tuple[float, float] = UNIT,
    ) -> None:
        super().__init__(reward_obj=reward_obj)
        self._start(learner, expiry, seed, reward_range)

    def _pull(self, arm_ids: Sequence[Any]) -> Any:
        return self._decide(arm_ids, None, None)

    def update(self, arm_id: Any, *reward_args: Any, **reward_kwargs: Any) -> None:
        """Hand in the reward of the oldest open pull of an arm."""
        self._answer(arm_id, None, reward_args[0])
        super().update(arm_id, *reward_args, **reward_kwargs)


class ContextualPolicy(_Ours, policies.base.ContextualPolicy):
    """The same over a learner with side information, such as LinUCB: a contextual policy of River.

    The learner sees the numbers of a context in the order of `features`, or of the sorted names in the first context.
    `update(arm, context, reward)` answers the oldest open pull of that arm with that context.

    >>> import belated as bl
    >>> policy = bl.adapters.river.ContextualPolicy(bl.LinUCB(actions=2, features=2))
    >>> policy.pull(["a", "b"], context={"age": 0.5, "new": 1.0})
    'a'
    >>> policy.update("a", {"age": 0.5, "new": 1.0}, 1.0)
    """

    def __init__(
        self,
        learner: Learner | Callable[..., PlainLearner] | Forecaster,
        features: Sequence[str] | None = None,
        expiry: int | None = None,
        reward_obj: Any = None,
        seed: int | None = None,
        reward_range: tuple[float, float] = UNIT,
    ) -> None:
        super().__init__(reward_obj=reward_obj)
        self._start(learner, expiry, seed, reward_range)
        self.features = features
        self._names = features

    def _pull(self, arm_ids: Sequence[Any], context: Mapping[Any, Any]) -> Any:  # type: ignore[override]
        if self._names is None:
            self._names = sorted(context)
        return self._decide(arm_ids, context, [context[name] for name in self._names])

    def update(self, arm_id: Any, context: Mapping[Any, Any], *reward_args: Any, **reward_kwargs: Any) -> None:
        """Hand in the reward of the oldest open pull of an arm in a context."""
        self._answer(arm_id, context, reward_args[0])
        super().update(arm_id, context, *reward_args, **reward_kwargs)
