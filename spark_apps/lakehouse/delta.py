"""Delta Lake: one commit holds the rows and the positions. Positions are Delta's application transactions.

A partition has five application transactions. Checkpoints keep them when the log is cleaned up.

- `kafka/CLUSTER/TOPIC/TOPIC_ID/PARTITION`: the offset up to which the table has all records; -1 = none
- `kafka/CLUSTER/TOPIC/PARTITION/...`: the token's `epoch` and `incarnation`, and two digests: `topic`, of the topic's
  id, and `holder`, of the topic's id, the token and the consumer

Each commit of a claim or a batch writes all five. Delta refuses a commit if another commit has written the same
application transactions since the read. So no batch under an old token follows a claim. Other commits, such as appends
or a compaction, do not conflict. The commit's `userMetadata` has the texts behind the digests.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from coordinator_tasks.core.errors import in_one_line
from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkEntry, SinkUnavailable, Writer
from spark_apps.lakehouse import TableRefused
from spark_apps.lakehouse.files import FileWriter, are_files
from spark_apps.lakehouse.fit import fitted
from spark_apps.lakehouse.table_sink import Conflict, TableSink, Tokens, described

try:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.transaction import AddAction
except ImportError as missing:
    raise TableRefused(
        "a sink for Delta Lake needs deltalake, which is not installed here; "
        "install it: pip install 'kafka-partition-coordinator[delta]'"
    ) from missing

PREFIX = "kafka"
NO_OFFSET = -1
UNKNOWN = "another consumer"
"""Shown as the holder if its commit is no longer in the log."""
FORGETS = "delta.setTransactionRetentionDuration"
MAPPED = "delta.columnMapping.mode"
READERS = 8
"""Commits of the log to read in parallel."""


class DeltaSink(TableSink):
    """Exactly once into a Delta table. `storage_options`: options of the package deltalake.

    `schema`: create a missing table with this schema, partitioned by `partition_by`. `evolve`: add columns that the
    table lacks.
    """

    def __init__(
        self,
        table_uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        schema: pa.Schema | None = None,
        partition_by: Iterable[str] = (),
        evolve: bool = False,
    ) -> None:
        options = dict(storage_options or {})
        super().__init__(lambda: _Delta(table_uri, options, schema, list(partition_by), evolve))


class _Delta:
    """One handle of the table, with the application transactions of the version at the last read."""

    def __init__(
        self, uri: str, options: dict[str, str], schema: pa.Schema | None, partition_by: list[str], evolve: bool
    ) -> None:
        self.place = f"Delta table {uri}"
        self._uri, self._options = uri, options
        self._schema, self._partition_by, self._evolve = schema, partition_by, evolve
        self._table: DeltaTable | None = None
        self._log: _Log | None = None

    def read(self, writer: Writer, tokens: Tokens) -> dict[int, tuple[str, SinkEntry]]:
        with self._answering():
            if self._table is None or self._log is None:
                self._table, self._log = self._opened(), _Log(self._uri, self._options)
            else:
                self._table.update_incremental()
            if FORGETS in self._table.metadata().configuration:
                raise TableRefused(f"{self.place} has the property {FORGETS}, by which positions are deleted; unset it")
            self._log.follow(self._table.version())
        entries = {partition: self._log.entry(writer, partition, token) for partition, token in tokens.items()}
        return {partition: entry for partition, entry in entries.items() if entry is not None}

    def commit(self, writer: Writer, entries: Mapping[int, SinkEntry], rows: pa.Table | None) -> None:
        table, version = self._read_table()
        properties = CommitProperties(
            app_transactions=[Transaction(*one) for one in _transactions(writer, entries)],
            custom_metadata={"userMetadata": json.dumps(described(writer, entries))},
        )
        with self._answering():
            try:
                if rows is None or not rows.num_rows or are_files(rows):
                    files = [_added(file) for file in rows.to_pylist()] if rows is not None and rows.num_rows else []
                    table.create_write_transaction(files, "append", table.schema(), commit_properties=properties)
                else:
                    found = fitted(rows, pa.schema(table.schema()), self.place, self._evolve)
                    mode: Any = "merge" if self._evolve else None
                    write_deltalake(table, found, mode="append", schema_mode=mode, commit_properties=properties)
            except CommitFailedError as error:
                if self._opened().version() == version:  # no other commit in between: the table itself refuses
                    raise
                raise Conflict(in_one_line(str(error))) from error

    def file_writer(self) -> FileWriter:
        with self._answering():
            table = self._opened()
            metadata = table.metadata()
        for name in metadata.configuration:
            if name == MAPPED or name.startswith("delta.constraints."):
                raise TableRefused(
                    f"{self.place} has the property {name}: let the driver write the rows, without `files`"
                )
        if metadata.partition_columns:
            raise TableRefused(f"{self.place} has partition columns: let the driver write the rows, without `files`")
        return FileWriter(partial(_create, self._uri, self._options), "", pa.schema(table.schema()), self.place)

    def close(self) -> None:
        self._table = self._log = None

    def _read_table(self) -> tuple[DeltaTable, int]:
        if self._table is None:
            raise Conflict("the table was not read")
        return self._table, self._table.version()

    def _opened(self) -> DeltaTable:
        try:
            return DeltaTable(self._uri, storage_options=self._options)
        except TableNotFoundError:
            if self._schema is None:
                raise
        with suppress(CommitFailedError):  # another consumer has created the table
            DeltaTable.create(
                self._uri, self._schema, mode="ignore", partition_by=self._partition_by, storage_options=self._options
            )
        return DeltaTable(self._uri, storage_options=self._options)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """After an error, let the next `read` open the table anew, because the commit may have been applied."""
        try:
            yield
        except Conflict:
            raise
        except BaseException as error:
            self._table = self._log = None
            if isinstance(error, TableNotFoundError):
                raise TableRefused(
                    f"there is no {self.place}; create the table, or give DeltaSink a schema to create it"
                ) from error
            if isinstance(error, OSError):
                raise SinkUnavailable(f"{self.place} does not answer: {in_one_line(str(error))}") from error
            if isinstance(error, DeltaError):
                raise TableRefused(f"{self.place} cannot be read or written: {in_one_line(str(error))}") from error
            raise


class _Log:
    """The application transactions in Delta's log, from the newest checkpoint and each commit since."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self._files = pyarrow.fs.PyFileSystem(DeltaStorageHandler(uri, options))
        self._version = -1
        self._found: dict[str, int] = {}
        self._names: dict[str, tuple[str, str]] = {}
        """(Partition's key and digest) → generation and consumer."""

    def follow(self, version: int) -> None:
        """Read the log up to this version."""
        if self._version < 0:
            self._read_checkpoint(version)
        with ThreadPoolExecutor(READERS) as readers:
            for lines in readers.map(self._lines, range(self._version + 1, version + 1)):
                for line in lines:
                    self._apply(json.loads(line))
        self._version = version

    def entry(self, writer: Writer, partition: int, token: Token) -> tuple[str, SinkEntry] | None:
        """Return topic id and entry of a partition. `token` is the caller's own."""
        key = _key(writer, partition)
        epoch, incarnation, holder, topic = (
            self._found.get(f"{key}/{name}") for name in ("epoch", "incarnation", "holder", "topic")
        )
        if epoch is None or incarnation is None:
            return None
        generation, consumer = self._names.get(f"{key}/{holder}", ("", UNKNOWN))
        if holder == _holder(writer, token):
            generation, consumer = token.generation, writer.consumer
        offset = self._found.get(_offset_key(writer, partition), NO_OFFSET)
        topic_id = writer.topic_id if topic == _digest(writer.topic_id) else ""
        entry = SinkEntry(Token(epoch, incarnation, generation), consumer, None if offset == NO_OFFSET else offset)
        return topic_id, entry

    def _apply(self, action: Mapping[str, Any]) -> None:
        if "txn" in action:
            self._found[action["txn"]["appId"]] = action["txn"]["version"]
        else:
            self._names |= _names_in(action["commitInfo"].get("userMetadata"))

    def _lines(self, version: int) -> list[bytes]:
        """Return the lines of a commit with an application transaction or the commit's metadata."""
        with self._files.open_input_file(f"_delta_log/{version:020}.json") as file:
            lines: list[bytes] = file.read().splitlines()
        return [line for line in lines if b'"txn"' in line[:20] or b'"commitInfo"' in line[:20]]

    def _read_checkpoint(self, version: int) -> None:
        try:
            with self._files.open_input_file("_delta_log/_last_checkpoint") as file:
                last = json.loads(file.read())
        except FileNotFoundError:
            return
        if last["version"] > version:
            return
        for path in _checkpoint_files(last):
            if path.endswith(".json"):
                with self._files.open_input_file(f"_delta_log/{path}") as file:
                    found = [json.loads(line).get("txn") for line in file.read().splitlines()]
            else:
                table = pyarrow.parquet.read_table(f"_delta_log/{path}", columns=["txn"], filesystem=self._files)
                found = table["txn"].drop_null().to_pylist()
            self._found |= {txn["appId"]: txn["version"] for txn in found if txn is not None}
        self._version = last["version"]


