"""The JSON that crosses the network: a consumer's status, and the metadata of a committed offset."""

import json

from coordinator_tasks.core.codecs.codec import TOKEN
from coordinator_tasks.core.codecs.shape import (
    COUNT,
    FLAG,
    GENERATION,
    NUMBER,
    REAL,
    TEXT,
    TEXTS,
    VERSION,
    Item,
    Kind,
    Shape,
    by_name,
    by_partition,
    optional,
)
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.fields import Fields, read_json
from coordinator_tasks.core.model import Committed, ConsumerStatus, RunningPartition, Token, TopicStatus
from coordinator_tasks.core.names import is_consumer

MAX_STATUS_BYTES = 16 * 1024 * 1024  # a status of 50,000 running partitions

_RUNNING = Shape(
    RunningPartition,
    {
        "position": Item("position", NUMBER),
        "lag": Item("lag_records", optional(NUMBER)),
        "rate": Item("rate", optional(REAL)),
        "recordBytes": Item("record_bytes", optional(REAL)),
        "token": Item("token", TOKEN.nested),
        "started": Item("started", FLAG),
        "closing": Item("closing", FLAG, False),
    },
)
_TOPIC = Shape(
    TopicStatus,
    {
        "generation": Item("generation", GENERATION),
        "actedEpoch": Item("acted_epoch", COUNT),
        "held": Item("held", by_partition(COUNT)),
        "queryAlive": Item("query_alive", FLAG),
        "reports": Item("reports", TEXTS),
        "lastBatch": Item("last_batch", Kind(by_name(REAL).read, dict)),
        "running": Item("running", by_partition(_RUNNING.nested)),
    },
)
_STATUS = Shape(
    ConsumerStatus,
    {
        "consumer": Item("consumer", TEXT),
        "cluster": Item("cluster", TEXT),
        "incarnation": Item("incarnation", COUNT),
        "bootId": Item("boot_id", TEXT, ""),
        "health": Item("health", TEXT),
        "reports": Item("reports", TEXTS),
        "topics": Item("topics", by_name(_TOPIC.nested)),
    },
)

encode_status = _STATUS.encode


def decode_status(address: str, raw: bytes) -> ConsumerStatus:
    """Read a consumer's answer; raises `Malformed` with the address in place of a path."""
    return _STATUS.read(Fields.parse(address, raw, VERSION, MAX_STATUS_BYTES))


def encode_metadata(committed: Committed) -> str:
    """The metadata string of a committed offset (Kafka allows 4,096 bytes; this is about 200)."""
    token = committed.token or Token(0, 0)
    body = {
        "v": VERSION,
        "g": token.generation,
        "e": token.epoch,
        "i": token.incarnation,
        "o": committed.owner,
        "c": committed.cluster,
        "t": committed.topic_id,
    }
    return json.dumps(body, separators=(",", ":"))


def decode_metadata(offset: int, metadata: str | None) -> Committed:
    """What a committed offset says of its owner. Anything that is not ours gives a `Committed` without a token."""
    try:
        data = read_json(metadata or "")
        if not isinstance(data, dict) or data.get("v") != VERSION:
            return Committed(offset)
        fields = Fields("committed metadata", data)
        token = Token(fields.count("e"), fields.count("i"), fields.generation("g"))
        ours = Committed(offset, token, fields.text("o"), fields.text("c"), fields.text("t"))
        return ours if is_consumer(ours.owner) else Committed(offset)
    except (ValueError, RecursionError, Malformed):
        return Committed(offset)
