"""The checker believes no consumer: every kind of lie, loss and repetition is caught, and an honest run passes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.model import Actor, MoveKind, State
from coordinator_tasks.devstack.demo.checker import CLOCK_TOLERANCE_S, DemoCheck, DemoVerdict, check
from coordinator_tasks.devstack.demo.evidence import Evidence, Row
from coordinator_tasks.devstack.demo.ownership import End, holdings
from tests.unit.coordinator_tasks.devstack.demo.demo_evidence import (
    KILL_AT,
    KILLED_OFFSET,
    RECORDS,
    RECOVERED_AT,
    RELEASED_AT,
    TAKEN_AT,
    TAKEN_OFFSET,
    honest,
    move,
    record,
    release,
    row,
    with_rows,
)

Change = Callable[[Evidence], Evidence]
OWNER = "every record was processed by its owner"
CLEAN = "nothing was repeated by a clean move"
ORDER = "no partition went back or skipped a range"
LOST = "nothing is lost"
REAL = "every row is a produced record"
TASKS = "every transition ran in its own successful Airflow task"
MOVES = "each change moved exactly what it had to"
BALANCE = "both topics are shared as one, to within one partition"


def failed(verdict: DemoVerdict) -> set[str]:
    return {one.name for one in verdict.checks if not one.ok}


def named(verdict: DemoVerdict, name: str) -> DemoCheck:
    return next(one for one in verdict.checks if one.name == name)


def problems(verdict: DemoVerdict, name: str) -> str:
    return " | ".join(named(verdict, name).problems)


def found(verdict: DemoVerdict, name: str) -> str:
    return named(verdict, name).found


def test_an_honest_run_passes_every_check() -> None:
    verdict = check(honest())
    assert failed(verdict) == set()
    assert verdict.ok
    assert (verdict.produced, verdict.consumed, verdict.lost, verdict.unowned) == (160, 160, 0, 0)
    assert (verdict.duplicated_by_clean_moves, verdict.duplicated_by_kills) == (0, 2)


def added(*rows: Row) -> Change:
    return lambda run: with_rows(run, [*run.rows, *rows])


def changed(partition: int, offset: int, **fields: Any) -> Change:
    """Change this row."""
    place = (partition, offset)
    return lambda run: with_rows(
        run, [replace(r, **fields) if (r.partition, r.offset) == place else r for r in run.rows]
    )


AFTER = range(TAKEN_OFFSET, TAKEN_OFFSET + 3)
"""Offsets of partition 1 behind the release."""
LIES: dict[str, Change] = {
    "a giver that continues after its release": added(*(row(1, o, "b", 1, RELEASED_AT + 0.2) for o in AFTER)),
    "a giver that dates its late rows back": added(*(row(1, o, "b", 1, RELEASED_AT - 0.1) for o in AFTER)),
    "a giver that claims the next epoch": added(row(1, TAKEN_OFFSET, "b", 2, RELEASED_AT + 0.2)),
    "a taker that does not wait for the release": changed(1, TAKEN_OFFSET, processed_at=RELEASED_AT - 0.05),
    "a stranger": changed(3, 5, consumer="z"),
    "another incarnation": changed(3, 5, incarnation=2),
    "a survivor of the kill": added(row(0, 35, "a", 1, TAKEN_AT + 0.1)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_consumer_is_caught(lie: str) -> None:
    verdict = check(LIES[lie](honest()))
    assert OWNER in failed(verdict)
    assert verdict.unowned > 0


def a_lost_record(run: Evidence) -> Evidence:
    return with_rows(run, [r for r in run.rows if (r.partition, r.offset) != (3, RECORDS - 1)])


def a_repetition_by_a_clean_move(run: Evidence) -> Evidence:
    return with_rows(run, [row(1, TAKEN_OFFSET - 1, "c", 2, RELEASED_AT + 0.1), *run.rows])


def a_killed_consumer_that_repeats_its_own_record(run: Evidence) -> Evidence:
    at = next(n for n, r in enumerate(run.rows) if (r.partition, r.offset) == (0, KILLED_OFFSET - 1))
    return with_rows(run, [*run.rows[: at + 1], run.rows[at], *run.rows[at + 1 :]])


def another_actor(run: Evidence, place: int, actor: Actor) -> Evidence:
    records = [*run.records]
    records[place] = replace(records[place], actor=actor)
    return replace(run, records=records)


def a_move_that_no_change_asked_for(run: Evidence) -> Evidence:
    more = record(7, State.STABLE, State.CLOSING, 5, RECOVERED_AT + 0.1, moves=(move(3, "b", "c", MoveKind.HANDOFF),))
    return replace(run, records=[*run.records, more])


@pytest.mark.parametrize(
    ("change", "names", "words", "counts"),
    [
        (a_lost_record, {LOST}, "partition 3 offset 39", (1, 0, 2)),
        (a_repetition_by_a_clean_move, {CLEAN, ORDER}, "", (0, 1, 2)),
        (a_killed_consumer_that_repeats_its_own_record, {CLEAN, ORDER}, "", (0, 1, 2)),
        (lambda r: replace(r, killed=frozenset()), {CLEAN}, "", (0, 2, 0)),
        (changed(3, 8, sequence=7), {REAL}, "", (0, 0, 2)),
        (lambda r: replace(r, tasks=[replace(t, state="failed") for t in r.tasks]), {TASKS}, "is failed", (0, 0, 2)),
        (lambda r: replace(r, tasks=r.tasks[1:]), {TASKS}, "is unknown", (0, 0, 2)),
        (lambda r: another_actor(r, 0, Actor("loop", "me")), {TASKS}, "was run by loop me", (0, 0, 2)),
        (lambda r: another_actor(r, -1, r.records[-2].actor), {TASKS}, "shares plan", (0, 0, 2)),
        (lambda r: replace(r, loops=("python -m coordinator_tasks run",)), {"no loop process lived"}, "", (0, 0, 2)),
        (
            a_move_that_no_change_asked_for,
            {MOVES, TASKS},
            "partition 3 moved from b to c, and no change asked for it",
            (0, 0, 2),
        ),
    ],
    ids=[
        *(
            "a lost record",
            "repeated by a clean move",
            "repeated by a killed consumer itself",
            "a crash without a kill",
        ),
        *("a row that nobody produced", "a failed task", "a task that Airflow does not know", "a loop"),
        *("two transitions in one task", "a loop process", "a move that no change asked for"),
    ],
)
def test_a_fault_fails_its_own_checks_only(
    change: Change, names: set[str], words: str, counts: tuple[int, int, int]
) -> None:
    verdict = check(change(honest()))
    assert failed(verdict) == names
    assert words in " | ".join(problems(verdict, name) for name in names)
    assert (verdict.lost, verdict.duplicated_by_clean_moves, verdict.duplicated_by_kills) == counts


def test_a_range_that_was_skipped_and_made_up_for_later_is_caught() -> None:
    run = honest()
    skipped = [r for r in run.rows if r.partition == 3 and 10 <= r.offset < 15]
    rest = [r for r in run.rows if r not in skipped]
    verdict = check(with_rows(run, [*rest, *[replace(r, processed_at=1005.0) for r in skipped]]))
    assert failed(verdict) == {ORDER}
    assert "forward from offset 9" in problems(verdict, ORDER)
    assert found(verdict, ORDER) == "2 places where offsets go back or skip some"
    assert found(check(run), ORDER) == "0 places where offsets go back or skip some"


@pytest.mark.parametrize("side", [-1, 1], ids=["the giver's last batch", "the taker's first batch"])
def test_a_batch_may_miss_its_release_by_the_clocks_tolerance_and_no_more(side: int) -> None:
    run = honest()

    def missed(by_s: float) -> DemoVerdict:
        at = {TAKEN_OFFSET - 1: RELEASED_AT + by_s} if side < 0 else {TAKEN_OFFSET: RELEASED_AT - by_s}
        rows = [replace(r, processed_at=at[r.offset]) if r.partition == 1 and r.offset in at else r for r in run.rows]
        return check(with_rows(run, rows))

    assert OWNER not in failed(missed(0.9 * CLOCK_TOLERANCE_S))
    assert OWNER in failed(missed(1.1 * CLOCK_TOLERANCE_S))


def test_a_join_that_moves_more_than_its_share_is_caught() -> None:
    run = honest()
    more = replace(run.records[2], moves=(*run.records[2].moves, move(3, "b", "a", MoveKind.HANDOFF)))
    changed = [more if r.sequence == 2 else r for r in run.records]
    verdict = check(replace(run, records=changed))
    assert MOVES in failed(verdict)
    assert "the join of c moved [1, 3] to a, c, expected exactly 1 to c" in problems(verdict, MOVES)


def drained(*partitions: int, **last: Any) -> Evidence:
    """b, the owner of 1 and 3, hands these to c; `last`: what the record before Stable says otherwise."""
    run = honest()
    given = tuple(move(p, "b", "c", MoveKind.HANDOFF) for p in partitions)
    plan = replace(run.records[2], moves=given)
    closed = replace(run.records[3], **{"confirmed": {"b": partitions}, **last})
    return replace(
        run,
        records=[*run.records[:2], plan, closed, run.records[4]],
        events=[replace(run.events[0], kind="drain", consumer="b")],
    )


def test_a_drain_that_hands_something_back_is_caught() -> None:
    verdict = check(drained(1, 3, moves=(move(3, "c", "b", MoveKind.HANDOFF),)))
    assert problems(verdict, MOVES) == "the drain of b moved [1, 3] to b, c, expected exactly [1, 3] to others"


def test_a_hand_off_goes_on_with_the_confirmation_without_release_and_with_one_that_comes_later() -> None:
    run = honest()
    for releases in ([], [release(1, 2, "b", TAKEN_OFFSET, 1002.9)]):
        held = [h for h in holdings(run.records, releases) if h.partition == 1]
        assert [(h.consumer, h.epoch, h.end) for h in held] == [("b", 1, End.CONFIRMED), ("c", 2, End.OPEN)]
        assert held[0].until_at == held[1].from_at == 1002.8
        assert not releases or held[0].until_offset == TAKEN_OFFSET, "it says all the same where the giver stopped"


def test_a_barrier_waits_for_the_life_that_held_the_partition_and_not_for_its_successor() -> None:
    successor = {"a": 1, "b": 2, "c": 1}
    moves = (move(1, "b", "c", MoveKind.BARRIER),)
    plan = record(2, State.STABLE, State.CLOSING, 5, 1001.0, moves=moves, incarnations=successor)
    after = record(3, State.CLOSING, State.STARTING, 6, 1002.0, incarnations=successor)
    held = [h for h in holdings([*honest().records[:2], plan, after], []) if h.partition == 1]
    assert [(h.consumer, h.incarnation, h.end) for h in held] == [("b", 1, End.LOST), ("c", 1, End.OPEN)]


def test_a_release_of_another_generation_or_giver_ends_nothing() -> None:
    run, giver = honest(), release(1, 2, "b", TAKEN_OFFSET, RELEASED_AT)
    former = replace(giver, release=replace(giver.release, generation="a former one"))
    for strange in (release(1, 2, "c", TAKEN_OFFSET, RELEASED_AT), former):
        held = [h for h in holdings(run.records, [strange]) if h.partition == 1]
        assert held[0].end is End.CONFIRMED
        assert held[0].until_at < KILL_AT


def test_the_taker_holds_from_the_release_on_whatever_is_recorded_later() -> None:
    run = honest()
    for records in (run.records[:3], run.records, run.records[::-1]):
        held = [h for h in holdings(records, run.releases) if h.partition == 1]
        assert [(h.consumer, h.epoch, h.end) for h in held] == [("b", 1, End.RELEASED), ("c", 2, End.OPEN)]
        assert held[0].until_at == held[1].from_at == RELEASED_AT


def test_a_restart_ends_a_holding_and_begins_the_next_of_the_same_consumer() -> None:
    again = record(5, State.STABLE, State.STARTING, 4, TAKEN_AT, moves=(move(3, "b", "b", MoveKind.RESTART),))
    held = [h for h in holdings([*honest().records[:5], again], []) if h.partition == 3]
    assert [(h.consumer, h.epoch, h.end) for h in held] == [("b", 1, End.RESTARTED), ("b", 4, End.OPEN)]
    assert held[0].until_at == held[1].from_at == TAKEN_AT


def test_a_consumer_with_two_partitions_more_than_another_is_found() -> None:
    verdict = check(replace(honest(), counts=[{"a": 8, "b": 7}, {"a": 6, "b": 5, "c": 4}]))
    assert (failed(verdict), problems(verdict, BALANCE)) == ({BALANCE}, "a has 6, b has 5, c has 4")
    assert found(verdict, BALANCE) == "partitions of each consumer: 8 and 7, then 6 and 5 and 4"
