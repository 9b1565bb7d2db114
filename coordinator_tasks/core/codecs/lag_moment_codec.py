"""The node of a lag sample, as packed columns. Readers raise `Malformed`, or its kind `UnknownVersion`."""

from array import array

from coordinator_tasks.core.codecs.packed import column, listed, unwrapped, wrapped
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.measure.lag_moments import COLUMNS, NOBODY, UNKNOWN, LagMoment, TopicMoment
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.text.json_fields import MAX_NUMBER, Fields
from coordinator_tasks.core.text.partition_text import ranges


def encode_lag_moment(moment: LagMoment) -> bytes:
    topics = [
        {
            "topic": topic,
            "group": one.group,
            "partitions": ranges(one.partitions),
            **{name: list(getattr(one, name)) for name in COLUMNS},
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
    partitions = listed(fields, "partitions")
    if partitions and partitions[-1] > MAX_PARTITION:
        raise fields.bad("partitions", f"names a partition above {MAX_PARTITION}")

    def numbers_of(name: str, kind: str, least: int, most: int) -> "array[int]":
        return array(kind, column(fields, name, len(partitions), (least, most)))

    return TopicMoment(
        fields.text("group"),
        array("i", partitions),
        numbers_of("owners", "i", NOBODY, consumers - 1),
        numbers_of("offsets", "q", 0, MAX_NUMBER),
        numbers_of("lags", "q", 0, MAX_NUMBER),
        numbers_of("late", "q", UNKNOWN, MAX_NUMBER),
        numbers_of("statuses", "b", LagStatus.OK, LagStatus.REWIND),
        numbers_of("commits", "b", 0, 1),
    )
