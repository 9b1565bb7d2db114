"""All 3,000 vectors: exact where Kafka's answer is the specification, optimal where the optimum is."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from benchmarks.group_assignors.group_strategies import GROUP_ASSIGNORS
from coordinator_tasks.core.assignors.group import Assignment
from tests.conformance.vectors import assign_instance, instances

Instance = Mapping[str, Any]
Given = dict[tuple[str, int], str]

# Where Kafka 4.4.0 does not reach the optimum or gives partitions to members without a subscription; docs/assignors.md.
DEVIATIONS = {
    "sticky": {"throws": 33, "not subscribed": 7, "balance": 139, "moves": 330},
    "uniform": {"throws": 0, "not subscribed": 0, "balance": 120, "moves": 142},
}


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


@pytest.mark.parametrize("strategy", ["balanced", "sticky", "uniform"])
def test_valid_with_the_best_balance_and_the_fewest_moves_on_every_line(vectors: list[Instance], strategy: str) -> None:
    assert len(vectors) == 3000
    wrong = []
    for instance in vectors:
        answer = assign_instance(instance, strategy)
        found = (flaws(instance, answer), loads(instance, answer), moves(instance, answer))
        if found != ([], instance["opt"]["loads"], instance["opt"]["min_moves"]):
            wrong.append((instance["id"], instance["kind"], *found))
    assert not wrong


def test_cooperative_sticky_is_the_target_without_what_another_live_member_has_to_give_up(
    vectors: list[Instance],
) -> None:
    withheld = 0
    for instance in vectors:
        claimed = claimants(instance)
        target = given(assign_instance(instance, "sticky"))
        expected = {p: m for p, m in target.items() if claimed.get(p, {m}) == {m}}
        assert given(assign_instance(instance, "cooperative-sticky")) == expected, instance["id"]
        withheld += len(target) - len(expected)
    assert withheld > 5000


def test_cooperative_sticky_reaches_its_target_once_everything_is_revoked(vectors: list[Instance]) -> None:
    for instance in vectors[::10]:
        first = assign_instance(instance, "cooperative-sticky")
        members = {m: {**v, "owned": first[m], "generation": 9} for m, v in instance["members"].items()}
        second = assign_instance({**instance, "members": members}, "cooperative-sticky")
        assert loads(instance, second) == instance["opt"]["loads"], instance["id"]
        assert not flaws(instance, second), instance["id"]


@pytest.mark.parametrize("strategy", sorted(GROUP_ASSIGNORS.keys() - {"cooperative-sticky"}))
def test_every_strategy_gives_every_partition_once_and_to_subscribers_only(
    vectors: list[Instance], strategy: str
) -> None:
    for instance in vectors[::10]:
        answer = assign_instance(instance, strategy)
        assert not flaws(instance, answer), instance["id"]
        assert answer.keys() == instance["members"].keys()


@pytest.mark.parametrize("strategy", ["sticky", "uniform"])
def test_kafkas_deviations_are_those_that_the_documentation_lists(vectors: list[Instance], strategy: str) -> None:
    seen = Counter(flaw for v in vectors if (flaw := deviation(v, v["jvm"].get(strategy))))
    assert seen == {flaw: count for flaw, count in DEVIATIONS[strategy].items() if count}


def deviation(instance: Instance, kafka: Mapping[str, Any] | None) -> str:
    if kafka is None:
        return ""
    if "error" in kafka:
        return "throws"
    answer = kafka["assignment"]
    checks: dict[str, Callable[[], bool]] = {
        "not subscribed": lambda: bool(flaws(instance, answer)),
        "balance": lambda: loads(instance, answer) != instance["opt"]["loads"],
        "moves": lambda: moves(instance, answer) != instance["opt"]["min_moves"],
    }
    return next((name for name, deviates in checks.items() if deviates()), "")


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
