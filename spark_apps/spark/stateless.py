"""Checks whether a query keeps state in Spark, because this state does not move with a partition.

Spark keeps state by key in the checkpoint of one application. When a partition moves, its new consumer begins without
the state, and the old consumer keeps it. Then each counts only a part of a window, and neither sees all duplicates.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused
from spark_apps.spark.plans import each, frame_of, plan_of

# Catalyst's logical operators that have a state store in a stream.
STATEFUL = {
    "Aggregate": "an aggregation",
    "Distinct": "removal of duplicates",
    "Deduplicate": "removal of duplicates",
    "DeduplicateWithinWatermark": "removal of duplicates",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState()",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState()",
    "GlobalLimit": "limit()",
}


def check_stateless(writer: DataStreamWriter, *, state_stays_behind: bool = False) -> None:
    """Raise `Refused` for a query that keeps state, unless the application declares that the state may stay behind."""
    found = keeps_state(frame_of(writer))
    if found and not state_stays_behind:
        raise Refused(
            f"the query keeps state between batches ({', '.join(found)}), and Spark's state does not move with a partition: "
            "write a StatefulProcessor and return Stateful; or declare that the state may stay behind with "
            "--state-stays-behind, or SparkSettings(state_stays_behind=True)"
        )


def keeps_state(rows: DataFrame) -> tuple[str, ...]:
    """Return the operators of a frame that keep state between a query's batches, by Spark's usual names."""
    return tuple(dict.fromkeys(_stateful(plan_of(rows))))


def _stateful(plan: Any) -> list[str]:
    """Return the stateful operators of a logical plan by their usual names, starting at the root."""
    if not plan.isStreaming():
        return []
    name = str(plan.getClass().getSimpleName())
    children = each(plan.children())
    found = [STATEFUL[name]] if name in STATEFUL else []
    if name == "Join" and all(child.isStreaming() for child in children):
        found.append("a join of two streams")
    return found + [one for child in children for one in _stateful(child)]
