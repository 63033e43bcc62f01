"""One writer and several workers: the same answers as of one process, and what happens when one of them is away."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from belated.ledger.database import open_store  # noqa: E402
from belated.ledger.errors import Refused  # noqa: E402
from belated.ledger.items import By, Cancel, Decide, Feedback  # noqa: E402
from belated.ledger.ledger import Ledger  # noqa: E402
from belated.ledger.sqlite import SQLite  # noqa: E402
from belated.service import auth, batch, remote, writer  # noqa: E402
from belated.service.app import Service  # noqa: E402
from belated.service.auth import Guard  # noqa: E402
from belated.service.desk import Desk  # noqa: E402
from belated.service.metrics import Metrics  # noqa: E402
from belated.service.remote import Remote  # noqa: E402
from belated.service.writer import Clerk, accept  # noqa: E402
from tests.postgres import Cluster, cluster  # noqa: E402, F401
from tests.serving import Server, behind_a_socket  # noqa: E402
from tests.test_faults import plain  # noqa: E402

ADS = {"name": "ads", "actions": ["a", "b"], "forecaster": "direct(ucb1)", "seed": 1}
MADE = "/v1/experiments"
ONE = f"{MADE}/ads"
#: What is not the same twice.
RANDOM = re.compile(r'"[0-9a-f]{32}"|"(at|[a-z]+_at|lag_seconds)":[0-9.e+-]+|the decision [0-9a-f]{32}')

#: Token, method, path, body, and a key maybe. T is the ticket of the last decision.
REQUESTS: list[tuple[Any, ...]] = [
    ("boss", "POST", MADE, ADS),
    ("boss", "POST", MADE, ADS),
    ("boss", "POST", MADE, ADS | {"name": "no/name"}),
    ("boss", "POST", MADE, ADS | {"name": "x", "forecaster": "direct(nobody)"}),
    ("boss", "POST", MADE, ADS | {"name": "x", "forecaster": "direct(gradientdescent(size=2, radius=1))"}),
    ("boss", "POST", MADE, ADS | {"name": "x", "actions": ["a"] * 3}),
    ("boss", "POST", MADE, b"{no json"),
    ("boss", "POST", MADE, ADS | {"name": "few", "limits": {"outstanding": 1}}),
    ("boss", "POST", MADE, ADS | {"name": "fast", "expiry_seconds": 0.001}),
    ("boss", "POST", MADE, ADS | {"name": "lin", "forecaster": "direct(linucb(features=2))"}),
    ("boss", "GET", MADE, None),
    ("boss", "GET", ONE, None),
    ("boss", "GET", f"{MADE}/never", None),
    ("boss", "PUT", ONE, None),
    ("boss", "GET", "/v1/nothing", None),
    # tokens
    (None, "GET", MADE, None),
    ("wrong", "GET", MADE, None),
    ("ads", "GET", MADE, None),
    ("ads", "GET", f"{MADE}/few", None),
    ("ads", "POST", MADE, ADS | {"name": "y"}),
    ("ads", "GET", "/metrics", None),
    ("reader", "POST", f"{ONE}/decisions", {}),
    ("slow", "POST", f"{ONE}/decisions", {}),
    ("slow", "POST", f"{ONE}/decisions", {}),
    # decisions
    ("boss", "POST", f"{ONE}/decisions", {}),
    ("boss", "GET", f"{ONE}/decisions/T", None),
    ("boss", "GET", f"{ONE}/decisions/{'0' * 32}", None),
    ("boss", "GET", f"{ONE}/decisions/nothing", None),
    ("boss", "POST", f"{MADE}/never/decisions", {}),
    ("boss", "POST", f"{ONE}/decisions", b"["),
    ("boss", "POST", f"{ONE}/decisions", {"context": 1.5}),
    ("boss", "POST", f"{ONE}/decisions", {"count": 0}),
    ("boss", "POST", f"{ONE}/decisions", {"allowed": ["z"]}),
    ("boss", "POST", f"{ONE}/decisions", {"count": 2}, "k"),
    ("boss", "POST", f"{ONE}/decisions", {"count": 2}, "k"),
    ("boss", "POST", f"{ONE}/decisions", {"count": 3}, "k"),
    ("boss", "POST", f"{ONE}/decisions", {}, "k" * 201),
    ("boss", "POST", f"{ONE}/decisions", {"count": 5000}),
    ("boss", "POST", f"{MADE}/lin/decisions", {"contexts": [[1.0, 0.5], [0.25, 0.0]]}),
    ("boss", "POST", f"{MADE}/lin/decisions", {"context": [1.0]}),
    ("boss", "POST", f"{MADE}/few/decisions", {}),
    ("boss", "POST", f"{MADE}/few/decisions", {}),
    ("boss", "POST", f"{MADE}/fast/decisions", {}),
    ("boss", "POST", f"{MADE}/fast/cancellations", {"ticket": "T"}),
    ("boss", "POST", f"{MADE}/fast/feedback", {"ticket": "T", "value": 1}),
    # feedback
    ("boss", "POST", f"{ONE}/decisions", {}),
    ("boss", "POST", f"{ONE}/feedback", {"ticket": "T", "value": 2}),
    ("boss", "POST", f"{ONE}/feedback", {"ticket": "T", "value": "a"}),
    ("boss", "POST", f"{ONE}/feedback", {"ticket": "T", "value": 1}),
    ("boss", "POST", f"{ONE}/feedback", {"ticket": "T", "value": 1}),
    ("boss", "POST", f"{ONE}/feedback", {"ticket": "T", "value": 0}),
    ("boss", "POST", f"{ONE}/cancellations", {"ticket": "T"}),
    ("boss", "POST", f"{ONE}/feedback", [{"ticket": "T", "value": 9}, {"ticket": "x", "value": 1}, 3]),
    ("boss", "POST", f"{ONE}/feedback", [{"ticket": "x", "value": 1}] * 5000),
    ("boss", "POST", f"{ONE}/decisions", {}),
    ("boss", "POST", f"{ONE}/cancellations", [{"ticket": "T"}, {}]),
    ("boss", "POST", f"{ONE}/feedback", {"ticket": "T", "value": 1}),
    ("boss", "POST", f"{ONE}/feedback", b" " * 1_000_001),
    # changes
    ("boss", "PATCH", ONE, {"on_expiry": 3}),
    ("boss", "PATCH", ONE, {"expiry_seconds": 1000}),
    ("boss", "POST", f"{ONE}/replacements", {"action": "z", "new": "c"}),
    ("boss", "POST", f"{ONE}/replacements", {"action": "a", "new": "b"}),
    ("boss", "POST", f"{ONE}/replacements", {"action": "a", "new": "c"}),
    ("boss", "POST", f"{ONE}/decisions", {"allowed": ["a"]}),
    ("boss", "POST", f"{ONE}/actions", {"name": "b"}),
    ("boss", "POST", f"{ONE}/actions", {"name": "d"}),
    ("boss", "POST", f"{ONE}/decisions", {"allowed": ["d"]}),
    ("boss", "POST", f"{ONE}/archive", None),
    ("boss", "POST", f"{ONE}/decisions", {}),
    ("boss", "POST", f"{ONE}/actions", {"name": "e"}),
    ("boss", "POST", f"{ONE}/unarchive", None),
    ("boss", "DELETE", f"{MADE}/fast", None),
    ("boss", "GET", f"{ONE}/statistics", None),
    ("boss", "GET", "/v1/overview", None),
    ("ads", "GET", "/v1/overview", None),
    ("boss", "GET", "/v1/log", None),
    ("boss", "GET", "/v1/log?limit=1000", None),
    ("boss", "GET", "/v1/log?limit=two", None),
    ("boss", "GET", "/v1/log?limit=1&limit=2", None),
    ("ads", "GET", "/v1/log", None),
    ("reader", "GET", "/v1/log", None),
    ("boss", "DELETE", f"{MADE}/few", None),
    ("boss", "POST", f"{MADE}/few/decisions", {}),
    ("boss", "DELETE", f"{MADE}/few", None),
    (None, "GET", "/health", None),
    (None, "GET", "/ready", None),
]
SCOPES: dict[str, tuple[Any, ...]] = {
    "boss": (["admin"],),
    "ads": (["admin"], ["ads"]),
    "reader": (["read"],),
    "slow": (["decide"], None, None, 0.01),
}


@pytest.fixture(scope="module")
def answers(cluster: Cluster) -> Iterator[Callable[[int], list[tuple[int, str]]]]:  # noqa: F811
    """What so many workers answer."""

    def asked(workers: int) -> list[tuple[int, str]]:
        server = Server(cluster.new(), workers, "--require-token")
        with closing(open_store(server.database, serve=True)) as store:
            tokens = {name: auth.create(store, name, *given) for name, given in SCOPES.items()}
        server.start()
        try:
            with httpx.Client(base_url=server.url, timeout=30) as http:
                said = [ask(http, tokens | {"wrong": "belated_x"}, *each) for each in REQUESTS]
                boss = {"authorization": f"Bearer {tokens['boss']}"}
                deadline = time.monotonic() + 10
                while batches(http.get("/metrics", headers=boss).text) < 20:  # the writer's, whoever is asked
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
        finally:
            server.stop()
        assert server.process is not None and server.process.returncode == 0
        return said

    yield asked


def batches(numbers: str) -> int:
    found = re.search(r"^belated_batch_size_count (\d+)", numbers, re.MULTILINE)
    return int(found[1]) if found is not None else 0


def ask(http: Any, tokens: dict[str, str], token: str | None, method: str, path: str, body: Any, *key: str) -> Any:
    headers = {"idempotency-key": key[0]} if key else {}
    if token is not None:
        headers["authorization"] = f"Bearer {tokens[token]}"
    last = getattr(http, "last", "")
    given: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {"json": filled(body, last)}
    answer = http.request(method, path.replace("/T", f"/{last}"), headers=headers, **given)
    if answer.status_code == 201 and "ticket" in answer.json():
        http.last = answer.json()["ticket"]
        time.sleep(0.01)  # for what expires
    text = re.sub(r'"replicas":\[[^]]*\]', "", RANDOM.sub(hidden, answer.text))
    if path.startswith("/v1/log") and answer.status_code == 200:  # failed logins are written when there is time
        text = str([each["what"] for each in answer.json()["lines"] if each["what"] != "login failed"])
    if path.endswith(("statistics", "overview")):
        text = re.sub(r"\d+\.\d+(e[+-]\d+)?", "(seconds, maybe)", text)
    return answer.status_code, answer.headers.get("retry-after"), text


def filled(body: Any, ticket: str) -> Any:
    """With the last ticket in place of T."""
    if isinstance(body, list):
        return [filled(each, ticket) for each in body]
    return body | {"ticket": ticket} if isinstance(body, dict) and body.get("ticket") == "T" else body


def hidden(found: re.Match[str]) -> str:
    return f"({found[1] or 'a ticket'})"


def test_workers_are_accepted_again_once_files_may_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "SWEEP", 0.01)
    failures = [OSError(errno.EMFILE, "Too many open files")] * 3

    async def run() -> None:
        loop, desk = asyncio.get_running_loop(), Desk(Ledger(open_store(str(tmp_path / "a.db"), serve=True)))
        real = loop.sock_accept

        async def accept(listening: socket.socket) -> Any:
            if failures:
                raise failures.pop()
            return await real(listening)

        monkeypatch.setattr(loop, "sock_accept", accept)
        async with behind_a_socket(desk, tmp_path / "writer") as remote, remote.open(Metrics()):
            assert await remote.trouble() is None

    asyncio.run(run())
    assert not failures and "a worker waits: Too many open files" in caplog.text


def test_three_workers_answer_as_one_process_does(answers: Callable[[int], list[Any]]) -> None:
    one, three = answers(1), answers(3)
    for request, alone, together in zip(REQUESTS, one, three, strict=True):
        assert alone == together, request
    kinds = {found for _, _, text in one for found in re.findall(r'"kind":"([a-z_]+)"', text)}
    assert kinds >= {
        "malformed", "unauthorized", "forbidden", "unknown_experiment", "unknown_ticket", "not_found",
        "method_not_allowed", "conflict", "cancelled", "expired", "closed", "exists", "archived", "too_large",
        "invalid", "unsupported", "key_reused", "too_many_outstanding", "too_fast",
    }  # fmt: skip


# --- the socket ---


def with_remote(folder: Path, work: Callable[[Remote, Desk], Any]) -> Any:
    """A desk with the experiment ads, and the same as another process has it."""

    async def inside() -> Any:
        with closing(SQLite(folder / "a.db", serve=True)) as store:
            desk = Desk(plain(store))
            async with behind_a_socket(desk, folder / "writer") as far, far.open(Metrics()):
                await far.create(b'{"name": "ads", "actions": ["a", "b"], "forecaster": "bold(exp3)"}', By())
                return await work(far, desk)

    return asyncio.run(inside())


def test_a_hundred_thousand_items_go_over_the_socket(tmp_path: Path) -> None:
    async def work(far: Remote, desk: Desk) -> None:
        ads = far.find("ads")
        entries = [(number.to_bytes(16, "big"), 0.5) for number in range(100_000)]
        unknown = await far.submit_list(Feedback(ads, entries))
        assert len(unknown) == 100_000 and {each.kind for each in unknown} == {"unknown_ticket"}
        several = [Cancel(ads, [None] * 3000), Decide(ads, [None] * 5000), Decide(ads, [None])]
        none, made, one = await asyncio.gather(*(far.submit_list(each) for each in several))
        assert len(none) == 3000 and len(one) == 1
        assert sorted(each.round for each in [*made, *one]) == list(range(1, 5002))

    with_remote(tmp_path, work)


def test_what_is_busy_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(far: Remote, desk: Desk) -> None:
        monkeypatch.setattr(batch, "WAITING", 5)
        asked = [far.submit_list(Decide(far.find("ads"), [None] * 3)) for _ in range(20)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(each) for each in answers} == {list, batch.Busy}

    with_remote(tmp_path, work)


def test_what_is_deleted_is_not_found_any_more(tmp_path: Path) -> None:
    async def work(far: Remote, desk: Desk) -> None:
        ads = far.find("ads")
        assert (await far.submit_list(Decide(ads, [None])))[0].round == 1
        await far.delete("ads", By())
        with pytest.raises(Refused, match="there is no experiment called 'ads'"):
            far.find("ads")
        with pytest.raises(Refused, match="ads was deleted"):
            await far.submit_list(Decide(ads, [None]))
        await far.create(b'{"name": "ads", "actions": ["c", "d"], "forecaster": "bold(exp3)"}', By())
        assert far.find("ads").actions == ("c", "d") and far.find("ads").id != ads.id
        with pytest.raises(Refused, match="ads was deleted"):
            await far.submit_list(Decide(ads, [None]))

    with_remote(tmp_path, work)


def test_a_failure_is_told_and_the_next_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(far: Remote, desk: Desk) -> None:
        def fail() -> Any:
            raise ZeroDivisionError("of all things")

        monkeypatch.setattr(desk, "_numbers", fail)
        with pytest.raises(Refused, match=r"^this request failed$") as told:
            await far.numbers()
        assert told.value.kind == "internal"
        with pytest.raises(Refused, match=r"^this request failed$"):
            await far._ask("__init__")  # what is no word of the desk
        monkeypatch.setattr(desk, "_numbers", lambda: fail)  # which cannot be sent: the line is begun anew
        with pytest.raises(Refused, match="the writer does not answer"):
            await far.numbers()
        monkeypatch.undo()
        while await far.trouble() is not None:
            await asyncio.sleep(0.02)
        assert (await far.numbers()).usable == {"ads": True}

    with_remote(tmp_path, work)


def test_while_the_writer_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone, then another comes: nobody hangs, and nothing has to be started again."""
    go_on = threading.Event()

    async def inside() -> None:
        async with AsyncExitStack() as stack:
            store = stack.enter_context(closing(SQLite(tmp_path / "a.db", serve=True)))
            listening = stack.enter_context(closing(socket.socket(socket.AF_UNIX)))
            listening.bind(str(tmp_path / "writer"))
            listening.listen()
            desk, clerks = Desk(plain(store)), set[Clerk]()
            await stack.enter_async_context(desk.open(Metrics()))
            stack.callback(go_on.set)
            first = asyncio.create_task(accept(desk, listening, clerks))
            service = Service(Remote(str(tmp_path / "writer")), Guard(None, False))
            application = service.application()
            await stack.enter_async_context(service.lifespan())
            client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost")
            http = await stack.enter_async_context(client)
            assert (await http.post(MADE, json=ADS)).status_code == 201
            serve = desk.ledger.serve
            monkeypatch.setattr(desk.ledger, "serve", lambda items: (serve(items), go_on.wait())[0])
            asked = []
            for body in ({"count": 3}, {}, {}):
                asked.append(asyncio.create_task(http.post(f"{ONE}/decisions", json=body)))
                await asyncio.sleep(0.1)
            first.cancel()
            for clerk in list(clerks):
                clerk.line.close()
            lost = await asyncio.gather(*asked)
            for answer in [*lost, await http.post(f"{ONE}/decisions", json={}), await http.get(f"{ONE}/statistics")]:
                assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
                assert answer.json()["error"] == {"kind": "storage", "message": remote.AWAY}
            assert not clerks and (await http.get("/health")).status_code == 200
            ready = await http.get("/ready")
            assert ready.status_code == 503 and ready.json()["status"].startswith("the writer is away")
            assert "belated_database_up 0.0" in (await http.get("/metrics")).text
            go_on.set()
            second = asyncio.create_task(accept(desk, listening, clerks))
            while (await http.get("/ready")).status_code == 503:
                await asyncio.sleep(0.02)
            made = await http.post(f"{ONE}/decisions", json={})
            assert (
                made.status_code == 201 and made.json()["round"] == 4
            )  # three were decided, and nobody told; the others were not begun
            second.cancel()

    asyncio.run(inside())
