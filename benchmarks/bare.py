"""The least that a durable service does, to compare with: `python bare.py FILE` serves POST /decisions.

Starlette and msgspec on uvicorn; a thread gathers the requests that wait, writes two rows for each and commits once, on
SQLite with WAL and synchronous=FULL. No learner, no look-up, no index but the rows' own numbers.
"""

from __future__ import annotations

import asyncio
import queue
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Asked(msgspec.Struct):
    context: float | None = None


class Answer(msgspec.Struct):
    ticket: str
    action: int
    name: str
    probability: float
    round: int


decode = msgspec.json.Decoder(Asked).decode
encode = msgspec.json.Encoder().encode
waiting: queue.SimpleQueue[tuple[Asked, asyncio.Future[Any]]] = queue.SimpleQueue()


def write(file: str, loop: asyncio.AbstractEventLoop) -> None:
    """The thread that writes."""
    database = sqlite3.connect(file, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA wal_autocheckpoint = 4000",
        "CREATE TABLE decisions (id INTEGER PRIMARY KEY, ticket BLOB, action INTEGER, probability REAL, at REAL)",
        "CREATE TABLE events (id INTEGER PRIMARY KEY, kind TEXT, ticket BLOB, action INTEGER, at REAL)",
    ):
        database.execute(statement)
    last = 0
    while True:
        batch = [waiting.get()]
        while not waiting.empty():
            batch.append(waiting.get_nowait())
        now = time.time()
        tickets = [secrets.token_bytes(16) for _ in batch]
        database.execute("BEGIN IMMEDIATE")
        database.executemany(
            "INSERT INTO decisions (ticket, action, probability, at) VALUES (?, ?, ?, ?)",
            [(ticket, 1, 0.5, now) for ticket in tickets],
        )
        database.executemany(
            "INSERT INTO events (kind, ticket, action, at) VALUES (?, ?, ?, ?)",
            [("decide", ticket, 1, now) for ticket in tickets],
        )
        database.execute("COMMIT")
        answers = [Answer(ticket.hex(), 1, "b", 0.5, last + n) for n, ticket in enumerate(tickets, 1)]
        last += len(batch)
        loop.call_soon_threadsafe(tell, batch, answers)


def tell(batch: list[tuple[Asked, asyncio.Future[Any]]], answers: list[Answer]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        future.set_result(answer)


async def decide(request: Request) -> Response:
    asked = decode(await request.body())
    future = asyncio.get_running_loop().create_future()
    waiting.put((asked, future))
    return Response(encode(await future), 201, media_type="application/json")


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    threading.Thread(target=write, args=(sys.argv[1], asyncio.get_running_loop()), daemon=True).start()
    yield


class Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"bare at http://127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    sys.setswitchinterval(0.001)
    app = Starlette(routes=[Route("/decisions", decide, methods=["POST"])], lifespan=lifespan)
    Server(uvicorn.Config(app, port=0, access_log=False, log_config=None)).run()
