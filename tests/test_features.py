"""Features: an object becomes the same numbers everywhere, or an error names the feature and the value."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
from belated.errors import InvalidArgument
from belated.features import Boolean, Category, Features, Hashed, Ignored, Intercept, Number, kinds, schema

# --- schemas and contexts that fit them ---

letters = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="=:."), min_size=1, max_size=5
)
words = st.one_of(letters, st.integers(-(2**63), 2**64 - 1))
finite = st.floats(allow_nan=False, allow_infinity=False)


def one_kind(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """A feature as JSON has it."""
    values = st.lists(words, min_size=1, max_size=4, unique_by=str)
    plain = {"name": st.just(name), "missing": st.sampled_from(["refuse", "slot"])}
    scaled = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
    return st.one_of(
        st.fixed_dictionaries({"kind": st.just("number"), **plain}),
        st.builds(
            lambda base, pair, outside: base | {"low": pair[0], "high": pair[0] + pair[1], "outside": outside},
            st.fixed_dictionaries({"kind": st.just("number"), **plain}),
            scaled,
            st.just("clip"),
        ),
        st.builds(
            lambda base, pair: base | {"mean": pair[0], "scale": pair[1]},
            st.fixed_dictionaries({"kind": st.just("number"), **plain}),
            scaled,
        ),
        st.fixed_dictionaries({"kind": st.just("boolean"), **plain}),
        st.fixed_dictionaries(
            {"kind": st.just("category"), "values": values, "unknown": st.just("slot"), "many": st.booleans(), **plain}
        ),
        st.fixed_dictionaries(
            {"kind": st.just("hashed"), "slots": st.integers(1, 9), "signed": st.booleans(), "many": st.booleans()}
            | plain
        ),
    )


def value_for(feature: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A value that fits it; sometimes none where that may be."""
    if feature["kind"] == "number":
        value: st.SearchStrategy[Any] = st.one_of(st.floats(-1e150, 1e150), st.integers(-(2**70), 2**70))
    elif feature["kind"] == "boolean":
        value = st.booleans()
    else:
        word = st.one_of(words, st.sampled_from(feature.get("values", ["x"])))
        value = st.lists(word, max_size=4) if feature["many"] else word
    return st.one_of(st.none(), value) if feature["missing"] == "slot" else value


