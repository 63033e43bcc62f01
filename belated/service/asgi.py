"""The words of ASGI, and which application a path leads to.

It is a table, not a list of patterns to be tried: what a framework adds here took a tenth of a request.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

#: Paths that need not be looked up again, and the longest of them: nobody fills the memory with others.
PATHS, LONG = 1000, 200

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Leaf(NamedTuple):
    """What answers at a path, and which of its parts are names."""

    application: Application
    names: list[tuple[str, int]]


class Routes:
    """Paths such as `/v1/experiments/{name}`, each with an application; `otherwise` for all others.

    What stands in braces is one part of a path that is not empty, and is found in the scope's `path_params`.
    """

    def __init__(
        self,
        routes: Iterable[tuple[str, Application]],
        lifespan: Callable[[], AbstractAsyncContextManager[None]],
        otherwise: Application,
    ) -> None:
        self._lifespan = lifespan
        self._otherwise = otherwise
        self._found = lru_cache(PATHS)(self._find)
        #: By the number of parts: how to get those that are fixed, and what they lead to.
        self._known: dict[int, list[tuple[Callable[[list[str]], Any], dict[Any, Leaf]]]] = {}
        shapes: dict[tuple[int, ...], dict[Any, Leaf]] = {}
        for path, application in routes:
            parts = path.split("/")
            names = [(part[1:-1], at) for at, part in enumerate(parts) if part.startswith("{")]
            fixed = tuple(at for at, part in enumerate(parts) if not part.startswith("{"))
            shape = (len(parts), *fixed)
            if shape not in shapes:
                shapes[shape] = {}
                self._known.setdefault(len(parts), []).append((itemgetter(*fixed), shapes[shape]))
            shapes[shape][itemgetter(*fixed)(parts)] = Leaf(application, names)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._live(receive, send)
        path = scope["path"]
        application, scope["path_params"] = self._found(path) if len(path) <= LONG else self._find(path)
        return application(scope, receive, send)

    def _find(self, path: str) -> tuple[Application, dict[str, str]]:
        """What answers at a path, and the names in it."""
        parts = path.split("/")
        for fixed, leaves in self._known.get(len(parts), ()):
            leaf = leaves.get(fixed(parts))
            if leaf is not None:
                named = {name: parts[at] for name, at in leaf.names}
                if "" not in named.values():
                    return leaf.application, named
        return self._otherwise, {}

    async def _live(self, receive: Receive, send: Send) -> None:
        """From start to end."""
        phase = "startup"
        try:
            await receive()
            async with self._lifespan():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except BaseException:
            await send({"type": f"lifespan.{phase}.failed", "message": traceback.format_exc()})
            raise
        await send({"type": "lifespan.shutdown.complete"})
