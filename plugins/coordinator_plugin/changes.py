"""What the watcher of ZooKeeper compares: a small picture of everything that may call for a plan, or for a launch."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from coordinator_tasks.core.errors import NodeMissing
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Watcher
from coordinator_tasks.service.coordinator import Coordinator

Seen: TypeAlias = dict[str, dict[str, int]]
"""Kind of thing → its name → a number that changes with it."""


class Scope(StrEnum):
    """What is looked at."""

    TOPICS = "topics"  # members, directives, topics' configuration and partitions, lost states: for `rebalance`
    FLEET = "fleet"  # the fleets, and members that went away: for `consumers`


def observe(c: Coordinator, scope: Scope, watcher: Watcher) -> Seen:
    """The picture now; `watcher` is called once at the next change of any of it. Raises `StoreUnavailable` and the like."""
    c.discovery.watch(watcher)
    members = {name: _registration(member.registered_at) for name, member in c.discovery.members().items()}
    if scope is Scope.FLEET:
        return {"member": members, "fleet": _modified(c, c.paths.fleets, watcher)}
    topics = _modified(c, c.paths.configs, watcher)
    return {
        "member": members,
        "directive": _modified(c, c.paths.directives, watcher),
        "topic": topics,
        "partitions of": _children_versions(c, sorted(filter(is_topic, topics)), watcher),
        "state of": dict.fromkeys(_children(c, c.paths.states, watcher), 0),
    }


def differences(before: Seen, now: Seen) -> list[str]:
    """One sentence for each difference that calls for somebody; an empty `before` is a first look, which always does."""
    if not before:
        return ["first look"]
    found: list[str] = []
    for kind, things in now.items():
        if kind == "state of":
            # A state appears by a plan of ours; only one that vanished calls for a plan.
            gone = before.get(kind, {}).keys() - things.keys()
            found.extend(f"{kind} {name} is gone" for name in sorted(gone))
        elif kind == "member" and "fleet" in now:
            gone = before.get(kind, {}).keys() - things.keys()
            found.extend(f"{kind} {name} left" for name in sorted(gone))
        else:
            found.extend(_compared(kind, before.get(kind, {}), things))
    return found


def _compared(kind: str, before: Mapping[str, int], now: Mapping[str, int]) -> Iterator[str]:
    joined, left = ("joined", "left") if kind == "member" else ("is new", "is gone")
    for name in sorted(before.keys() | now.keys()):
        if name not in before:
            yield f"{kind} {name} {joined}"
        elif name not in now:
            yield f"{kind} {name} {left}"
        elif before[name] != now[name]:
            yield f"{kind} {name} changed"


def _registration(registered_at: float) -> int:
    return int(registered_at * 1000)


def _children(c: Coordinator, folder: str, watcher: Watcher) -> Sequence[str]:
    try:
        return c.zk.children(folder, watcher)
    except NodeMissing:
        c.zk.find(folder, watcher)
        return ()


def _modified(c: Coordinator, folder: str, watcher: Watcher) -> dict[str, int]:
    """The folder's children with the transaction that changed each last; each is watched."""
    found = {name: c.zk.find(f"{folder}/{name}", watcher) for name in _children(c, folder, watcher)}
    return {name: node.stat.modified_zxid for name, node in found.items() if node is not None}


def _children_versions(c: Coordinator, topics: Sequence[str], watcher: Watcher) -> dict[str, int]:
    """Topics with the version of their partition lists."""
    for topic in topics:
        _children(c, c.paths.topic(topic), watcher)
    nodes = c.zk.get_many([c.paths.topic(topic) for topic in topics])
    return {topic: node.stat.children_version for topic, node in zip(topics, nodes, strict=True) if node is not None}
