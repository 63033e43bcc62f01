"""scikit-learn: estimators with `partial_fit`, for labels and targets that come late.

    f = bl.BOLD(bl.adapters.sklearn.classifier(SGDClassifier(), classes=["no", "yes"]))
    d = f.predict([0.2, 1.5]); ...; f.update(d.ticket, "yes")

What cannot hold:

* An estimator cannot predict before its first label: until then the first of the classes is predicted, or 0.0.
* Each label is learned alone, as it comes: `partial_fit` on one row.
* The copies know nothing: what the given estimator has learned is not taken along.
* An estimator without `partial_fit` (a `Pipeline` has none, even of steps that have it) is refused.
* None of scikit-learn's own keeps anything from `predict` for `partial_fit`, so Direct takes them all. Of an estimator
  of your own that does, say so with `tolerates_delay=False`: Direct refuses it then, BOLD plays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor

from belated import require
from belated.adapters.copies import Copies, seed_of
from belated.errors import InvalidArgument, InvalidFeedback


def classifier(estimator: Any, classes: Sequence[Any], *, tolerates_delay: bool = True) -> Copies:
    """A classifier as a learner of delayed labels. Contexts are rows of features; feedback is one of `classes`.

    Until a copy has learned its first label it predicts the first class.

    >>> import belated as bl
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> f = bl.Direct(bl.adapters.sklearn.classifier(BernoulliNB(), classes=["no", "yes"]))
    >>> d = f.predict([1, 0])
    >>> f.update(d.ticket, "yes")
    >>> str(d.action), str(f.predict([1, 0]).action)
    ('no', 'yes')
    """
    _check(estimator, "classifier", is_classifier)
    labels = np.asarray(require.sequence("classes", classes, least=2))
    if labels.ndim != 1 or len(set(labels.tolist())) < len(labels):
        raise InvalidArgument(f"classes must be labels that differ, got {classes!r}")
    make = partial(_Estimator, clone(estimator), labels[0], labels, tolerates_delay)
    return Copies(f"sklearn.classifier({type(estimator).__name__})", make)


def regressor(estimator: Any, *, tolerates_delay: bool = True) -> Copies:
    """A regressor as a learner of delayed targets. Until a copy has learned its first one it predicts 0.0.

    >>> import belated as bl
    >>> from sklearn.linear_model import SGDRegressor
    >>> f = bl.BOLD(bl.adapters.sklearn.regressor(SGDRegressor(random_state=1)))
    >>> f.predict([1.0, 2.0])
    Decision(ticket=1, action=0.0, probability=1.0)
    """
    _check(estimator, "regressor", is_regressor)
    make = partial(_Estimator, clone(estimator), 0.0, None, tolerates_delay)
    return Copies(f"sklearn.regressor({type(estimator).__name__})", make)


def _check(estimator: Any, kind: str, fits: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise InvalidArgument(f"estimator must be a {kind} of scikit-learn, got {estimator!r}")
    if not hasattr(estimator, "partial_fit"):
        raise InvalidArgument(f"{type(estimator).__name__} has no partial_fit: it cannot learn label by label")
    if not fits(estimator):
        raise InvalidArgument(f"{type(estimator).__name__} is no {kind}")


class _Estimator:
    """A copy of an estimator as a plain learner that predicts anything."""

    actions: int | None = None

    def __init__(self, estimator: Any, first: Any, classes: Any, tolerates_delay: bool, number: int) -> None:
        seeds = {name: value for name, value in estimator.get_params().items() if name.endswith("random_state")}
        self.estimator = clone(estimator).set_params(**{name: seed_of(seed, number) for name, seed in seeds.items()})
        self.first, self.classes = first, classes
        self.tolerates_delay = tolerates_delay
        self.learned = False

    def predict(self, context: Any) -> tuple[Any, float]:
        return (self.estimator.predict(_row(context))[0] if self.learned else self.first), 1.0

    def update(self, context: Any, action: Any, probability: float, feedback: Any) -> None:
        given = {}
        if self.classes is not None:
            if feedback not in self.classes:
                raise InvalidFeedback(f"feedback must be one of {', '.join(map(str, self.classes))}, got {feedback!r}")
            given = {"classes": np.unique(self.classes)}
        self.estimator.partial_fit(_row(context), np.asarray([feedback]), **given)
        self.learned = True


def _row(context: Any) -> Any:
    """A row of features as scikit-learn takes it; what has two dimensions (a sparse row) is one already."""
    return context if getattr(context, "ndim", 1) == 2 else np.asarray(context).reshape(1, -1)
