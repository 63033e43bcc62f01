"""Optuna as a decision service in process: ask, then tell. `python ask_tell.py FILE SECONDS`; prints pairs a second.

Its storage is SQLite with WAL and synchronous=FULL, as ours is; the sampler is its random one, the cheapest.
"""

from __future__ import annotations

import json
import sys
import time

import optuna
from sqlalchemy import event


def main() -> None:
    file, seconds = sys.argv[1], float(sys.argv[2])
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = optuna.storages.RDBStorage(f"sqlite:///{file}")

    @event.listens_for(storage.engine, "connect")
    def durable(connection: object, _: object) -> None:
        connection.execute("PRAGMA journal_mode = WAL")  # type: ignore[attr-defined]
        connection.execute("PRAGMA synchronous = FULL")  # type: ignore[attr-defined]

    storage.engine.dispose()
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=0), direction="maximize")
    names = ["a", "b", "c"]

    def pair() -> None:
        trial = study.ask()
        name = trial.suggest_categorical("action", names)
        study.tell(trial, 1.0 if name == "b" else 0.0)

    for _ in range(5):
        pair()
    pairs, started = 0, time.perf_counter()
    while time.perf_counter() < started + seconds:
        pair()
        pairs += 1
    with storage.engine.connect() as connection:
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        level = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    assert (mode, level) == ("wal", 2), (mode, level)
    print(json.dumps({"pairs": pairs / (time.perf_counter() - started), "version": optuna.__version__}))


if __name__ == "__main__":
    main()
