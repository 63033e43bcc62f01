"""Compiles an experiment's kernels in a process of its own, so that nobody waits: `python -m belated.service.warm`.

The child reads the experiment's spec as JSON and puts compiled code into the cache on disk; the server loads it there.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from belated.forecasters.instance import Instance
from belated.imports import bring_named
from belated.ledger.experiment import Experiment, make
from belated.ledger.player import make_instance

log = logging.getLogger("belated")

#: Seconds that a compilation may take.
PATIENCE = 600


class Warmer:
    """Compiles one experiment after the other, out of the way."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="belated warmer")

    def __call__(self, experiment: Experiment, instance: Instance, ready: Callable[[Instance], None]) -> None:
        """Call `ready` with the instance once it can work at full speed."""
        self._pool.submit(self._warm, experiment, instance, ready)

    def close(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _warm(self, experiment: Experiment, instance: Instance, ready: Callable[[Instance], None]) -> None:
        try:
            spec = json.dumps({"name": experiment.name, **experiment.spec()})
            command = [sys.executable, "-m", "belated.service.warm"]
            subprocess.run(command, input=spec.encode(), capture_output=True, timeout=PATIENCE, check=False)
            # Where the child could not help (no cache), this compiles, beside the others.
            instance.compile()
        except Exception as error:
            log.warning("%s stays plain Python, it could not be compiled: %r", experiment.name, error)
        else:
            log.info("%s is compiled", experiment.name)
            ready(instance)


def main() -> None:
    """What the child does."""
    bring_named()
    make_instance(make(**json.load(sys.stdin), stored=True)).compile()


if __name__ == "__main__":
    main()
