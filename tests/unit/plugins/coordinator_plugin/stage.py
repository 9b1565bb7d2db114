"""Common parts of tests of the Airflow plugin."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.triggers.base import TriggerEvent

from coordinator_tasks.core.codecs.codec import encode_node, encode_state
from coordinator_tasks.core.model import State, TopicNode, TopicState
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.coordinator import Coordinator
from tests.fakes.cluster import Cluster

DAGS = {name: name for name in ("rebalance", "consumers", "stuck_topic", "approve_plan")}
"""The DAGs started by `reconcile`, by name."""


class Opened:
    def __init__(self, coordinator: Coordinator, problem: Exception | None = None) -> None:
        self.coordinator, self.problem = coordinator, problem
        self.opened = self.closed = 0

    @contextmanager
    def __call__(self) -> Iterator[Coordinator]:
        if self.problem is not None:
            raise self.problem
        self.opened += 1
        yield self.coordinator
        self.closed += 1


async def first(trigger: Any) -> TriggerEvent:
    event: TriggerEvent = await asyncio.wait_for(anext(trigger.run()), 10)
    return event


def stable(shop: Cluster, topic: str, assignments: dict[int, str]) -> None:
    at = shop.clock.now()
    since, incarnations = dict.fromkeys(assignments, 1), dict.fromkeys(assignments.values(), 1)
    node = TopicNode("broker:9092", "g", 1, "g", "id-1", assignments, since, incarnations=incarnations)
    shop.zk.transact([SetData(shop.paths.topic(topic), encode_node(node))])
    state = TopicState(State.STABLE, rebalance="1-abc", since_at=at)
    shop.zk.transact([Create(shop.paths.state(topic), encode_state(state))])
