"""The JSON that crosses the network: a consumer's status, and the metadata of a committed offset."""

import json
from typing import Any

from coordinator_tasks.core.codecs.codec import VERSION, read_token, write_token
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.fields import Fields, dump, read_json
from coordinator_tasks.core.model import Committed, ConsumerStatus, RunningPartition, Token, TopicStatus
from coordinator_tasks.core.names import is_consumer

MAX_STATUS_BYTES = 16 * 1024 * 1024  # a status of 50,000 running partitions


def encode_status(status: ConsumerStatus) -> bytes:
    return dump(
        VERSION,
        {
            "consumer": status.consumer,
            "cluster": status.cluster,
            "incarnation": status.incarnation,
            "bootId": status.boot_id,
            "health": status.health,
            "reports": list(status.reports),
            "topics": {name: _topic(topic) for name, topic in sorted(status.topics.items())},
        },
    )


def _topic(topic: TopicStatus) -> dict[str, Any]:
    return {
        "generation": topic.generation,
        "actedEpoch": topic.acted_epoch,
        "held": {str(p): epoch for p, epoch in sorted(topic.held.items())},
        "queryAlive": topic.query_alive,
        "reports": list(topic.reports),
        "lastBatch": dict(topic.last_batch),
        "running": {str(p): _running(one) for p, one in sorted(topic.running.items())},
    }


def _running(one: RunningPartition) -> dict[str, Any]:
    return {
        "position": one.position,
        "lag": one.lag_records,
        "rate": one.rate,
        "recordBytes": one.record_bytes,
        "token": write_token(one.token),
        "started": one.started,
        "closing": one.closing,
    }


def decode_status(address: str, raw: bytes) -> ConsumerStatus:
    """Read a consumer's answer; raises `Malformed` with the address in place of a path."""
    fields = Fields.parse(address, raw, VERSION, MAX_STATUS_BYTES)
    return ConsumerStatus(
        consumer=fields.text("consumer"),
        cluster=fields.text("cluster"),
        incarnation=fields.count("incarnation"),
        boot_id=fields.text("bootId", ""),
        health=fields.text("health"),
        reports=fields.texts("reports"),
        topics=fields.by_name("topics", _read_topic),
    )


def _read_topic(fields: Fields, key: str) -> TopicStatus:
    topic = fields.nested(key)
    return TopicStatus(
        generation=topic.generation("generation"),
        acted_epoch=topic.count("actedEpoch"),
        held=topic.by_partition("held", Fields.count),
        query_alive=topic.flag("queryAlive"),
        reports=topic.texts("reports"),
        last_batch=topic.by_name("lastBatch", Fields.real),
        running=topic.by_partition("running", _read_running),
    )


def _read_running(fields: Fields, key: str) -> RunningPartition:
    one = fields.nested(key)
    return RunningPartition(
        position=one.number("position"),
        lag_records=None if one.data.get("lag") is None else one.number("lag"),
        rate=None if one.data.get("rate") is None else one.real("rate"),
        record_bytes=None if one.data.get("recordBytes") is None else one.real("recordBytes"),
        token=read_token(one.nested("token")),
        started=one.flag("started"),
        closing=one.flag("closing", False),
    )


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
