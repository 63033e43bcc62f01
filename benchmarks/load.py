"""Load for an HTTP service, in a process of its own: `python load.py URL BODY CONNECTIONS SECONDS RATE [EXPERIMENTS]`.

With rate 0 every connection sends its next request as soon as it has an answer. With a rate, requests fall due at
random times (a Poisson process) whatever the service does, and latency counts from when a request was due. The same
POST every time; anything but 2xx is an error. Prints one line of JSON.

With EXPERIMENTS, the number N in the URL's `{}` goes from 0 to that, at random, and each decision is followed by its
feedback on the same connection; `decisions` counts all of them, those before measuring begins too.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections import deque
from typing import Any
from urllib.parse import urlsplit

#: Seconds before measuring begins.
WARM = 1.0


def length_of(head: bytes) -> int:
    """How many bytes of body an answer has."""
    at = head.lower().find(b"content-length:")
    return int(head[at + 15 : head.index(b"\r\n", at)])


class Load:
    """Connections without blocking, in one loop."""

    def __init__(self, url: str, body: bytes, connections: int, experiments: int = 0) -> None:
        where = urlsplit(url)
        assert where.hostname is not None and where.port is not None
        self.host = where.netloc
        self.paths = [where.path.replace("{}", str(number)) for number in range(experiments or 1)]
        self.requests = [self.post(path, body) for path in self.paths]
        self.pairs = bool(experiments)
        self.draws = random.Random(0)
        self.deciding: dict[int, int] = {}  # the experiment that a connection was asked for
        self.decisions = 0
        self.sockets: dict[int, socket.socket] = {}
        for _ in range(connections):
            one = socket.create_connection((where.hostname, where.port))
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setblocking(False)
            self.sockets[one.fileno()] = one
        self.free = deque(self.sockets)
        self.sent: dict[int, float] = {}
        self.partial: dict[int, tuple[bytes, int]] = {}
        self.errors = 0

    def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def send(self, number: int, due: float, ticket: bytes = b"") -> None:
        """A decision; or the feedback for a ticket."""
        self.sent[number] = due
        if ticket:
            path = self.paths[self.deciding.pop(number)].replace("/decisions", "/feedback")
            self.sockets[number].send(
                self.post(path, b'{"ticket":"%s","value":%d}' % (ticket, self.draws.random() < 0.5))
            )
            return
        one = int(self.draws.random() * len(self.requests))
        if self.pairs:
            self.deciding[number] = one
        self.sockets[number].send(self.requests[one])

    def finished(self, number: int) -> bytes:
        """Read; the answer once it is complete."""
        data = self.sockets[number].recv(1 << 18)
        if not data:
            raise SystemExit("the service closed a connection")
        known, whole = self.partial.pop(number, (b"", 0))
        known += data
        if not whole:
            end = known.find(b"\r\n\r\n")
            if end < 0:
                self.partial[number] = known, 0
                return b""
            whole = end + 4 + length_of(known[: end + 2])
        if len(known) < whole:
            self.partial[number] = known, whole
            return b""
        self.errors += known[9:10] != b"2"
        return known

    def run(self, seconds: float, rate: float) -> dict[str, Any]:
        """Warm up, measure."""
        draws = self.draws
        clock = time.perf_counter
        begin = clock() + WARM
        end = begin + seconds
        latencies: list[float] = []
        all_ = list(self.sockets)
        due = clock()
        while (now := clock()) < end:
            while self.free and (not rate or due <= now):
                self.send(self.free.popleft(), due if rate else now)
                due += draws.expovariate(rate) if rate else 0.0
            wait = max(due - now, 0.0) if rate and self.free else 0.2
            for number in select.select(all_, (), (), wait)[0]:  # to the microsecond; epoll knows milliseconds
                answer = self.finished(number)
                if not answer:
                    continue
                now = clock()
                since = self.sent.pop(number)
                decided = number in self.deciding
                if now >= begin and (not rate or since >= begin):
                    latencies.append(now - since)
                self.decisions += decided
                if decided:
                    at = answer.index(b'"ticket":"') + 10
                    self.send(number, now, answer[at : at + 32])
                    continue
                if rate:
                    self.free.append(number)
                else:
                    self.send(number, now)
        latencies.sort()
        at = {f"p{q}": 1000 * latencies[int(len(latencies) * q / 100)] for q in (50, 90, 99)} if latencies else {}
        known = {"requests": len(latencies), "decisions": self.decisions, "errors": self.errors}
        return known | {"rate": len(latencies) / seconds, **at}


def main() -> None:
    url, body, connections, seconds, rate, *experiments = sys.argv[1:]
    load = Load(url, body.encode(), int(connections), *map(int, experiments))
    print(json.dumps(load.run(float(seconds), float(rate))))


if __name__ == "__main__":
    main()
