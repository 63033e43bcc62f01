"""Requests and answers as HTTP has them: one after the other, in pieces, cut off."""

import asyncio
import gc
import types

import pytest

pytest.importorskip("uvicorn")

from uvicorn import Config
from uvicorn.server import ServerState

from belated.service.connections import Connection
from belated.service.health import CONNECTION

GET = b"GET /a%20b?c=d HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def echo(scope, receive, send):
    """Say what was asked, once all of it is there."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    said = b"%s %s %d" % (scope["method"].encode(), scope["path"].encode(), len(body))
    headers = [(b"content-length", b"%d" % len(said))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": said})


def asked(*sent, application=echo, keep_alive=5, wait=0.0):
    """All that is answered to what is sent piece by piece, until the connection is closed, or one ends it."""

    async def work():
        config = Config(application, http=Connection, lifespan="off", log_config=None, timeout_keep_alive=keep_alive)
        config.load()
        state = ServerState()
        state.default_headers = [(b"date", b"today")]
        made = lambda: Connection(config=config, server_state=state, app_state={})  # noqa: E731
        server = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        heard = b""
        for piece in sent:
            writer.write(piece)
            await writer.drain()
            try:
                heard += await asyncio.wait_for(reader.read(1 << 20), 0.2)
            except TimeoutError:
                continue
        await asyncio.sleep(wait)
        for connection in list(state.connections):
            connection.shutdown()
        heard += await asyncio.wait_for(reader.read(), 5)
        writer.close()
        server.close()
        for _ in range(50):
            if not state.tasks and not state.connections:
                return heard
            await asyncio.sleep(0.02)
        raise AssertionError("something is left")

    return asyncio.run(work())


def test_an_answer_is_whole():
    assert asked(GET) == b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: 10\r\n\r\nGET /a b 0"
    assert asked(GET.replace(b"GET", b"HEAD")).endswith(b"content-length: 11\r\n\r\n")


def test_requests_may_come_before_answers():
    post = b"POST /%d HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc"
    heard = asked(b"".join(post % n for n in range(5)) + (post % 5)[:-2], b"bc")
    places = [heard.index(b"POST /%d 3" % n) for n in range(6)]
    assert places == sorted(places)


def test_bodies_come_in_pieces():
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\n"
    assert b"POST / 6" in asked(head + b"content-length: 6\r\n\r\nab", b"cd", b"ef")
    chunked = head + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n"
    assert b"POST / 5" in asked(chunked, b"3\r\ncde\r\n", b"0\r\n\r\n")
    assert b"POST / 3000000" in asked(head + b"content-length: 3000000\r\n\r\n" + b"x" * 3_000_000)


def test_who_waits_to_send_the_body_is_told_to():
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    heard = asked(head, b"ab")
    assert heard.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n") and heard.endswith(b"POST / 2")


@pytest.mark.parametrize("asks", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n" + GET])
def test_the_last_answer_says_so(asks):
    heard = asked(asks)
    assert heard.count(b"HTTP/1.1 200") == 1 and b"\r\nconnection: close\r\n" in heard


def test_nobody_speaks_another_language_here():
    asks = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    assert asked(asks, GET).count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("how", ["raises", "says nothing", "is cut off"])
def test_an_application_that_fails_is_answered_for(how):
    async def broken(scope, receive, send):
        if how == "raises":
            raise OSError("the disk is gone")
        if how == "is cut off":
            raise asyncio.CancelledError

    heard = asked(GET, application=broken)
    assert heard.startswith(b"HTTP/1.1 500 ") and b'"kind": "internal"' in heard and b"disk" not in heard


def test_a_connection_that_rests_ends():
    assert asked(b"", wait=0.4, keep_alive=0.1) == b""
    heard = asked(GET, wait=0.4, keep_alive=0.1)
    assert heard.count(b"HTTP/1.1 200") == 1


def test_an_answer_may_be_heard_slowly():
    """Who takes nothing of large answers gets the next once there is room."""
    much = b"x" * 5_000_000

    async def large(scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(much))]})
        await send({"type": "http.response.body", "body": much})

    assert asked(GET * 3, application=large).count(much) == 3


def test_requests_leave_no_circles():
    """What is found by nobody but the garbage collection costs more than to answer."""
    kept = types.SimpleNamespace(count=0)

    async def counted(scope, receive, send):
        CONNECTION.set(receive)
        await echo(scope, receive, send)
        kept.count += 1
        if kept.count == 20:
            gc.collect()
            gc.disable()
        if kept.count == 60:
            kept.found = gc.collect()
            gc.enable()

    asked(*[GET] * 60, application=counted)
    assert kept.found < 40
