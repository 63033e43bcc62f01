"""Load for an HTTP service, from a process of its own: `python load.py URL BODY CONNECTIONS SECONDS RATE`.

With rate 0 every connection sends its next request as soon as it has an answer. With a rate, requests fall due at
random times (a Poisson process) whatever the service does, and latency counts from when a request was due. The same
POST every time; anything but 2xx is an error. Prints one line of JSON.
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

    def __init__(self, url: str, body: bytes, connections: int) -> None:
        where = urlsplit(url)
        assert where.hostname is not None and where.port is not None
        head = f"POST {where.path} HTTP/1.1\r\nhost: {where.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.request = head.encode() + body
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

    def send(self, number: int, due: float) -> None:
        self.sent[number] = due
        self.sockets[number].send(self.request)

    def finished(self, number: int) -> bool:
        """Read; whether the answer is complete."""
        data = self.sockets[number].recv(1 << 18)
        if not data:
            raise SystemExit("the service closed a connection")
        known, whole = self.partial.pop(number, (b"", 0))
        known += data
        if not whole:
            end = known.find(b"\r\n\r\n")
            if end < 0:
                self.partial[number] = known, 0
                return False
            whole = end + 4 + length_of(known[: end + 2])
        if len(known) < whole:
            self.partial[number] = known, whole
            return False
        self.errors += known[9:10] != b"2"
        return True

    def run(self, seconds: float, rate: float) -> dict[str, Any]:
        """Warm up, measure."""
        draws = random.Random(0)
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
                if not self.finished(number):
                    continue
                now = clock()
                since = self.sent.pop(number)
                if now >= begin and (not rate or since >= begin):
                    latencies.append(now - since)
                if rate:
                    self.free.append(number)
                else:
                    self.send(number, now)
        latencies.sort()
        at = {f"p{q}": 1000 * latencies[int(len(latencies) * q / 100)] for q in (50, 90, 99)} if latencies else {}
        return {"requests": len(latencies), "rate": len(latencies) / seconds, "errors": self.errors, **at}


def main() -> None:
    url, body, connections, seconds, rate = sys.argv[1:]
    print(json.dumps(Load(url, body.encode(), int(connections)).run(float(seconds), float(rate))))


if __name__ == "__main__":
    main()
