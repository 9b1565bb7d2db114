"""Kafka's own answers and the optimum for 3,000 instances, and our answers in the same shape.

`instances.jsonl.gz` has one instance a line: `topics` (topic → partitions), `members` (id → `topics`, `owned`, `generation`,
`rack`, `instance`), `partition_racks` (topic → racks of each partition's replicas), `jvm` (strategy → the answer of Kafka
4.4.0's assignor, or its error) and `opt` (sorted `loads`, `min_moves`), exact by min-cost flow.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coordinator_tasks.core.assignors.group import Assignment, Group, GroupMember
from coordinator_tasks.core.assignors.topic_strategies import STATELESS

FILE = Path(__file__).with_name("instances.jsonl.gz")


def instances() -> Iterator[dict[str, Any]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def assign_instance(instance: Mapping[str, Any], strategy: str) -> Assignment:
    """Member → topic → partitions, by our strategy of that name."""
    return STATELESS[strategy](group_of(instance))


def group_of(instance: Mapping[str, Any]) -> Group:
    members = {
        member: GroupMember(frozenset(value["topics"]), value.get("rack"), value.get("instance"))
        for member, value in instance["members"].items()
    }
    return Group(instance["topics"], members, instance.get("partition_racks", {}))
