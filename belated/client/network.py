"""A limit on the whole of a request. httpx limits each wait; a service that sends a byte a second never ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

#: Bytes that are written between looks at the clock.
PIECE = 65_536


class _Until(threading.local):
    """When the request of this thread must be over."""

    at: float | None = None


_until = _Until()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What this thread sends and receives must be over in so many seconds. (Finding an address is not limited.)"""
    _until.at = time.monotonic() + seconds
    try:
        yield
    finally:
        _until.at = None


def _left(timeout: float | None, error: type[Exception] = httpcore.ReadTimeout) -> float | None:
    if _until.at is None:
        return timeout
    left = _until.at - time.monotonic()
    if left <= 0.0:
        raise error("timed out")
    return left if timeout is None else min(timeout, left)


def limited(client: httpx.Client) -> httpx.Client:
    """A client that keeps to `within`. (By attributes that httpx calls private: a test sees whether they are there.)"""
    for transport in [client._transport, *client._mounts.values()]:
        pool: Any = getattr(transport, "_pool", None)
        if pool is not None:
            pool._network_backend = Backend(pool._network_backend)
    return client


class Backend(httpcore.NetworkBackend):
    """Makes connections that keep to `within`."""

    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return Stream(
            self._inner.connect_tcp(host, port, _left(timeout, httpcore.ConnectTimeout), local_address, socket_options)
        )

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        return Stream(self._inner.connect_unix_socket(path, _left(timeout, httpcore.ConnectTimeout), socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class Stream(httpcore.NetworkStream):
    """One of them."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), PIECE):
            self._inner.write(buffer[at : at + PIECE], _left(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return Stream(self._inner.start_tls(ssl_context, server_hostname, _left(timeout, httpcore.ConnectTimeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
