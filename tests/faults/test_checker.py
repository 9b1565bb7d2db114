"""The checker believes nobody: every kind of lie is caught as what it is, and an honest run passes."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.status_codec import encode_metadata
from coordinator_tasks.core.model import Committed, MoveKind, State, Token
from tests.faults.checker import Run, check
from tests.faults.commit_log import LoggedCommit, read_key, read_value
from tests.unit.coordinator_tasks.devstack.demo.demo_evidence import (
    GENERATION,
    KILLED_OFFSET,
    PARTITIONS,
    RECORDS,
    RELEASED_AT,
    TAKEN_AT,
    TAKEN_OFFSET,
    honest,
    move,
    record,
    row,
)

LATE = 1010.0


def commit(partition: int, offset: int, owner: str, epoch: int, at: float, incarnation: int = 1) -> LoggedCommit:
    return LoggedCommit(partition, Committed(offset, Token(epoch, incarnation, GENERATION), owner, "c", "id"), at)


def good() -> Run:
    """A start, a hand-off of partition 1 from b to c, and a's death, which repeats two records of partition 0."""
    evidence = honest()
    passed = {(r.partition, r.consumer, r.epoch, r.offset): r.processed_at for r in evidence.rows}
    unsaid = {(0, "a", 1, o) for o in (KILLED_OFFSET - 2, KILLED_OFFSET - 1)}
    commits = [
        commit(p, offset + 1, who, epoch, at + 0.01)
        for (p, who, epoch, offset), at in passed.items()
        if (p, who, epoch, offset) not in unsaid
    ]
    return Run(
        base=dict.fromkeys(range(PARTITIONS), 0),
        target=dict.fromkeys(range(PARTITIONS), RECORDS),
        rows=evidence.rows,
        commits=sorted(commits, key=lambda c: c.at),
        records=evidence.records,
        releases=evidence.releases,
        killed=evidence.killed,
    )


def kinds(run: Run) -> set[str]:
    return {problem.split(":")[0] for problem in check(run).problems()}


def test_an_honest_run_passes_and_the_death_explains_what_it_repeats() -> None:
    findings = check(good())
    assert findings.problems() == []
    assert len(findings.explained) == 2


def with_rows(run: Run, *rows: object) -> Run:
    return replace(run, rows=[*run.rows, *rows])  # type: ignore[list-item]


def with_commits(run: Run, *commits: LoggedCommit) -> Run:
    return replace(run, commits=sorted([*run.commits, *commits], key=lambda c: c.at))


def changed(partition: int, offset: int, **fields: object) -> Callable[[Run], Run]:
    """Return a lie about the row of this record."""

    def lie(run: Run) -> Run:
        here = (partition, offset)
        return replace(
            run,
            rows=[replace(r, **fields) if (r.partition, r.offset) == here else r for r in run.rows],  # type: ignore[arg-type]
        )

    return lie


def recorded(sequence: int, epoch: int, **fields: object) -> Callable[[Run], Run]:
    """Return a lie with one more record of the history."""
    more = replace(record(sequence, State.STABLE, State.STABLE, epoch, LATE), **fields)  # type: ignore[arg-type]
    return lambda run: replace(run, records=[*run.records, more])


def committed(partition: int, offset: int, owner: str, epoch: int, at: float = LATE) -> Callable[[Run], Run]:
    """Return a lie with one more commit."""
    return lambda run: with_commits(run, commit(partition, offset, owner, epoch, at))


def processed(partition: int, offset: int, owner: str, at: float = LATE) -> Callable[[Run], Run]:
    """Return a lie with one more row, under epoch 1."""
    return lambda run: with_rows(run, row(partition, offset, owner, 1, at))


