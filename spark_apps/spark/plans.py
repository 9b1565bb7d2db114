"""Reads the logical plan of a frame, to which PySpark has no public way."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter


def frame_of(writer: DataStreamWriter) -> DataFrame:
    """Return the rows that the writer writes."""
    return writer._df  # noqa: SLF001 - its only place


def plan_of(rows: DataFrame) -> Any:
    """Return the frame's plan after Spark's analysis."""
    return rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - its only place


def each(sequence: Any) -> list[Any]:
    """Return the items of a sequence of Scala."""
    return [sequence.apply(number) for number in range(sequence.size())]


def sources_of(rows: DataFrame, column: str) -> set[str] | None:
    """Return the source's columns from which a column of the frame is computed.

    `None` if the plan does not tell: behind a Python stage, or without this column.
    """
    plan = plan_of(rows)
    found = next((one for one in each(plan.output()) if one.name() == column), None)
    return None if found is None else _sources(plan, found.exprId().id())


def _sources(plan: Any, wanted: int) -> set[str] | None:
    children = each(plan.children())
    for expression in each(plan.expressions()):
        if expression.getClass().getSimpleName() == "Alias" and expression.exprId().id() == wanted:
            parts = [_below(children, one.exprId().id()) for one in each(expression.references().toSeq())]
            return None if None in parts else {name for part in parts if part is not None for name in part}
    if children:
        return _below(children, wanted)
    return {one.name() for one in each(plan.output()) if one.exprId().id() == wanted}


def _below(children: Sequence[Any], wanted: int) -> set[str] | None:
    for child in children:
        if any(one.exprId().id() == wanted for one in each(child.output())):
            return _sources(child, wanted)
    return None  # a Python stage, or another operator that makes columns
