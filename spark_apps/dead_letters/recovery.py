"""Separates the bad records of a batch, to skip or to keep them as dead letters, so that the good records pass."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_tasks import __version__
from coordinator_tasks.core.model import KafkaRecord
from coordinator_tasks.core.ports import RecordAccess
from coordinator_tasks.fleet_values import DATABASE
from spark_apps.agent.ownership.letters import WINDOW_S, LetterCounts
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.dead_letters import (
    Action,
    DeadLettersRefused,
    Letter,
    LetterPlace,
    OnError,
    RecordHasProblem,
    Stage,
    TooManyDeadLetters,
    table,
)
from spark_apps.dead_letters.halving import Span, Spans, apart, size_of
from spark_apps.dead_letters.topic import sender
from spark_apps.delivery import SinkEntry, SinkStep, TransactionalSink, Writer
from spark_apps.delivery.database import Cursor, Database, blames_record, first_line
from spark_apps.delivery.database_sink import Add, DatabaseSink

Place = tuple[int, int]
"""Partition and offset."""
Steps = Mapping[int, SinkStep]
Records = Mapping[Place, KafkaRecord]
Read = Callable[[Spans, int], Records | None]
"""Spans and maximum bytes → records; `None` if the records have more bytes, or some of several are lost."""
Send = Callable[[Sequence[Letter]], None]
MAX_ERROR_CHARS = 4_000
MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a dead letter's key, value and headers. Driver and database hold a letter in one piece."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Bad:
    """The bad records of a batch: (partition, offset) → stage and error."""

    records: dict[Place, tuple[Stage, Exception]] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)

    def add(self, place: Place, stage: Stage, error: Exception) -> None:
        self.records[place] = (stage, error)
        self.counts[place[0]] += 1

    def of(self, partitions: Collection[int]) -> dict[Place, tuple[Stage, Exception]]:
        return {place: bad for place, bad in sorted(self.records.items()) if place[0] in partitions}


@dataclass(frozen=True, slots=True)
class Site:
    """The process's part in the treatment of bad records: the pipelines' settings, and access to records in Kafka.

    `access`: consumer group → access to records.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    access: Callable[[str], RecordAccess] | None = None

    def recovery(self, runner: TopicRunner, policy: OnError, sink: DatabaseSink | None = None) -> "Recovery":
        """Return the treatment of a topic's bad records; raises `DeadLettersRefused`.

        `sink`: unless the policy names a topic, the dead letters go into the database of this sink.
        """
        access = None if self.access is None else self.access(runner.group)

        def read(spans: Spans, most_bytes: int) -> Records | None:
            return None if access is None else access.read(runner.topic, spans, most_bytes, runner.isolation)

        if policy.action != Action.DEAD_LETTER:
            return Recovery(policy, runner, read)
        if access is None:
            raise DeadLettersRefused("dead letters need an access to Kafka's records, and this process has none")
        if policy.topic:
            return Recovery(policy, runner, read, sender(access, policy.topic, runner.topic, runner.group))
        if sink is None and not policy.database:
            raise DeadLettersRefused(
                f"the pipeline of topic {runner.topic} has no DatabaseSink, so its dead letters have no table; name a database in "
                f"OnError(database=...) or the setting {DATABASE}"
            )
        return Recovery(policy, runner, read, database=Database(policy.database) if sink is None else sink.database)


