"""Two consumers that write to one sink: a database, or a table of Delta Lake or Iceberg; `contract/test_sinks.py`."""

import json
import os
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkEntry, SinkStep, SinkUnavailable, TransactionalSink, Writer
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.dialects import postgresql
from spark_apps.lakehouse.delta import DeltaSink
from spark_apps.lakehouse.iceberg import IcebergSink
from spark_apps.lakehouse.table_sink import TableSink
from tests.rest_catalog import RestCatalogServer, catalog_in

OLD, NEW = Token(3, 1, "g1"), Token(5, 1, "g1")
ROWS = RowSink("texts", {"text": "TEXT"})
SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("text", pa.string())])
DATABASES = ("sqlite", "postgresql", "postgresql-staged", "mysql")
TABLES = ("delta", "iceberg", "iceberg-rest")
ICEBERG = "shop.texts"
REST_CATALOG = "REST_CATALOG"
"""Variable of the environment with the address of the REST catalog, for further processes of a test too."""
SINKS = (*DATABASES, *TABLES)


def rows_of(writer: Writer, steps: Mapping[int, SinkStep]) -> pa.Table:
    """A row for each offset of the steps."""
    return pa.Table.from_pylist(
        [
            {"topic": writer.topic, "partition": partition, "offset": offset, "text": f"{writer.consumer}{offset}"}
            for partition, step in steps.items()
            for offset in range(step.start, step.end)
        ],
        SCHEMA,
    )


def patient_claim(
    sink: TransactionalSink,
    writer: Writer,
    tokens: Mapping[int, Token],
    forget: Mapping[int, int] = MappingProxyType({}),
) -> Mapping[int, SinkEntry]:
    """As a consumer does: a claim that took too long is repeated."""
    until = time.monotonic() + 60
    while True:
        try:
            return sink.claim(writer, tokens, forget)
        except SinkUnavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


class Bench(ABC):
    """Rows in a sink, and consumers `a` and `b` that write to it by connections of their own.

    `failing`: the next batch fails after its rows and before its commit.
    """

    sinks: dict[str, Any]

    def __init__(self) -> None:
        self.cluster = f"c{uuid.uuid4().hex[:6]}"
        self.failing = False
        self.sinks = {name: self.sink() for name in "ab"}

    @abstractmethod
    def sink(self) -> TransactionalSink:
        """A further consumer's sink."""

    @abstractmethod
    def offsets(self, partition: int = 0) -> list[int]:
        """The offsets of a partition's rows, in order."""

    def writer(self, name: str, topic_id: str = "id-1") -> Writer:
        return Writer(self.cluster, f"orders-{self.cluster}", topic_id, name)

    def claim(
        self, name: str, token: Token, *partitions: int, topic_id: str = "id-1", sought: int = 0
    ) -> Mapping[int, SinkEntry]:
        tokens = dict.fromkeys(partitions or (0,), token)
        return patient_claim(self.sinks[name], self.writer(name, topic_id), tokens, dict.fromkeys(tokens, sought))

    def write(self, name: str, token: Token, start: int, end: int, *partitions: int) -> Mapping[int, SinkEntry]:
        wanted = partitions or (0,)
        steps = {p: SinkStep(token, start, end) for p in wanted}
        refused: Mapping[int, SinkEntry] = self.sinks[name].write(
            self.writer(name), steps, rows_of(self.writer(name), steps)
        )
        return refused

    def close(self) -> None:
        for sink in self.sinks.values():
            sink.close()


class DatabaseBench(Bench):
    """A table of rows in a database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.during: Callable[[], None] = lambda: None
        super().__init__()

    def sink(self) -> DatabaseSink:
        return DatabaseSink(Database(self.url), ROWS.prepare, self._store)

    def _store(self, cursor: Cursor, rows: pa.Table) -> None:
        ROWS.append(cursor, ([row[name] for name in ROWS.columns] for row in rows.to_pylist()))
        self.during()
        if self.failing:
            raise ZeroDivisionError

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with Database(self.url).transaction() as cursor:
            return cursor.query(statement, values)

    def offsets(self, partition: int = 0) -> list[int]:
        topic = self.writer("a").topic
        found = self.query(
            'SELECT "offset" FROM texts WHERE topic = ? AND "partition" = ? ORDER BY 1', topic, partition
        )
        return [offset for (offset,) in found]


def first_of_tokens(commits: Iterable[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """The first commit of each consumer and epoch."""
    first: dict[tuple[str, int], tuple[int, dict[str, Any]]] = {}
    for version, found in commits:
        for entry in found.get("partitions", {}).values():
            first.setdefault((found["consumer"], entry["epoch"]), (version, found))
    return list(first.values())


class TableBench(Bench):
    """A table of a lakehouse."""

    def __init__(self, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kind, self.folder, self._monkeypatch = kind, folder, monkeypatch
        super().__init__()

    def sink(self, **options: Any) -> TableSink:
        return table_sink(self.kind, self.folder, **options)

    @abstractmethod
    def table(self, name: str = "", folder: Path | None = None, version: int | None = None) -> pa.Table:
        """All rows, of a version or the newest."""

    @abstractmethod
    def append(self, rows: pa.Table) -> None:
        """Add rows as another program does."""

    @abstractmethod
    def compact(self) -> None:
        """Rewrite the files as another program does."""

    @abstractmethod
    def clean_up(self) -> None:
        """Delete what time travel alone needs."""

    @abstractmethod
    def claims(self) -> list[tuple[int, dict[str, Any]]]:
        """Version and content of each claim, the oldest first."""

    @abstractmethod
    def replace(self) -> None:
        """Make the table anew, without rows and positions."""

    def before_commits(self, name: str, *acts: Callable[[], Any], claims: bool = False) -> None:
        """Do one thing each between the read and the commit of a consumer's next batches, or of its claims."""
        table = self.sinks[name]._claimed if claims else self.sinks[name]._written
        commit, waiting = table.commit, iter(acts)

        def acted(*arguments: Any) -> None:
            next(waiting, dict)()
            commit(*arguments)

        self._monkeypatch.setattr(table, "commit", acted)

    def write(self, name: str, token: Token, start: int, end: int, *partitions: int) -> Mapping[int, SinkEntry]:
        with self._monkeypatch.context() as patched:
            if self.failing:
                patched.setattr(self.sinks[name]._written, "commit", lambda *_: 1 / 0)
            return super().write(name, token, start, end, *partitions)

    def offsets(self, partition: int = 0) -> list[int]:
        topic = self.writer("a").topic
        rows = self.table().to_pylist()
        return sorted(row["offset"] for row in rows if (row["topic"], row["partition"]) == (topic, partition))


