"""The checker believes nobody: every kind of lie is caught as what it is, and an honest run passes."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.status_codec import encode_metadata
from coordinator_tasks.core.model import Committed, MoveKind, Record, State, Token
from tests.faults.checker import Run, check
from tests.faults.commit_log import LoggedCommit, read_key, read_value
from tests.faults.orchestrator import needless
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


def a_record_that_nobody_processed(run: Run) -> Run:
    return replace(run, rows=[r for r in run.rows if (r.partition, r.offset) != (3, 20)])


def a_record_of_another_content(run: Run) -> Run:
    return replace(run, rows=[replace(r, sequence=7) if (r.partition, r.offset) == (3, 20) else r for r in run.rows])


def a_record_from_before_the_start(run: Run) -> Run:
    return replace(run, base={**run.base, 3: 5})


def a_giver_that_goes_on_after_its_release(run: Run) -> Run:
    return with_rows(run, row(1, TAKEN_OFFSET, "b", 1, RELEASED_AT + 0.2))


def a_row_under_an_epoch_that_nobody_granted(run: Run) -> Run:
    return replace(run, rows=[replace(r, epoch=9) if (r.partition, r.offset) == (3, 39) else r for r in run.rows])


def a_row_of_another_incarnation(run: Run) -> Run:
    return replace(run, rows=[replace(r, incarnation=2) if (r.partition, r.offset) == (3, 39) else r for r in run.rows])


def a_zombie_that_wakes_up_after_its_partition_was_given_away(run: Run) -> Run:
    return with_rows(run, row(0, KILLED_OFFSET, "a", 1, LATE))


def a_taker_that_starts_before_the_release(run: Run) -> Run:
    early = [
        replace(r, processed_at=RELEASED_AT - 0.5) if (r.consumer, r.partition) == ("c", 1) else r for r in run.rows
    ]
    return replace(run, rows=early)


def a_record_twice_by_the_same_owner(run: Run) -> Run:
    return with_rows(run, row(3, 39, "b", 1, LATE))


def a_death_that_repeats_what_was_committed(run: Run) -> Run:
    last = KILLED_OFFSET - 1
    said = [commit(0, last + 1, "a", 1, TAKEN_AT - 0.15)]
    return with_commits(run, *said)


def a_death_blamed_on_somebody_who_lived(run: Run) -> Run:
    return replace(run, killed=frozenset({("b", 1)}))


def an_owner_that_leaves_a_range_out_and_comes_back_to_it(run: Run) -> Run:
    later = [replace(r, processed_at=LATE) if r.partition == 3 and r.offset in (10, 11) else r for r in run.rows]
    return replace(run, rows=later)


def a_taker_that_begins_behind_the_release(run: Run) -> Run:
    kept = [r for r in run.rows if (r.partition, r.offset) != (1, TAKEN_OFFSET)]
    return replace(run, rows=[*kept, row(1, TAKEN_OFFSET, "c", 2, LATE)])


def a_commit_ahead_of_the_sink(run: Run) -> Run:
    return with_commits(run, commit(3, 30, "b", 1, 1001.0))


def a_commit_of_what_was_never_processed(run: Run) -> Run:
    return with_commits(run, commit(3, RECORDS + 5, "b", 1, LATE))


def a_newer_owner_that_starts_behind_the_effective_position(run: Run) -> Run:
    return with_commits(run, commit(0, KILLED_OFFSET - 9, "b", 4, TAKEN_AT + 0.01))


def an_owner_whose_own_commits_go_back(run: Run) -> Run:
    return with_commits(run, commit(3, 12, "b", 1, LATE))


def a_commit_under_a_token_that_nobody_granted(run: Run) -> Run:
    return with_commits(run, commit(3, RECORDS, "a", 8, LATE))


def a_commit_before_the_grant(run: Run) -> Run:
    return with_commits(run, commit(1, 1, "c", 2, 1001.5))


def a_commit_of_what_the_giver_had_released(run: Run) -> Run:
    return with_commits(run, commit(1, TAKEN_OFFSET + 3, "b", 1, LATE))


def a_record_of_history_that_is_missing(run: Run) -> Run:
    return replace(run, records=[r for r in run.records if r.sequence != 3])


def a_transition_that_is_recorded_twice(run: Run) -> Run:
    again = replace(run.records[2], sequence=7)
    return replace(run, records=[*run.records, again])


def an_epoch_that_falls(run: Run) -> Run:
    return replace(run, records=[*run.records, record(7, State.STABLE, State.STABLE, 2, LATE)])


def two_plans_under_one_epoch(run: Run) -> Run:
    more = record(7, State.STABLE, State.STARTING, 4, LATE, moves=(move(3, "b", "c", MoveKind.START),))
    return replace(run, records=[*run.records, more])


def a_generation_that_changes_by_itself(run: Run) -> Run:
    return replace(run, records=[*run.records, replace(record(7, State.STABLE, State.STABLE, 5, LATE), generation="x")])


LIES: list[tuple[Callable[[Run], Run], str]] = [
    (a_record_that_nobody_processed, "lost"),
    (a_record_of_another_content, "invented"),
    (a_record_from_before_the_start, "invented"),
    (a_giver_that_goes_on_after_its_release, "unowned"),
    (a_row_under_an_epoch_that_nobody_granted, "unowned"),
    (a_row_of_another_incarnation, "unowned"),
    (a_zombie_that_wakes_up_after_its_partition_was_given_away, "unowned"),
    (a_taker_that_starts_before_the_release, "unowned"),
    (a_record_twice_by_the_same_owner, "duplicated"),
    (a_death_that_repeats_what_was_committed, "duplicated"),
    (a_death_blamed_on_somebody_who_lived, "duplicated"),
    (an_owner_that_leaves_a_range_out_and_comes_back_to_it, "disordered"),
    (a_taker_that_begins_behind_the_release, "disordered"),
    (a_commit_ahead_of_the_sink, "skipped"),
    (a_commit_of_what_was_never_processed, "skipped"),
    (a_newer_owner_that_starts_behind_the_effective_position, "rewound"),
    (an_owner_whose_own_commits_go_back, "rewound"),
    (a_commit_under_a_token_that_nobody_granted, "commits unowned"),
    (a_commit_before_the_grant, "commits unowned"),
    (a_commit_of_what_the_giver_had_released, "commits unowned"),
    (a_record_of_history_that_is_missing, "history"),
    (a_transition_that_is_recorded_twice, "history"),
    (an_epoch_that_falls, "history"),
    (two_plans_under_one_epoch, "history"),
    (a_generation_that_changes_by_itself, "history"),
]


@pytest.mark.parametrize(("lie", "kind"), LIES, ids=[lie.__name__.replace("_", " ") for lie, _ in LIES])
def test_every_lie_is_caught_as_what_it_is(lie: Callable[[Run], Run], kind: str) -> None:
    assert kind in kinds(lie(good()))


def test_every_kind_of_finding_has_its_lie() -> None:
    assert {kind for _, kind in LIES} == check(good()).wrong.keys()


def test_a_zombie_that_overwrites_the_entry_moves_no_effective_position() -> None:
    run = with_commits(good(), commit(0, KILLED_OFFSET - 2, "a", 1, LATE))
    assert kinds(run) == set()


def joined(*more: Record) -> list[Record]:
    """The records of a join that hands two partitions over, and further ones."""
    moves = tuple(move(p, "ab"[p], "d", MoveKind.HANDOFF) for p in range(2))
    new = [
        record(2, State.STABLE, State.CLOSING, 2, 1.0, moves=moves),
        record(3, State.CLOSING, State.STARTING, 3, 2.0),
        record(4, State.STARTING, State.STABLE, 3, 3.0),
    ]
    return [*(replace(one, rebalance="r") for one in new), *more]


def lost() -> list[Record]:
    """Those of a leave whose time was over before anything was planned."""
    moves = tuple(move(p, "d", "ab"[p], MoveKind.START) for p in range(2))
    new = [
        record(2, State.STABLE, State.STARTING, 2, 1.0, moves=moves),
        record(3, State.STARTING, State.STABLE, 2, 2.0),
    ]
    return [replace(one, rebalance="r") for one in new]


A_NOTE = record(5, State.STABLE, State.STABLE, 3, 4.0)
AGAIN = record(5, State.STABLE, State.STABLE, 4, 4.0, moves=(move(0, "d", "a", MoveKind.HANDOFF),))


@pytest.mark.parametrize(
    ("new", "leave", "wrong"),
    [
        pytest.param(joined(), False, False, id="a join"),
        pytest.param(joined(A_NOTE), False, False, id="and a note"),
        pytest.param(lost(), True, False, id="a leave without a hand-off"),
        pytest.param(lost(), False, True, id="a join without a hand-off"),
        pytest.param([*joined(), *joined()], False, True, id="two rebalances"),
        pytest.param(joined()[:2], False, True, id="a transition without a record"),
        pytest.param(joined(AGAIN), False, True, id="a further move"),
        pytest.param([replace(joined()[0], moves=()), *joined()[1:]], False, True, id="no move"),
        pytest.param([replace(joined()[0], rebalance="q"), *joined()[1:]], False, True, id="of two rebalances"),
    ],
)
def test_one_join_or_leave_is_one_rebalance_with_the_fewest_moves(new: list[Record], leave: bool, wrong: bool) -> None:
    assert bool(needless(new, leave=leave)) == wrong


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
