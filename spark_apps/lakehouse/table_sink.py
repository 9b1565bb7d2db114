"""The sink of a table format. Claims and batches are commits, decided by the rules of every sink.

Commits are optimistic: read the entries, decide, and commit on condition that no entry has changed since. After a
conflict the entries are read and judged again, so a former owner cannot overwrite a claim.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkEntry, SinkStep, SinkUnavailable, Writer
from spark_apps.delivery.positions import Stored, check_rows, left_out, taken, without
from spark_apps.lakehouse.files import SPARK_SCHEMA, FileWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLAIM_WAIT_S = 0.9
"""Seconds that a claim's caller waits. A slower claim continues, and the next call returns its result."""
MOST_TRIES = 20
LONGEST_PAUSE_S = 1.0
Tokens = Mapping[int, Token]


class Conflict(Exception):
    """Another commit has changed the table since the read. Nothing was written."""


class Table(Protocol):
    """A table of one format; one thread at a time. Raises `SinkUnavailable`, `TableRefused` or the format's error."""

    place: str

    def read(self, writer: Writer, tokens: Tokens) -> Stored:
        """Return the present entries of these partitions. `tokens`: the caller's own tokens."""

    def commit(self, writer: Writer, entries: Mapping[int, SinkEntry], rows: pa.Table | None) -> None:
        """Store entries and rows in one commit, durable on return.

        Raises `Conflict` if one of these entries may have changed since `read`.
        """

    def file_writer(self) -> FileWriter:
        """Return the writer for files on executors, with the table's present columns."""

    def close(self) -> None:
        """Close the connections. The next `read` makes new connections."""


class TableSink:
    """A `delivery.TransactionalSink` on a table. `opened` returns a new handle of the table."""

    def __init__(self, opened: Callable[[], Table]) -> None:
        self._written, self._claimed = opened(), opened()  # two handles, so that a claim need not wait for a batch
        self._lock = threading.Lock()
        self._claiming: _Claim | None = None

    def claim(self, writer: Writer, tokens: Tokens, forget: Mapping[int, int]) -> dict[int, SinkEntry]:
        until = time.monotonic() + CLAIM_WAIT_S
        wanted = (writer, dict(tokens), dict(forget))
        with self._lock:
            while True:
                if self._claiming is None:
                    self._claiming = _Claim(self._claimed, *wanted)
                claim = self._claiming
                claim.thread.join(max(0.0, until - time.monotonic()))
                if claim.thread.is_alive():
                    raise SinkUnavailable(f"{self._claimed.place} has not taken the claim within {CLAIM_WAIT_S:g} s")
                self._claiming = None
                if claim.asked == wanted:
                    return claim.result()

    def write(self, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table) -> dict[int, SinkEntry]:
        check_rows(writer, steps, rows)
        if not steps:
            return {}
        tokens, place = {partition: step.token for partition, step in steps.items()}, self._written.place

        def batch() -> dict[int, SinkEntry]:
            stored = self._written.read(writer, tokens)
            refused = left_out(writer, steps, stored, place)
            moved = {
                partition: replace(stored[partition][1], offset=step.end)
                for partition, step in steps.items()
                if partition not in refused and stored[partition][1].offset != step.end
            }
            if moved:
                self._written.commit(writer, moved, without(rows, refused))
            return refused

        return _repeated(batch, place)

    def files(self, batch: "DataFrame") -> "DataFrame":
        """Let executors write the rows. For `each_batch` of `ExactlyOnce`; the driver gets only names of files."""
        return batch.mapInArrow(self._written.file_writer(), SPARK_SCHEMA)

    def close(self) -> None:
        self._written.close()
        with self._lock:
            claim = self._claiming
        if claim is None or not claim.thread.is_alive():
            self._claimed.close()


class _Claim:
    """A claim under way in a separate thread, so that a hanging store does not delay other partitions."""

    def __init__(self, table: Table, writer: Writer, tokens: Tokens, forget: Mapping[int, int]) -> None:
        self.asked = (writer, tokens, forget)
        self._table = table
        self._found: dict[int, SinkEntry] = {}
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="claim of a table", daemon=True)
        self.thread.start()

    def result(self) -> dict[int, SinkEntry]:
        if self._error is not None:
            raise self._error
        return self._found

    def _run(self) -> None:
        try:
            self._found = _repeated(self._take, self._table.place)
        except BaseException as error:  # noqa: BLE001 - raised by `result` in the caller's thread
            self._error = error

    def _take(self) -> dict[int, SinkEntry]:
        writer, tokens, forget = self.asked
        stored = self._table.read(writer, tokens)
        entries = taken(writer, tokens, forget, stored)
        changed = {
            partition: entry
            for partition, entry in entries.items()
            if stored.get(partition) != (writer.topic_id, entry)
        }
        if changed:
            self._table.commit(writer, changed, None)
        return {partition: entry for partition, (_, entry) in stored.items()} | entries


def _repeated(attempt: Callable[[], dict[int, SinkEntry]], place: str) -> dict[int, SinkEntry]:
    """Return the result of the first attempt without a conflict."""
    for number in range(MOST_TRIES):
        try:
            return attempt()
        except Conflict as error:
            conflict = error
            time.sleep(random.uniform(0, min(LONGEST_PAUSE_S, 0.01 * 2**number)))  # noqa: S311 - a pause is no secret
    raise SinkUnavailable(f"{MOST_TRIES} commits to {place} met commits of other writers: {conflict}") from conflict


def described(writer: Writer, entries: Mapping[int, SinkEntry]) -> dict[str, Any]:
    """Return a description of a commit for people: the writer, and each partition's offset."""
    return {
        "kafka": {"cluster": writer.cluster, "topic": writer.topic, "topic_id": writer.topic_id},
        "consumer": writer.consumer,
        "partitions": {
            str(partition): {
                "epoch": entry.token.epoch,
                "incarnation": entry.token.incarnation,
                "generation": entry.token.generation,
                "offset": entry.offset,
            }
            for partition, entry in entries.items()
        },
    }
