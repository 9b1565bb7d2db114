"""Unpacks blocks of records for a Python stage. Executors import this module, so it imports nothing but pyarrow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for Spark's `mapInArrow`."""
BLOCKS = "partitioncoordinator.blocks"
"""The option that tells the reader to return blocks."""
BLOCK = "block"
"""The only column of the frame: an Arrow stream of records, or null."""


@dataclass(frozen=True, slots=True)
class OfBlocks:
    """A stage that unpacks the blocks for another stage, without copying the records."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.stage(_unpacked(batches))


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for block in batch.column(BLOCK):
            yield from pa.ipc.open_stream(block.as_buffer())
