"""Unpacks blocks of records for a Python stage. Executors import this module, so it imports nothing but pyarrow."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import pyarrow as pa

Stage: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for Spark's `mapInArrow`."""
BLOCKS = "partitioncoordinator.blocks"
"""The option that tells the reader to return blocks."""
BLOCK = "block"
"""The only column of the frame: an Arrow stream of records, or null."""
_tasks = count(1)


@dataclass(frozen=True, slots=True)
class OfBlocks:
    """A stage that unpacks the blocks for another stage, without copying the records."""

    stage: Stage

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shorten_collections()
        return self.stage(_unpacked(batches))


def shorten_collections() -> None:
    """Leave the modules of this worker out of garbage collections. Call at the beginning of each task.

    Spark's Python worker collects garbage after each task. With PySpark's modules that takes 30 ms, longer than a small
    batch. At the second task all modules are there, and the collection after the first task has left no garbage. Only
    once, because garbage among the objects of that moment is never collected.
    """
    if next(_tasks) == 2:
        gc.freeze()


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for block in batch.column(BLOCK):
            yield from pa.ipc.open_stream(block.as_buffer())
