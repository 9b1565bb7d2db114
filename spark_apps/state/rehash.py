"""Moves the state of each key to the partition that gets the key's records after partitions were added to a topic.

Consumers hold such a topic and write nothing. Each transaction here locks the topic's positions and moves the state of
some keys. The last transaction stores the new number of partitions, and consumers go on. If the process dies before,
the topic stays held, and a repeated call moves the other keys.

All records from before the addition have to be processed: a record in the former partition of its key would not find
the key's state. So the producers stop before the addition.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from coordinator_tasks.core.errors import LookAgain, Refused
from coordinator_tasks.core.text.partition_text import agreed, counted
from spark_apps.delivery import Writer
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import standing
from spark_apps.state import schema as schemas
from spark_apps.state.codec import decode
from spark_apps.state.table import PARTITION, PartitionRow, StateRows, TopicRow, operators_of

KAFKA_KEY = "key"
"""The grouping column with Kafka's key."""
CHUNK = 2_000
"""Keys of a partition that one transaction moves."""
REHASH = "rehash"
"""Stands in place of a consumer's name."""

Partitioner = Callable[[bytes, int], int | None]
"""Kafka's key, and the number of partitions → the key's partition; `None` = any partition."""
Partitioners = Mapping[str, Partitioner]
Keys = Sequence[tuple[bytes, bytes | None]]
"""Keys as stored, each with Kafka's key; `None` = records without a key."""


class StateNotSettled(LookAgain, code="KPC-034"):
    """The state of keys cannot move: records from before the addition of partitions are not processed, or the topic
    changes meanwhile. Moved state stays there; the topic stays held.

    Remedy: if a partition has no leader, or another command moves the state, repeat. If records are not processed:
    [other ways](state.md#partitions-added).
    """


