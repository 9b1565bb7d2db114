"""Records of requests. Each action writes a record of its changes in the same transaction.

The record is made from the transaction itself, so no action goes unrecorded. A repeated call without changes leaves no
record.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

from coordinator_tasks.core.codecs.history_codec import decode_asked, encode_asked
from coordinator_tasks.core.errors import CoordinatorError, Malformed
from coordinator_tasks.core.model import ActionRecord, Actor, FieldChange
from coordinator_tasks.core.ports import Create, Delete, Operation, SetData, Stat, ZooKeeper
from coordinator_tasks.core.protocol.znodes import find_many, newest_paths, numbered
from coordinator_tasks.core.text.partition_text import cut
from coordinator_tasks.service.coordinator import Coordinator

MAX_CHARS = 500
"""Maximum characters of a field before and after."""
MAX_CHANGES = 50
_CHUNK = 200


def recording(c: Coordinator, action: str, about: str, actor: Actor, why: str = "") -> Coordinator:
    """Return the coordinator for an action.

    Its writes to configurations, directives, fleets and limits of growth are recorded.
    """
    c = c.zk.c if isinstance(c.zk, _Recorder) else c  # a nested action is recorded under its own name only
    return replace(c, zk=cast(ZooKeeper, _Recorder(c, ActionRecord(action, about, actor, 0.0, why))))


def asked(
    c: Coordinator, about: str = "", limit: int = 100, problems: list[str] | None = None
) -> tuple[ActionRecord, ...]:
    """Return the requests, newest first; `about` selects the requests about this topic, consumer or fleet.

    `problems` gets unreadable records. Without `problems`, the first error is raised.
    """
    return tuple(islice((one for one in _backwards(c, problems) if about in ("", one.about)), limit))


def done_by(c: Coordinator, action: str, about: str, actor: Actor, since: float = 0.0) -> bool:
    """Return whether an earlier try of this Airflow task has done this action, at `since` or later.

    An unreadable record stops no action.
    """
    same = (action, actor.dag, actor.run, actor.task)
    return actor.attempt > 1 and any(
        (one.action, one.actor.dag, one.actor.run, one.actor.task) == same and one.at >= since
        for one in asked(c, about, problems=[])
    )


def names(c: Coordinator) -> list[str]:
    """Return the names of the records, oldest first."""
    return numbered(c.zk, c.paths.asked)


def newest(c: Coordinator, names: Sequence[str]) -> Iterator[tuple[str, ActionRecord | CoordinatorError]]:
    """Yield name and record, or its error. `names` are oldest first. Pruned records are left out."""
    for paths in newest_paths(c.paths.asked, names, _CHUNK):
        denied: dict[str, CoordinatorError] = {}
        nodes = find_many(c.zk, paths, denied)
        for name, path in paths.items():
            if name in denied:
                yield name, denied[name]
            elif name in nodes:
                yield name, _decoded(path, nodes[name].data, int(name))


def _decoded(path: str, data: bytes, sequence: int) -> ActionRecord | CoordinatorError:
    try:
        return decode_asked(path, data, sequence)
    except Malformed as error:
        return error


def _backwards(c: Coordinator, problems: list[str] | None) -> Iterator[ActionRecord]:
    for _, one in newest(c, names(c)):
        if isinstance(one, ActionRecord):
            yield one
        elif problems is None:
            raise one
        else:
            problems.append(one.told)


@dataclass(frozen=True, slots=True)
class _Recorder:
    """A session that adds a record to each transaction with changes to a person's settings."""

    c: Coordinator
    asked: ActionRecord

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        changes = tuple(one for operation in operations for one in self._changes(operation))
        if not changes:
            return self.c.zk.transact(operations)
        self.c.zk.ensure(self.c.paths.asked)
        entry = replace(self.asked, at=self.c.clock.now(), changes=changes[:MAX_CHANGES])
        record = Create(f"{self.c.paths.asked}/", encode_asked(entry), sequence=True)
        return self.c.zk.transact([*operations, record])[:-1]

    def _changes(self, operation: Operation) -> Iterator[FieldChange]:
        paths = self.c.paths
        if not operation.path.startswith(
            tuple(f"{one}/" for one in (paths.configs, paths.directives, paths.fleets, paths.upgrades, paths.growths))
        ):
            return
        if not isinstance(operation, Create | SetData | Delete):
            return
        # A guarded write fails if the node has changed, and with it this record.
        node = self.c.zk.find(operation.path)
        before = _fields(node.data if node is not None else b"")
        after = _fields(b"" if isinstance(operation, Delete) else operation.data)
        name = operation.path.removeprefix(f"{paths.base}/")
        for field in dict.fromkeys((*before, *after)):
            measured = operation.path.startswith(paths.growths) and field != "limits"
            if before.get(field) != after.get(field) and not measured:
                yield FieldChange(name, field, _shown(before.get(field)), _shown(after.get(field)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.c.zk, name)


def _fields(data: bytes) -> dict[str, Any]:
    """Return the fields of a node. Anything but a JSON object is a single field."""
    try:
        found = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"data": repr(data[:MAX_CHARS])}


def _shown(value: Any) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return cut(text, MAX_CHARS)
