"""The table of the service's meaning, row by row, over HTTP and on both databases: exact answers, and exact effects.

An effect is what the database holds: where it is "none", every learner state, event and decision stays byte for byte.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")

from belated.ledger.database import open_store  # noqa: E402
from belated.ledger.experiment import Experiment  # noqa: E402
from belated.ledger.player import Player, make_instance  # noqa: E402
from belated.ledger.store import Store  # noqa: E402
from belated.ledger.verify import verify  # noqa: E402
from tests.postgres import cluster  # noqa: E402, F401
from tests.rows import all_decisions, all_events, states_now  # noqa: E402
from tests.serving import Server  # noqa: E402


class Asked:
    """A running service, a client for it, and a look at what is stored."""

    def __init__(self, database: str, workers: int) -> None:
        self.server = Server(database, workers)
        self.server.start()
        self.http = httpx.Client(base_url=f"{self.server.url}/v1", timeout=30)
        self.store: Store = open_store(database)

    def create(self, name: str, forecaster: str = "bold(exp3)", **more: Any) -> None:
        body = {"name": name, "actions": ["a", "b", "c"], "forecaster": forecaster, "seed": 1} | more
        assert self.http.post("/experiments", json=body).status_code == 201

    def decide(self, name: str) -> str:
        answer = self.http.post(f"/experiments/{name}/decisions", json={})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["ticket"])

    def feed(self, name: str, ticket: Any, value: Any) -> tuple[int, str]:
        """The status, and the word: applied, ..., or the kind of the error."""
        return said(self.http.post(f"/experiments/{name}/feedback", json={"ticket": ticket, "value": value}))

    def stored(self, name: str) -> tuple[Any, ...]:
        """Every state of an experiment, as its log has it; every event and decision."""
        with self.store.read() as session:
            known = next(Experiment.from_row(row) for row in session.experiments() if row.name == name)
            states = states_now(session, known, Player(known, make_instance(known, plain=True)))
            return states, all_events(session, known.id), all_decisions(session, known.id)

    def statistics(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/experiments/{name}/statistics").json()
        return found

    def remarks(self, name: str) -> list[tuple[str, str]]:
        """What is on record and was not learned."""
        sql = "SELECT r.kind, r.value FROM remarks r JOIN experiments e ON e.id = r.experiment WHERE e.name = "
        with self.store.read() as session:
            mark = "?" if self.server.workers == 1 else "%s"
            return [tuple(row) for row in session.run(f"{sql}{mark} ORDER BY r.id", (name,))]  # type: ignore

    def until_swept(self, name: str, expired: int) -> None:
        """No request but for the statistics: the wall clock does it."""
        deadline = time.monotonic() + 15
        while self.statistics(name)["expired"] < expired:
            assert time.monotonic() < deadline, "nothing expires"
            time.sleep(0.1)


def said(answer: Any) -> tuple[int, str]:
    body = answer.json()
    return answer.status_code, body["error"]["kind"] if "error" in body else body.get("status", "")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def asked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    if request.param == "sqlite":
        made = Asked(str(tmp_path_factory.mktemp("meaning") / "a.db"), 1)
    else:
        made = Asked(request.getfixturevalue("cluster").new(), 2)
    yield made
    reports = list(verify(made.store))
    made.http.close()
    made.store.close()
    made.server.stop()
    assert {report.verdict for report in reports} == {"identical"}, [str(report) for report in reports]


def test_first_feedback_in_any_order(asked: Asked) -> None:
    asked.create("first")
    tickets = [asked.decide("first") for _ in range(4)]
    for done, ticket in enumerate(reversed(tickets), 1):
        before, _, _ = asked.stored("first")
        assert asked.feed("first", ticket, 0.5) == (200, "applied")
        states, events, decisions = asked.stored("first")
        (row,) = (row for row in decisions if row.ticket.hex() == ticket)
        old, new = before[row.instance], states[row.instance]
        assert (row.state, row.value) == ("closed", "0.5")
        assert not old.free and new.free and new.data != old.data and new.seq == old.seq + 1
        assert [event.ticket.hex() for event in events if event.kind == "feedback"].count(ticket) == 1
        assert [s for s in states if s.instance != row.instance] == [s for s in before if s.instance != row.instance]
        assert asked.statistics("first")["outstanding"] == 4 - done


def test_the_same_value_again(asked: Asked) -> None:
    asked.create("again")
    ticket = asked.decide("again")
    assert asked.feed("again", ticket, 1) == (200, "applied")
    before = asked.stored("again")
    assert [asked.feed("again", ticket, value) for value in (1, 1.0)] == [(200, "duplicate")] * 2
    assert asked.stored("again") == before
    assert asked.statistics("again")["duplicates"] == 2


def test_another_value_for_a_closed_ticket(asked: Asked) -> None:
    asked.create("other")
    ticket = asked.decide("other")
    assert asked.feed("other", ticket, 1.0) == (200, "applied")
    before = asked.stored("other")
    assert asked.feed("other", ticket, 0.0) == (409, "conflict")
    assert asked.stored("other") == before
    assert asked.remarks("other") == [("conflict", "0.0")]
    now = asked.http.get(f"/experiments/other/decisions/{ticket}").json()
    assert [(each["kind"], each["value"]) for each in now["remarks"]] == [("conflict", 0.0)]
    assert (now["state"], now["value"]) == ("closed", 1.0) and asked.statistics("other")["conflicts"] == 1


def test_after_expiry_swept_or_not(asked: Asked) -> None:
    asked.create("late", expiry_seconds=0.2)
    ticket = asked.decide("late")
    time.sleep(0.25)
    assert asked.feed("late", ticket, 1.0) == (202, "late")
    assert asked.http.get(f"/experiments/late/decisions/{ticket}").json()["state"] == "expired"
    asked.until_swept("late", 1)
    before = asked.stored("late")
    assert asked.feed("late", ticket, 0.0) == (202, "late")
    assert asked.stored("late") == before
    assert asked.remarks("late") == [("late", "1.0"), ("late", "0.0")] and asked.statistics("late")["late"] == 2
    assert said(asked.http.post("/experiments/late/cancellations", json={"ticket": ticket})) == (409, "expired")


@pytest.mark.parametrize(("name", "on_expiry"), [("dropped", "drop"), ("default", 0.75)])
def test_feedback_that_never_comes(asked: Asked, name: str, on_expiry: Any) -> None:
    asked.create(name, expiry_seconds=0.3, on_expiry=on_expiry)
    asked.decide(name)
    (before,), _, _ = asked.stored(name)
    asked.until_swept(name, 1)
    time.sleep(1.2)  # another sweep
    (after,), events, (row,) = asked.stored(name)
    assert not before.free and after.free and row.state == "expired"
    assert (after.data == before.data) == (on_expiry == "drop")
    assert [event.kind for event in events] == ["decide", "drop" if on_expiry == "drop" else "default"]
    assert row.value == (None if on_expiry == "drop" else "0.75")
    assert asked.statistics(name)["outstanding"] == 0


def test_unknown_and_foreign_tickets(asked: Asked) -> None:
    asked.create("mine")
    asked.create("theirs")
    foreign = asked.decide("theirs")
    before = asked.stored("mine"), asked.stored("theirs")
    wrong: list[Any] = ["0" * 32, foreign, "", "zz", "0" * 33, 17, None, [], {"a": 1}, True, "é" * 32]
    assert [asked.feed("mine", ticket, 1.0) for ticket in wrong] == [(404, "unknown_ticket")] * len(wrong)
    for ticket in wrong:
        answer = asked.http.post("/experiments/mine/cancellations", json={"ticket": ticket})
        assert said(answer) == (404, "unknown_ticket")
    assert said(asked.http.get(f"/experiments/mine/decisions/{foreign}")) == (404, "unknown_ticket")
    assert (asked.stored("mine"), asked.stored("theirs")) == before
    assert asked.statistics("mine")["unknown"] == 2 * len(wrong) and asked.statistics("theirs")["unknown"] == 0


def test_values_that_are_none(asked: Asked) -> None:
    asked.create("values", reward_range=[-1, 2])
    ticket = asked.decide("values")
    before = asked.stored("values")
    for value in ("NaN", "Infinity", "-Infinity", "1e999", "2.0000001", "-1.5", "true", '"1"', "null", "[1]", "{}"):
        content = f'{{"ticket": "{ticket}", "value": {value}}}'
        assert said(asked.http.post("/experiments/values/feedback", content=content)) == (422, "invalid"), value
    assert said(asked.http.post("/experiments/values/feedback", json={"ticket": ticket})) == (422, "invalid")
    assert asked.stored("values") == before and asked.remarks("values") == []
    assert asked.feed("values", ticket, 2) == (200, "applied")


def test_a_decision_retried_with_its_key(asked: Asked) -> None:
    asked.create("keys")
    headers = {"Idempotency-Key": "k"}
    first = asked.http.post("/experiments/keys/decisions", json={"count": 2}, headers=headers)
    before = asked.stored("keys")
    again = asked.http.post("/experiments/keys/decisions", json={"count": 2}, headers=headers)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)
    assert said(asked.http.post("/experiments/keys/decisions", json={"count": 3}, headers=headers)) == (
        422,
        "key_reused",
    )
    assert said(asked.http.post("/experiments/keys/decisions", json={}, headers=headers)) == (422, "key_reused")
    assert asked.stored("keys") == before
    asked.http.post("/experiments/keys/archive")
    assert asked.http.post("/experiments/keys/decisions", json={"count": 2}, headers=headers).content == first.content


@pytest.mark.parametrize("path", ["decisions", "feedback", "cancellations", "replacements", "actions"])
def test_bodies_that_are_none(asked: Asked, path: str) -> None:
    name = f"bodies-{path}"
    asked.create(name)
    before = asked.stored(name)
    for content in (
        b"{",
        b'{"a": }',
        b"\xff",
        b'{"ticket": "\xff"}',
        b"[" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,  # deeper than any Python reads
    ):
        assert said(asked.http.post(f"/experiments/{name}/{path}", content=content)) == (400, "malformed"), content[:20]
    assert said(asked.http.post(f"/experiments/{name}/{path}", content=b" " * 1_000_001)) == (413, "too_large")
    assert asked.stored(name) == before


def test_too_many_outstanding(asked: Asked) -> None:
    asked.create("limit", limits={"outstanding": 3})
    tickets = [asked.decide("limit") for _ in range(3)]
    before = asked.stored("limit")
    assert said(asked.http.post("/experiments/limit/decisions", json={})) == (429, "too_many_outstanding")
    assert asked.stored("limit") == before
    assert asked.feed("limit", tickets[0], 1.0) == (200, "applied")
    answers = [said(asked.http.post("/experiments/limit/decisions", json={}))[0] for _ in range(3)]
    assert answers == [201, 429, 429]  # at once, whichever worker answers


def test_a_full_queue(asked: Asked) -> None:
    asked.create("full", "direct(ucb1)")

    def many(_: int) -> Any:
        return httpx.post(f"{asked.server.url}/v1/experiments/full/decisions", json={"count": 10_000}, timeout=60)

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(many, range(12)))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused and {said(answer) for answer in refused} == {(503, "busy")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    made = [answer for answer in answers if answer.status_code == 201]
    assert len(made) + len(refused) == len(answers)
    assert asked.statistics("full")["decisions"] == 10_000 * len(made) > 0


def test_one_bad_item_never_harms_the_others(asked: Asked) -> None:
    asked.create("list")
    one, two, three = (asked.decide("list") for _ in range(3))
    body = [
        {"ticket": one, "value": 1.0},
        {"ticket": two, "value": 7.0},
        {"ticket": "no", "value": 1.0},
        {"ticket": one, "value": 1.0},
        {"ticket": one, "value": 0.0},
        "?",
        {"ticket": three, "value": 0.0},
    ]
    answer = asked.http.post("/experiments/list/feedback", json=body)
    results = answer.json()["results"]
    words = [each["error"]["kind"] if each["status"] == "error" else each["status"] for each in results]
    assert answer.status_code == 200
    assert words == ["applied", "invalid", "unknown_ticket", "duplicate", "conflict", "invalid", "applied"]
    assert asked.statistics("list")["outstanding"] == 1


def test_items_that_can_hardly_be_read_are_refused_by_themselves(asked: Asked) -> None:
    asked.create("odd")
    ticket = asked.decide("odd")
    body = f'''[{{"ticket": "\\ud800", "value": 1}}, {{"ticket": "{ticket}", "value": {"9" * 5000}}},
        {{"ticket": "{ticket}", "value": 1}}]'''
    answer = asked.http.post("/experiments/odd/feedback", content=body)
    assert answer.status_code == 200
    said = [each["error"]["kind"] if "error" in each else each["status"] for each in answer.json()["results"]]
    assert said == ["unknown_ticket", "invalid", "applied"]
    assert asked.http.post("/experiments/odd/feedback", content=r'{"ticket": "\ud800", "value": 1}').status_code == 404


def test_a_cancelled_decision(asked: Asked) -> None:
    asked.create("cancel")
    ticket = asked.decide("cancel")
    (before,), _, _ = asked.stored("cancel")
    assert said(asked.http.post("/experiments/cancel/cancellations", json={"ticket": ticket})) == (200, "cancelled")
    (after,), events, _ = asked.stored("cancel")
    assert after.free and after.data == before.data and [event.kind for event in events] == ["decide", "cancel"]
    assert said(asked.http.post("/experiments/cancel/cancellations", json={"ticket": ticket})) == (200, "cancelled")
    assert asked.feed("cancel", ticket, 1.0) == (409, "cancelled")
    assert asked.stored("cancel")[:2] == ([after], events)
    assert asked.http.get(f"/experiments/cancel/decisions/{ticket}").json()["state"] == "cancelled"
