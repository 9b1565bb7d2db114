"""The JSON of a history record, one per transition. Readers raise `Malformed` (naming the path)."""

from collections.abc import Iterable
from typing import Any

from coordinator_tasks.core.codecs.codec import VERSION
from coordinator_tasks.core.fields import Fields, dump
from coordinator_tasks.core.model import Actor, Explanation, Move, MoveKind, Reason, Record, State
from coordinator_tasks.core.partition_text import numbers, ranges


def encode_record(record: Record) -> bytes:
    """The data of the record's node; its `sequence` is the node's own."""
    actor = record.actor
    return dump(
        VERSION,
        {
            "topic": record.topic,
            "from": record.source.value,
            "to": record.target.value,
            "epoch": record.epoch,
            "generation": record.generation,
            "rebalance": record.rebalance,
            "cause": record.cause,
            "actor": {
                "kind": actor.kind,
                "who": actor.who,
                "dag": actor.dag,
                "run": actor.run,
                "task": actor.task,
                "try": actor.attempt,
            },
            "at": record.at,
            "lasted": record.lasted_s,
            "rebalanceLasted": record.rebalance_s,
            "moves": _moves(record.moves),
            "confirmed": {c: list(ps) for c, ps in sorted(record.confirmed.items())},
            "counts": dict(sorted(record.counts.items())),
            "digest": record.digest,
            "incarnations": dict(sorted(record.incarnations.items())),
            **({} if record.plan is None else {"plan": _plan(record.plan)}),
        },
    )


def _plan(plan: Explanation) -> dict[str, Any]:
    return {
        "strategy": plan.strategy,
        "inputs": plan.inputs,
        "summary": plan.summary,
        "reasons": [{"text": one.text, "partitions": ranges(one.partitions)} for one in plan.moves],
    }


def _moves(moves: Iterable[Move]) -> list[dict[str, Any]]:
    """Moves of one kind between the same two share an entry: 10,000 of them stay far below a znode's limit."""
    grouped: dict[tuple[str, str, str], list[int]] = {}
    for move in moves:
        grouped.setdefault((move.kind.value, move.giver, move.taker), []).append(move.partition)
    return [
        {"kind": kind, "from": giver, "to": taker, "partitions": partitions}
        for (kind, giver, taker), partitions in grouped.items()
    ]


def decode_record(path: str, raw: bytes, sequence: int) -> Record:
    """Read a record; raises `Malformed`."""
    fields = Fields.parse(path, raw, VERSION)
    return Record(
        topic=fields.text("topic"),
        source=fields.choice("from", State),
        target=fields.choice("to", State),
        epoch=fields.count("epoch"),
        generation=fields.generation("generation", ""),
        rebalance=fields.text("rebalance", ""),
        cause=fields.text("cause", ""),
        actor=_read_actor(fields),
        at=fields.time("at"),
        lasted_s=fields.real("lasted", 0.0),
        rebalance_s=fields.real("rebalanceLasted", 0.0),
        moves=_read_moves(fields),
        confirmed=fields.by_name("confirmed", Fields.partitions),
        counts=fields.by_name("counts", Fields.number),
        digest=fields.text("digest", ""),
        incarnations=fields.by_name("incarnations", Fields.count),
        plan=_read_plan(fields),
        sequence=sequence,
    )


def _read_actor(fields: Fields) -> Actor:
    actor = fields.nested("actor", {})
    return Actor(
        kind=actor.text("kind", ""),
        who=actor.text("who", ""),
        dag=actor.text("dag", ""),
        run=actor.text("run", ""),
        task=actor.text("task", ""),
        attempt=actor.number("try", 0),
    )


def _read_plan(fields: Fields) -> Explanation | None:
    """Records of earlier releases have none."""
    plan = fields.optional("plan")
    if plan is None:
        return None
    reasons = tuple(Reason(one.text("text"), _read_ranges(one)) for one in _objects(plan, "reasons"))
    return Explanation(plan.text("strategy"), plan.text("inputs", ""), plan.text("summary", ""), reasons)


def _read_ranges(fields: Fields) -> tuple[int, ...]:
    try:
        return numbers(fields.text("partitions"))
    except ValueError as error:
        raise fields.bad("partitions", str(error)) from error


def _objects(fields: Fields, name: str) -> list[Fields]:
    listed = fields.raw(name, [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise fields.bad(name, "is not a list of objects")
    return [Fields(fields.path, one, f"{fields.where}{name}[{index}].") for index, one in enumerate(listed)]


def _read_moves(fields: Fields) -> tuple[Move, ...]:
    moves = [
        Move(partition, one.text("from"), one.text("to"), one.choice("kind", MoveKind))
        for one in _objects(fields, "moves")
        for partition in one.partitions("partitions")
    ]
    return tuple(sorted(moves, key=lambda move: move.partition))
