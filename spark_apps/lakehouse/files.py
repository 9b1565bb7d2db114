"""Files that executors write: one Parquet file for each Kafka partition of a task. The sink's commit names the files.

Each attempt of a task uses new file names. A file that no commit names does not belong to the table.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_apps.lakehouse.fit import fitted
from spark_apps.records.blocks import shorten_collections

FILES = pa.schema([("partition", pa.int32()), ("file", pa.string()), ("size", pa.int64()), ("statistics", pa.string())])
SPARK_SCHEMA = "partition int, file string, size long, statistics string"


def are_files(rows: pa.Table) -> bool:
    """Return whether the rows of a batch are names of files."""
    return bool(rows.column_names == FILES.names)


@dataclass(frozen=True)
class FileWriter:
    """A function for Spark's `mapInArrow`, which writes a task's rows into files and returns a row for each file.

    `create` opens a new file by its path. `folder` is the beginning of each path.
    """

    create: Callable[[str], Any]
    folder: str
    schema: pa.Schema
    place: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shorten_collections()
        files: dict[int, _File] = {}
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            for partition in pc.unique(rows["partition"]).to_pylist():
                found = rows.filter(pc.equal(rows["partition"], partition))
                if partition not in files:
                    path = f"{self.folder}kafka-{partition}-{uuid.uuid4()}.parquet"
                    files[partition] = _File(path, self.create(path), self.schema)
                files[partition].write(fitted(found, self.schema, self.place, evolve=False))
        written = [{"partition": partition, **file.close()} for partition, file in files.items()]
        yield pa.RecordBatch.from_pylist(written, FILES)


class _File:
    def __init__(self, path: str, output: Any, schema: pa.Schema) -> None:
        self._path, self._output = path, output
        self._writer = pq.ParquetWriter(output, schema)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> dict[str, Any]:
        """Make the file durable. Return its path, its size and Delta's statistics."""
        self._writer.close()
        size = self._output.tell()
        self._output.close()
        return {"file": self._path, "size": size, "statistics": json.dumps(_statistics(self._writer.writer.metadata))}


def _statistics(metadata: Any) -> dict[str, Any]:
    """Return the number of rows of a file, and the bounds of its whole-number columns."""
    bounds: dict[str, tuple[int, int]] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for place in range(metadata.num_columns):
        columns = [group.column(place).statistics for group in groups]
        if columns and all(one is not None and one.has_min_max and type(one.min) is int for one in columns):
            name = metadata.schema.column(place).path
            bounds[name] = min(one.min for one in columns), max(one.max for one in columns)
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: low for name, (low, _) in bounds.items()},
        "maxValues": {name: high for name, (_, high) in bounds.items()},
    }
