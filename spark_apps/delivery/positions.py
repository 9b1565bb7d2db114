"""The rules of all transactional sinks: which entries a claim changes, and which partitions a batch leaves out."""

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_tasks.core.model import Token
from spark_apps.delivery import PositionMoved, SinkEntry, SinkStep, Writer

Stored = Mapping[int, tuple[str, SinkEntry]]
"""Partition → topic id and entry."""


def taken(
    writer: Writer, tokens: Mapping[int, Token], forget: Mapping[int, int], stored: Stored
) -> dict[int, SinkEntry]:
    """Return the entries that a claim writes, without partitions whose present entry refuses the token."""
    found: dict[int, SinkEntry] = {}
    for partition, token in tokens.items():
        topic_id, entry = stored.get(partition, ("", None))
        offset = None
        if entry is not None and topic_id == writer.topic_id:
            if entry.refuses(token, writer.consumer):
                continue
            offset = None if entry.token.epoch < forget.get(partition, 0) else entry.offset
        found[partition] = SinkEntry(token, writer.consumer, offset)
    return found


def left_out(writer: Writer, steps: Mapping[int, SinkStep], stored: Stored, place: str) -> dict[int, SinkEntry]:
    """Return the partitions whose entries have another token, so that a batch leaves out their rows.

    Raises `PositionMoved`. `place`: name of the table that holds the positions.
    """
    refused: dict[int, SinkEntry] = {}
    for partition, step in sorted(steps.items()):
        if partition not in stored:
            raise PositionMoved(
                f"{_named(writer, partition)} is gone from {place}: its entry was deleted after the claim; nothing was "
                "written; the partition is claimed again and read from Kafka's committed offset: check who deletes "
                "entries there"
            )
        topic_id, entry = stored[partition]
        if topic_id != writer.topic_id or entry.refuses(step.token, writer.consumer):
            refused[partition] = entry
        elif entry.token != step.token or entry.offset not in (None, step.start):
            raise PositionMoved(
                f"{_named(writer, partition)} stands in {place} at offset {entry.offset} of epoch {entry.token.epoch}, and "
                f"the batch begins at {step.start} of epoch {step.token.epoch}: the entry was edited after the claim; "
                "nothing was written; the partition is claimed again and read from the entry's offset: check who edits "
                "entries there"
            )
    return refused


def check_rows(writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table) -> None:
    """Raise `PositionMoved` if a row's partition has no step."""
    strange = set(pc.unique(rows["partition"]).to_pylist()) - steps.keys()
    if strange:
        raise PositionMoved(
            f"{_named(writer, min(strange))} has rows and no step: the pipeline gave rows a partition that this batch "
            "does not read; nothing was written; let the pipeline keep each record's partition, and start the "
            "consumer again"
        )


def without(rows: pa.Table, partitions: Collection[int]) -> pa.Table:
    """Return the rows whose partition is not among these."""
    if not partitions:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows["partition"], pa.array(sorted(partitions), rows["partition"].type))))


def _named(writer: Writer, partition: int) -> str:
    return f"cluster {writer.cluster}, topic {writer.topic}, partition {partition}"
