"""Whatever is sent, the service answers in order and goes on: by its own description, and by bodies without one."""

from __future__ import annotations

import json
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")
schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from schemathesis import GenerationMode  # noqa: E402
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance  # noqa: E402

from belated.ledger.database import open_store  # noqa: E402
from belated.ledger.verify import verify  # noqa: E402
from belated.service.endpoint import STATUS  # noqa: E402
from belated.service.openapi import document  # noqa: E402
from tests.postgres import cluster  # noqa: E402, F401
from tests.serving import Server  # noqa: E402

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]
FEW = settings(max_examples=12, deadline=None, suppress_health_check=QUIET)


#: One of each kind.
FEATURES = [
    {"name": "value", "kind": "number", "low": -1, "high": 1, "missing": "slot"},
    {"name": "count", "kind": "number", "mean": 0, "scale": 1e-300, "default": 0},
    {"name": "name", "kind": "category", "values": ["a", "b", 1], "unknown": "slot", "missing": "slot"},
    {"name": "learner.new", "kind": "hashed", "slots": 3, "signed": True, "missing": "slot"},
    {"name": "actions", "kind": "hashed", "slots": 3, "many": True, "default": []},
    {"name": "seed", "kind": "boolean", "missing": "slot"},
    {"name": "limits", "kind": "ignored"},
]


class Service:
    """A server with a few experiments, one of them with an open decision."""

    def __init__(self, file: str) -> None:
        self.server = Server(file)
        self.server.start()
        self.client = httpx.Client(base_url=self.server.url, timeout=30)
        for name, forecaster in (
            ("ads", "bold(exp3)"),
            ("old", "direct(ucb1)"),
            ("wide", "direct(linucb(features=2))"),
        ):
            body = {"name": name, "actions": ["a", "b", "c"], "forecaster": forecaster}
            assert self.client.post("/v1/experiments", json=body).status_code == 201
        body = {"name": "named", "actions": ["a", "b", "c"], "forecaster": "direct(linucb)", "features": FEATURES}
        assert self.client.post("/v1/experiments", json=body).status_code == 201
        self.ticket = self.decide()

    def decide(self) -> str:
        answer = self.client.post("/v1/experiments/ads/decisions")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["ticket"])

    def still_works(self) -> None:
        """It decides, learns, and every state comes out again from its events."""
        assert self.client.get("/health").json()["status"] == "ok"
        body = {"ticket": self.decide(), "value": 1.0}
        assert self.client.post("/v1/experiments/ads/feedback", json=body).json()["status"] == "applied"
        store = open_store(self.server.database)
        try:
            reports = list(verify(store))
        finally:
            store.close()
        assert reports and {report.verdict for report in reports} == {"identical"}, [str(each) for each in reports]

    def close(self) -> None:
        self.client.close()
        self.server.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(str(tmp_path_factory.mktemp("fuzz") / "a.db"))
    yield made
    made.still_works()
    made.close()


def assert_in_order(status: int, body: bytes) -> None:
    """No 500, and an error always has the same shape."""
    assert status < 500 or status == 503, body
    if status >= 400:
        error = json.loads(body)
        assert list(error) == ["error"] and set(error["error"]) == {"kind", "message"}, body
        assert STATUS[error["error"]["kind"]] == status and isinstance(error["error"]["message"], str)


# --- by its own description ---


SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]


def test_the_description_is_served(service: Service) -> None:
    assert service.client.get("/openapi.json").json() == json.loads(json.dumps(document()))
    assert len(OPERATIONS) >= 12


#: Bodies that keep to the description, and, where there are bodies, some that do not.
CASES = [(operation, GenerationMode.POSITIVE) for operation in OPERATIONS]
CASES += [(operation, GenerationMode.NEGATIVE) for operation in OPERATIONS if operation.body]