def _create(uri: str, options: dict[str, str], path: str) -> Any:
    return pyarrow.fs.PyFileSystem(DeltaStorageHandler(uri, options)).open_output_stream(path)


def _added(file: Mapping[str, Any]) -> Any:
    return AddAction(file["file"], file["size"], {}, int(time.time() * 1000), True, file["statistics"])


def _checkpoint_files(last: Mapping[str, Any]) -> list[str]:
    """Return the names of a checkpoint's files, from the content of `_last_checkpoint`."""
    name, parts = f"{last['version']:020}.checkpoint", last.get("parts")
    if last.get("v2Checkpoint") is not None:
        return [last["v2Checkpoint"]["path"]]
    if parts is not None:
        return [f"{name}.{number:010}.{parts:010}.parquet" for number in range(1, parts + 1)]
    return [f"{name}.parquet"]


def _transactions(writer: Writer, entries: Mapping[int, SinkEntry]) -> Iterator[tuple[str, int]]:
    for partition, entry in entries.items():
        key = _key(writer, partition)
        yield _offset_key(writer, partition), NO_OFFSET if entry.offset is None else entry.offset
        yield f"{key}/epoch", entry.token.epoch
        yield f"{key}/incarnation", entry.token.incarnation
        yield f"{key}/topic", _digest(writer.topic_id)
        yield f"{key}/holder", _holder(writer, entry.token)


def _names_in(metadata: str | None) -> dict[str, tuple[str, str]]:
    try:
        found = json.loads(metadata or "")
        writer = Writer(**found["kafka"], consumer=found["consumer"])
        return {
            f"{_key(writer, partition)}/{_holder(writer, token)}": (token.generation, writer.consumer)
            for partition, token in (
                (int(key), Token(one["epoch"], one["incarnation"], one["generation"]))
                for key, one in found["partitions"].items()
            )
        }
    except (ValueError, TypeError, LookupError, AttributeError):  # another program's commit
        return {}


def _key(writer: Writer, partition: int) -> str:
    return f"{PREFIX}/{writer.cluster}/{writer.topic}/{partition}"


def _offset_key(writer: Writer, partition: int) -> str:
    return f"{PREFIX}/{writer.cluster}/{writer.topic}/{writer.topic_id}/{partition}"


def _holder(writer: Writer, token: Token) -> int:
    return _digest(writer.topic_id, token.epoch, token.incarnation, token.generation, writer.consumer)


def _digest(*parts: str | int) -> int:
    """Return a digest of 63 bits, because the version of an application transaction is a signed long."""
    return int.from_bytes(hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).digest()) >> 1