LIES: dict[str, tuple[str, Callable[[Run], Run]]] = {
    "a record that nobody processed": (
        "lost",
        lambda run: replace(run, rows=[r for r in run.rows if (r.partition, r.offset) != (3, 20)]),
    ),
    "a record of another content": ("invented", changed(3, 20, sequence=7)),
    "a record from before the start": ("invented", lambda run: replace(run, base={**run.base, 3: 5})),
    "a giver that goes on after its release": ("unowned", processed(1, TAKEN_OFFSET, "b", RELEASED_AT + 0.2)),
    "a zombie that wakes up after its partition was given away": ("unowned", processed(0, KILLED_OFFSET, "a")),
    "a death that repeats what was committed": ("duplicated", committed(0, KILLED_OFFSET, "a", 1, TAKEN_AT - 0.15)),
    "a death blamed on somebody who lived": ("duplicated", lambda run: replace(run, killed=frozenset({("b", 1)}))),
    "an owner that leaves a record out and comes back to it": ("disordered", changed(3, 10, processed_at=LATE)),
    "a commit ahead of the sink": ("skipped", committed(3, 30, "b", 1, 1001.0)),
    "a commit of what was never processed": ("skipped", committed(3, RECORDS + 5, "b", 1)),
    "a newer owner that starts behind the effective position": (
        "rewound",
        committed(0, KILLED_OFFSET - 9, "b", 4, TAKEN_AT + 0.01),
    ),
    "an owner whose own commits go back": ("rewound", committed(3, 12, "b", 1)),
    "a commit under a token that nobody granted": ("commits unowned", committed(3, RECORDS, "a", 8)),
    "a commit before the grant": ("commits unowned", committed(1, 1, "c", 2, 1001.5)),
    "a commit of what the giver had released": ("commits unowned", committed(1, TAKEN_OFFSET + 3, "b", 1)),
    "a record of history that is missing": (
        "history",
        lambda run: replace(run, records=[r for r in run.records if r.sequence != 3]),
    ),
    "a transition that is recorded twice": (
        "history",
        lambda run: replace(run, records=[*run.records, replace(run.records[2], sequence=7)]),
    ),
    "an epoch that falls": ("history", recorded(7, 2)),
    "two plans under one epoch": (
        "history",
        recorded(7, 4, target=State.STARTING, moves=(move(3, "b", "c", MoveKind.START),)),
    ),
    "a generation that changes by itself": ("history", recorded(7, 5, generation="x")),
}


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_caught_as_what_it_is(lie: str) -> None:
    kind, told = LIES[lie]
    assert kind in kinds(told(good()))


def test_what_a_life_ran_goes_on_under_its_own_epoch_where_a_plan_gives_it_to_the_same_life_again() -> None:
    kept = move(3, "b", "b", MoveKind.START)
    plan = record(7, State.STABLE, State.STARTING, 5, LATE, moves=(kept,), incarnations={"b": 1})
    run = with_rows(replace(good(), records=[*good().records, plan]), row(3, 39, "b", 1, LATE + 1))
    assert "unowned" not in kinds(run)


def test_every_kind_of_finding_has_its_lie() -> None:
    assert {kind for kind, _ in LIES.values()} == check(good()).wrong.keys()


def test_a_zombie_that_overwrites_the_entry_moves_no_effective_position() -> None:
    run = with_commits(good(), commit(0, KILLED_OFFSET - 2, "a", 1, LATE))
    assert kinds(run) == set()


def test_where_the_test_itself_began_is_nobodys_commit() -> None:
    began = LoggedCommit(0, Committed(0), 990.0)
    assert kinds(with_commits(good(), began)) == set()


def kafka_text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@pytest.mark.parametrize("version", [1, 3, 4])
def test_the_brokers_log_is_read_in_each_of_its_formats(version: int) -> None:
    entry = Committed(41, Token(7, 2, "g1"), "consumer-a", "c", "topic-id")
    metadata = encode_metadata(entry) + "\0"
    leader_epoch = struct.pack(">i", -1) if version >= 3 else b""
    length = len(metadata) + 1
    text = bytes([length & 0x7F | 0x80, length >> 7]) + metadata.encode() if version >= 4 else kafka_text(metadata)
    raw = struct.pack(">hq", version, 41) + leader_epoch + text + struct.pack(">q", 1_700_000_000_123) + b"\1\0\x10"
    assert read_value(3, raw) == LoggedCommit(3, entry, 1_700_000_000.123)


def test_a_key_names_group_topic_and_partition_and_other_records_are_nobodys() -> None:
    assert read_key(struct.pack(">h", 1) + kafka_text("g") + kafka_text("t") + struct.pack(">i", 5)) == ("g", "t", 5)
    assert read_key(struct.pack(">h", 2) + kafka_text("g")) is None