@dataclass(frozen=True, slots=True)
class StatefulTopic:
    """A topic as Kafka describes it now.

    `bounds`: partition → first offset in the log, and the offset after the last. `committed`: the consumers' offsets,
    for partitions without a position in the database.
    """

    cluster: str
    name: str
    id: str
    partition_count: int
    bounds: Mapping[int, tuple[int, int]]
    committed: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Move:
    """A number of keys whose state moves from one partition to another."""

    giver: int
    taker: int
    keys: int


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves of an operator's state.

    `before`, `after`: numbers of partitions. `keys`: all keys. `keyless`: states of records without a key, which stay in
    their partitions.
    """

    operator: str
    before: int
    after: int
    partitioner: str
    keys: int
    keyless: int
    moving: tuple[Move, ...]


def rehash(
    database: Database, topic: StatefulTopic, partitioners: Partitioners, *, execute: bool = False
) -> list[Moves]:
    """Return the moves of each operator whose state began with fewer partitions. With `execute`, perform the moves.

    `partitioners`: those that the producers may use; used is the only one that has placed all present keys. Raises
    `Refused`, `StateNotSettled`, `StateDamaged`.
    """
    with database.transaction() as cursor:
        works = _works(cursor, topic)
        plans = [work.plan(cursor, partitioners) for work in works]
    if execute:
        for work, plan in zip(works, plans, strict=True):
            work.run(database, partitioners[plan.partitioner])
    return plans


def _works(cursor: Cursor, topic: StatefulTopic) -> list["_Work"]:
    writer = Writer(topic.cluster, topic.name, topic.id, REHASH)
    rows = {name: StateRows(cursor, writer, name).topic_row() for name in operators_of(cursor, writer)}
    if not rows:
        raise Refused(
            f"the database has no state of topic {topic.name!r} in cluster {topic.cluster!r}; name the database of the "
            "pipeline's sink, and the cluster of its consumers"
        )
    return [
        _Work(topic, writer, name, row)
        for name, row in rows.items()
        if row is not None and row.partition_count < topic.partition_count
    ]


@dataclass(frozen=True, slots=True)
class _Work:
    """The re-hash of one operator. `begun`: the stored row about its partitions."""

    topic: StatefulTopic
    writer: Writer
    operator: str
    begun: TopicRow

    @property
    def before(self) -> int:
        return self.begun.partition_count

    @property
    def after(self) -> int:
        """Return the number of partitions to which an interrupted call moves the state, or else Kafka's number."""
        return self.begun.moving_to or self.topic.partition_count

    def plan(self, cursor: Cursor, partitioners: Partitioners) -> Moves:
        """Look at all keys; raises `Refused`, `StateNotSettled`."""
        self._check_settled(cursor)
        state = StateRows(cursor, self.writer, self.operator)
        stored = state.partitions(range(self.after))
        place = _key_place(state, stored)
        _newest(state, stored)
        name = self._fitting(state, partitioners, place)
        keys, keyless, counts = 0, 0, Counter[tuple[int, int]]()
        for partition, page in self._pages(state, place):
            keys += len(page)
            keyless += sum(key is None for _, key in page)
            for target, some in self._moving(state, partition, page, partitioners[name]).items():
                counts[partition, target] += len(some)
        moving = tuple(Move(*pair, number) for pair, number in sorted(counts.items()))
        return Moves(self.operator, self.before, self.after, name, keys, keyless, moving)

    def run(self, database: Database, partition_of: Partitioner) -> None:
        """Move the state, then let consumers go on."""
        with self._transaction(database) as state:
            state.put_topic_row(TopicRow(self.before, self.after))
            stored = state.partitions(range(self.after))
            place = _key_place(state, stored)
            schema, watermark_ms = _newest(state, stored), max((one.watermark_ms for one in stored.values()), default=0)
            for partition in range(self.after if stored else 0):
                state.put_partition(partition, PartitionRow(schema, watermark_ms))
        for partition in range(self.after):
            last: bytes | None = b""
            while last is not None:
                with self._transaction(database) as state:
                    page = _page(state, partition, place, last)
                    for target, some in self._moving(state, partition, page, partition_of).items():
                        state.move(partition, target, some)
                last = page[-1][0] if page else None
        with self._transaction(database) as state:
            state.put_topic_row(TopicRow(self.after))

    @contextmanager
    def _transaction(self, database: Database) -> Iterator[StateRows]:
        with database.transaction() as cursor:
            self._check_settled(cursor)
            state = StateRows(cursor, self.writer, self.operator)
            row = state.topic_row()
            if row is None or row.partition_count != self.before or row.moving_to not in (None, self.after):
                raise StateNotSettled(f"{self._named}: another command moves the state meanwhile; repeat")
            yield state

    def _check_settled(self, cursor: Cursor) -> None:
        """Lock the topic's positions; raise `StateNotSettled` unless all records of its former partitions are processed."""
        positions = standing(cursor, self.writer, range(self.after))
        for partition in range(self.before):
            if partition not in self.topic.bounds:
                raise StateNotSettled(
                    f"{self._named}: partition {partition} has no leader, so the end of its log is unknown; repeat later"
                )
            first, end = self.topic.bounds[partition]
            topic_id, entry = positions.get(partition, ("", None))
            offset = entry.offset if entry is not None and topic_id == self.topic.id else None
            offset = self.topic.committed.get(partition, first) if offset is None else offset
            unread = end - max(first, offset)
            if unread > 0:
                raise StateNotSettled(
                    f"{self._named}: {counted(unread, 'offset')} of partition {partition} {agreed(unread, 'is', 'are')} not processed, and a "
                    "re-hash would move the keys' state away from these records; stop the producers and let the consumers process all "
                    "records before partitions are added"
                )
            if offset > end:
                raise StateNotSettled(
                    f"{self._named}: a consumer has processed records of partition {partition} meanwhile; stop the producers, and "
                    "repeat"
                )

    def _fitting(self, state: StateRows, partitioners: Partitioners, place: int) -> str:
        """Return the partitioner that has placed all keys; raises `Refused`."""
        misplaced, example = Counter[str](), dict[str, str]()
        for partition, page in self._pages(state, place):
            for name, partition_of in partitioners.items():
                for _, key in page:
                    if key is not None and not {partition, None} & self._homes(key, partition_of):
                        misplaced[name] += 1
                        example.setdefault(name, f"{key!r:.100} in partition {partition}")
        fitting = [name for name in partitioners if not misplaced[name]]
        if not fitting:
            told = "; ".join(
                f"{name}: {counted(misplaced[name], 'key')}, such as {example[name]}" for name in partitioners
            )
            raise Refused(
                f"{self._named}: some keys have state in partitions to which no known partitioner sends them ({told}); the "
                "producers use a partitioner of their own, or several, or the key is not Kafka's key, so their new partitions are unknown"
            )
        if len(fitting) > 1 and self._differ([partitioners[name] for name in fitting], state, place):
            raise Refused(
                f"{self._named}: the present keys fit several partitioners ({', '.join(fitting)}); name the producers' "
                "partitioner with --partitioner: Java's clients use murmur2, librdkafka's clients consistent unless set otherwise"
            )
        return fitting[0]

    def _differ(self, several: Sequence[Partitioner], state: StateRows, place: int) -> bool:
        """Return whether these partitioners send a key to different new partitions."""
        return any(
            key is not None and len({partition_of(key, self.after) for partition_of in several}) > 1
            for _, page in self._pages(state, place)
            for _, key in page
        )

    def _pages(self, state: StateRows, place: int) -> Iterator[tuple[int, Keys]]:
        """Yield the keys of all partitions, in pages, each with its partition."""
        for partition in range(self.after):
            last = b""
            while page := _page(state, partition, place, last):
                yield partition, page
                last = page[-1][0]

    def _homes(self, key: bytes, partition_of: Partitioner) -> set[int | None]:
        return {partition_of(key, self.before), partition_of(key, self.after)}

    def _moving(
        self, state: StateRows, partition: int, keys: Keys, partition_of: Partitioner
    ) -> Mapping[int, Sequence[bytes]]:
        """Return new partition → stored keys that move there. Raises `Refused` if the new partition has such a key."""
        moving: defaultdict[int, list[bytes]] = defaultdict(list)
        for stored, key in keys:
            target = None if key is None else partition_of(key, self.after)
            if target is not None and target != partition:
                moving[target].append(stored)
        for target, some in moving.items():
            double = sorted({key for key, _, _ in state.find(target, some)})
            if double:
                raise Refused(
                    f"{self._named}: {counted(len(double), 'key')} (as stored, the first is {double[0].hex():.100}) {agreed(len(double), 'has', 'have')} state in partition "
                    f"{partition} and in partition {target}: records were processed there before the consumers noticed the added "
                    "partitions; delete one state of each such key, or begin without state under another operator"
                )
        return moving

    @property
    def _named(self) -> str:
        return f"cluster {self.topic.cluster}, topic {self.topic.name}, operator {self.operator}"


