"""The JSON of a history record, one per transition. Readers raise `Malformed` (naming the path)."""

from collections.abc import Iterable
from typing import Any

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.shape import Item, Kind, Shape
from coordinator_tasks.core.fields import Fields
from coordinator_tasks.core.model import Actor, Asked, Change, Explanation, Move, MoveKind, Reason, Record, State
from coordinator_tasks.core.partition_text import numbers, ranges


def _objects(fields: Fields, name: str) -> list[Fields]:
    listed = fields.data.get(name, [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise fields.bad(name, "is not a list of objects")
    return [Fields(fields.path, one, f"{fields.where}{name}[{index}].") for index, one in enumerate(listed)]


def _read_ranges(fields: Fields, name: str) -> tuple[int, ...]:
    try:
        return numbers(fields.text(name))
    except ValueError as error:
        raise fields.bad(name, str(error)) from error


def _write_moves(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """Moves of one kind between the same two share an entry: 10,000 of them stay far below a znode's limit."""
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
        for one in _objects(fields, name)
        for partition in one.partitions("partitions")
    ]
    return tuple(sorted(moves, key=lambda move: move.partition))


_REASON = Shape(
    Reason, {"text": Item("text", kinds.TEXT), "partitions": Item("partitions", Kind(_read_ranges, ranges))}
)
_REASONS = Kind(
    lambda fields, name: tuple(_REASON.read(one) for one in _objects(fields, name)),
    lambda reasons: [_REASON.write(one) for one in reasons],
)
_PLAN = Shape(
    Explanation,
    {
        "strategy": Item("strategy", kinds.TEXT),
        "inputs": Item("inputs", kinds.TEXT, ""),
        "summary": Item("summary", kinds.TEXT, ""),
        "reasons": Item("moves", _REASONS),
        "wasAt": Item("was_at", kinds.by_partition(kinds.NUMBER), {}, sparse=True),
        "undoes": Item("undoes", kinds.TEXT, "", sparse=True),
    },
)
_ACTOR = Shape(
    Actor,
    {
        "kind": Item("kind", kinds.TEXT, ""),
        "who": Item("who", kinds.TEXT, ""),
        "dag": Item("dag", kinds.TEXT, ""),
        "run": Item("run", kinds.TEXT, ""),
        "task": Item("task", kinds.TEXT, ""),
        "try": Item("attempt", kinds.NUMBER, 0),
    },
)
_RECORD = Shape(
    Record,
    {
        "topic": Item("topic", kinds.TEXT),
        "from": Item("source", kinds.choice(State)),
        "to": Item("target", kinds.choice(State)),
        "epoch": Item("epoch", kinds.COUNT),
        "generation": Item("generation", kinds.GENERATION, ""),
        "rebalance": Item("rebalance", kinds.TEXT, ""),
        "cause": Item("cause", kinds.TEXT, ""),
        "actor": Item("actor", _ACTOR.nested, Actor("")),
        "at": Item("at", kinds.TIME),
        "lasted": Item("lasted_s", kinds.REAL, 0.0),
        "rebalanceLasted": Item("rebalance_s", kinds.REAL, 0.0),
        "moves": Item("moves", Kind(_read_moves, _write_moves)),
        "confirmed": Item("confirmed", kinds.by_name(kinds.PARTITIONS)),
        "counts": Item("counts", kinds.by_name(kinds.NUMBER)),
        "digest": Item("digest", kinds.TEXT, ""),
        "incarnations": Item("incarnations", kinds.by_name(kinds.COUNT)),
        "plan": Item("plan", kinds.optional(_PLAN.nested), sparse=True),  # missing in records of earlier releases
    },
)

_CHANGE = Shape(
    Change,
    {
        "node": Item("node", kinds.TEXT),
        "field": Item("field", kinds.TEXT),
        "before": Item("before", kinds.TEXT, ""),
        "after": Item("after", kinds.TEXT, ""),
    },
)
_ASKED = Shape(
    Asked,
    {
        "action": Item("action", kinds.TEXT),
        "about": Item("about", kinds.TEXT),
        "actor": Item("actor", _ACTOR.nested),
        "at": Item("at", kinds.TIME),
        "why": Item("why", kinds.TEXT, ""),
        "changes": Item(
            "changes",
            Kind(
                lambda fields, name: tuple(_CHANGE.read(one) for one in _objects(fields, name)),
                lambda changes: [_CHANGE.write(one) for one in changes],
            ),
            (),
        ),
    },
)

encode_asked = _ASKED.encode
encode_record = _RECORD.encode  # without its `sequence`, which is the node's own


def decode_record(path: str, raw: bytes, sequence: int) -> Record:
    """Read a record; raises `Malformed`."""
    return _RECORD.decode(path, raw, sequence=sequence)


def decode_asked(path: str, raw: bytes, sequence: int) -> Asked:
    """Read what a person asked for; raises `Malformed`."""
    return _ASKED.decode(path, raw, sequence=sequence)