class Recovery:
    """The treatment of the bad records of one topic.

    `read` gets records again. `send` writes letters to a Kafka topic, `database` has the table of letters.
    """

    def __init__(
        self,
        policy: OnError,
        runner: TopicRunner,
        read: Read,
        send: Send | None = None,
        database: Database | None = None,
    ) -> None:
        self.policy = policy
        self._runner = runner
        self.read = read
        self._send = send
        self._database = database

    # Exactly once ----------------------------------------------------------------------------------------------------

    def write(
        self, sink: DatabaseSink, writer: Writer, steps: Steps, rows: pa.Table, bad: Bad
    ) -> Mapping[int, SinkEntry]:
        """Write good rows, dead letters and positions in one transaction. `bad`: the bad records found so far."""
        if not bad.records:
            try:
                return self._noted(steps, bad, sink.write(writer, steps, rows))
            except Exception as error:
                if not self.may_recover(error, steps, sink.database.blames_record):
                    raise
                log.warning("topic %s: a batch failed, and its bad records are set apart: %s", writer.topic, error)
        if self._database is not None:
            self._recall(steps)  # first: the transaction of the sink below may lock the whole database
            with self._database.transaction() as cursor:  # first: MySQL commits when it creates a table
                table.prepare(cursor)
        found = Bad(dict(bad.records), Counter(bad.counts))
        adding = partial(self._add, writer, found, sink.database.blames_record)
        return self._noted(steps, found, sink.write(writer, steps, rows, adding))

    def write_beside(
        self, sink: TransactionalSink, writer: Writer, steps: Steps, rows: pa.Table, bad: Bad
    ) -> Mapping[int, SinkEntry]:
        """Keep the dead letters, then write the good rows into a sink that cannot store letters.

        If the batch is repeated, its letters are kept again. A row that the sink refuses stops the partition.
        """
        self.keep(writer, steps, bad)
        return self._noted(steps, bad, sink.write(writer, steps, rows))

    def _add(
        self,
        writer: Writer,
        bad: Bad,
        blames: Callable[[Exception], bool],
        cursor: Cursor,
        steps: Steps,
        rows: pa.Table,
        add: Add,
    ) -> None:
        ordered = rows.sort_by([(name, "ascending") for name in ("partition", "offset") if name in rows.column_names])
        spans = spans_of(steps)
        divisible = "offset" in rows.column_names or size_of(spans) == 1

        def attempt(some: Spans) -> None:
            part = within(ordered, some) if "offset" in rows.column_names else ordered
            if part.num_rows:
                with cursor.savepoint(blames):
                    add({span.partition: steps[span.partition] for span in some}, part)

        idle = {partition: step for partition, step in steps.items() if step.end == step.start}
        if idle:
            add(idle, rows.slice(0, 0))
        found = partial(self.found, steps, bad, Stage.STORE)
        # Without known bad records, this call follows a failed write of all rows together.
        fails = divisible and not bad.records and bool(spans)
        apart(spans, attempt, lambda error: divisible and blames(error), found, fails=fails)
        letters = self.letters(writer, bad.of(steps))
        if letters and self._send is not None:
            self._send(letters)
        elif letters:
            table.put_letters(cursor, letters)

    def without_problems(self, rows: pa.Table, steps: Steps, bad: Bad) -> pa.Table:
        """Return the rows of records without a problem, without the problem column. Note the other records as bad."""
        column = self.policy.problem_column
        problems, kept = rows[column], rows.drop_columns([column])
        if problems.null_count == len(problems):
            return kept
        told = rows.filter(pc.is_valid(problems)).select(["partition", "offset", column]).to_pylist()
        for row in sorted(told, key=lambda one: (one["partition"], one["offset"])):
            place = row["partition"], row["offset"]
            if not self.policy.recovers:
                raise RecordHasProblem(f"partition {place[0]}, offset {place[1]}: {row[column]}")
            if place not in bad.records and place[0] in steps:
                self.found(steps, bad, Stage.PROBLEM, *place, RecordHasProblem(str(row[column])))
        return kept.filter(pc.invert(_at(kept, bad.records)))

    # At least once ---------------------------------------------------------------------------------------------------

    def deliver(self, writer: Writer, steps: Steps, attempt: Callable[[Spans], None]) -> None:
        """Deliver a batch by calls of `attempt`. Its bad records are left out."""
        bad = Bad()
        apart(
            spans_of(steps),
            attempt,
            lambda error: self.policy.recovers and blames_record(error),
            partial(self.found, steps, bad, Stage.STORE),
        )
        self.keep(writer, steps, bad)
        self.note(steps, bad)

    def keep(self, writer: Writer, steps: Steps, bad: Bad) -> None:
        """Keep the dead letters of a batch, outside of the sink's transaction."""
        letters = self.letters(writer, bad.of(steps))
        if letters and self._send is not None:
            self._send(letters)
        elif letters and self._database is not None:
            with self._database.transaction() as cursor:
                table.prepare(cursor)
                table.put_letters(cursor, letters)

    # Every delivery --------------------------------------------------------------------------------------------------

    def may_recover(self, error: Exception, steps: Steps, blames: Callable[[Exception], bool]) -> bool:
        """Return whether bad records are separated and a record of the batch may have caused the error."""
        return self.policy.recovers and bool(size_of(spans_of(steps))) and blames(error)

    def found(self, steps: Steps, bad: Bad, stage: Stage, partition: int, offset: int, error: Exception) -> None:
        """Note a bad record; raises `TooManyDeadLetters`."""
        bad.add((partition, offset), stage, error)
        step, policy = steps[partition], self.policy
        self._recall({partition: step})

        def stopped(letters: LetterCounts) -> bool:
            if letters.exceeds(
                partition, bad.counts[partition], step.end - step.start, policy.share, policy.per_minute
            ):
                letters.stop(partition, step.token.epoch, step.end)
            return letters.is_stopped(partition, step.token.epoch, step.start)

        if self._runner.edit(lambda ownership: stopped(ownership.letters)):
            raise TooManyDeadLetters(
                f"partition {partition}: more than {policy.per_minute} records, or more than {policy.share:.2%} of all, could "
                f"not be processed within a minute, so the pipeline is at fault and not a record; the partition stops; the last "
                f"error: {type(error).__name__}: {first_line(error)}"
            ) from error

    def _recall(self, steps: Steps) -> None:
        """Count the last minute's letters in the table, once for each grant.

        A former owner has stored these letters, or this consumer before a restart.
        """
        if self._database is None:
            return

        def unknown(letters: LetterCounts) -> list[int]:
            return [p for p, step in steps.items() if not letters.has_recalled(p, step.token.epoch)]

        writer, fresh = self._runner.see(lambda ownership: (ownership.writer, unknown(ownership.letters)))
        if not fresh:
            return
        now_ms = int(time.time() * 1_000)
        with self._database.transaction() as cursor:
            known = cursor.has_table(table.TABLE)
            stored = table.since(cursor, writer, fresh, now_ms - int(WINDOW_S * 1_000)) if known else {}

        def recall(letters: LetterCounts) -> None:
            for p in fresh:
                ages = {offset: (now_ms - at_ms) / 1_000 for offset, at_ms in stored.get(p, {}).items()}
                letters.recall(p, steps[p].token.epoch, steps[p].start, ages)

        self._runner.edit(lambda ownership: recall(ownership.letters))

    def letters(self, writer: Writer, bad: Mapping[Place, tuple[Stage, Exception]]) -> list[Letter]:
        """Return the dead letters of these records, read from Kafka again; empty if bad records are skipped."""
        if self.policy.action != Action.DEAD_LETTER or not bad:
            return []
        now_ms = int(time.time() * 1_000)
        spans = {place: Span(place[0], place[1], place[1] + 1) for place in bad}
        together = self.read([*spans.values()], MAX_RECORD_BYTES)
        letters = []
        for place, (stage, error) in bad.items():
            records = self.read([spans[place]], MAX_RECORD_BYTES) if together is None else together
            letters.append(letter_of(writer, place, records, stage, error, now_ms))
        return letters

    def _noted(self, steps: Steps, bad: Bad, refused: Mapping[int, SinkEntry]) -> Mapping[int, SinkEntry]:
        self.note({partition: step for partition, step in steps.items() if partition not in refused}, bad)
        return refused

    def note(self, steps: Steps, bad: Bad) -> None:
        """Count and log the bad records of a batch whose other records have passed."""
        if not self.policy.recovers:
            return

        def note(letters: LetterCounts) -> None:
            for partition, step in steps.items():
                letters.note(partition, bad.counts[partition], step.end - step.start)

        self._runner.edit(lambda ownership: note(ownership.letters))
        done = "skipped" if self.policy.action == Action.SKIP else "dead letter"
        for (partition, offset), (stage, error) in bad.of(steps).items():
            log.warning(
                "topic %s, partition %d, offset %d: %s: %s (%s): %s",
                *(self._runner.topic, partition, offset, done, stage, type(error).__name__, first_line(error)),
            )