def _page(state: StateRows, partition: int, place: int, after: bytes) -> Keys:
    """Return the next keys of a partition; raises `StateDamaged`."""
    return [(stored, _kafka_key(state, partition, stored, place)) for stored in state.keys(partition, after, CHUNK)]


def _kafka_key(state: StateRows, partition: int, stored: bytes, place: int) -> bytes | None:
    try:
        key = decode(stored)[place]
        return key.encode() if isinstance(key, str) else msgspec.convert(key, bytes | None)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError, LookupError, TypeError) as error:
        raise state.damaged(partition, stored, "of state", error) from error


def _key_place(state: StateRows, stored: Mapping[int, PartitionRow]) -> int:
    """Return the place of Kafka's key among the grouping columns; raises `Refused`."""
    for partition, row in stored.items():
        try:
            columns = {one["name"]: one["type"] for one in json.loads(row.schema)["key"]["fields"]}
        except (ValueError, LookupError, TypeError) as error:
            raise state.damaged(partition, b"", PARTITION, error) from error
        if columns.get(KAFKA_KEY) not in ("string", "binary"):
            raise Refused(
                f"operator {state.operator} groups by {', '.join(columns)}, without Kafka's key as text or binary in the column "
                f"'{KAFKA_KEY}', so the new partitions of its groups are unknown; begin without state under another operator"
            )
        return list(columns).index(KAFKA_KEY)
    return 0


def _newest(state: StateRows, stored: Mapping[int, PartitionRow]) -> str:
    """Return the schema under which the state of all partitions can be read; raises `Refused`."""
    texts = sorted({row.schema for row in stored.values()})
    try:
        fitting = [one for one in texts if not any(schemas.changed(other, one, ()) for other in texts)]
    except (ValueError, LookupError, TypeError) as error:
        raise state.damaged(min(stored), b"", PARTITION, error) from error
    if texts and not fitting:
        raise Refused(
            f"operator {state.operator}: partitions have state of releases of the pipeline that gave up different state variables, "
            "so the state cannot be joined; begin without state under another operator"
        )
    return fitting[0] if fitting else ""
