"""scikit-learn: estimators with `partial_fit`, for labels and targets that come late.

    f = bl.BOLD(bl.adapters.sklearn.classifier(SGDClassifier(), classes=["no", "yes"]))
    d = f.predict([0.2, 1.5]); ...; f.update(d.ticket, "yes")

* **A fitted estimator is taken along**: every copy (under BOLD each instance, however late it is made) starts from what
  it knew when it was given. `fresh=True`: from nothing.
* **A pipeline** learns step by step, if each step has `partial_fit` or learns nothing (`Normalizer`): a step learns the
  row, hands on what it makes of it, and the last one learns that with its label.
* **Weights**: `f.update(ticket, bl.adapters.Weighted("yes", weight=2.0))`, where `partial_fit` takes `sample_weight`.
* A context is a row of numbers, a sparse row, or for a step that takes them (`HashingVectorizer`, `FeatureHasher`) a
  text or a dictionary.

What cannot hold:

* An estimator cannot predict before its first label: until then the first of the classes is predicted, with
  `proba=True` all of them with the same probability, or 0.0.
* Each label is learned alone, as it comes: `partial_fit` on one row. What needs more rows (`early_stopping=True`,
  `class_weight="balanced"`, an estimator or a step without `partial_fit`) is refused by name.
* None of scikit-learn's own keeps anything from `predict` for `partial_fit`, so Direct takes them all. Of an estimator
  of your own that does, say so with `tolerates_delay=False`: Direct refuses it then, BOLD plays it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from belated import require
from belated.adapters.copies import Copies, copied, seed_of, weighed
from belated.errors import InvalidArgument, InvalidFeedback

#: Settings with which no estimator learns from one row, and the values that are meant.
WANT_MORE = {"early_stopping": True, "class_weight": "balanced"}


def classifier(
    estimator: Any,
    classes: Sequence[Any] | None = None,
    *,
    proba: bool = False,
    fresh: bool = False,
    tolerates_delay: bool = True,
) -> Copies:
    """A classifier as a learner of delayed labels. Contexts are rows of features; feedback is one of `classes`.

    Until a copy has learned its first label it predicts the first class. Of a fitted one, which is taken along unless
    `fresh`, the classes are known: they may be left out.

    With `proba=True` the prediction is the probability of each class, from `predict_proba`, as a dictionary.

    >>> import belated as bl
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> f = bl.Direct(bl.adapters.sklearn.classifier(BernoulliNB(), classes=["no", "yes"]))
    >>> d = f.predict([1, 0])
    >>> f.update(d.ticket, "yes")
    >>> str(d.action), str(f.predict([1, 0]).action)
    ('no', 'yes')
    >>> fitted = BernoulliNB().fit([[1, 0], [0, 1], [0, 0]], ["yes", "no", "no"])
    >>> f = bl.BOLD(bl.adapters.sklearn.classifier(fitted, proba=True))
    >>> {label: round(p, 3) for label, p in f.predict([1, 0]).action.items()}
    {'no': 0.36, 'yes': 0.64}
    """
    _check(estimator, "classifier", is_classifier)
    known = None if fresh else _known(estimator)
    if classes is None and known is not None:
        classes = known.tolist()
    labels = np.asarray(require.sequence("classes", classes, least=2))
    if labels.ndim != 1 or len(set(labels.tolist())) < len(labels):
        raise InvalidArgument(f"classes must be labels that differ, got {classes!r}")
    if known is not None and known.tolist() != np.unique(labels).tolist():
        raise InvalidArgument(
            f"classes must be those that {_name(estimator)} was fitted to, {known.tolist()}, got {classes!r}; "
            "fresh=True makes copies that know nothing"
        )
    if require.boolean("proba", proba) and not hasattr(estimator, "predict_proba"):
        raise InvalidArgument(f"{estimator!r} has no predict_proba: it tells no probabilities")
    make = partial(_Estimator, _taken(estimator, fresh), labels[0], labels, proba, tolerates_delay)
    return Copies(f"sklearn.classifier({type(estimator).__name__})", make)


def regressor(estimator: Any, *, fresh: bool = False, tolerates_delay: bool = True) -> Copies:
    """A regressor as a learner of delayed targets. Until a copy has learned its first one it predicts 0.0.

    >>> import belated as bl
    >>> from sklearn.linear_model import SGDRegressor
    >>> f = bl.BOLD(bl.adapters.sklearn.regressor(SGDRegressor(random_state=1)))
    >>> f.predict([1.0, 2.0])
    Decision(ticket=1, action=0.0, probability=1.0)
    """
    _check(estimator, "regressor", is_regressor)
    make = partial(_Estimator, _taken(estimator, fresh), 0.0, None, False, tolerates_delay)
    return Copies(f"sklearn.regressor({type(estimator).__name__})", make)


def _name(estimator: Any) -> str:
    return type(estimator).__name__


def _taken(estimator: Any, fresh: bool) -> Any:
    """The estimator as it is now, so that it may change afterwards."""
    return clone(estimator) if require.boolean("fresh", fresh) else copied(estimator)


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _known(estimator: Any) -> Any:
    """The classes that a classifier was fitted to; None if it was not."""
    return np.asarray(estimator.classes_) if _is_fitted(estimator) else None


def _steps(estimator: Any) -> Iterator[tuple[str, Any]]:
    """What a pipeline does to a row before its last step."""
    for name, step in estimator.steps[:-1]:
        if step is not None and step != "passthrough":
            yield name, step


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _check(estimator: Any, kind: str, fits: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise InvalidArgument(f"estimator must be a {kind} of scikit-learn, got {estimator!r}")
    if isinstance(estimator, Pipeline):
        for name, step in _steps(estimator):
            if not hasattr(step, "partial_fit") and get_tags(step).requires_fit:
                raise InvalidArgument(
                    f"the step {name!r} of the pipeline, {_name(step)}, has no partial_fit: it cannot learn row by row"
                )
    last = _last(estimator)
    if not hasattr(last, "partial_fit"):
        raise InvalidArgument(f"{_name(last)} has no partial_fit: it cannot learn label by label")
    if not fits(last):
        raise InvalidArgument(f"{_name(last)} is no {kind}")
    for setting, value in estimator.get_params().items():
        name = setting.rpartition("__")[2]
        if name in WANT_MORE and type(value) is type(WANT_MORE[name]) and value == WANT_MORE[name]:
            raise InvalidArgument(f"{_name(last)} cannot learn label by label: {name}={value!r} needs many at once")


class _Estimator:
    """A copy of an estimator as a plain learner that predicts anything."""

    actions: int | None = None

    def __init__(
        self, estimator: Any, first: Any, classes: Any, proba: bool, tolerates_delay: bool, number: int
    ) -> None:
        seeds = {name: value for name, value in estimator.get_params().items() if name.endswith("random_state")}
        moved = {name: seed_of(seed, number) for name, seed in seeds.items()}
        self.estimator = copied(estimator, number, _last(estimator)).set_params(**moved)
        self.classes = classes
        self.labels: Any = np.unique([] if classes is None else classes)
        self.proba = proba
        self.first = dict.fromkeys(np.unique(classes).tolist(), 1.0 / len(classes)) if proba else first
        self.tolerates_delay = tolerates_delay
        self.learned = _is_fitted(estimator)

    def predict(self, context: Any) -> tuple[Any, float]:
        if not self.learned:
            return (self.first.copy() if self.proba else self.first), 1.0
        if self.proba:
            said = self.estimator.predict_proba(_row(context))[0]
            return dict(zip(self.labels.tolist(), said.tolist(), strict=True)), 1.0
        return self.estimator.predict(_row(context))[0], 1.0

    def update(self, context: Any, action: Any, probability: float, feedback: Any) -> None:
        last = _last(self.estimator)
        takes = isinstance(feedback, tuple) and "sample_weight" in inspect.signature(last.partial_fit).parameters
        answer, weight = weighed(_name(last), feedback, takes)
        given: dict[str, Any] = {} if weight is None else {"sample_weight": np.array([weight])}
        if self.classes is not None:
            if answer not in self.classes:
                raise InvalidFeedback(f"feedback must be one of {', '.join(map(str, self.classes))}, got {answer!r}")
            given["classes"] = self.labels
        row = _row(context)
        if last is not self.estimator:
            for _, step in _steps(self.estimator):
                if hasattr(step, "partial_fit"):
                    step.partial_fit(row)
                row = step.transform(row)
        last.partial_fit(row, np.asarray([answer]), **given)
        self.learned = True


def _row(context: Any) -> Any:
    """A row of features as scikit-learn takes it; what has two dimensions (a sparse row) is one already."""
    if isinstance(context, str | Mapping):
        return [context]
    return context if getattr(context, "ndim", 1) == 2 else np.asarray(context).reshape(1, -1)