@st.composite
def cases(draw: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A schema, with objects in objects, and a context that fits it."""
    paths = draw(st.lists(st.lists(letters, min_size=1, max_size=3).map(tuple), min_size=1, max_size=6, unique=True))
    paths = [path for path in paths if not any(path != other and path == other[: len(path)] for other in paths)]
    stated, context = [], {}
    for path in paths:
        feature = draw(one_kind(".".join(path)))
        stated.append(feature)
        value = draw(value_for(feature))
        if value is None and draw(st.booleans()):
            continue
        place = context
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    if draw(st.booleans()):
        stated.insert(draw(st.integers(0, len(stated))), {"kind": "intercept", "name": "\N{SNOWMAN}intercept"})
    return stated, context


def slowly(stated: list[dict[str, Any]], context: dict[str, Any]) -> list[float]:
    """The same again, from the text of the documentation."""
    numbers: list[float] = []
    for feature in stated:
        kind = feature["kind"]
        if kind == "intercept":
            numbers.append(1.0)
            continue
        value: Any = context
        for part in feature["name"].split("."):
            value = None if value is None else value.get(part)
        more = [1.0 if value is None else 0.0] if feature["missing"] == "slot" else []
        if kind == "number":
            own = 0.0
            if value is not None:
                own = float(value)
                if "low" in feature:
                    low, high = feature["low"], feature["high"]
                    own = 0.0 if own <= low else 1.0 if own >= high else (own - low) / (high - low)
                elif "mean" in feature:
                    own = (own - feature["mean"]) / feature["scale"]
            numbers += [own, *more]
        elif kind == "boolean":
            numbers += [1.0 if value is True else 0.0, *more]
        else:
            given = [] if value is None else value if feature["many"] else [value]
            texts = {str(each) for each in given}
            if kind == "category":
                known = [str(each) for each in feature["values"]]
                numbers += [1.0 if each in texts else 0.0 for each in known]
                numbers += [float(len(texts - set(known))), *more]
            else:
                own_slots = [0.0] * feature["slots"]
                for text in texts:
                    data = feature["name"].encode() + b"\x00" + text.encode()
                    digest = hashlib.blake2b(data, digest_size=8).digest()
                    number = sum(byte << (8 * place) for place, byte in enumerate(digest))
                    minus = feature["signed"] and number >= 2**63
                    own_slots[number % 2**63 % feature["slots"]] += -1.0 if minus else 1.0
                numbers += [*own_slots, *more]
    return numbers


@settings(max_examples=100, deadline=None)
@given(case=cases())
def test_the_vector_is_what_the_documentation_says(case: Any) -> None:
    stated, context = case
    features = Features(stated)
    vector = features.vector(context)
    assert vector.dtype == np.float64 and vector.shape == (features.size,) == (len(features.columns),)
    assert len(set(features.columns)) == features.size
    assert np.isfinite(vector).all()
    assert vector.tolist() == slowly(stated, context)


@settings(max_examples=80, deadline=None)
@given(case=cases(), draws=st.randoms(use_true_random=False))
def test_it_is_the_same_through_json_and_in_any_order_of_keys(case: Any, draws: Any) -> None:
    stated, context = case
    features = Features(stated)
    again = Features(json.loads(json.dumps(features.to_data())))
    assert again == features and hash(again) == hash(features) and again.to_data() == features.to_data()
    keys = list(context)
    draws.shuffle(keys)
    turned = OrderedDict((key, context[key]) for key in keys)
    assert again.vector(json.loads(json.dumps(turned))).tobytes() == features.vector(context).tobytes()


def bits(seed: str, before: str = "") -> str:
    """What another process makes of a context."""
    code = (
        "import belated as bl; from belated.features import Hashed, Number; " + before + "f = bl.Features(["
        "Hashed('p', 97, signed=True, many=True), Number('x', mean=0.1, scale=0.3)]); "
        "print(f.vector({'p': [f'/{i}' for i in range(50)], 'x': 0.7}).tobytes().hex())"
    )
    environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return hashlib.sha256(ran.stdout.encode()).hexdigest()[:16]


def test_another_process_with_another_hash_seed_has_the_same_bits() -> None:
    """Nobody may change them: stored vectors are made of them. (And a hash that is Python's own would be found.)"""
    assert bits("1") == bits("2") == "a1431f94190710f4"
    wrong = "Hashed._find = lambda self, text: (hash(text) % self.slots, 1.0); "
    assert bits("1", wrong) != bits("2", wrong)


def test_published_slots() -> None:
    """As `printf 'page\\0/start' | b2sum -l 64` has them."""
    page = Hashed("page", 1000, signed=True)
    found = [page._find(text) for text in ("", "/start", "é", "😀", "7")]
    assert found == [(104, -1.0), (383, -1.0), (928, -1.0), (262, 1.0), (324, -1.0)]
    assert page._find("7") == page._find(page._text(7))


# --- each kind ---


@pytest.mark.parametrize(
    ("feature", "value", "numbers"),
    [
        (Number("x"), 3, [3.0]),
        (Number("x"), np.float32(0.5), [0.5]),
        (Number("x"), np.int64(7), [7.0]),
        (Number("x"), -0.0, [0.0]),
        (Number("x"), 2**60 + 1, [float(2**60)]),
        (Number("x", default=4), None, [4.0]),
        (Number("x", missing="slot"), None, [0.0, 1.0]),
        (Number("x", low=10, high=20), 15, [0.5]),
        (Number("x", low=10, high=20), 5, [0.0]),
        (Number("x", low=10, high=20), 1e308, [1.0]),
        (Number("x", low=10, high=20, default=12), None, [0.2]),
        (Number("x", low=10, high=20, outside="refuse"), 20, [1.0]),
        (Number("x", low=10, high=20, outside="refuse"), 10, [0.0]),
        (Number("x", mean=10, scale=4), 12, [0.5]),
        (Boolean("x"), True, [1.0]),
        (Boolean("x"), np.bool_(False), [0.0]),
        (Boolean("x", default=True), None, [1.0]),
        (Category("x", ["a", "b"]), "b", [0.0, 1.0]),
        (Category("x", ["a", 7]), 7, [0.0, 1.0]),
        (Category("x", ["a", "7"]), np.int32(7), [0.0, 1.0]),
        (Category("x", ["a", "b"], unknown="slot", missing="slot"), "c", [0.0, 0.0, 1.0, 0.0]),
        (Category("x", ["a", "b"], unknown="slot", missing="slot"), None, [0.0, 0.0, 0.0, 1.0]),
        (Category("x", ["a", "b"], default="a"), None, [1.0, 0.0]),
        (Category("x", ["a", "b"], many=True), ["b", "b", "a"], [1.0, 1.0]),
        (Category("x", ["a", "b"], many=True, default=[]), None, [0.0, 0.0]),
        (Category("x", ["a"], many=True, unknown="slot"), ["p", "q", "q"], [0.0, 2.0]),
        (Hashed("x", 1), "anything", [1.0]),
        (Hashed("x", 1, many=True), ["a", "b", "a"], [2.0]),
        (Intercept(), None, [1.0]),
    ],
)  # fmt: skip
def test_each_kind(feature: Any, value: Any, numbers: list[float]) -> None:
    features = Features([feature])
    context = {} if value is None else {"x": value}
    assert features.vector(context).tolist() == numbers
    assert math.copysign(1, features.vector(context)[0]) == 1 or numbers[0] < 0  # no -0.0
    if value is None and not isinstance(feature, Intercept):
        assert features.vector({"x": None}).tolist() == numbers


@pytest.mark.parametrize(
    ("feature", "value", "said"),
    [
        (Number("x"), True, "x must be a finite number, got True"),
        (Number("x"), "3", "x must be a finite number, got '3'"),
        (Number("x"), math.nan, "x must be a finite number, got nan"),
        (Number("x"), math.inf, "x must be a finite number, got inf"),
        (Number("x"), 10**400, "x must be a finite number, got 1000"),
        (Number("x"), [1], "x must be a finite number, got [1]"),
        (Number("x", mean=0, scale=1e-300), 1e300, "x must be a number that can be scaled, got 1e+300"),
        (Number("x", low=0, high=1, outside="refuse"), 2, "x must be between 0 and 1, got 2"),
        (Number("a.x"), None, "a.x is missing, and has no default"),
        (Boolean("x"), 1, "x must be true or false, got 1"),
        (Boolean("x"), "true", "x must be true or false, got 'true'"),
        (Category("x", ["a", "b"]), "c", "x must be one of 'a', 'b', got 'c'"),
        (Category("x", ["a"]), "A", "x must be one of 'a', got 'A'"),
        (Category("x", ["1"]), True, "x must be a category, which is text or a whole number, got True"),
        (Category("x", ["1"]), 1.0, "x must be a category, which is text or a whole number, got 1.0"),
        (
            Category("x", ["1"]),
            2**64,
            "x must be a category, which is text or a whole number, got 18446744073709551616",
        ),
        (Category("x", ["a"]), ["a"], "x must be a category, which is text or a whole number, got ['a']"),
        (Category("x", ["a"], many=True), "a", "x must be a list of categories, got 'a'"),
        (Category("x", ["a"], many=True), ["a"] * 1001, "x may have 1000 items, got 1001"),
        (Hashed("x", 3), {"a": 1}, "x must be a category, which is text or a whole number, got {'a': 1}"),
        (Hashed("x", 3), "y" * 10_001, "x may have 10000 characters, got 10001: 'yyy"),
        (Hashed("x", 3), "\ud800", "x must be text without halves of characters, got '\\ud800'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(feature: Any, value: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        Features([feature]).vector({} if value is None else {"x": value})
    assert str(error.value).startswith(said) and len(str(error.value)) < 300


def test_texts_are_compared_as_they_are_sent() -> None:
    """No normal form: which letters are the same is known differently by different versions of Unicode."""
    one, two = unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")
    assert one != two
    features = Features([Category("x", [one, two])])
    assert features.vector({"x": one}).tolist() == [1.0, 0.0] and features.vector({"x": two}).tolist() == [0.0, 1.0]
    hashed = Features([Hashed("x", 1 << 20)])
    assert hashed.vector({"x": one}).argmax() != hashed.vector({"x": two}).argmax()


# --- objects in objects, keys that are no features ---

NESTED = Features(
    [Number("age"), Category("user.plan", ["free", "pro"], missing="slot"), Number("user.at.x", default=1)]
)


def test_dots_lead_into_objects() -> None:
    assert NESTED.vector({"age": 2, "user": {"plan": "pro", "at": {"x": 5}}}).tolist() == [2, 0, 1, 0, 5]
    assert NESTED.vector({"age": 2}).tolist() == NESTED.vector({"age": 2, "user": None}).tolist() == [2, 0, 0, 1, 1]
    assert NESTED.vector({"age": 2, "user": {"at": None}}).tolist() == [2, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"age": 2, "user": 3}, "user must be an object with the features as keys, got 3"),
        ({"age": 2, "user": {"at": [1]}}, "user.at must be an object with the features as keys, got [1]"),
        ({"aeg": 2}, "the context has the key 'aeg', which is no feature; did you mean 'age'?"),
        ({"age": 2, "user.plan": "pro"}, "the context has the key 'user.plan', which is no feature; "),
        ({"age": 2, "user": {"plan": "pro", "p": 1}}, "user in the context has the key 'p', which is no feature; "),
        ({"age": 2, "zzzzz": 1}, "the context has the key 'zzzzz', which is no feature; features are 'age', 'user'"),
        ({"age": 2, 7: 1}, "the context has the key 7, which is no feature; features are 'age', 'user'"),
        ({"age": 2, "k" * 9999: 1}, "the context has the key 'kkk"),
        ([1, 2], "the context must be an object with the features as keys, got [1, 2]"),
        (None, "the context must be an object with the features as keys, got None"),
    ],
)
def test_keys_that_are_no_features_are_refused(context: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        NESTED.vector(context)
    assert str(error.value).startswith(said) and len(str(error.value)) < 400


def test_what_is_ignored_may_be_anything() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    one = Features([Number("x"), Ignored("session")])
    assert one.vector({"x": 1, "session": deep}).tolist() == [1.0]
    with pytest.raises(InvalidArgument, match="'other'"):
        one.vector({"x": 1, "other": 2})
    every = Features([Number("u.x"), Ignored()])
    assert every.vector({"u": {"x": 1, "y": deep}, "other": math.nan}).tolist() == [1.0]


# --- schemas that cannot be ---


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ([], "features must have at least 1 item, got 0"),
        ("age", "features must be a sequence, got 'age'"),
        ({"age": "number"}, "features[0] must be an object with a name and a kind, got 'age'"),
        (
            [{"name": "x"}],
            "features[0] has the kind None; there are number, category, hashed, boolean, intercept, ignored",
        ),
        ([{"name": "x", "kind": "numbr"}], "features[0] has the kind 'numbr'; did you mean 'number'?"),
        ([{"kind": "number"}], "features[0], a number, needs name"),
        ([{"name": "x", "kind": "category"}], "features[0], a category, needs values"),
        ([{"name": "x", "kind": "number", "hihg": 3}], "features[0], a number, has no 'hihg'; did you mean 'high'?"),
        ([{"name": "x", "kind": "number", "low": 3}], "'x' is scaled by low and high, or by mean and scale"),
        ([{"name": "x", "kind": "number", "low": 3, "high": 3}], "high of 'x' must be > 3, got 3"),
        (
            [{"name": "x", "kind": "number", "low": -1e308, "high": 1e308}],
            "low and high of 'x' are too far apart: -1e+308 and 1e+308",
        ),
        ([{"name": "x", "kind": "number", "mean": 0, "scale": 0}], "scale of 'x' must be > 0, got 0"),
        ([{"name": "x", "kind": "number", "mean": math.nan, "scale": 1}], "mean of 'x' must be finite, got nan"),
        ([{"name": "x", "kind": "number", "outside": "refuse"}], "'x' has no low and high, so nothing is outside"),
        ([{"name": "x", "kind": "number", "missing": "zero"}], "missing of x must be one of refuse, slot, got 'zero'"),
        ([{"name": "x", "kind": "number", "default": "3"}], "the default of x must be a finite number, got '3'"),
        ([{"name": "x", "kind": "number", "default": 3, "missing": "slot"}], "x has a default, 3: then a missing one"),
        ([{"name": "x", "kind": "category", "values": []}], "values of 'x' must have at least 1 item, got 0"),
        ([{"name": "x", "kind": "category", "values": ["a", "a"]}], "'x' has the value 'a' twice"),
        ([{"name": "x", "kind": "category", "values": [1, "1"]}], "'x' has the value '1' twice"),
        ([{"name": "x", "kind": "category", "values": [1.5]}], "x must be a category, which is text or a whole number"),
        ([{"name": "x", "kind": "category", "values": [""]}], "a value of 'x' must be 1 to 200 letters, got ''"),
        ([{"name": "x", "kind": "category", "values": ["a\u202e"]}], "a value of 'x' has the character U+202E"),
        (
            [{"name": "x", "kind": "category", "values": ["a"], "default": "b"}],
            "the default of x must be one of 'a', got",
        ),
        ([{"name": "x", "kind": "hashed", "slots": 0}], "slots of 'x' must be >= 1, got 0"),
        ([{"name": "x", "kind": "hashed", "slots": 10**9}], "slots of 'x' must be <= 1048576, got 1000000000"),
        ([{"name": "x", "kind": "hashed", "slots": 3.5}], "slots of 'x' must be a whole number, got 3.5"),
        ([{"name": "x", "kind": "hashed", "slots": 3, "many": 1}], "many of 'x' must be True or False, got 1"),
        ([{"name": "", "kind": "number"}], "the name of a feature must be 1 to 200 letters, got ''"),
        ([{"name": 3, "kind": "number"}], "the name of a feature must be 1 to 200 letters, got 3"),
        ([{"name": "x" * 201, "kind": "number"}], "the name of a feature must be 1 to 200 letters, got 'xxx"),
        (
            [{"name": "a..b", "kind": "number"}],
            "the dots in the name of a feature lead into objects: 'a..b' has an empty",
        ),
        ([{"name": "a=b", "kind": "number"}], "the name of a feature must be without '=', got 'a=b'"),
        ([{"name": "a\x00", "kind": "number"}], "the name of a feature has the character U+0000"),
        ([{"name": "\ud800", "kind": "hashed", "slots": 2}], "the name of a feature has half of a character"),
        ([{"name": "x", "kind": "number"}] * 2, "two features are called 'x'"),
        ([{"name": "x", "kind": "number"}, {"name": "x.y", "kind": "number"}], "'x' is a feature, and so cannot have"),
        ([{"kind": "ignored"}], "features make no number: all of them are ignored"),
        ([{"name": f"x{i}", "kind": "number"} for i in range(1001)], "features may be 1000 at most, got 1001"),
        ([{"name": c, "kind": "hashed", "slots": 600_000} for c in "ab"], "features make 1200000 numbers, more than"),
    ],
)
def test_schemas_that_cannot_be(stated: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        Features(stated)
    assert str(error.value).startswith(said) and len(str(error.value)) < 400


# --- whatever is given, the answer is numbers or InvalidArgument ---

anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), st.text(max_size=5),
        st.text(st.characters(), max_size=3), st.sampled_from(["slot", "refuse", "clip", "a", "x", "x.y"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "y", "a", "name"]) | st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=6,
)  # fmt: skip
SLOTS = [
    "name",
    "values",
    "slots",
    "low",
    "high",
    "mean",
    "scale",
    "outside",
    "unknown",
    "many",
    "signed",
    "default",
    "missing",
]
RIGHT = [
    {"name": "x", "kind": "number", "low": 0, "high": 1},
    {"name": "x", "kind": "number", "mean": 0, "scale": 1, "missing": "slot"},
    {"name": "x", "kind": "category", "values": ["a", "b"], "unknown": "slot"},
    {"name": "x", "kind": "hashed", "slots": 3, "many": True, "default": []},
    {"name": "x.y", "kind": "boolean"},
    {"kind": "intercept"},
    {"name": "x", "kind": "ignored"},
]  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(RIGHT), st.dictionaries(st.sampled_from(SLOTS), anything, max_size=2), anything, anything)
def test_anything_gives_numbers_or_a_refusal(right: Any, spoilt: Any, more: Any, context: Any) -> None:
    try:
        features = Features([right | spoilt, {"name": "z", "kind": "number", "default": 0}, *([more] if more else [])])
    except InvalidArgument:
        return
    assert Features(features.to_data()) == features
    for each in (context, {"x": context}, {"x": {"y": context}}):
        try:
            vector = features.vector(each)
        except InvalidArgument as error:
            assert len(str(error)) < 1500
            continue
        assert vector.shape == (features.size,) and np.isfinite(vector).all()
        if features.values:
            assert 0 <= features.number(each) < features.values


