"""Counts the requests of a coordinator: to ZooKeeper, to the consumers' interfaces and to Kafka."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Answer, Member
from coordinator_tasks.core.ports import KafkaAdmin, Node, StatusClient, Wanted, Watcher, ZooKeeper
from coordinator_tasks.service.coordinator import Coordinator


@dataclass
class Requests:
    """`nodes` and `lists`: reads by path; `polls`: the consumers of each poll; `kafka`: requests by kind."""

    nodes: Counter[str] = field(default_factory=Counter)
    lists: Counter[str] = field(default_factory=Counter)
    polls: list[tuple[str, ...]] = field(default_factory=list)
    kafka: Counter[str] = field(default_factory=Counter)


@dataclass
class _Counted:
    """Passes everything on to `inner`."""

    inner: Any
    requests: Requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _ZooKeeper(_Counted):
    def get(self, path: str, watch: Watcher | None = None) -> Node:
        self.requests.nodes[path] += 1
        return cast("Node", self.inner.get(path, watch))

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        self.requests.nodes[path] += 1
        return cast("Node | None", self.inner.find(path, watch))

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        self.requests.nodes.update(paths)
        return cast("list[Node | None]", self.inner.get_many(paths, watches))

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        self.requests.lists[path] += 1
        return cast("list[str]", self.inner.children(path, watch))


class _Statuses(_Counted):
    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        if members:
            self.requests.polls.append(tuple(member.consumer for member in members))
        return cast("Mapping[str, Answer]", self.inner.ask(members, known))


class _Kafka(_Counted):
    """A group is a request: so Kafka's client asks."""

    def describe(self, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None) -> Any:
        self.requests.kafka["describe"] += bool(topics)
        return self.inner.describe(topics, problems)

    def committed(self, wanted: Wanted) -> Any:
        self.requests.kafka["committed"] += len(wanted)
        return self.inner.committed(wanted)

    def __getattr__(self, name: str) -> Any:
        if name in ("bounds", "at_times", "group_members"):
            self.requests.kafka[name] += 1
        return getattr(self.inner, name)


def counted(c: Coordinator) -> tuple[Coordinator, Requests]:
    """Return the coordinator with neighbours that count, and the counts."""
    requests = Requests()
    zk = cast("ZooKeeper", _ZooKeeper(c.zk, requests))
    return replace(
        c,
        zk=zk,
        discovery=ZooKeeperDiscovery(zk, c.paths),
        statuses=cast("StatusClient", _Statuses(c.statuses, requests)),
        kafka=cast("KafkaAdmin", _Kafka(c.kafka, requests)),
    ), requests
