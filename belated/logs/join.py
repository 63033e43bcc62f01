"""Decisions in one table and feedback in another, joined by an id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from belated.errors import InvalidArgument
from belated.logs.source import collect
from belated.logs.times import Clock
from belated.spelling import nearest

#: What a joined table calls the time of feedback, as a whole number.
OBSERVED = "belated.observed"


@dataclass(frozen=True)
class Keys:
    """The columns by which two tables are joined, and what they are as."""

    left: str
    right: str
    left_type: Any
    right_type: Any

    @property
    def plain(self) -> tuple[pl.Expr, pl.Expr]:
        """Both ids as values of one type."""
        sides = [_id(name, dtype) for name, dtype in ((self.left, self.left_type), (self.right, self.right_type))]
        if self.left_type == self.right_type or all(_whole(dtype) for dtype in (self.left_type, self.right_type)):
            return sides[0], sides[1]
        return sides[0].cast(pl.String), sides[1].cast(pl.String)


def find_keys(on: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Keys:
    """`click_id`, or `click_id=id` where the feedback calls it otherwise."""
    one, _, two = str(on).partition("=")
    one, two = one.strip(), two.strip() or one.strip()
    for name, schema, what in ((one, left, "log"), (two, right, "feedback")):
        if name not in schema:
            hint = nearest(name, schema) or f"it has {', '.join(schema)}"
            raise InvalidArgument(f"on: the {what} has no column {name!r}; {hint}")
    return Keys(one, two, left[one], right[two])


def _whole(dtype: Any) -> bool:
    return bool(dtype.is_integer() or dtype.is_float())


def _id(name: str, dtype: Any) -> pl.Expr:
    """An id; whole numbers that became fractions because some are missing are whole again."""
    if _whole(dtype):
        return pl.col(name).cast(pl.Int64, strict=False)
    return pl.col(name).str.strip_chars() if dtype == pl.String else pl.col(name)


def join(
    decisions: pl.LazyFrame, feedback: pl.LazyFrame, keys: Keys, observed: Clock | None, kept: dict[str, pl.Expr]
) -> tuple[pl.LazyFrame, dict[str, int], int | None]:
    """Decisions with the first feedback of each, if any, how many rows were left out, by reason, and the latest time.

    Of the feedback, which is held in memory, `kept` columns come along, and `OBSERVED`, where its time is known.
    """
    id_, theirs = keys.plain
    firsts, left_out, latest = _first_of_each(feedback, theirs, observed, kept)
    if not len(firsts):
        raise InvalidArgument(f"the feedback has no row with {keys.right!r}" + (" and a time" if observed else ""))
    whole = decisions.with_columns(id_.alias("belated.id")).join(
        firsts.lazy(), on="belated.id", how="left", maintain_order="left"
    )
    met = collect(whole.filter(pl.col("belated.many") > 0).select("belated.id"))["belated.id"]
    if not len(met):
        mine = collect(decisions.select(id_.alias("id")).drop_nulls().head(1))["id"].to_list()
        raise InvalidArgument(
            f"no feedback has the {keys.left!r} of a decision: "
            f"{firsts['belated.id'][0]!r} in the feedback, {mine[0] if mine else None!r} in the log"
        )
    twice = met.filter(met.is_duplicated())
    if len(twice):
        if len(twice) > 0.01 * len(met):
            raise InvalidArgument(
                f"{keys.left!r} must be another one in each decision: {len(twice):,} decisions share theirs, and the "
                f"same feedback, with others, such as {twice[0]!r}"
            )
        whole = whole.filter(~pl.col("belated.id").is_in(twice.unique().implode()).fill_null(False))
    used = firsts["belated.id"].is_in(met.unique().implode())
    left_out |= {
        "feedback after the first of its decision": int(firsts.filter(used)["belated.many"].sum()) - int(used.sum()),
        "feedback of no decision in the log": int(firsts.filter(~used)["belated.many"].sum()),
        f"decisions with the {keys.left} of others": len(twice),
    }
    told = {reason: count for reason, count in left_out.items() if count}
    return whole.drop("belated.id", "belated.many"), told, latest


def _first_of_each(
    feedback: pl.LazyFrame, id_: pl.Expr, observed: Clock | None, kept: dict[str, pl.Expr]
) -> tuple[pl.DataFrame, dict[str, int], int | None]:
    """A row for each id, its earliest feedback, and of how many (`belated.many`); rows left out; the latest time."""
    columns = {"belated.id": id_, **kept}
    odd = pl.lit(False)
    if observed is not None:
        columns |= {OBSERVED: observed.value}
        odd = observed.value.is_null()
    rows, without, undated = collect(
        feedback.select(rows=pl.len(), without=id_.is_null().sum(), undated=(odd & id_.is_not_null()).sum())
    ).row(0)
    if undated > 0.01 * rows:
        example = collect(feedback.filter(odd).select(x=observed.given).head(1))["x"][0] if observed else None
        raise InvalidArgument(
            f"the feedback has no time that can be read in {undated:,} of {rows:,} rows, got {example!r}"
        )
    good = feedback.select(**columns).filter(pl.col("belated.id").is_not_null())
    if observed is not None:
        good = good.filter(pl.col(OBSERVED).is_not_null()).sort(OBSERVED, maintain_order=True)
    counted = collect(good).with_columns(pl.len().over("belated.id").alias("belated.many"))
    firsts = counted.unique("belated.id", keep="first", maintain_order=True)
    latest: Any = None if observed is None or not len(counted) else counted[OBSERVED].max()
    return firsts, {"feedback without an id": int(without), "feedback without a time": int(undated)}, latest