# --- learners that tell a few values apart ---

FEW = Features(
    [Category("plan", ["free", "pro"], unknown="slot", missing="slot"), Boolean("new", missing="slot"), Hashed("p", 3)]
)


def test_combinations_have_numbers() -> None:
    assert FEW.values == 4 * 3 * 3
    found = {}
    for plan in ("free", "pro", "other", None):
        for new in (False, True, None):
            for page in "abcdefghij":
                number = FEW.number({"plan": plan, "new": new, "p": page})
                known = "plan" if plan is None else plan
                labels = FEW.labels(number)
                assert labels[:2] == [
                    {None: None, "other": ":unknown"}.get(plan, plan),
                    {None: None, True: "true", False: "false"}[new],
                ]
                assert labels[2] == str(Hashed("p", 3)._find(page)[0])
                found.setdefault(number, set()).add((known, new))
    assert set(found) == set(range(36)) and all(len(each) == 1 for each in found.values())
    for number in (-1, 36):
        with pytest.raises(InvalidArgument, match=f"there are 36 combinations, numbered from 0, got {number}"):
            FEW.labels(number)


@pytest.mark.parametrize(
    "feature", [Number("x"), Hashed("x", 3, signed=True), Hashed("x", 3, many=True), Category("x", ["a"], many=True)]
)
def test_what_has_no_end_has_no_number(feature: Any) -> None:
    features = Features([Boolean("b"), feature])
    assert features.values == 0 and features.endless == feature
    with pytest.raises(InvalidArgument, match="x is not one of a few values"):
        features.number({"b": True, "x": 1})


