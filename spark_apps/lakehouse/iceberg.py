"""Apache Iceberg: one commit holds the rows and the positions. Positions are properties of the table.

The property `kafka/CLUSTER/TOPIC/PARTITION` holds a partition's entry as JSON. Properties survive compaction, expiry of
snapshots, and the commits of other programs. Each commit of a claim or a batch also adds a snapshot. The catalog takes
the commit only if the branch `main` still has the snapshot that was read. So no batch under an old token follows a
claim. For time travel, the snapshot's summary repeats the entries that the commit changed.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from coordinator_tasks.core.errors import in_one_line
from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkEntry, SinkUnavailable, Writer
from spark_apps.lakehouse import TableRefused
from spark_apps.lakehouse.files import FileWriter, are_files
from spark_apps.lakehouse.fit import fitted
from spark_apps.lakehouse.table_sink import Conflict, TableSink, Tokens, described

try:
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.exceptions import (
        CommitFailedException,
        NoSuchNamespaceError,
        NoSuchTableError,
        RESTError,
        TableAlreadyExistsError,
        ValidationError,
        ValidationException,
    )
    from pyiceberg.io import FileIO
    from pyiceberg.io.pyarrow import _dataframe_to_data_files
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, TableProperties, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from requests import Response, Session
    from requests.adapters import HTTPAdapter
except ImportError as missing:
    raise TableRefused(
        "a sink for Apache Iceberg needs pyiceberg, which is not installed here; "
        "install it: pip install 'kafka-partition-coordinator[iceberg]'"
    ) from missing

try:
    from sqlalchemy.exc import SQLAlchemyError
except ImportError:  # installed only for SQL catalogs

    class SQLAlchemyError(Exception):  # type: ignore[no-redef]
        """Stands in for the missing class; never raised."""


PREFIX = "kafka"
SUMMARY = "kafka"
_AWAY = (OSError, RESTError, SQLAlchemyError)
CONNECT_LIMIT_S, ANSWER_LIMIT_S = 10.0, 60.0
"""Limits of each request to a REST catalog. pyiceberg itself has no limit."""


class IcebergSink(TableSink):
    """Exactly once into the Iceberg table `namespace.name`. `catalog`, `properties`: pyiceberg's name and properties.

    `schema`: create a missing table with this schema. `evolve`: add columns that the table lacks.
    """

    def __init__(
        self,
        catalog: str,
        table: str,
        properties: Mapping[str, str] | None = None,
        *,
        schema: pa.Schema | None = None,
        evolve: bool = False,
    ) -> None:
        opened = partial(load_catalog, catalog, **(properties or {}))
        super().__init__(lambda: _Iceberg(opened, table, schema, evolve))


class _Iceberg:
    """One handle of the table, at the version of the last read."""

    def __init__(self, catalog: Callable[[], Catalog], table: str, schema: pa.Schema | None, evolve: bool) -> None:
        self.place = f"Iceberg table {table}"
        self._load, self._name = catalog, table
        self._schema, self._evolve = schema, evolve
        self._catalog: Catalog | None = None
        self._table: Table | None = None
        self._data: tuple[pa.Table, object, list[DataFile]] | None = None

    def read(self, writer: Writer, tokens: Tokens) -> dict[int, tuple[str, SinkEntry]]:
        with self._answering():
            if self._catalog is None:
                self._catalog = _bounded(self._load())
            self._table = self._opened(self._catalog)
            stored = self._table.properties
        found = {partition: stored.get(_key(writer, partition)) for partition in tokens}
        return {
            partition: self._entry(writer, partition, text) for partition, text in found.items() if text is not None
        }

    def commit(self, writer: Writer, entries: Mapping[int, SinkEntry], rows: pa.Table | None) -> None:
        table = self._table
        if table is None:
            raise Conflict("the table was not read")
        # pyiceberg would repeat a refused commit on the new snapshot, and so ignore a claim in between.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        properties = {_key(writer, partition): _text(writer, entry) for partition, entry in entries.items()}
        with self._answering(), table.transaction() as transaction:
            transaction.set_properties(properties)
            summary = {SUMMARY: json.dumps(described(writer, entries))}
            if rows is not None and rows.num_rows and are_files(rows):
                transaction.add_files(rows["file"].to_pylist(), summary, check_duplicate_files=False)
                return
            files = self._files(transaction, rows) if rows is not None and rows.num_rows else []
            with transaction.update_snapshot(snapshot_properties=summary).fast_append() as snapshot:
                for file in files:
                    snapshot.append_data_file(file)
        self._data = None

    def file_writer(self) -> FileWriter:
        table = self._table
        if table is None:
            with self._answering():
                table = self._opened(self._load())
        folder = f"{table.location()}/data/"
        schema = table.schema().as_arrow()
        plain = pa.schema([field.remove_metadata() for field in schema])  # `add_files` refuses fields with ids
        return FileWriter(partial(_create, table.io), folder, plain, self.place)

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _files(self, transaction: Transaction, rows: pa.Table) -> list[DataFile]:
        """Write the rows as data files. Repeated tries of a batch use the same files."""
        found = fitted(rows, transaction.table_metadata.schema().as_arrow(), self.place, self._evolve)
        if found.num_columns > len(transaction.table_metadata.schema().fields):
            with transaction.update_schema() as update:
                update.union_by_name(found.schema)
        layout = _layout(transaction.table_metadata)
        if self._data is None or self._data[0] is not rows or self._data[1] != layout:
            table = transaction._table  # noqa: SLF001 - the table of a transaction has no public name
            written = _dataframe_to_data_files(transaction.table_metadata, found, table.io)
            self._data = (rows, layout, list(written))
        return self._data[2]

    def _opened(self, catalog: Catalog) -> Table:
        try:
            return catalog.load_table(self._name)
        except NoSuchTableError:
            if self._schema is None:
                raise
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        try:
            return catalog.create_table(self._name, self._schema)
        except TableAlreadyExistsError:
            return catalog.load_table(self._name)

    def _entry(self, writer: Writer, partition: int, text: str) -> tuple[str, SinkEntry]:
        try:
            found = json.loads(text)
            token = Token(found["epoch"], found["incarnation"], found["generation"])
            return found["topic_id"], SinkEntry(token, found["consumer"], found["offset"])
        except (ValueError, TypeError, LookupError) as error:
            raise TableRefused(
                f"{self.place} has a property {_key(writer, partition)} that another program has changed ({error}); write "
                "its former value again, from the summary of a snapshot, or remove the property"
            ) from error

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (CommitFailedException, ValidationException) as error:
            raise Conflict(in_one_line(str(error))) from error
        except (NoSuchTableError, NoSuchNamespaceError) as error:
            raise TableRefused(
                f"there is no {self.place}; create the table, or give IcebergSink a schema to create it"
            ) from error
        except (ValueError, ValidationError, NotImplementedError) as error:
            raise TableRefused(f"{self.place} cannot be read or written: {in_one_line(str(error))}") from error
        except _AWAY as error:
            raise SinkUnavailable(f"{self.place} does not answer: {in_one_line(str(error))}") from error


class _Bounded(HTTPAdapter):
    """Ends a request without an answer in time."""

    def send(self, *request: Any, **options: Any) -> Response:
        return super().send(*request, **options | {"timeout": (CONNECT_LIMIT_S, ANSWER_LIMIT_S)})


def _bounded(catalog: Catalog) -> Catalog:
    session = getattr(catalog, "_session", None)  # exists in a REST catalog
    if isinstance(session, Session):
        for scheme in ("http://", "https://"):
            session.mount(scheme, _Bounded())
    return catalog


def _create(io: FileIO, path: str) -> Any:
    return io.new_output(path).create()


def _layout(metadata: TableMetadata) -> tuple[Any, ...]:
    """Return the parts of the metadata on which data files depend."""
    return metadata.schema(), metadata.spec(), metadata.sort_order()


def _key(writer: Writer, partition: int) -> str:
    return f"{PREFIX}/{writer.cluster}/{writer.topic}/{partition}"


def _text(writer: Writer, entry: SinkEntry) -> str:
    token = entry.token
    return json.dumps(
        {
            "topic_id": writer.topic_id,
            "offset": entry.offset,
            "epoch": token.epoch,
            "incarnation": token.incarnation,
            "generation": token.generation,
            "consumer": entry.consumer,
        }
    )