def table_sink(kind: str, folder: Path, columns: list[str] | None = SCHEMA.names, **options: Any) -> TableSink:
    """A sink of this kind on a table in this folder; without columns, the table has to exist."""
    schema = None if columns is None else pa.schema([SCHEMA.field(name) for name in columns])
    if kind == "delta":
        return DeltaSink(str(folder / "texts"), schema=schema, **options)
    return IcebergSink("tests", ICEBERG, catalog_of(kind, folder), schema=schema, **options)


def catalog_of(kind: str, folder: Path) -> dict[str, str]:
    """The properties of a catalog for this folder."""
    if kind == "iceberg":
        return catalog_in(folder)
    return {"type": "rest", "uri": os.environ[REST_CATALOG], "warehouse": str(folder)}


class DeltaBench(TableBench):
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("delta", folder, monkeypatch)

    def _table(self, folder: Path | None = None, version: int | None = None) -> DeltaTable:
        return DeltaTable(str((folder or self.folder) / "texts"), version=version)

    def table(self, name: str = "", folder: Path | None = None, version: int | None = None) -> pa.Table:
        return self._table((folder or self.folder) / name, version).to_pyarrow_table()

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self._table(), rows, mode="append")

    def compact(self) -> None:
        self._table().optimize.compact()

    def clean_up(self) -> None:
        table = self._table()
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 seconds"})
        table.create_checkpoint()
        for commit in (self.folder / "texts" / "_delta_log").glob("*.json"):
            os.utime(commit, (0, 0))
        table.cleanup_metadata()
        assert len(list((self.folder / "texts" / "_delta_log").glob("*.json"))) == 1

    def claims(self) -> list[tuple[int, dict[str, Any]]]:
        commits = [(one["version"], json.loads(one.get("userMetadata", "{}"))) for one in self._table().history()]
        return first_of_tokens(sorted(commits, key=lambda commit: commit[0]))

    def replace(self) -> None:
        shutil.rmtree(self.folder / "texts")


class IcebergBench(TableBench):
    def __init__(self, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(kind, folder, monkeypatch)

    def _table(self, folder: Path | None = None) -> Table:
        return load_catalog("tests", **catalog_of(self.kind, folder or self.folder)).load_table(ICEBERG)

    def table(self, name: str = "", folder: Path | None = None, version: int | None = None) -> pa.Table:
        return self._table((folder or self.folder) / name).scan(snapshot_id=version).to_arrow()

    def append(self, rows: pa.Table) -> None:
        self._table().append(rows)

    def compact(self) -> None:
        table = self._table()
        table.overwrite(table.scan().to_arrow())

    def clean_up(self) -> None:
        self.compact()
        table = self._table()
        present = table.current_snapshot()
        assert present is not None
        for snapshot in table.snapshots():
            if snapshot.snapshot_id != present.snapshot_id:
                table.maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
        assert len(self._table().snapshots()) == 1

    def claims(self) -> list[tuple[int, dict[str, Any]]]:
        commits = [
            (snapshot.snapshot_id, json.loads(snapshot.summary.additional_properties.get("kafka", "{}")))
            for snapshot in self._table().snapshots()
            if snapshot.summary is not None
        ]
        return first_of_tokens(commits)

    def replace(self) -> None:
        catalog = load_catalog("tests", **catalog_of(self.kind, self.folder))
        catalog.drop_table(ICEBERG)
        catalog.create_table(ICEBERG, SCHEMA)


def bench_of(kind: str, request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench on this kind of sink."""
    match kind:
        case "sqlite":
            return DatabaseBench(f"sqlite:///{folder}/rows.sqlite")
        case "postgresql" | "postgresql-staged":
            if kind == "postgresql-staged":
                monkeypatch.setattr(postgresql, "STAGED_ROWS", 1)
            return DatabaseBench(request.getfixturevalue("postgres").url)
        case "mysql":
            return DatabaseBench(request.getfixturevalue("mysql").url)
        case "iceberg" | "iceberg-rest":
            if kind == "iceberg-rest":
                server = RestCatalogServer()
                request.addfinalizer(server.stop)
                monkeypatch.setenv(REST_CATALOG, server.url)
            return IcebergBench(kind, folder, monkeypatch)
        case _:
            return DeltaBench(folder, monkeypatch)
