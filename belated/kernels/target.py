"""What a kernel is compiled for, where that decides how it does something: what comes out is the same."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from belated.kernels.compile import COMPILED


def _typing(typing_context):
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.get_constant(types.boolean, builder.module.triple.startswith("nvptx"))

    return types.boolean(), generate


def _on_gpu():
    """Whether this is a GPU, known when it is compiled.

    There neighbours are the vector: what is drawn ahead has to be fetched, and a branch that some take keeps the others
    waiting. A processor draws eight numbers in little more than the time of one, and guesses branches.
    """
    return False


on_gpu: Any = intrinsic(_typing) if COMPILED else _on_gpu
on_gpu.py_func = _on_gpu
on_gpu._belated_identity = _on_gpu._belated_identity = "whether this is a GPU"  # type: ignore[attr-defined]