@pytest.mark.parametrize("context", [{"plan": 1.5, "p": "a"}, {"new": 1, "p": "a"}, {"p": None}, {"q": 1}])
def test_numbers_are_as_strict_as_vectors(context: Any) -> None:
    for encode in (FEW.number, FEW.vector):
        with pytest.raises(InvalidArgument):
            encode(context)


def test_a_forecaster_learns_from_objects() -> None:
    """In a process: free users like action 0, others 1."""
    features = Features([Intercept(), Category("plan", ["free", "pro"])])
    f = bl.Direct(bl.LinUCB(actions=2, features=features.size), seed=1)
    for number in range(200):
        plan = ("free", "pro")[number % 2]
        decision = f.predict(features.vector({"plan": plan}))
        f.update(decision.ticket, 1.0 if decision.action == number % 2 else 0.0)
    assert [f.predict(features.vector({"plan": plan})).action for plan in ("free", "pro")] == [0, 1]


def test_features_of_others_are_refused() -> None:
    class Mine(Number):
        kind = "mine"

    with pytest.raises(InvalidArgument, match="must be one of number, category"):
        Features([Mine("x")])


# --- broken twins ---

FIND = Hashed._find


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "fails"),
    [
        (Hashed, "_find", lambda self, text: (FIND(self, text)[0], 1.0), test_published_slots),
        (Hashed, "_find", lambda self, text: FIND(self, unicodedata.normalize("NFC", text)),
         test_texts_are_compared_as_they_are_sent),
        (schema, "_refuse_key", lambda branch, given: None,
         lambda: test_keys_that_are_no_features_are_refused({"age": 2, "zzz": 1}, "")),
        (kinds.Given, "_absent", lambda self: 0,
         lambda: test_each_kind(Number("x", missing="slot"), None, [0.0, 1.0])),
        (Boolean, "_put", lambda self, value, vector, at: vector.__setitem__(at, float(value)),
         lambda: test_what_does_not_fit_is_refused_by_name(Boolean("x"), 1, "")),
        (Features, "to_data", lambda self: [each.to_data() for each in self.features[::-1]],
         test_it_is_the_same_through_json_and_in_any_order_of_keys),
    ],
)  # fmt: skip
def test_broken_twins_are_found(monkeypatch: Any, owner: Any, name: str, wrong: Any, fails: Callable[[], None]) -> None:
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        fails()
