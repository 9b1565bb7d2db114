"""The JSON of a consumer's status, and of the metadata of a committed offset."""

import json
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.codec import TOKEN
from coordinator_tasks.core.codecs.former import former_condition
from coordinator_tasks.core.codecs.quick_status import (
    QuickRunning,
    QuickStatus,
    QuickToken,
    QuickTopic,
    quick_metadata,
    quick_status,
)
from coordinator_tasks.core.codecs.shape import VERSION, FieldKind, Item, Shape
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.model import (
    Committed,
    Condition,
    ConsumerStatus,
    Failure,
    LastPass,
    Overwritten,
    RunningPartition,
    Stall,
    StateSize,
    Taken,
    Token,
    TopicStatus,
)
from coordinator_tasks.core.names import MAX_ID_BYTES, is_consumer
from coordinator_tasks.core.text.json_fields import Fields, read_json
from coordinator_tasks.core.text.partition_text import cut

MAX_STATUS_BYTES = 16 * 1024 * 1024  # enough for a status of 50,000 running partitions

MOST_REPORTS = 100
"""Maximum reports for each topic and each consumer. Consumers keep this limit too. A page shows all reports."""
MOST_CHARS = 2_000


def _cut(text: str) -> str:
    return cut(text, MOST_CHARS)


def _sentences(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(_cut, texts[:MOST_REPORTS]))


_SAID = FieldKind(lambda fields, name: _cut(fields.text(name)))
_REPORTS = FieldKind(lambda fields, name: _sentences(fields.texts(name)), list)
"""Sentences for persons, cut to size. Neither errors of Spark nor a hostile consumer can make a page of megabytes."""

_LAST_PASS = Shape(
    LastPass,
    Item("n", kinds.COUNT, attribute="epoch"),
    Item("a", kinds.SPAN, attribute="after_s"),
    Item("u", kinds.optional(kinds.SPAN), attribute="usual_s"),
)
_LAST_PASS_FIELD = kinds.measured(_LAST_PASS.nested)
_TAKEN = Shape(
    Taken,
    Item("waited", kinds.NUMBER),
    Item("ago", kinds.optional(kinds.SPAN), attribute="ago_s"),
    Item("batch", kinds.SPAN, 0.0, attribute="batch_s"),
    Item("released", kinds.optional(kinds.SPAN), attribute="released_s"),
    Item("lastPass", _LAST_PASS_FIELD, sparse=True),  # missing in answers of earlier versions
)
_STALL = Shape(
    Stall,
    Item("longest", kinds.SPAN, attribute="longest_s"),
    Item("partition", kinds.NUMBER),
    Item("partitions", kinds.NUMBER),
    Item("before", kinds.SPAN, 0.0, attribute="before_s"),
)
_OVERWRITTEN = Shape(
    Overwritten,
    Item("by", FieldKind(lambda fields, name: cut(fields.text(name), MAX_ID_BYTES))),
    Item("epoch", kinds.COUNT),
    Item("ago", kinds.SPAN, attribute="ago_s"),
)
LAST_TIMER_MS = 253_402_300_799_000
"""The end of the year 9999, the latest time that a page can show. A later timer is read as this time."""
_STATE = Shape(
    StateSize,
    Item("rows", kinds.COUNT),
    Item("bytes", kinds.COUNT, attribute="value_bytes"),
    Item(
        "firstTimer",
        kinds.optional(FieldKind(lambda fields, name: min(fields.number(name), LAST_TIMER_MS))),
        attribute="first_timer_ms",
    ),
)
_TAKEN_FIELD, _OVERWRITTEN_FIELD = kinds.measured(_TAKEN.nested), kinds.measured(_OVERWRITTEN.nested)
_STATE_FIELD = kinds.measured(_STATE.nested)
_RUNNING = Shape(
    RunningPartition,
    Item("position", kinds.NUMBER),
    Item("lag", kinds.optional(kinds.NUMBER), attribute="lag_records"),
    Item("rate", kinds.optional(kinds.REAL)),
    Item("recordBytes", kinds.optional(kinds.REAL)),
    Item("token", TOKEN.nested),
    Item("started", kinds.FLAG),
    Item("closing", kinds.FLAG, False),
    Item("taken", _TAKEN_FIELD, sparse=True),
    Item("overwritten", _OVERWRITTEN_FIELD, sparse=True),
    Item("state", _STATE_FIELD, sparse=True),
)
_FAILURE = Shape(
    Failure,
    Item("partitions", kinds.PARTITIONS),
    Item("why", _SAID),
    Item("tries", kinds.NUMBER),
    Item("for", kinds.SPAN, attribute="for_s"),
    Item("next", kinds.SPAN, attribute="next_s"),
    Item("away", kinds.FLAG, False, sparse=True),  # missing in answers of earlier versions
)
_FAILURES = kinds.measured(
    FieldKind(
        lambda fields, name: tuple(_FAILURE.read(one) for one in fields.objects(name)[:MOST_REPORTS]),
        lambda failures: [_FAILURE.write(one) for one in failures[:MOST_REPORTS]],
    ),
    (),
)
_STALLS = kinds.measured(kinds.by_count(_STALL.nested), {})
_TOPIC = Shape(
    TopicStatus,
    Item("generation", kinds.GENERATION),
    Item("actedEpoch", kinds.COUNT),
    Item("held", kinds.by_partition(kinds.COUNT)),
    Item("queryAlive", kinds.FLAG),
    Item("reports", _REPORTS),
    Item("lastBatch", FieldKind(kinds.by_name(kinds.REAL).read, dict)),
    Item("running", kinds.by_partition(_RUNNING.nested)),
    Item("stalls", _STALLS, sparse=True),
    Item("failures", _FAILURES, sparse=True),
)


