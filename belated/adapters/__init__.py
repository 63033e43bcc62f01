"""Other people's models under delay, and our learners in their code. One module a library, loaded when it is named.

    import belated as bl
    f = bl.BOLD(bl.adapters.river.bandit(policy, actions=3))
    d = f.predict(); ...; f.update(d.ticket, reward)

An adapter takes a model and gives what a forecaster takes: something that makes plain learners, each around a copy of
its own of the model as it was when it was given. What a fitted model knows is taken along by every copy; `fresh=True`
makes copies that know nothing. The model that was given is not changed.

`Weighted(feedback, weight)` is feedback that counts more or less than others, where the model takes weights.

`belated.checks.check_plain` is the contract that each of them keeps.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from belated.adapters.copies import Weighted

if TYPE_CHECKING:
    import belated.adapters.gymnasium as gymnasium
    import belated.adapters.mabwiser as mabwiser
    import belated.adapters.river as river
    import belated.adapters.sklearn as sklearn
    import belated.adapters.vowpal_wabbit as vowpal_wabbit

#: The modules: the package that each of them needs, and the extra that installs it.
MODULES = {
    "gymnasium": ("gymnasium", "gym"),
    "mabwiser": ("mabwiser", "mabwiser"),
    "river": ("river", "river"),
    "sklearn": ("sklearn", "sklearn"),
    "vowpal_wabbit": ("vowpalwabbit", "vw"),
}

__all__ = ["Weighted", "gymnasium", "mabwiser", "river", "sklearn", "vowpal_wabbit"]


def __getattr__(name: str) -> Any:
    """A module, imported when it is first asked for."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package, extra = MODULES[name]
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ModuleNotFoundError(
            f"bl.adapters.{name} needs {package}: pip install 'belated[{extra}]'", name=package
        ) from None
