"""scikit-learn: estimators with partial_fit, told late."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_diabetes, load_digits
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge, SGDClassifier, SGDRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, RobustScaler, StandardScaler

import belated as bl
from belated import checks
from belated.errors import InvalidArgument, InvalidFeedback, Unsupported

sklearn = bl.adapters.sklearn

X, Y = load_digits(return_X_y=True)
X, Y = X[:60] / 16.0, Y[:60]
ROWS, TARGETS = load_diabetes(return_X_y=True)
CLASSES = list(range(10))
CLASSIFIERS = [
    SGDClassifier(random_state=1),
    SGDClassifier(loss="log_loss", average=True, random_state=2),
    Perceptron(random_state=3),
    GaussianNB(),
    MultinomialNB(),
    BernoulliNB(binarize=0.5),
    MLPClassifier(hidden_layer_sizes=(8,), random_state=4),
]
REGRESSORS = [
    SGDRegressor(random_state=1),
    SGDRegressor(loss="huber", average=True, random_state=2),
    MLPRegressor(hidden_layer_sizes=(8,), random_state=3),
]
# Of one row GaussianNB has no variance: it says so, and goes on.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def alone(estimator, rows, answers, first, **given):
    """scikit-learn by itself: predict a row, then learn it."""
    estimator, said = pickle.loads(pickle.dumps(estimator)), []
    for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        said.append(estimator.predict([row])[0] if i else first)
        estimator.partial_fit([row], [answer], **given)
    return said


def under(f, rows, answers, delay=0):
    tickets = []
    for i, row in enumerate(rows):
        tickets.append(f.predict(row))
        if i >= delay:
            f.update(tickets[i - delay].ticket, answers[i - delay])
    return [d.action for d in tickets]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda each: type(each).__name__)
def test_without_delay_a_classifier_is_itself(estimator):
    expected = alone(estimator, X, Y, 0, classes=CLASSES)
    for kind in (bl.Direct, bl.BOLD):
        assert under(kind(sklearn.classifier(estimator, CLASSES)), X, Y) == expected
    assert not hasattr(estimator, "classes_")


@pytest.mark.parametrize("estimator", REGRESSORS, ids=lambda each: type(each).__name__)
def test_without_delay_a_regressor_is_itself(estimator):
    expected = alone(estimator, ROWS[:100], TARGETS[:100], 0.0)
    for kind in (bl.Direct, bl.BOLD):
        assert under(kind(sklearn.regressor(estimator)), ROWS[:100], TARGETS[:100]) == expected


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda each: type(each).__name__)
def test_classifiers_keep_the_contract(estimator):
    checks.check_plain(sklearn.classifier(estimator, CLASSES), X, lambda t, x, a: Y[t], rounds=20)


@pytest.mark.parametrize("estimator", REGRESSORS, ids=lambda each: type(each).__name__)
def test_regressors_keep_the_contract(estimator):
    checks.check_plain(sklearn.regressor(estimator), ROWS, lambda t, x, a: TARGETS[t], rounds=30)


def test_until_the_first_label_the_first_class_is_predicted():
    f = bl.Direct(sklearn.classifier(SGDClassifier(random_state=1), classes=["yes", "no"]))
    first, second = f.predict([1.0, 0.0]), f.predict([0.0, 1.0])
    assert first.action == second.action == "yes"
    f.update(second.ticket, "no")
    assert f.predict([0.0, 1.0]).action == "no"
    assert bl.BOLD(sklearn.regressor(SGDRegressor())).predict([1.0]).action == 0.0


def test_labels_that_come_late_are_learned_with_their_own_row():
    late, twin = bl.Direct(sklearn.classifier(GaussianNB(), CLASSES)), GaussianNB()
    tickets = [late.predict(row).ticket for row in X]
    order = np.random.default_rng(1).permutation(len(X))
    for i in order:
        late.update(tickets[i], Y[i])
        twin.partial_fit(X[i : i + 1], Y[i : i + 1], classes=CLASSES)
    assert [late.predict(row).action for row in X] == twin.predict(X).tolist()


def test_a_label_that_is_none_of_the_classes_is_refused():
    f = bl.BOLD(sklearn.classifier(SGDClassifier(), classes=[0, 1]))
    d = f.predict([1.0])
    with pytest.raises(InvalidFeedback, match="one of 0, 1, got 3"):
        f.update(d.ticket, 3)
    f.update(d.ticket, 1)
    assert f.outstanding == 0


def test_sparse_rows():
    rows = sparse.csr_matrix(X)
    one, two = (bl.Direct(sklearn.classifier(MultinomialNB(), CLASSES)) for _ in range(2))
    assert under(one, [rows[i] for i in range(50)], Y[:50]) == under(two, X[:50], Y[:50])


def test_a_row_is_learned_as_it_was_when_it_was_predicted():
    """One buffer, filled again and again: what is learned late is each row with its own label."""
    late, twin = bl.Direct(sklearn.classifier(GaussianNB(), CLASSES)), GaussianNB()
    buffer, tickets = np.zeros(X.shape[1]), []
    for row in X:
        buffer[:] = row
        tickets.append(late.predict(buffer).ticket)
    for ticket, row, label in zip(tickets, X, Y, strict=True):
        late.update(ticket, label)
        twin.partial_fit([row], [label], classes=CLASSES)
    assert [late.predict(row).action for row in X] == twin.predict(X).tolist()


@pytest.mark.parametrize(
    "estimator", [SGDClassifier(random_state=1), GaussianNB()], ids=lambda each: type(each).__name__
)
def test_what_a_fitted_classifier_knows_is_taken_along_by_every_copy(estimator):
    fitted = clone(estimator).fit(X[:40], Y[:40])
    told, twin = fitted.predict(X[40:]).tolist(), pickle.loads(pickle.dumps(fitted))
    f = bl.BOLD(sklearn.classifier(fitted))
    assert [f.predict(row).action for row in X[40:]] == told and f.instances == 20
    one = bl.Direct(sklearn.classifier(fitted, CLASSES))
    fitted.partial_fit(X[40:], Y[40:])  # what it learns afterwards is its own
    expected = []
    for row, label in zip(X[40:], Y[40:], strict=True):
        expected.append(twin.predict([row])[0])
        twin.partial_fit([row], [label])
    assert under(one, X[40:], Y[40:]) == expected
    assert bl.Direct(sklearn.classifier(fitted, CLASSES, fresh=True)).predict(X[0]).action == 0


def test_a_fitted_regressor_is_taken_along_unless_told_otherwise():
    fitted = SGDRegressor(random_state=1).partial_fit(ROWS, TARGETS)
    assert bl.BOLD(sklearn.regressor(fitted)).predict(ROWS[0]).action == fitted.predict(ROWS[:1])[0]
    assert bl.BOLD(sklearn.regressor(fitted, fresh=True)).predict(ROWS[0]).action == 0.0


def test_probabilities_of_classes():
    f, twin = bl.Direct(sklearn.classifier(GaussianNB(), ["b", "a"], proba=True)), GaussianNB()
    early = f.predict([0.0])
    assert early.action == {"a": 0.5, "b": 0.5}
    early.action.clear()  # it is the user's
    assert f.predict([0.0]).action == {"a": 0.5, "b": 0.5}
    for x, label in ((0.0, "a"), (1.0, "b"), (0.2, "a"), (0.7, "b")):
        f.update(f.predict([x]).ticket, label)
        twin.partial_fit([[x]], [label], classes=["a", "b"])
    said = f.predict([0.5]).action
    assert list(said) == ["a", "b"] and list(said.values()) == twin.predict_proba([[0.5]])[0].tolist()


def test_pipelines_learn_step_by_step():
    scaler, model = StandardScaler(), SGDRegressor(random_state=1)
    f = bl.Direct(sklearn.regressor(make_pipeline(clone(scaler), Normalizer(), "passthrough", clone(model))))
    for i, (row, target) in enumerate(zip(ROWS[:30], TARGETS[:30], strict=True)):
        d = f.predict(row)
        f.update(d.ticket, target)
        if i:
            assert d.action == model.predict(Normalizer().transform(scaler.transform([row])))[0]
        made = Normalizer().transform(scaler.partial_fit([row]).transform([row]))
        model.partial_fit(made, [target])


def test_pipelines_of_text():
    f = bl.BOLD(
        sklearn.classifier(
            make_pipeline(HashingVectorizer(n_features=64), SGDClassifier(random_state=1)), ["ham", "spam"]
        )
    )
    for text, label in [("buy now", "spam"), ("see you there", "ham")] * 3:
        f.update(f.predict(text).ticket, label)
    assert [f.predict(text).action for text in ("buy", "see you")] == ["spam", "ham"]


def test_weights():
    f, twin = bl.Direct(sklearn.regressor(SGDRegressor(random_state=1))), SGDRegressor(random_state=1)
    for row, target in zip(ROWS[:10], TARGETS[:10], strict=True):
        f.update(f.predict(row).ticket, bl.adapters.Weighted(target, weight=3.0))
        twin.partial_fit([row], [target], sample_weight=[3.0])
    assert f.predict(ROWS[10]).action == twin.predict(ROWS[10:11])[0]
    d = f.predict(ROWS[0])
    with pytest.raises(InvalidFeedback, match="weight must be > 0, got 0"):
        f.update(d.ticket, bl.adapters.Weighted(1.0, weight=0))
    f.update(d.ticket, 1.0)


def test_weights_for_what_takes_none():
    f = bl.Direct(sklearn.classifier(OneVsRestClassifier(SGDClassifier()), [0, 1]))
    d = f.predict([1.0])
    with pytest.raises(InvalidFeedback, match="OneVsRestClassifier takes no weights, got Weighted"):
        f.update(d.ticket, bl.adapters.Weighted(1, weight=2.0))


def test_each_copy_has_a_seed_of_its_own():
    f = bl.BOLD(sklearn.classifier(OneVsRestClassifier(SGDClassifier(random_state=5)), CLASSES))
    for _ in range(3):
        f.predict(X[0])
    assert [each.estimator.estimator.random_state for each in f._instances] == [5, 6, 7]
    g = pickle.loads(pickle.dumps(f))
    assert (g.instances, g.outstanding, repr(g)) == (3, 3, "BOLD(sklearn.classifier(OneVsRestClassifier))")


def test_direct_refuses_what_says_that_it_keeps_its_last_prediction():
    for copies in (
        sklearn.classifier(Perceptron(), [0, 1], tolerates_delay=False),
        sklearn.regressor(SGDRegressor(), tolerates_delay=False),
    ):
        with pytest.raises(Unsupported, match=rf"cannot play {re.escape(repr(copies))}: .* last prediction only"):
            bl.Direct(copies)
        assert bl.BOLD(copies).predict([1.0]).action == 0
        with pytest.raises(Unsupported, match=rf"cannot play {re.escape(repr(copies))}: .* endlessly many"):
            bl.QPMD(copies)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sklearn.classifier(LogisticRegression(), [0, 1]), "LogisticRegression has no partial_fit"),
        (
            lambda: sklearn.regressor(make_pipeline(RobustScaler(), SGDRegressor())),
            "'robustscaler' .* RobustScaler, has no",
        ),
        (lambda: sklearn.regressor(make_pipeline(StandardScaler(), Ridge())), "Ridge has no partial_fit"),
        (lambda: sklearn.classifier(SGDClassifier(early_stopping=True), [0, 1]), "early_stopping=True needs many"),
        (lambda: sklearn.classifier(SGDClassifier(class_weight="balanced"), [0, 1]), "class_weight='balanced' needs"),
        (lambda: sklearn.classifier(SGDClassifier(), [0, 1], proba=True), r"SGDClassifier\(\) has no predict_proba"),
        (lambda: sklearn.classifier(GaussianNB(), proba=True), "classes"),
        (lambda: sklearn.classifier(GaussianNB().fit(X, Y), [0, 1]), "was fitted to, .* got .0, 1.; fresh=True makes"),
        (lambda: sklearn.regressor(MiniBatchKMeans(2)), "MiniBatchKMeans is no regressor"),
        (lambda: sklearn.classifier(SGDRegressor(), [0, 1]), "SGDRegressor is no classifier"),
        (lambda: sklearn.classifier(SGDClassifier, [0, 1]), "must be a classifier"),
        (lambda: sklearn.classifier(SGDClassifier(), []), "classes"),
        (lambda: sklearn.classifier(GaussianNB(), [0]), "classes must have at least 2 items, got 1"),
        (lambda: sklearn.classifier(GaussianNB(), [0, 0]), r"classes must be labels that differ, got \[0, 0\]"),
        (lambda: sklearn.classifier(GaussianNB(), [[0, 1], [1, 0]]), "classes must be labels that differ"),
        (lambda: sklearn.regressor(3), "got 3"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_by_name(make, words):
    with pytest.raises(InvalidArgument, match=words):
        make()


def test_passive_aggressive_estimators():
    """They are on their way out of scikit-learn, and warn of it."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    if not hasattr(linear_model, "PassiveAggressiveClassifier"):
        pytest.skip("gone")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = linear_model.PassiveAggressiveClassifier(random_state=1), linear_model.PassiveAggressiveRegressor()
        expected = alone(one, X, Y, 0, classes=CLASSES)
        assert under(bl.Direct(sklearn.classifier(one, CLASSES)), X, Y) == expected
        expected = alone(two, ROWS[:50], TARGETS[:50], 0.0)
        assert under(bl.Direct(sklearn.regressor(two)), ROWS[:50], TARGETS[:50]) == expected
