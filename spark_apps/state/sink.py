"""The sink of a stateful pipeline: rows, positions and state in one transaction of the same database."""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial

import pyarrow as pa

from coordinator_tasks.core.model import StateOnReset, StateSize, Token
from spark_apps.delivery import SinkEntry, SinkStep, Writer
from spark_apps.delivery.database import Cursor
from spark_apps.delivery.database_sink import Adding, DatabaseSink, Prepare
from spark_apps.delivery.positions import Stored
from spark_apps.state import StatePartitionsAdded, table
from spark_apps.state.batch import Batch, Operator, check_schema
from spark_apps.state.table import StateRows

Clock = Callable[[], float]


class StatefulSink(DatabaseSink):
    """The sink of a pipeline, with the state of its operator in the same database."""

    def __init__(self, sink: DatabaseSink, operator: Operator, clock: Clock = time.time) -> None:
        super().__init__(sink.database, partial(_prepare, sink.prepare), sink.store)
        self._operator = operator
        self._clock = clock
        self._begun_with: dict[str, int | None] = {}  # by topic id; of claims that may have been rolled back
        self.sizes: Mapping[int, StateSize] = {}
        self._batch_sizes: Mapping[int, StateSize] = {}

    def write(
        self, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table, adding: Adding | None = None
    ) -> dict[int, SinkEntry]:
        """See `DatabaseSink`; raises `StateDamaged` if the table was altered."""
        self._batch_sizes = {}
        try:
            refused = super().write(writer, steps, rows, adding)
        except Exception as error:
            if self.database.is_driver_error(error):
                with self.database.transaction() as cursor:
                    table.check_columns(cursor)
            raise
        self.sizes = {**self.sizes, **self._batch_sizes}
        return refused

    def _first_epochs(
        self, cursor: Cursor, writer: Writer, tokens: Mapping[int, Token], stored: Stored
    ) -> Mapping[int, int]:
        """See `DatabaseSink`. An entry that is older than this claim has the token of a former owner."""
        known = {p: entry.token for p, (topic_id, entry) in stored.items() if topic_id == writer.topic_id}
        return StateRows(cursor, writer, "").first_epochs({p: t.epoch for p, t in {**tokens, **known}.items()})

    def _reset(self, cursor: Cursor, writer: Writer, partition: int) -> None:
        """Delete the partition's state, if the person who reset the offset, or else the pipeline, wants so."""
        declared = StateOnReset.KEEP if self._operator.keeps_on_reset else StateOnReset.RESET
        if writer.states.get(partition, declared) is StateOnReset.RESET:
            StateRows(cursor, writer, self._operator.name).clear(partition)

    def _check(self, cursor: Cursor, writer: Writer, partitions: Collection[int]) -> None:
        """Raise `StateChanged` if a partition has state that the processor cannot read, and `StatePartitionsAdded`."""
        rows = StateRows(cursor, writer, self._operator.name)
        count = max([writer.partition_count, *(partition + 1 for partition in partitions)])
        self._begun_with[writer.topic_id] = rows.begun_with(count if writer.partition_count else 0)
        self._check_count(rows, count)
        for partition, stored in rows.partitions(partitions).items():
            check_schema(rows, partition, stored, self._operator)

    @property
    def idle_s(self) -> float:
        return self._operator.idle_s

    def _add(self, cursor: Cursor, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table) -> None:
        state = StateRows(cursor, writer, self._operator.name)
        self._check_count(state, writer.partition_count)
        idle = [p for p, step in steps.items() if step.start == step.end]
        batch = Batch(self._operator, state, int(self._clock() * 1_000))
        self.store(cursor, batch.run(rows, idle))
        self._batch_sizes = {**self._batch_sizes, **batch.sizes}

    def _check_count(self, state: StateRows, count: int) -> None:
        """Raise `StatePartitionsAdded` if the topic has more partitions than when the state began."""
        writer, operator = state.writer, self._operator
        if operator.keeps_partition:
            return
        begun_with = self._begun_with.get(writer.topic_id)
        if begun_with is None or count > begun_with:  # a re-hash may have raised the stored number
            begun_with = self._begun_with[writer.topic_id] = state.begun_with(count if writer.partition_count else 0)
        if begun_with is not None and count > begun_with:
            raise StatePartitionsAdded(
                f"cluster {writer.cluster}, topic {writer.topic}, operator {operator.name}: the topic has {count} partitions, and had "
                f"{begun_with} when the state began, so the state of most keys lies in other partitions than their new records; run "
                f"`coordinator state rehash DATABASE {writer.topic}`, give the operator another name to begin without state, or declare "
                "keeps_partition=True if the producers keep each key in its partition"
            )


def _prepare(tables_of_sink: Prepare, cursor: Cursor) -> None:
    table.prepare(cursor)
    tables_of_sink(cursor)
