"""The JSON of a history record. Each transition has one record. Readers raise `Malformed` (naming the path)."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.cause_codec import CAUSES, with_former_causes
from coordinator_tasks.core.codecs.packed import PACKED_VERSION, is_packed, unwrapped, wrapped
from coordinator_tasks.core.codecs.shape import VERSION, FieldKind, Item, Shape
from coordinator_tasks.core.model import (
    ActionRecord,
    Actor,
    Explanation,
    FieldChange,
    Move,
    MoveKind,
    Pause,
    Pauses,
    Reason,
    Record,
    State,
    Unmoved,
)
from coordinator_tasks.core.text.json_fields import MAX_SPAN_S, Fields, dump

PACK_RECORDS_OVER = 1_000
"""Bytes. A record with more bytes is shorter in the packed form."""


def _write_moves(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """Return the moves, grouped by kind, giver and taker. So 10,000 moves stay far below a znode's limit."""
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for move in moves:
        grouped.setdefault((move.kind.value, move.giver, move.taker), []).append(move.partition)
    return [
        {"kind": kind, "from": giver, "to": taker, "partitions": partitions}
        for (kind, giver, taker), partitions in grouped.items()
    ]


def _read_moves(fields: Fields, name: str) -> tuple[Move, ...]:
    moves = [
        Move(partition, one.text("from"), one.text("to"), one.choice("kind", MoveKind))
        for one in fields.objects(name)
        for partition in one.partitions("partitions")
    ]
    return tuple(sorted(moves, key=lambda move: move.partition))


_REASON = Shape(Reason, Item("text", kinds.TEXT), Item("partitions", kinds.RANGES))
_PLAN = Shape(
    Explanation,
    Item("strategy", kinds.TEXT),
    Item("inputs", kinds.TEXT, ""),
    Item("summary", kinds.TEXT, ""),
    Item("reasons", _REASON.listed, attribute="moves"),
    Item("wasAt", kinds.by_partition(kinds.NUMBER), {}, sparse=True),
    Item("undoes", kinds.TEXT, "", sparse=True),
)
ACTOR = Shape(
    Actor,
    Item("kind", kinds.TEXT, ""),
    Item("who", kinds.TEXT, ""),
    Item("dag", kinds.TEXT, ""),
    Item("run", kinds.TEXT, ""),
    Item("task", kinds.TEXT, ""),
    Item("try", kinds.NUMBER, 0, attribute="attempt"),
)
UNMOVED = Shape(
    Unmoved,
    Item("partitions", kinds.NUMBER),
    Item("longest", kinds.REAL, attribute="longest_s"),
    Item("partition", kinds.NUMBER),
    Item("consumer", kinds.TEXT),
    Item("before", kinds.REAL, attribute="before_s"),
)


_TIMES = {"last": attrgetter("last_at"), "released": attrgetter("released_at"), "first": attrgetter("first_at")}


def _write_pauses(found: Pauses | None) -> dict[str, Any] | None:
    """Return a column for each field, in milliseconds since `base`. So 10,000 partitions stay below a znode's limit."""
    if found is None:
        return None
    known = [at for one in found.measured for at in (one.last_at, one.released_at, one.first_at) if at is not None]
    base = min(known, default=0.0)
    columns = {
        name: [None if value is None else round((value - base) * 1000, 1) for value in map(get, found.measured)]
        for name, get in _TIMES.items()
    }
    return {
        "base": base,
        "partitions": [one.partition for one in found.measured],
        **columns,
        "records": [one.records for one in found.measured],
        "bytes": [one.size for one in found.measured],
        "wait": [_tenths(one.wait_s) for one in found.measured],
        "error": [_tenths(one.error_s) for one in found.measured],
        "least": [one.partition for one in found.measured if one.least],
        "most": [_tenths(one.most_s) for one in found.measured],
        "usual": [_tenths(one.usual_s) for one in found.measured],
        "missing": found.missing,
        "unmoved": None if found.unmoved is None else UNMOVED.write(found.unmoved),
        "leftOut": list(found.left_out),
    }


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _read_pauses(fields: Fields, name: str) -> Pauses:
    inner = fields.nested(name)
    partitions = inner.partitions("partitions")
    if list(partitions) != inner.data.get("partitions", []):
        raise inner.bad("partitions", "is not sorted, as its columns are")
    base, least = inner.time("base"), frozenset(inner.partitions("least"))

    def cells(which: str) -> Fields:
        values = inner.data.get(which, [])
        if not isinstance(values, list) or len(values) != len(partitions):
            raise inner.bad(which, "is not a list with an entry for each partition")
        return Fields(inner.path, {str(i): one for i, one in enumerate(values)}, f"{inner.where}{which}.")

    def seconds(which: str) -> list[Any]:
        found = cells(which)
        return [
            None if one is None else found.real(key, most=MAX_SPAN_S * 1000) / 1000 for key, one in found.data.items()
        ]

    def numbers_of(which: str) -> list[Any]:
        found = cells(which)
        return [None if one is None else found.number(key) for key, one in found.data.items()]

    times = [seconds(which) for which in _TIMES]
    rest = (numbers_of("records"), numbers_of("bytes"), seconds("wait"), seconds("error"))
    nothing = [None] * len(partitions)
    later = (seconds(which) if which in inner.data else nothing for which in ("most", "usual"))
    measured = []
    for partition, last, released, first, records, size, wait_s, error_s, most_s, usual_s in zip(
        partitions, *times, *rest, *later, strict=True
    ):
        at, came, began = (None if one is None else round(base + one, 4) for one in (last, released, first))
        bounds = (partition in least, most_s, usual_s)
        measured.append(Pause(partition, at, came, began, records or 0, size, wait_s, error_s or 0.0, *bounds))
    unmoved = kinds.optional(UNMOVED.nested).read(inner, "unmoved")
    return Pauses(tuple(measured), inner.number("missing", 0), unmoved, inner.texts("leftOut"))


