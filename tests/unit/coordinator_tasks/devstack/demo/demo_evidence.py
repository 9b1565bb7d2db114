"""A small, correct run of the demo: two consumers, a hand-off to a third, a crash; tests then falsify parts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordinator_tasks.core.model import Actor, Move, MoveKind, Record, Release, State, Token
from coordinator_tasks.devstack.demo.evidence import Evidence, MembershipEvent, Produced, Row, SeenRelease, TaskRun

GENERATION = "g"
PARTITIONS = 4
RECORDS = 40
RATE_S = 0.1  # between two records of a partition
JOIN_AT, RELEASED_AT, STABLE_AT = 1002.0, 1002.5, 1003.0
KILL_AT, TAKEN_AT, RECOVERED_AT = 1003.2, 1003.4, 1003.6
TAKEN_OFFSET = 25  # of partition 1, at the hand-off to c
KILLED_OFFSET = 32  # the first record of partition 0 not processed by a


def move(partition: int, giver: str, taker: str, kind: MoveKind) -> Move:
    return Move(partition, giver, taker, kind)


def record(sequence: int, source: State, target: State, epoch: int, at: float, **more: Any) -> Record:
    actor = Actor("airflow", dag="rebalance", run=f"run-{sequence}", task="plan", attempt=1)
    given: dict[str, Any] = {"incarnations": {"a": 1, "b": 1, "c": 1}, **more}
    return Record(
        "orders",
        source,
        target,
        epoch,
        GENERATION,
        f"r{epoch}",
        "a cause",
        actor,
        at,
        0.0,
        0.0,
        sequence=sequence,
        **given,
    )


def release(partition: int, epoch: int, by: str, offset: int, at: float) -> SeenRelease:
    return SeenRelease(partition, Release(epoch, by, 1, offset, GENERATION, Token(1, 1, GENERATION)), at)


def row(partition: int, offset: int, consumer: str, epoch: int, at: float, incarnation: int = 1) -> Row:
    return Row(consumer, incarnation, epoch, partition, offset, offset, produced_at(offset), at)


def produced_at(offset: int) -> float:
    return 1000.0 + offset * RATE_S


def processed_at(offset: int) -> float:
    """In batches of 0.5 s, each written 0.1 s after the last record."""
    return 1000.6 + (offset // 5) * 0.5


def rows_of(partition: int, consumer: str, epoch: int, first: int, end: int, after: float = 0.0) -> list[Row]:
    return [row(partition, o, consumer, epoch, max(after, processed_at(o))) for o in range(first, end)]


def records() -> list[Record]:
    starts = tuple(move(p, "", "ab"[p % 2], MoveKind.START) for p in range(PARTITIONS))
    gone = {"b": 1, "c": 1}
    return [
        record(0, State.INITIAL, State.STARTING, 1, 999.0, moves=starts, incarnations={"a": 1, "b": 1}),
        record(1, State.STARTING, State.STABLE, 1, 999.5, incarnations={"a": 1, "b": 1}),
        record(2, State.STABLE, State.CLOSING, 2, JOIN_AT + 0.1, moves=(move(1, "b", "c", MoveKind.HANDOFF),)),
        record(3, State.CLOSING, State.STARTING, 3, 1002.8, confirmed={"b": (1,)}),
        record(4, State.STARTING, State.STABLE, 3, STABLE_AT, confirmed={"c": (1,)}),
        record(
            5,
            State.STABLE,
            State.STARTING,
            4,
            TAKEN_AT,
            moves=(move(0, "a", "b", MoveKind.START), move(2, "a", "c", MoveKind.START)),
            incarnations=gone,
        ),
        record(6, State.STARTING, State.STABLE, 4, RECOVERED_AT, incarnations=gone),
    ]


def honest() -> Evidence:
    """A run without faults: 4 partitions of 40 records, one hand-off, one kill with two repeated records."""
    rows = [
        *rows_of(0, "a", 1, 0, KILLED_OFFSET - 2, 0.0),
        *[row(0, o, "a", 1, KILL_AT - 0.1) for o in (KILLED_OFFSET - 2, KILLED_OFFSET - 1)],
        *rows_of(0, "b", 4, KILLED_OFFSET - 2, RECORDS, TAKEN_AT + 0.4),
        *[row(1, o, "b", 1, min(processed_at(o), RELEASED_AT - 0.1)) for o in range(TAKEN_OFFSET)],
        *rows_of(1, "c", 2, TAKEN_OFFSET, RECORDS, RELEASED_AT + 0.1),
        *[row(2, o, "a", 1, min(processed_at(o), KILL_AT - 0.1)) for o in range(30)],
        *rows_of(2, "c", 4, 30, RECORDS, TAKEN_AT + 0.4),
        *rows_of(3, "b", 1, 0, RECORDS),
    ]
    happened = records()
    return Evidence(
        produced=[Produced(p, o, o, produced_at(o)) for p in range(PARTITIONS) for o in range(RECORDS)],
        rows=rows,
        records=happened,
        releases=[release(1, 2, "b", TAKEN_OFFSET, RELEASED_AT)],
        tasks=[TaskRun(r.actor.dag, r.actor.run, r.actor.task, r.actor.attempt, "success") for r in happened],
        killed=frozenset({("a", 1)}),
        partitions=PARTITIONS,
        events=[
            MembershipEvent("join", "c", JOIN_AT, STABLE_AT, 1000.5, 1001.5),
            MembershipEvent("kill", "a", KILL_AT, RECOVERED_AT, 1001.0, 1002.0),
        ],
        counts=[{"a": 2, "b": 2}, {"a": 2, "b": 1, "c": 1}, {"b": 2, "c": 2}],
    )


def with_rows(evidence: Evidence, rows: Sequence[Row]) -> Evidence:
    return replace(evidence, rows=rows)
