"""Whole clusters of topics, planned as the coordinator plans them, judged by the exact optimum for groups."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from coordinator_tasks.core.assignors.balanced import Balanced
from coordinator_tasks.core.assignors.flow import Flow
from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.model import Member
from tests.conformance.test_vectors import claimants, loads, moves
from tests.conformance.vectors import instances

Owners = dict[str, dict[int, str]]


@dataclass
class Shop:
    """Topics with their partitions, consumers with their subscriptions, and the owner of each partition."""

    topics: dict[str, int]
    members: dict[str, frozenset[str]]
    owners: Owners = field(default_factory=dict)

    def plan(self) -> Owners:
        problems = [
            Problem(
                topic,
                tuple(range(count)),
                {m: Member(m, 1, "", "") for m, wanted in sorted(self.members.items()) if topic in wanted},
                {p: m for p, m in self.owners.get(topic, {}).items() if topic in self.members.get(m, ()) and p < count},
            )
            for topic, count in sorted(self.topics.items())
        ]
        answers = Balanced().share(problems)
        return {one.topic: dict(answer) for one, answer in zip(problems, answers, strict=True)}

    def optimum(self) -> tuple[list[int], int]:
        """Sorted loads and fewest moves of the whole cluster, by the flow that the vectors and brute force judge."""
        members, topics = sorted(self.members), sorted(self.topics)
        able = np.array([[topic in self.members[m] for topic in topics] for m in members], np.bool_)
        own = np.zeros(able.shape, np.int32)
        for row, column in product(range(len(members)), range(len(topics))):
            owners = self.owners.get(topics[column], {})
            kept = [p for p, m in owners.items() if m == members[row] and p < self.topics[topics[column]]]
            own[row, column] = len(kept) * able[row, column]
        counts = np.array([self.topics[topic] for topic in topics], np.int32)
        flow = Flow(able, own, counts * able.any(axis=0))
        flow.solve()
        return sorted(flow.loads.tolist()), flow.moves


def judged(shop: Shop) -> Owners:
    """The plan, as good as the exact optimum; and after it, no topic moves anything."""
    found, (best, fewest) = shop.plan(), shop.optimum()
    mine = [m for owners in found.values() for m in owners.values()]
    assert sorted(mine.count(m) for m in shop.members) == best
    moved = sum(
        1
        for topic, owners in shop.owners.items()
        for p, m in owners.items()
        if topic in shop.members.get(m, ()) and p < shop.topics.get(topic, 0) and found[topic][p] != m
    )
    assert moved == fewest
    shop.owners = found
    assert shop.plan() == found
    return found


def events(rng: Random, *, equal: bool, largest: int) -> Iterator[Shop]:
    """One cluster through its life: first plan, join, leave, topic added, topic removed, partitions added."""
    topics = {f"t{i:03d}": rng.randint(1, rng.choice((1, 4, 50))) for i in range(rng.randint(2, largest))}

    def wanted() -> frozenset[str]:
        return frozenset(t for t in [*topics, "new"] if equal or rng.random() < 0.6) or frozenset(topics)

    members = {f"c{i:02d}": wanted() for i in range(rng.randint(1, 12))}
    shop = Shop(topics, members)
    yield shop
    members["joiner"] = wanted()
    yield shop
    if len(members) > 1:
        del members[rng.choice(sorted(members))]
        yield shop
    topics["new"] = rng.randint(1, 50)
    yield shop
    gone = rng.choice(sorted(topics))
    del topics[gone]
    shop.owners.pop(gone, None)
    yield shop
    topics[rng.choice(sorted(topics))] += rng.randint(1, 20)
    yield shop


@pytest.mark.parametrize("equal", [True, False], ids=["equal subscriptions", "unequal subscriptions"])
@pytest.mark.parametrize(("largest", "clusters"), [(12, 40), (200, 2)], ids=["up to 12 topics", "up to 200 topics"])
def test_each_event_of_a_cluster_leads_to_the_optimum_of_the_whole(equal: bool, largest: int, clusters: int) -> None:
    for seed in range(clusters):
        for shop in events(Random(seed), equal=equal, largest=largest):
            judged(shop)
            counts = [m for owners in shop.owners.values() for m in owners.values()]
            if equal:
                assert max(map(counts.count, shop.members)) - min(map(counts.count, shop.members)) <= 1


def test_every_vector_reaches_the_optimum_that_is_known_of_it() -> None:
    for instance in instances():
        wanted = {m: frozenset(value["topics"]) for m, value in instance["members"].items()}
        shop = Shop(instance["topics"], wanted, _alone(instance))
        answer: dict[str, dict[str, list[int]]] = {m: {} for m in wanted}
        for topic, owners in shop.plan().items():
            for partition, member in owners.items():
                answer[member].setdefault(topic, []).append(partition)
        found = (loads(instance, answer), moves(instance, answer))
        assert found == (instance["opt"]["loads"], instance["opt"]["min_moves"]), instance["id"]


def _alone(instance: Mapping[str, Any]) -> Owners:
    """What one member alone has and may keep."""
    found: Owners = {}
    for (topic, partition), claimed in claimants(instance).items():
        able = {m for m in claimed if topic in instance["members"][m]["topics"]}
        if len(able) == 1:
            found.setdefault(topic, {})[partition] = next(iter(able))
    return found