def letter_of(
    writer: Writer, place: Place, records: Records | None, stage: Stage, error: Exception, now_ms: int
) -> Letter:
    """Return the dead letter of a record. `records`: the records read again; `None` if the record is too large."""
    content, note = (records or {}).get(place), ""
    if content is None:
        gone = "the log no longer has the record"
        large = f"the record has more than {MAX_RECORD_BYTES:,} bytes, too many for a dead letter"
        content, note = KafkaRecord(), f" ({large if records is None else gone})"
    kind, text = shown_error(error)
    return Letter(
        place=LetterPlace(writer.cluster, writer.topic, writer.topic_id, *place),
        key=content.key,
        value=content.value,
        headers=content.headers,
        timestamp_ms=content.timestamp_ms,
        timestamp_type=content.timestamp_type,
        kind=kind,
        error=text + note,
        stage=stage,
        release=__version__,
        consumer=writer.consumer,
        failed_at_ms=now_ms,
    )


def spans_of(steps: Steps) -> list[Span]:
    """Return the offsets of a batch, in the order of the partitions."""
    return [Span(p, step.start, step.end) for p, step in sorted(steps.items()) if step.end > step.start]


def within(rows: pa.Table, spans: Spans) -> pa.Table:
    """Return the rows whose records are in the spans."""
    partitions, offsets = rows["partition"], rows["offset"]
    conditions = (
        pc.and_(pc.equal(partitions, p), pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))
        for p, start, end in spans
    )
    return rows.filter(reduce(pc.or_, conditions))


def _at(rows: pa.Table, places: Iterable[Place]) -> pa.ChunkedArray:
    """Return for each row whether its record is at one of these places."""
    of_partition: dict[int, list[int]] = {}
    for partition, offset in places:
        of_partition.setdefault(partition, []).append(offset)
    conditions = (
        pc.and_(pc.equal(rows["partition"], p), pc.is_in(rows["offset"], pa.array(offsets, rows["offset"].type)))
        for p, offsets in of_partition.items()
    )
    return reduce(pc.or_, conditions)


def shown_error(error: Exception) -> tuple[str, str]:
    """Return class and text of an error, shortened, without characters that PostgreSQL refuses."""
    text = str(error).encode("utf-8", "replace").decode().replace("\x00", "")
    return type(error).__name__, text[:MAX_ERROR_CHARS]