@pytest.mark.parametrize(("operation", "mode"), CASES, ids=[f"{each.label} {mode.value}" for each, mode in CASES])
def test_the_service_is_as_it_describes_itself(operation: Any, mode: Any, service: Service) -> None:
    cases = operation.as_strategy(generation_mode=mode)

    def ask(case: Any) -> None:
        excluded = [positive_data_acceptance]  # it may keep to the description and yet name no learner, no action
        response = case.call(base_url=service.server.url)
        # What is wrong with an item is its own affair; and a body may be too large to be looked at.
        if isinstance(case.body, list) or response.status_code == 413:
            excluded.append(negative_data_rejection)
        case.validate_response(response, excluded_checks=excluded)

    @FEW
    @given(case=cases)
    def run(case: Any) -> None:
        ask(case)
        if "name" in case.path_parameters:
            spoilt = case.method in ("PATCH", "DELETE") or case.path.endswith(("archive", "replacements"))
            case.path_parameters["name"] = "old" if spoilt else "ads"
            if "ticket" in case.path_parameters:
                case.path_parameters["ticket"] = service.ticket
            ask(case)

    run()


# --- by bodies without a description ---


class Wire:
    """HTTP by hand, so that anything can be sent."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), int(parts.port or 80))
        self._socket: socket.socket | None = None

    def send(self, data: bytes) -> tuple[int, bytes]:
        """The answer to these bytes: status and body; status 0 where the connection was closed without one."""
        for fresh in (False, True):
            if self._socket is None or fresh:
                self.close()
                self._socket = socket.create_connection(self._address, timeout=30)
            found = None
            with suppress(ConnectionError):  # it may have answered before it closed
                self._socket.sendall(data)
            with suppress(ConnectionError):
                found = self._read(self._socket)
            if found is not None:
                return found
            self.close()
        return 0, b""

    def _read(self, connection: socket.socket) -> tuple[int, bytes] | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines[1:])
        length = int(headers.get(b"content-length", b"0"))
        while len(body) < length and (more := connection.recv(65536)):
            body += more
        if headers.get(b"connection") == b"close":
            self.close()
        return int(lines[0].split()[1]), body

    def post(self, path: str, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> tuple[int, bytes]:
        lines = [b"POST " + path.encode() + b" HTTP/1.1", b"host: localhost", b"content-length: %d" % len(body)]
        lines += [name + b": " + value for name, value in headers or []]
        return self.send(b"\r\n".join(lines) + b"\r\n\r\n" + body)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


NUMBERS = [
    "0",
    "1",
    "-1",
    "0.5",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e308",
    "5e-324",
    "-0.0",
    "1.",
    "01",
]
NUMBERS += [str(n) for n in (2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**400)] + ["9" * 5000]
FIELDS = [
    "features",
    "kind",
    "values",
    "slots",
    "low",
    "high",
    "default",
    "missing",
    "many",
    "name",
    "actions",
    "forecaster",
    "reward_range",
    "expiry_seconds",
    "on_expiry",
    "seed",
    "limits",
    "outstanding",
]
FIELDS += [
    "retention_seconds",
    "context",
    "count",
    "contexts",
    "allowed",
    "ticket",
    "value",
    "action",
    "new",
    "learner",
]
TEXTS = [
    "",
    "ads",
    "a",
    "drop",
    "bold(exp3)",
    "bold(",
    "exp3",
    "\x00",
    "\ud800",
    "\u202e\U0001f600",
    "x" * 300,
    "' OR 1=1 --",
]

scalars = st.one_of(
    st.sampled_from(NUMBERS + ["true", "false", "null", "nul", "'a'", '"\\ud800"', '"\\u0000"', '"\\x"', ""]),
    st.sampled_from(TEXTS).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.floats().map(repr),
    st.integers().map(str),
    st.text(max_size=20).map(json.dumps),
    st.text(st.characters(), max_size=20).map(lambda text: f'"{text}"'),
)
#: JSON as text, so that it may be wrong: any keys, also twice.
texts = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: "[" + ",".join(parts) + "]"),
        st.lists(st.tuples(st.sampled_from(FIELDS), inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
        ),
    ),
    max_leaves=12,
)
deep = st.builds(
    lambda opening, depth, closing: opening * depth + closing * depth,
    st.sampled_from(["[", '{"a":', '{"value":[', '[{"ticket":']),
    st.sampled_from([10, 500, 1025, 50_000]),
    st.sampled_from(["", "]", "}", "]}"]),
)
#: Bodies that are right, of which one part becomes something else.
RIGHT: dict[str, dict[str, str]] = {
    "": {"name": '"ads"', "actions": '["a", "b"]', "forecaster": '{"name": "bold", "learner": {"name": "exp3"}}'},
    "/ads/decisions": {"count": "2", "allowed": '["a"]'},
    "/wide/decisions": {"contexts": "[[0.5, 1]]"},
    "/named/decisions": {"context": '{"value": 0.5, "name": "a", "learner": {"new": "x"}, "actions": ["p", 1]}'},
    "/ads/feedback": {"ticket": '"TICKET"', "value": "1.0"},
    "/ads/cancellations": {"ticket": '"TICKET"'},
    "/old/replacements": {"action": '"a"', "new": '"b"'},
    "/ads/actions": {"name": '"d"'},
    "/old/archive": {},
}


def changed(path: str, key: str, part: str, in_a_list: bool, twice: bool) -> tuple[str, str]:
    fields = [*RIGHT[path].items(), (key, part)] if twice else [*(RIGHT[path] | {key: part}).items()]
    body = "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"
    return path, f"[{body}, {body}]" if in_a_list else body


#: A context of features, and a feature of each kind, of which one part becomes something else.
CONTEXT = {"value": "0.5", "count": "1", "name": '"a"', "learner": '{"new": "x"}', "actions": '["p", 1]'}
CONTEXT |= {"seed": "true"}
KINDS = [{key: json.dumps(value) for key, value in each.items()} for each in FEATURES]


def spoilt_context(key: str, part: str) -> tuple[str, str]:
    body = ", ".join(f'"{name}": {value}' for name, value in (CONTEXT | {key: part}).items())
    return "/named/decisions", f'{{"context": {{{body}}}}}'


def spoilt_feature(which: int, key: str, part: str) -> tuple[str, str]:
    one = ", ".join(f'"{name}": {value}' for name, value in (KINDS[which] | {key: part}).items())
    rest = RIGHT[""] | {"name": '"more"', "forecaster": '"direct(linucb)"', "features": f"[{{{one}}}]"}
    return "", "{" + ", ".join(f'"{name}": {value}' for name, value in rest.items()) + "}"


paths = st.sampled_from(sorted(RIGHT))
bodies = st.one_of(
    st.builds(changed, paths, st.sampled_from(FIELDS), texts, st.booleans(), st.booleans()),
    st.tuples(paths, texts),
    st.tuples(paths, deep),
    st.builds(spoilt_context, st.sampled_from([*CONTEXT, "limits", "other"]), st.one_of(texts, deep)),
    st.builds(spoilt_feature, st.integers(0, len(KINDS) - 1), st.sampled_from(FIELDS), texts),
).map(lambda pair: (pair[0], pair[1].encode("utf-8", "surrogatepass"))) | st.tuples(paths, st.binary(max_size=200))
headers = st.lists(
    st.tuples(
        st.sampled_from([b"content-type", b"idempotency-key", b"authorization", b"accept", b"x", b"cookie"]),
        st.one_of(
            st.sampled_from(
                [b"", b"application/json", b"text/xml; charset=latin-9", b"Bearer x", b"k" * 201, b"\xff\xfe"]
            ),
            st.binary(max_size=30).map(lambda data: bytes(byte for byte in data if byte not in b"\r\n\x00")),
        ),
    ),
    max_size=3,
)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def fuzzed(request: pytest.FixtureRequest) -> Iterator[Service]:
    if request.param == "sqlite":
        yield request.getfixturevalue("service")
        return
    made = Service(request.getfixturevalue("cluster").new())
    yield made
    made.still_works()
    made.close()


@settings(max_examples=400, deadline=None, suppress_health_check=QUIET)
@given(bodies=st.lists(st.tuples(bodies, headers), min_size=1, max_size=3))
def test_fuzzed_bodies_get_an_answer(fuzzed: Service, bodies: list[Any]) -> None:
    wire = Wire(fuzzed.server.url)
    try:
        for (path, body), more in bodies:
            body = body.replace(b"TICKET", fuzzed.ticket.encode())
            status, answer = wire.post(f"/v1/experiments{path}", body, more)
            if status == 400 and answer.startswith(b"Invalid HTTP"):  # refused before it reached the service
                assert more
            else:
                assert status > 0
                assert_in_order(status, answer)
    finally:
        wire.close()


@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(
    name=st.one_of(st.text(max_size=30), st.sampled_from(["ads", "..", "%00", "a" * 5000])),
    rest=st.one_of(
        st.text(max_size=40), st.sampled_from(["", "statistics", "feedback", "decisions/x", "decisions/" + "0" * 32])
    ),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
)
def test_odd_addresses_get_an_answer(service: Service, name: str, rest: str, method: str) -> None:
    path = "/v1/experiments/" + quote(name.encode("utf-8", "surrogatepass"), safe="")
    answer = service.client.request(method, f"{path}/{quote(rest.encode('utf-8', 'surrogatepass'))}")
    if method != "HEAD" and answer.status_code != 307:
        assert_in_order(answer.status_code, answer.content)


def test_too_large_is_413(service: Service) -> None:
    wire = Wire(service.server.url)
    path = "/v1/experiments/ads/feedback"
    head = b"POST " + path.encode() + b" HTTP/1.1\r\nhost: localhost\r\n"
    for length in (b"1000001", b"9" * 19):  # told in advance: nothing is read
        status, answer = wire.send(head + b"content-length: " + length + b"\r\n\r\n")
        assert status == 413
        assert_in_order(status, answer)
        wire.close()
    chunk = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
    status, answer = wire.send(head + b"transfer-encoding: chunked\r\n\r\n" + chunk * 40)
    assert status == 413
    assert_in_order(status, answer)
    wire.close()
    body = b"[" + b" " * 999_000 + b"]"
    status, answer = wire.post(path, body)
    assert (status, json.loads(answer)) == (200, {"results": []})
    wire.close()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/experiments/ads/feedback HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/experiments/ads/feedback HTTP/1.1\r\nhost: localhost\r\ncontent-length: abc\r\n\r\n",
        b"POST /v1/experiments/ads/feedback HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /v1/experiments/ads/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n"
        + b"a: b\r\n" * 5000
        + b"\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\xff\xfe: \x80\r\n\r\n",
    ],
)
def test_garbage_on_the_wire_harms_nobody(service: Service, data: bytes) -> None:
    wire = Wire(service.server.url)
    status, answer = wire.send(data)
    wire.close()
    assert status < 500, answer
    assert service.client.get("/health").status_code == 200


def test_a_body_that_never_ends_harms_nobody(service: Service) -> None:
    """Half a request, and then silence or the end."""
    parts = urlsplit(service.server.url)
    half = b"POST /v1/experiments/ads/decisions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
    open_ = [socket.create_connection((str(parts.hostname), int(parts.port or 80))) for _ in range(30)]
    for each in open_:
        each.sendall(half)
    assert service.decide()
    for each in open_:
        each.close()
    assert service.decide()


@pytest.mark.soak
def test_a_million_fuzzed_bodies(fuzzed: Service) -> None:
    """Right bodies with bytes changed, cut out, doubled, or put together from parts of others."""
    tenths = 9 if not fuzzed.server.database.startswith("postgresql") else 1
    total = int(os.environ.get("BELATED_FUZZ", "1000000")) * tenths // 10
    draws = random.Random(0)
    wire = Wire(fuzzed.server.url)
    seeds = [
        (
            path,
            changed(path, draws.choice(FIELDS), draws.choice([*NUMBERS, '"a"', "[]", "{}"]), n % 3 == 0, n % 2 == 0)[1],
        )
        for n in range(200)
        for path in RIGHT
    ]
    seeds += [changed(path, *next(iter(RIGHT[path].items())), False, False) for path in RIGHT if RIGHT[path]] * 10
    known = [(path, body.replace("TICKET", fuzzed.ticket).encode()) for path, body in seeds]
    seen: Counter[int] = Counter()
    for _ in range(total):
        path, body = draws.choice(known)
        data = bytearray(body)
        for _ in range(draws.randrange(4)):
            at, kind = draws.randrange(len(data) + 1), draws.randrange(5)
            if kind == 0:
                data[at:at] = draws.randbytes(draws.randrange(1, 5))
            elif kind == 1:
                del data[at : at + draws.randrange(1, 9)]
            elif kind == 2:
                data[at:at] = draws.choice(NUMBERS).encode()
            elif kind == 3:
                data[at:at] = draws.choice(known)[1]
            elif data:
                data[at % len(data)] ^= 1 << draws.randrange(8)
        status, answer = wire.post(f"/v1/experiments{path}", bytes(data))
        seen[status] += 1
        assert 0 < status != 500, (path, bytes(data))
        assert_in_order(status, answer)
    wire.close()
    assert {200, 201, 400, 404, 422} <= set(seen), seen