_RECORD = Shape(
    with_former_causes(Record),
    Item("topic", kinds.TEXT),
    Item("from", kinds.choice(State), attribute="source"),
    Item("to", kinds.choice(State), attribute="target"),
    Item("epoch", kinds.COUNT),
    Item("generation", kinds.GENERATION, ""),
    Item("rebalance", kinds.TEXT, ""),
    Item("cause", kinds.TEXT, ""),
    Item("actor", ACTOR.nested, Actor("")),
    Item("at", kinds.TIME),
    Item("lasted", kinds.REAL, 0.0, attribute="lasted_s"),
    Item("rebalanceLasted", kinds.REAL, 0.0, attribute="rebalance_s"),
    Item("moves", FieldKind(_read_moves, _write_moves)),
    Item("confirmed", kinds.by_name(kinds.PARTITIONS)),
    Item("counts", kinds.by_name(kinds.NUMBER)),
    Item("digest", kinds.TEXT, ""),
    Item("incarnations", kinds.by_name(kinds.COUNT)),
    Item("plan", kinds.optional(_PLAN.nested), sparse=True),  # missing in records of earlier releases
    Item("pauses", kinds.optional(FieldKind(_read_pauses, _write_pauses)), sparse=True),
    Item("unasked", kinds.FLAG, False, sparse=True),
    CAUSES,
)

_CHANGE = Shape(
    FieldChange,
    Item("node", kinds.TEXT),
    Item("field", kinds.TEXT),
    Item("before", kinds.TEXT, ""),
    Item("after", kinds.TEXT, ""),
)
_ASKED = Shape(
    ActionRecord,
    Item("action", kinds.TEXT),
    Item("about", kinds.TEXT),
    Item("actor", ACTOR.nested),
    Item("at", kinds.TIME),
    Item("why", kinds.TEXT, ""),
    Item("changes", _CHANGE.listed, ()),
)

encode_asked = _ASKED.encode


def encode_record(record: Record, pack_over: int | None = None) -> bytes:
    """Return the bytes of a record without `sequence`, which is the number in the node's name.

    The record is packed if its plain form has more than `pack_over` bytes (`None` means never).
    """
    return _encoded(_RECORD.write(record), pack_over)


def decode_record(path: str, raw: bytes, sequence: int) -> Record:
    """Read a record in its plain or packed form; raises `Malformed`."""
    return _RECORD.read(_fields(path, raw), sequence=sequence)


def record_fields(path: str, raw: bytes) -> dict[str, Any]:
    """Return the plain fields of a record in either form, with fields of later releases. Raises `Malformed`."""
    return {name: value for name, value in _fields(path, raw).data.items() if name != "version"}


def with_pauses(path: str, raw: bytes, pauses: Pauses) -> bytes:
    """Return the record with these pauses. Fields of later releases are kept. Raises `Malformed`."""
    return _encoded({**record_fields(path, raw), "pauses": _write_pauses(pauses)}, PACK_RECORDS_OVER)


def _encoded(body: Mapping[str, Any], pack_over: int | None) -> bytes:
    plain = dump(VERSION, body)
    return plain if pack_over is None or len(plain) <= pack_over else wrapped(PACKED_VERSION, body)


def _fields(path: str, raw: bytes) -> Fields:
    fields = Fields.parse(path, raw, PACKED_VERSION)
    return unwrapped(fields, PACKED_VERSION) if is_packed(fields) else fields


def decode_asked(path: str, raw: bytes, sequence: int) -> ActionRecord:
    """Return a person's request; raises `Malformed`."""
    return _ASKED.decode(path, raw, sequence=sequence)
