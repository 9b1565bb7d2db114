"""The node of a lag sample, as packed columns. Readers raise `Malformed`, or its kind `UnknownVersion`."""

from array import array
from collections.abc import Sequence
from typing import Any

from coordinator_tasks.core.codecs.packed import unwrapped, wrapped
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.measure.lag_moments import NOBODY, UNKNOWN, LagMoment, TopicMoment
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.text.json_fields import MAX_NUMBER, Fields
from coordinator_tasks.core.text.partition_text import numbers, ranges


def encode_lag_moment(moment: LagMoment) -> bytes:
    topics = [
        {
            "topic": topic,
            "group": one.group,
            "partitions": ranges(one.partitions),
            "owners": list(one.owners),
            "offsets": list(one.offsets),
            "lags": list(one.lags),
            "late": list(one.late),
            "statuses": list(one.statuses),
            "commits": list(one.commits),
        }
        for topic, one in moment.topics.items()
    ]
    body = {"at": moment.at, "consumers": list(moment.consumers), "topics": topics, "leftOut": moment.left_out}
    return wrapped(VERSION, body)


def decode_lag_moment(path: str, raw: bytes) -> LagMoment:
    fields = unwrapped(Fields.parse(path, raw, VERSION), VERSION)
    consumers = fields.texts("consumers")
    topics = {one.text("topic"): _topic(one, len(consumers)) for one in fields.objects("topics")}
    return LagMoment(fields.time("at"), consumers, topics, fields.number("leftOut", 0))


def _topic(fields: Fields, consumers: int) -> TopicMoment:
    try:
        partitions = numbers(fields.text("partitions"))
    except ValueError as error:
        raise fields.bad("partitions", f"is no list of partitions ({error})") from error
    if partitions and partitions[-1] > MAX_PARTITION:
        raise fields.bad("partitions", f"names a partition above {MAX_PARTITION}")

    def column(name: str, kind: str, least: int, most: int) -> "array[int]":
        return _column(fields, name, array(kind), (least, most), len(partitions))

    return TopicMoment(
        fields.text("group"),
        array("i", partitions),
        column("owners", "i", NOBODY, consumers - 1),
        column("offsets", "q", 0, MAX_NUMBER),
        column("lags", "q", 0, MAX_NUMBER),
        column("late", "q", UNKNOWN, MAX_NUMBER),
        column("statuses", "b", LagStatus.OK, LagStatus.REWIND),
        column("commits", "b", 0, 1),
    )


def _column(fields: Fields, name: str, into: "array[int]", bounds: tuple[int, int], entries: int) -> "array[int]":
    found: Sequence[Any] = fields.data.get(name, ())
    least, most = bounds
    if not isinstance(found, list) or len(found) != entries:
        raise fields.bad(name, f"is not a list of {entries} entries")
    if not all(type(one) is int and least <= one <= most for one in found):
        raise fields.bad(name, f"has another entry than a number from {least} to {most}")
    into.extend(found)
    return into
