"""Checks by a frame's plan that its grouping column `key` holds Kafka's key, and not another value under this name.

Rows with equal keys lie in one partition only if the key is Kafka's. By another key, each partition would keep a state
of its own, and the totals would be too small without an error.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from spark_apps.state import StateRefused

KAFKA_KEY = "key"


def check_kafka_key(rows: DataFrame, by: Sequence[str]) -> None:
    """Raise `StateRefused` if the column `key`, as one of the columns `by`, is surely not computed from Kafka's key."""
    plan: Any = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark has no public way to a plan
    found = _id_of(KAFKA_KEY, plan) if KAFKA_KEY in by else None
    sources = {KAFKA_KEY} if found is None else _sources(plan, found)
    if sources is not None and KAFKA_KEY not in sources:
        made_of = " and ".join(sorted(sources)) or "no column"
        raise StateRefused(
            f"the grouping column key is computed from {made_of} of the stream, and not from Kafka's key: records of one group "
            "may lie in several partitions, and each partition would keep a state of its own; group by Kafka's key too, or "
            "declare determines_partition=True if the columns decide the partition"
        )


def _id_of(name: str, plan: Any) -> int | None:
    return next((int(one.exprId().id()) for one in _all(plan.output()) if one.name() == name), None)


def _sources(plan: Any, wanted: int) -> set[str] | None:
    """Return the source's columns from which a column of the plan is computed; `None` if Spark's plan does not tell."""
    children = _all(plan.children())
    for expression in _all(plan.expressions()):
        if expression.getClass().getSimpleName() == "Alias" and expression.exprId().id() == wanted:
            parts = [_below(children, one.exprId().id()) for one in _all(expression.references().toSeq())]
            return None if None in parts else {name for part in parts if part is not None for name in part}
    if children:
        return _below(children, wanted)
    return {one.name() for one in _all(plan.output()) if one.exprId().id() == wanted}


def _below(children: Sequence[Any], wanted: int) -> set[str] | None:
    for child in children:
        if any(one.exprId().id() == wanted for one in _all(child.output())):
            return _sources(child, wanted)
    return None  # a Python stage, or another operator that makes columns


def _all(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
