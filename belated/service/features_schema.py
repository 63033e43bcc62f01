"""The description of features, for OpenAPI."""

from __future__ import annotations

from typing import Any

from belated.features.categories import ITEMS, LONGEST, PLACES
from belated.features.kinds import LETTERS
from belated.features.schema import COUNT
from belated.require import HIDDEN

NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": LETTERS,
    "pattern": f"^[^{HIDDEN}]*$",
    "description": "the key in the context; dots lead into objects",
}
MAYBE = {"type": ["number", "null"]}
CATEGORY = {"type": ["string", "integer"], "maxLength": LONGEST}
MISSING = {"enum": ["refuse", "slot"], "description": "with slot the feature has one more number, 1 for a missing one"}
DEFAULT = "taken where the context has none, or null"


def _kind(kind: str, properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "title": kind,
        "type": "object",
        "properties": {"kind": {"const": kind}, **properties},
        "required": ["kind", *required],
        "additionalProperties": False,
    }


def _given(default: dict[str, Any]) -> dict[str, Any]:
    return {"name": NAME, "default": default | {"description": DEFAULT}, "missing": MISSING}


_LIST = {"type": "array", "items": CATEGORY, "maxItems": ITEMS}
_WORDS = _given({"anyOf": [CATEGORY, _LIST, {"type": "null"}]}) | {"many": {"type": "boolean"}}

FEATURE = {
    "description": "One feature of a context, and the numbers that it becomes. See docs, The service, Features.",
    "anyOf": [
        _kind(
            "number",
            _given(MAYBE)
            | {"low": MAYBE, "high": MAYBE, "mean": MAYBE, "scale": MAYBE}
            | {"outside": {"enum": ["clip", "refuse"], "description": "what is done beyond low and high"}},
            "name",
        ),
        _kind(
            "category",
            _WORDS
            | {"values": {"type": "array", "items": CATEGORY, "minItems": 1}}
            | {"unknown": {"enum": ["refuse", "slot"], "description": "what is done with a value that is not stated"}},
            *("name", "values"),
        ),
        _kind(
            "hashed",
            _WORDS | {"slots": {"type": "integer", "minimum": 1, "maximum": PLACES}} | {"signed": {"type": "boolean"}},
            *("name", "slots"),
        ),
        _kind("boolean", _given({"type": ["boolean", "null"]}), "name"),
        _kind("intercept", {"name": NAME}),
        _kind("ignored", {"name": {"type": "string", "maxLength": LETTERS}}),
    ],
}

FEATURES = {
    "anyOf": [
        {"type": "array", "items": {"$ref": "#/components/schemas/Feature"}, "minItems": 1, "maxItems": COUNT},
        {"type": "null"},
    ],
    "examples": [
        [
            {"name": "age", "kind": "number", "low": 0, "high": 100, "missing": "slot"},
            {"name": "user.plan", "kind": "category", "values": ["free", "pro"], "unknown": "slot"},
        ]
    ],
}
