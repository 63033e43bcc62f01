"""Whether a delay law looks at the action without saying so, or gives something else than whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from belated.errors import BadKernel
from belated.kernels import guard
from belated.kernels.blame import told, traced
from belated.kernels.compile import plain, source
from belated.kernels.random import delay_draw, key_of
from belated.kernels.reading import return_line
from belated.protocols import Delays

#: The rounds that are looked at before a play.
GLANCE = 3


class Looked(Exception):
    """Somebody looked at an action that was only to be handed on."""


def _looked(self: Any, *_: Any) -> Any:
    raise Looked from None


class Closed(int):
    """An action that nobody may look at. `delay_draw` takes it: the loop gives it 0 where the law does not depend."""


for _name in set(vars(int)) - {"__new__", "__doc__", "__getattribute__"}:
    if callable(getattr(int, _name)) and _name.startswith("__"):
        setattr(Closed, _name, _looked)


def _blind_draw(k0: Any, k1: Any, round_: Any, action: Any) -> Any:
    return source(delay_draw)(k0, k1, round_, 0)


def blind(law: Delays) -> Any:
    """A law's kernel in plain Python, with draws that do not depend on the action."""
    return plain(law.kernel, {source(delay_draw): _blind_draw})


def bad_law(law: Delays, rounds: int = GLANCE) -> BadKernel | None:
    """The error for a law that uses `action` and does not say so, or gives no whole number, in one of its first rounds;
    None if it keeps to it.

    Any other error in the kernel is not told here.
    """
    looks = law.depends_on_action or law.depends_on_reward
    given = (0 if looks else Closed(0), *((0.5,) if law.depends_on_reward else ()))
    function, delay = source(law.kernel), blind(law)
    params, key = guard.Pointer(law.params(), "params"), key_of(0, 0)
    for t in range(1, rounds + 1):
        try:
            drawn = delay(params, *key, t, *given)
            what = SAYS if isinstance(drawn, Closed) else None
            if not isinstance(drawn, int | np.integer):
                what = f"a delay must be a whole number, it returned {drawn!r}: use int(...)"
            if what is not None:
                return BadKernel(told(law, "kernel", function.__code__.co_filename, return_line(function), what))
        except Looked as error:
            return BadKernel(traced(law, "kernel", error, SAYS))
        except Exception:
            return None
    return None


SAYS = "it uses action, but the law says depends_on_action = False, so that it is always given action 0; say True"
