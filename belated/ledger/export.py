"""Every decision of an experiment as a Parquet file, ready for off-policy evaluation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from belated.errors import InvalidArgument, InvalidState
from belated.imports import hinted
from belated.ledger import contexts
from belated.ledger.errors import Damaged
from belated.ledger.experiment import Experiment
from belated.ledger.gently import slice_of
from belated.ledger.items import read_value
from belated.ledger.player import vector
from belated.ledger.store import DecisionRow, Remark, Store

#: Rows that are in memory at a time.
CHUNK = 20_000


def export(store: Store, name: str, file: str | Path, since: float = 0.0) -> int:
    """Write all decisions by round; how many they were. With `since` (seconds since 1970) only those that were made or
    have ended since then, for who has the rest already.

    `propensity` says whether `probability` is the chance with which the action was played, by which one may divide.
    Under QPM-D it is that of the learner's pending query, and a held action is played for certain. There is no
    `probability` where the learner does not state it. Where the experiment states its features, the numbers of
    `context` are also in columns by their names, `context.age`, and the features are in the file's metadata.
    """
    if Path(file).suffix.lower() != ".parquet":
        raise InvalidArgument(f"the file is written as Parquet and must end in .parquet, got {str(file)!r}")
    import pyarrow as pa
    import pyarrow.parquet as pq

    with store.read() as session:
        row = next((row for row in session.experiments() if row.name == name), None)
    if row is None:
        raise InvalidArgument(f"there is no experiment called {name!r}")
    try:
        experiment = Experiment.from_row(row)
    except Exception as error:
        raise InvalidState(f"{name} cannot be opened: {hinted(error)}") from None
    schema = _schema(experiment, pa)
    count, last, made = 0, 0, Path(f"{file}.part")  # what was there before stays until this is whole
    try:
        with pq.ParquetWriter(made, schema) as writer:
            while True:
                with slice_of(store) as session:  # nobody waits for the whole
                    rows = session.decisions_after(experiment.id, last, CHUNK, since)
                    remarks = session.remarks([each.ticket for each in rows])
                if not rows:
                    break
                writer.write_table(_table(experiment, rows, remarks, schema, pa))
                count, last = count + len(rows), rows[-1].round
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
    return count


def _table(experiment: Experiment, rows: Sequence[DecisionRow], remarks: Sequence[Remark], schema: Any, pa: Any) -> Any:
    said: dict[bytes, list[dict[str, Any]]] = {}
    for each in remarks:
        told = {"kind": each.kind, "value": each.value, "at": round(each.at * 1e6)}
        said.setdefault(each.ticket, []).append(told)
    try:
        columns = zip(*((*_values(experiment, row), said.get(row.ticket, [])) for row in rows), strict=True)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=False)]
        arrays += [] if experiment.features is None else _named(experiment, rows, schema, pa)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:  # Arrow's are among these
        raise Damaged(f"{experiment.name} is damaged: a decision cannot be what was decided: {error}") from None
    return pa.Table.from_arrays(arrays, schema=schema)


def _named(experiment: Experiment, rows: Sequence[DecisionRow], schema: Any, pa: Any) -> list[Any]:
    """The columns of the features, which are the last."""
    assert experiment.features is not None
    found = contexts.values(experiment.features, experiment.learner, [row.context for row in rows])
    kinds = [schema.field(number).type for number in range(len(schema) - len(found), len(schema))]
    return [
        pa.FixedSizeListArray.from_arrays(part.ravel(), part.shape[1]).cast(kind)
        if pa.types.is_list(kind)
        else pa.array(part, kind)
        for part, kind in zip(found, kinds, strict=True)
    ]


def _schema(experiment: Experiment, pa: Any) -> Any:
    value = {"full": pa.list_(pa.float64()), "symbol": pa.string()}.get(experiment.learner.feedback, pa.float64())
    moment = pa.timestamp("us", tz="UTC")
    named: dict[str, Any] = {"text": pa.string(), "number": pa.float64(), "list": pa.list_(pa.float64())}
    features = experiment.features
    more = [] if features is None else contexts.columns(features, experiment.learner)
    made = pa.schema(
        [
            ("ticket", pa.string()),
            ("round", pa.int64()),
            ("action", pa.int32()),
            ("name", pa.string()),
            ("probability", pa.float64()),
            ("propensity", pa.bool_()),
            ("allowed", pa.list_(pa.int32())),
            ("context", pa.list_(pa.float64())),
            ("state", pa.string()),
            ("value", value),
            ("learned", pa.bool_()),
            ("decided_at", moment),
            ("expires_at", moment),
            ("closed_at", moment),
            ("instance", pa.int64()),
            # Feedback that came too late, or beside another: on record, and not learned. Values are JSON.
            ("remarks", pa.list_(pa.struct([("kind", pa.string()), ("value", pa.string()), ("at", moment)]))),
            *((name, named[kind]) for name, kind in more),
        ]
    )
    return made if features is None else made.with_metadata({"belated.features": json.dumps(features.to_data())})


def _values(experiment: Experiment, row: DecisionRow) -> tuple[Any, ...]:
    context, value = vector(row.context), read_value(row.value)
    if value is not None and experiment.learner.feedback == "symbol" and not isinstance(value, str):
        value = json.dumps(value)
    return (
        row.ticket.hex(),
        row.round,
        row.action,
        experiment.name_of(row.action, row.round),
        experiment.stated(row.probability),
        experiment.propensity,
        None if row.allowed is None else json.loads(row.allowed),
        None if context is None else context.tolist(),
        row.state,
        value,
        value is not None and not row.stale,
        *(None if at is None else round(at * 1e6) for at in (row.decided_at, row.expires_at, row.closed_at)),
        row.instance,
    )
