"""What is wrong with a body is said in words: which part, what it must be, and what it is."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from belated.ledger.errors import Refused
from belated.ledger.experiment import make
from belated.service import api
from belated.service.endpoint import STATUS

NEW = '"name": "ads", "actions": ["a"], "forecaster": "bold(exp3)"'


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (api.NewDecisions, '{"count": 0}', "count must be a whole number >= 1, got 0"),
        (api.NewDecisions, '{"count": 10001}', "count must be a whole number <= 10000, got 10001"),
        (api.NewDecisions, '{"count": NaN}', "count must be a whole number or null, got NaN"),
        (api.NewDecisions, '{"cuont": 3}', "there is no 'cuont' here, only context, count, contexts, allowed"),
        (api.NewDecisions, '{"allowed": []}', "allowed must be a list of length >= 1, got []"),
        (api.NewDecisions, '{"contexts": [[1], [2, "x"]]}', 'contexts[1][1] must be a number, got "x"'),
        (api.NewDecisions, "[]", "this must be an object, got []"),
        (api.NewFeedback, '{"ticket": "x"}', "value is missing"),
        (api.NewFeedback, '{"ticket": "x", "value": true}', "value must be a number or text or a list, got true"),
        (api.NewRules, '{"expiry_seconds": "1h"}', 'expiry_seconds must be a number or null, got "1h"'),
        (api.NewRules, '{"limits": {"open": 1}}', "there is no 'open' in limits, only outstanding"),
        (api.NewRules, '{"limits": {"outstanding": 0}}', "limits.outstanding must be a whole number >= 1, got 0"),
        (api.NewExperiment, f'{{{NEW}, "reward_range": [0]}}', "reward_range must be a list of length >= 2, got [0]"),
        (api.NewExperiment, f'{{{NEW}, "features": {{"x": 1}}}}', 'features must be a list or null, got {"x": 1}'),
        (
            api.NewExperiment,
            '{"name": "a b", "actions": ["a"], "forecaster": "bold(exp3)"}',
            "name must be text of letters, digits, '.', '_' and '-', 64 at most, that begins with a letter or a "
            'digit, got "a b"',
        ),
    ],
)
def test_words(kind: type[Any], body: str, said: str) -> None:
    with pytest.raises(Refused) as caught:
        api.parse(body.encode(), kind)
    assert str(caught.value) == said


def test_a_packed_body_is_called_so() -> None:
    with pytest.raises(api.Malformed, match="it is no UTF-8 text"):
        api.read(gzip.compress(b"{}"))


def test_one_of_many_contexts_is_named() -> None:
    made = make("ads", ["a", "b"], "direct(linucb(features=2))")
    with pytest.raises(Refused) as caught:
        api.decide(made, b'{"contexts": [[1, 2], [1, 2, 3]]}', None)
    assert str(caught.value) == "contexts[1]: context must be 2 finite numbers, got [1.0, 2.0, 3.0]"


def test_the_documentation_has_every_kind_with_its_status() -> None:
    text = (Path(__file__).parents[1] / "docs" / "service.md").read_text()
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (\d+) \|", text, re.MULTILINE)
    assert {kind: int(status) for kinds, status in rows for kind in re.findall(r"\w+", kinds)} == STATUS


def test_what_is_long_is_cut() -> None:
    for body in ('{"count": "' + "x" * 1000 + '"}', '{"' + "x" * 1000 + '": 1}'):
        with pytest.raises(Refused) as caught:
            api.parse(body.encode(), api.NewDecisions)
        assert len(str(caught.value)) < 320 and "xxx..." in str(caught.value)