def _answer(*, health: str, condition: Condition | None, **more: Any) -> ConsumerStatus:
    return ConsumerStatus(health=health, condition=condition or former_condition(health), **more)


def _write_condition(condition: Condition) -> str | None:
    return None if condition is Condition.OK else condition.value  # answers of earlier versions have no condition


_CONDITION = kinds.measured(kinds.choice(Condition))
_STATUS = Shape(
    _answer,
    Item("consumer", kinds.TEXT),
    Item("cluster", kinds.TEXT),
    Item("incarnation", kinds.COUNT),
    Item("bootId", kinds.TEXT, ""),
    Item("health", _SAID),
    Item("reports", _REPORTS),
    Item("topics", kinds.by_name(_TOPIC.nested)),
    Item("condition", FieldKind(_CONDITION.read, _write_condition), None, sparse=True),
)

encode_status = _STATUS.encode


def decode_status(address: str, raw: bytes) -> ConsumerStatus:
    """Read a consumer's answer. Raises `Malformed` with the address as the path."""
    quick = quick_status(raw) if len(raw) <= MAX_STATUS_BYTES else None
    return (
        _of_quick(quick) if quick is not None else _STATUS.read(Fields.parse(address, raw, VERSION, MAX_STATUS_BYTES))
    )


def _of_quick(quick: QuickStatus) -> ConsumerStatus:
    return _answer(
        consumer=quick.consumer,
        cluster=quick.cluster,
        incarnation=quick.incarnation,
        boot_id=quick.boot_id,
        health=_cut(quick.health),
        reports=_sentences(quick.reports),
        topics={name: _topic_of(quick.topics[name]) for name in sorted(quick.topics)},
        condition=_read(_CONDITION, quick.condition),
    )


def _topic_of(quick: QuickTopic) -> TopicStatus:
    token_of = cache(lambda token: Token(token.epoch, token.incarnation, token.generation))
    return TopicStatus(
        quick.generation,
        quick.acted_epoch,
        dict(sorted(quick.held.items())),
        {partition: _running_of(quick.running[partition], token_of) for partition in sorted(quick.running)},
        quick.query_alive,
        _sentences(quick.reports),
        dict(sorted(quick.last_batch.items())),
        _read(_STALLS, quick.stalls),
        _read(_FAILURES, quick.failures),
    )


def _read(kind: FieldKind, value: object) -> Any:
    return kind.read(Fields("", {"": value}), "")


def _running_of(quick: QuickRunning, token_of: Callable[[QuickToken], Token]) -> RunningPartition:
    taken = overwritten = None
    if (given := quick.taken) is not None:
        last_pass = None if given.last_pass is None else _read(_LAST_PASS_FIELD, given.last_pass)
        taken = Taken(given.waited, given.ago, given.batch, given.released, last_pass)
    if quick.overwritten is not None:
        overwritten = _read(_OVERWRITTEN_FIELD, quick.overwritten)
    state = None if quick.state is None else _read(_STATE_FIELD, quick.state)
    return RunningPartition(
        quick.position,
        token_of(quick.token),
        quick.started,
        quick.closing,
        quick.lag,
        quick.rate,
        quick.record_bytes,
        taken,
        overwritten,
        state,
    )


def encode_metadata(committed: Committed) -> str:
    """Return the metadata of a committed offset: about 250 bytes of the 4,096 that Kafka allows."""
    token = committed.token or Token(0, 0)
    body: dict[str, object] = {
        "v": VERSION,
        "g": token.generation,
        "e": token.epoch,
        "i": token.incarnation,
        "o": committed.owner,
        "c": committed.cluster,
        "t": committed.topic_id,
    }
    if committed.last_pass is not None:
        body["p"] = _LAST_PASS.write(committed.last_pass)
    if committed.keeps_state:
        body["s"] = True
    return json.dumps(body, separators=(",", ":"))


_token = lru_cache(4_096)(Token)
_is_consumer = lru_cache(4_096)(is_consumer)
"""The commits of a topic have few different owners."""


def decode_metadata(offset: int, metadata: str | None) -> Committed:
    """Return the committed offset with its owner's facts. If another program wrote the metadata, there is no token."""
    quick = quick_metadata(metadata) if metadata else None
    if quick is not None and quick.v == VERSION:
        token = _token(quick.e, quick.i, quick.g)
        last_pass = None if quick.p is None else _read(_LAST_PASS_FIELD, quick.p)
        known = _is_consumer(quick.o)
        ours = Committed(offset, token, quick.o, quick.c, quick.t, last_pass, quick.s)
        return ours if known else Committed(offset)
    try:
        data = read_json(metadata or "")
        if not isinstance(data, dict) or data.get("v") != VERSION:
            return Committed(offset)
        fields = Fields("committed metadata", data)
        token = Token(fields.count("e"), fields.count("i"), fields.generation("g"))
        last_pass = _LAST_PASS_FIELD.read(fields, "p")
        state = data.get("s") is True
        ours = Committed(offset, token, fields.text("o"), fields.text("c"), fields.text("t"), last_pass, state)
        return ours if is_consumer(ours.owner) else Committed(offset)
    except (ValueError, Malformed):
        return Committed(offset)
