"""Records of actions. Each action writes a record of its changes in the same transaction.

The record is made from the transaction itself, so no change goes unrecorded. A repeated call that changes nothing
leaves no record. `note` records a change in a pipeline's database.
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
"""Maximum characters of a field's value before and after the change."""
MAX_CHANGES = 50
_CHUNK = 200


def recording(c: Coordinator, action: str, about: str, actor: Actor, why: str = "") -> Coordinator:
    """Return a coordinator that records writes to configurations, directives, fleets, upgrades and growth limits."""
    c = c.zk.c if isinstance(c.zk, _Recorder) else c  # a nested action is recorded only under its own name
    return replace(c, zk=cast(ZooKeeper, _Recorder(c, ActionRecord(action, about, actor, 0.0, why))))


def note(c: Coordinator, change: FieldChange) -> None:
    """Record a change outside of ZooKeeper. `c`: from `recording`."""
    cast(_Recorder, c.zk).note(change)


def asked(
    c: Coordinator, about: str = "", limit: int = 100, problems: list[str] | None = None
) -> tuple[ActionRecord, ...]:
    """Return the recorded actions, newest first. `about`: only about this topic, consumer or fleet; empty means all.

    `problems` gets unreadable records. Without `problems`, the first error is raised.
    """
    return tuple(islice((one for one in _backwards(c, problems) if about in ("", one.about)), limit))


def done_by(c: Coordinator, action: str, about: str, actor: Actor, since: float = 0.0) -> bool:
    """Return whether an earlier try of this Airflow task has done this action, at `since` or later.

    Unreadable records do not count, so they stop no action.
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
    """Yield each record's name, with the record or its error. `names` are oldest first. Pruned records are left out."""
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
    """A ZooKeeper session that adds a record to each transaction with changes to a person's settings."""

    c: Coordinator
    asked: ActionRecord

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        changes = tuple(one for operation in operations for one in self._changes(operation))
        record = [self._record(changes)] if changes else []
        return self.c.zk.transact([*operations, *record])[: len(operations)]

    def note(self, change: FieldChange) -> None:
        self.c.zk.transact([self._record((change,))])

    def _record(self, changes: tuple[FieldChange, ...]) -> Operation:
        self.c.zk.ensure(self.c.paths.asked)
        entry = replace(self.asked, at=self.c.clock.now(), changes=changes[:MAX_CHANGES])
        return Create(f"{self.c.paths.asked}/", encode_asked(entry), sequence=True)

    def _changes(self, operation: Operation) -> Iterator[FieldChange]:
        paths = self.c.paths
        folders = (paths.configs, paths.directives, paths.fleets, paths.upgrades, paths.growths)
        recorded = operation.path.startswith(tuple(f"{one}/" for one in folders))
        if not recorded or not isinstance(operation, Create | SetData | Delete):
            return
        # If the node has changed since this read, the guarded write fails together with this record.
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
    """Return the fields of a node. Data that is not a JSON object counts as a single field."""
    try:
        found = json.loads(data) if data else {}
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"data": repr(data[:MAX_CHARS])}


def _shown(value: Any) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return cut(text, MAX_CHARS)
