"""All 3,000 vectors: exact where Kafka's answer is the specification; `test_topics_together` has the optimum."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator_tasks.core.assignors.group import Assignment
from coordinator_tasks.core.assignors.topic_strategies import STATELESS
from tests.conformance.vectors import assign_instance, instances

Instance = Mapping[str, Any]
Given = dict[tuple[str, int], str]


@pytest.fixture(scope="module")
def vectors() -> list[Instance]:
    return list(instances())


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "server-range"])
def test_exactly_kafkas_answer_on_every_line_that_has_one(vectors: list[Instance], strategy: str) -> None:
    wrong = [v["id"] for v in vectors if strategy in v["jvm"] and not agrees(v, strategy)]
    assert not wrong
    assert sum(strategy in v["jvm"] for v in vectors) == (2849 if strategy == "server-range" else 3000)


def agrees(instance: Instance, strategy: str) -> bool:
    kafka = instance["jvm"][strategy].get("assignment", {})
    return without_empty(assign_instance(instance, strategy)) == without_empty(kafka)


@pytest.mark.parametrize("strategy", sorted(STATELESS))
def test_every_strategy_gives_every_partition_once_and_to_subscribers_only_in_any_order_of_the_input(
    vectors: list[Instance], strategy: str
) -> None:
    for instance in vectors[::10]:
        answer = assign_instance(instance, strategy)
        assert not flaws(instance, answer), instance["id"]
        assert answer.keys() == instance["members"].keys()
        assert all(listed == sorted(listed) for topics in answer.values() for listed in topics.values())
        turned = {name: dict(reversed(instance[name].items())) for name in ("topics", "members")}
        assert assign_instance({**instance, **turned}, strategy) == answer, instance["id"]


def topics_of(instance: Instance, member: str) -> set[str]:
    return {t for t in instance["members"][member]["topics"] if instance["topics"].get(t, 0) > 0}


def flaws(instance: Instance, answer: Assignment) -> list[object]:
    """Partitions given twice, given to whom they must not, or not given."""
    found: list[object] = []
    seen = set()
    for member, topics in answer.items():
        for topic, partitions in topics.items():
            for partition in partitions:
                listed = 0 <= partition < instance["topics"].get(topic, 0)
                if not listed or topic not in topics_of(instance, member) or (topic, partition) in seen:
                    found.append((member, topic, partition))
                seen.add((topic, partition))
    wanted = set().union(*(topics_of(instance, m) for m in instance["members"]))
    missing = [(t, p) for t in wanted for p in range(instance["topics"][t]) if (t, p) not in seen]
    return found + missing


def loads(instance: Instance, answer: Assignment) -> list[int]:
    return sorted(sum(map(len, answer.get(member, {}).values())) for member in instance["members"])


def moves(instance: Instance, answer: Assignment) -> int:
    """Partitions that one member alone has and may keep, and does not."""
    owners = given(answer)
    return sum(
        1
        for (topic, partition), claimed in claimants(instance).items()
        if partition < instance["topics"].get(topic, 0)
        and len(able := {m for m in claimed if topic in instance["members"][m]["topics"]}) == 1
        and owners.get((topic, partition)) not in able
    )


def claimants(instance: Instance) -> dict[tuple[str, int], set[str]]:
    found: dict[tuple[str, int], set[str]] = {}
    for member, value in instance["members"].items():
        for topic, partitions in value.get("owned", {}).items():
            for partition in partitions:
                found.setdefault((topic, partition), set()).add(member)
    return found


def given(answer: Assignment) -> Given:
    return {(t, p): m for m, topics in answer.items() for t, partitions in topics.items() for p in partitions}


def without_empty(answer: Assignment) -> Assignment:
    found = {m: {t: sorted(p) for t, p in topics.items() if p} for m, topics in answer.items()}
    return {m: topics for m, topics in found.items() if topics}
