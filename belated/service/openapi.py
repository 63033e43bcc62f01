"""The description of the API: OpenAPI 3.1 for programs, one page for people. Both are made from the same table."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any, NamedTuple

import msgspec

from belated.service import api
from belated.service.features_schema import FEATURE, FEATURES
from belated.version import __version__


class Answer(NamedTuple):
    """One status that a route may answer with."""

    status: int
    text: str
    schema: dict[str, Any]
    media: str = "application/json"


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _either(*schemas: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(schemas)}


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list(items: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items} | ({} if most is None else {"maxItems": most})


TEXT, NUMBER, INTEGER, ANYTHING = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "object"}
TICKET = {"type": "string", "description": "32 hexadecimal digits"}
MAYBE = {"type": ["number", "null"]}
WHEN = {"type": "number", "description": "seconds since 1970, by the clock of the database"}
ONCE = {"type": ["number", "null"], "description": WHEN["description"] + "; null where it is not, or never"}
SECONDS = {"type": ["number", "null"], "description": "null: never"}

DECISION = {"ticket": TICKET, "action": INTEGER, "name": TEXT, "probability": MAYBE, "round": INTEGER}
COUNTS = ("decisions", "feedback", "outstanding", "peak", "instances", "late", "expired", "cancelled", "conflicts")

SCHEMAS: dict[str, Any] = {
    "Error": _object({"error": _object({"kind": TEXT, "message": TEXT}, "kind", "message")}, "error"),
    "Experiment": _object(
        {"name": TEXT, "actions": _list(TEXT), "forecaster": ANYTHING, "created_at": WHEN, "archived_at": ONCE}
        | {"reward_range": _list(NUMBER, 2), "expiry_seconds": SECONDS, "on_expiry": {"type": ["string", "number"]}}
        | {"seed": INTEGER, "limits": _object({"outstanding": INTEGER}, "outstanding"), "retention_seconds": SECONDS}
        | {"read_only": {"type": ["string", "null"], "description": "why it cannot be used here"}}
        | {"warnings": _list(TEXT)}
        | {"propensity": {"type": "boolean", "description": "whether one may divide by the probability of a decision"}}
        | {"features": {"type": ["array", "null"], "items": _ref("Feature")}, "context_size": INTEGER},
        *("name", "actions", "forecaster", "created_at", "archived_at"),
    ),
    "Feature": FEATURE,
    "Experiments": _object({"experiments": _list(_ref("Experiment"))}, "experiments"),
    "Decision": _object(DECISION | {"expires_at": ONCE}, *DECISION),
    "Decisions": _object({"decisions": _list(_ref("Decision"))}, "decisions"),
    "DecisionNow": _object(
        DECISION
        | {"state": {"enum": ["open", "closed", "expired", "cancelled"]}, "value": {}, "decided_at": WHEN}
        | {"context": {}, "allowed": {}, "expires_at": ONCE, "closed_at": ONCE, "replaced": {"type": "boolean"}}
        | {"remarks": _list(_object({"kind": TEXT, "value": {}, "at": WHEN}, "kind", "value", "at"))},
        *DECISION,
        "state",
    ),
    "Outcome": _object(
        {
            "ticket": {"type": ["string", "null"]},
            "status": {"enum": ["applied", "duplicate", "late", "cancelled", "error"]},
            "error": _object({"kind": TEXT, "message": TEXT}),
        },
        "status",
    ),
    "Outcomes": _object({"results": _list(_ref("Outcome"))}, "results"),
    "Statistics": _object(
        {name: INTEGER for name in (*COUNTS, "duplicates", "unknown")}
        | {"pulls": _list(INTEGER), "actions": _list(ANYTHING), "delays": ANYTHING, "series": ANYTHING}
        | {"price": ANYTHING, "warnings": _list(TEXT), "notes": _list(TEXT), "at": WHEN, "lag_seconds": NUMBER},
        *COUNTS,
        *("duplicates", "pulls"),
    ),
    "Overview": _object(
        {
            "at": WHEN,
            "lag_seconds": NUMBER,
            "warnings": _list(TEXT),
            "experiments": _list(_ref("Experiment")),
            "unopened": _list(_object({"name": TEXT, "reason": TEXT}, "name", "reason")),
            "replicas": _list(_ref("Replica")),
        },
        *("at", "experiments", "unopened", "replicas"),
    ),
    "Replica": _object(
        {"name": {"type": "string", "description": "machine:process"}, "version": TEXT, "at": WHEN}
        | {"silent": {"type": "number", "description": "seconds since it was heard of; it tells every ten"}}
        | {"experiments": {"type": "integer", "description": "how many it has in memory"}}
        | {"events": {"type": "integer", "description": "of their logs that it had not read when it was heard of"}}
        | {"seconds": {"type": "number", "description": "since when it had read all, at most"}},
        *("name", "version", "silent", "experiments", "events", "seconds"),
    ),
    "Log": _object({"lines": _list(_ref("Line"))}, "lines"),
    "Line": _object(
        {"at": WHEN, "who": TEXT, "address": TEXT, "what": TEXT, "experiment": {"type": ["string", "null"]}}
        | {"detail": TEXT},
        *("at", "who", "address", "what", "experiment", "detail"),
    ),
    "Deleted": _object({"name": TEXT, "status": {"enum": ["deleted"]}}, "name", "status"),
    "Health": _object({"status": TEXT, "version": TEXT}, "status", "version"),
}

ERRORS = {
    400: "the body is not JSON, or nested too deep",
    401: "no token, or one that is not known, has expired or was revoked",
    403: "the token lacks the scope, or is for other experiments; without tokens: the request is not of this machine",
    404: "no such experiment or ticket",
    409: "it contradicts what is on record: another value, cancelled, archived, read-only, damaged, or a name is taken",
    413: "the body is larger than a million bytes",
    422: "a value or a field is wrong, or the learner cannot do it",
    429: "too many open decisions for the experiment's limit; or more requests than the token may make",
    500: "a defect of the service; nothing was changed",
    503: "too much is waiting, this waited too long, or the database does not answer; again after Retry-After seconds",
}


class Entry(NamedTuple):
    """A route."""

    method: str
    path: str
    text: str
    scope: str | None
    body: dict[str, Any] | None
    answers: tuple[Answer, ...]
    example: str = ""


ROOT = "/v1/experiments"
ONE = f"{ROOT}/{{name}}"

ENTRIES = (
    Entry(
        "post",
        ROOT,
        "Create an experiment. The forecaster and its learner are those of `belated catalog`; the learner takes its "
        "number of actions from the list of names. Decisions expire after expiry_seconds (never if it is left out): "
        "with on_expiry 'drop' nothing is learned, with a number that reward is learned, which biases what is learned. "
        "With `features` contexts are objects, and a learner takes its number of features from them.",
        "admin",
        _ref("NewExperiment"),
        (Answer(201, "the experiment", _ref("Experiment")),),
        '{"name": "ads", "actions": ["a", "b", "c"], "forecaster": {"name": "bold", "learner": {"name": "exp3"}}, '
        '"reward_range": [0, 1], "expiry_seconds": 3600, "on_expiry": "drop"}',
    ),
    Entry("get", ROOT, "All experiments.", "read", None, (Answer(200, "the experiments", _ref("Experiments")),)),
    Entry("get", ONE, "One experiment.", "read", None, (Answer(200, "the experiment", _ref("Experiment")),)),
    Entry(
        "post",
        f"{ONE}/decisions",
        "Decide now. With an Idempotency-Key (kept for 24 hours) asking again gives the same answer. `count` or "
        "`contexts` ask for many at once; `allowed` names the actions that are eligible right now. A context is a list "
        "of numbers; where the experiment states its features, an object with their names as keys.",
        "decide",
        _ref("NewDecisions"),
        (Answer(201, "the decision, or decisions", _either(_ref("Decision"), _ref("Decisions"))),),
        "{}",
    ),
    Entry(
        "get",
        f"{ONE}/decisions/{{ticket}}",
        "A decision as it is now, with its feedback if there is any.",
        "read",
        None,
        (Answer(200, "the decision", _ref("DecisionNow")),),
    ),
    Entry(
        "post",
        f"{ONE}/feedback",
        "Learn when the feedback comes, in any order: one, or a list, which always answers 200 with a status for each. "
        "The same value again is a duplicate and changes nothing.",
        "feedback",
        _either(_ref("NewFeedback"), _list(_ref("NewFeedback"), api.COUNT)),
        (
            Answer(
                200, "applied or duplicate; for a list what became of each", _either(_ref("Outcome"), _ref("Outcomes"))
            ),
            Answer(202, "late: on record, not learned", _ref("Outcome")),
        ),
        '{"ticket": "...", "value": 1.0}',
    ),
    Entry(
        "post",
        f"{ONE}/cancellations",
        "The decision was never shown: its instance is free again and nothing is learned. One, or a list.",
        "feedback",
        _either(_ref("Cancellation"), _list(_ref("Cancellation"), api.COUNT)),
        (Answer(200, "cancelled", _either(_ref("Outcome"), _ref("Outcomes"))),),
        '{"ticket": "..."}',
    ),
    Entry(
        "post",
        f"{ONE}/replacements",
        "An action is retired and a new one takes its number, unknown in every state. Feedback for open decisions of "
        "the old one is recorded and not learned. Not every learner can do it.",
        "admin",
        _ref("Replacement"),
        (Answer(200, "the experiment", _ref("Experiment")),),
        '{"action": "a", "new": "d"}',
    ),
    Entry(
        "post",
        f"{ONE}/actions",
        "One more action, with the next number, unknown in every state. Open decisions stay as they are. Not every "
        "learner can do it.",
        "admin",
        _ref("NewAction"),
        (Answer(200, "the experiment", _ref("Experiment")),),
        '{"name": "e"}',
    ),
    Entry(
        "post",
        f"{ONE}/archive",
        "No more decisions; open ones may still have feedback.",
        "admin",
        None,
        (Answer(200, "the experiment", _ref("Experiment")),),
    ),
    Entry(
        "post",
        f"{ONE}/unarchive",
        "Decisions again, after an archive.",
        "admin",
        None,
        (Answer(200, "the experiment", _ref("Experiment")),),
    ),
    Entry(
        "patch",
        ONE,
        "Change the rules of an experiment; what is left out stays. Decisions that are open keep the time when they "
        "expire; on_expiry holds for all that expire from now on.",
        "admin",
        _ref("NewRules"),
        (Answer(200, "the experiment", _ref("Experiment")),),
        '{"expiry_seconds": 7200, "on_expiry": "drop", "limits": {"outstanding": 1000}, "retention_seconds": null}',
    ),
    Entry(
        "delete",
        ONE,
        "Delete an experiment with all its data: decisions, feedback, events, states, statistics. It is gone at once "
        "and cannot be undone; the answer comes when its data is gone too.",
        "admin",
        None,
        (Answer(200, "it is gone", _ref("Deleted")),),
    ),
    Entry(
        "get",
        f"{ONE}/statistics",
        "Counts, the peak, rewards with intervals, delays and their quantiles, queues, how they went over time, the "
        "price of delay from the theorems, and warnings where theory is bent.",
        "read",
        None,
        (Answer(200, "the statistics", _ref("Statistics")),),
    ),
    Entry(
        "get",
        "/v1/overview",
        "All experiments with their most important statistics, as the dashboard shows them; and the processes that "
        "write to the database, which a token for some experiments is not told of.",
        "read",
        None,
        (Answer(200, "the experiments", _ref("Overview")),),
    ),
    Entry(
        "get",
        "/v1/log",
        "Who did what: the last 100 lines, newest first, of who created, changed and deleted experiments, made tokens, "
        "or came with a wrong one. It needs a token for all experiments.",
        "admin",
        None,
        (Answer(200, "the lines", _ref("Log")),),
    ),
    Entry(
        "get",
        "/metrics",
        "Numbers for Prometheus. Requests, batches, outcomes and what waits are those of this machine, and sum over "
        "machines; belated_experiment_decisions_total and the like come from the database and are the same on all. "
        "belated_database_up is 0 where the database does not answer.",
        "read",
        None,
        (Answer(200, "the numbers", TEXT, "text/plain"),),
    ),
    Entry(
        "get",
        "/health",
        "Whether the process is alive, whatever the database does.",
        None,
        None,
        (Answer(200, "it is", _ref("Health")), Answer(503, "its writer has stopped", _ref("Health"))),
    ),
    Entry(
        "get",
        "/ready",
        "Whether it can do its work: the database answers and takes writes.",
        None,
        None,
        (Answer(200, "it can", _ref("Health")), Answer(503, "it cannot; `status` says why", _ref("Health"))),
    ),
)


@cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    bodies = (
        *(api.NewExperiment, api.NewRules, api.NewDecisions, api.NewFeedback),
        *(api.Cancellation, api.Replacement, api.NewAction),
    )
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    for name in ("NewFeedback", "Cancellation"):
        schemas[name]["properties"]["ticket"] = TICKET
    schemas["NewExperiment"]["properties"]["features"] = FEATURES
    paths: dict[str, Any] = {}
    for entry in ENTRIES:
        paths.setdefault(entry.path, {})[entry.method] = _operation(entry)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "belated",
            "version": __version__,
            "description": "Decide now, learn when the feedback comes. An acknowledged decision or feedback survives "
            "a kill of the process, and each feedback changes the learner at most once.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas, **SCHEMAS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(entry: Entry) -> dict[str, Any]:
    parts = entry.path.removeprefix("/v1").strip("/").split("/")
    made: dict[str, Any] = {
        "operationId": "_".join([entry.method, *(part.strip("{}") for part in parts)]),
        "summary": entry.text.partition(".")[0],
        "description": entry.text,
        "responses": {
            str(answer.status): {"description": answer.text, "content": _content(answer.schema, answer.media)}
            for answer in entry.answers
        },
    }
    for status in _errors(entry):
        made["responses"].setdefault(str(status), {"description": ERRORS[status], "content": _content(_ref("Error"))})
    parameters = [
        {"name": part.strip("{}"), "in": "path", "required": True, "schema": TEXT}
        for part in entry.path.split("/")
        if part.startswith("{")
    ]
    if entry.path.endswith("/decisions"):
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": TEXT})
    if parameters:
        made["parameters"] = parameters
    if entry.body is not None:
        made["requestBody"] = {"required": not entry.path.endswith("/decisions"), "content": _content(entry.body)}
    if entry.scope is not None:
        made["security"] = [{}, {"token": [entry.scope]}]
    return made


def _errors(entry: Entry) -> list[int]:
    """The errors that a route may answer with."""
    named = "{name}" in entry.path
    possible = {
        400: entry.body is not None,
        401: entry.scope is not None,
        403: entry.scope is not None,
        404: named,
        409: named or entry.body is not None,
        422: entry.body is not None or entry.path.endswith("/statistics"),
        429: entry.scope is not None,
    }
    return [status for status in ERRORS if possible.get(status, True)]


def _content(schema: dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    return {media: {"schema": schema}}


@cache
def encoded(root: str = "") -> bytes:
    """The document as JSON; with the path under which the service is shown, if there is one."""
    return api.encode(document() | ({"servers": [{"url": root}]} if root else {}))


STYLE = b"""
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h2 { font: 600 1.05rem ui-monospace, monospace; margin: 2.2rem 0 .3rem; overflow-wrap: anywhere }
.method { display: inline-block; min-width: 3.2rem; color: #2a7de1 }
.scope { font: .8rem system-ui, sans-serif; opacity: .7; margin-left: .6rem }
pre { background: #8882; padding: .7rem 1rem; border-radius: .4rem; overflow-x: auto; white-space: pre-wrap }
td { padding: .1rem 1rem .1rem 0; vertical-align: top }
"""


@cache
def page() -> bytes:
    """The same for people."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>belated: the API</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<link rel='icon' href='dashboard/icon.svg' type='image/svg+xml'>"
        "<link rel='stylesheet' href='docs/style.css'></head><body><h1>belated: the API</h1>"
        f"<p>{escape(document()['info']['description'])} For programs: <a href='openapi.json'>/openapi.json</a>.</p>"
    ]
    for entry in ENTRIES:
        scope = f"<span class='scope'>scope {entry.scope}</span>" if entry.scope else ""
        parts.append(f"<h2><span class='method'>{entry.method.upper()}</span> {escape(entry.path)}{scope}</h2>")
        parts.append(f"<p>{escape(entry.text)}</p>")
        if entry.example:
            parts.append(f"<pre>{escape(entry.example)}</pre>")
        parts.append(_rows([(answer.status, answer.text) for answer in entry.answers]))
    parts.append("<h1>Errors</h1><pre>{&quot;error&quot;: {&quot;kind&quot;: ..., &quot;message&quot;: ...}}</pre>")
    parts.append(_rows(list(ERRORS.items())) + "</body></html>")
    return "".join(parts).encode()


def _rows(rows: list[tuple[int, str]]) -> str:
    return (
        "<table>" + "".join(f"<tr><td>{status}</td><td>{escape(text)}</td></tr>" for status, text in rows) + "</table>"
    )
