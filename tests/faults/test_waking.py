"""A sleeper's evidence is believed no more than anybody's: every kind of lie is caught, and an honest awakening passes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.checker import Run
from tests.faults.commit_log import LoggedCommit
from tests.faults.test_checker import commit, good, with_commits, with_rows
from tests.faults.waking import Sleep, judge
from tests.unit.coordinator_tasks.devstack.demo.demo_evidence import (
    KILL_AT,
    KILLED_OFFSET,
    RELEASED_AT,
    TAKEN_OFFSET,
    row,
)

WOKE_AT = 1010.0
SLEEP = Sleep("a", 1, 3, KILL_AT, WOKE_AT, WOKE_AT + 0.3)
"""a, of the run with everything in it: instead of being killed it falls asleep, with partitions 0 and 2 under epoch 1."""
TAKER = Sleep("c", 1, 3, RELEASED_AT + 0.05, WOKE_AT, WOKE_AT + 0.3)
"""c, which falls asleep when it is about to take partition 1 over, under epoch 2."""


def said(offset: int, at: float = WOKE_AT + 0.1, partition: int = 0, epoch: int = 1) -> LoggedCommit:
    """a's entry that Kafka takes after a woke up."""
    return commit(partition, offset, "a", epoch, at)


def awake() -> Run:
    """a wakes up: the batch that was under way passes, and Kafka takes the commit that was on its way."""
    batch = [row(0, KILLED_OFFSET, "a", 1, WOKE_AT + 0.2), row(2, 30, "a", 1, WOKE_AT + 0.2)]
    return with_commits(replace(with_rows(good(), *batch), killed=frozenset()), said(KILLED_OFFSET))


def test_an_honest_awakening_passes_and_is_told() -> None:
    verdict = judge(awake(), [SLEEP])
    (waking,) = verdict.wakings
    assert verdict.problems() == []
    assert (waking.batches, len(waking.rows), len(waking.commits)) == ((0.2,), 2, 1)
    assert round(waking.stopped_after_s, 3) == 0.3
    assert len(verdict.findings.explained) == 2, "what it had not committed when it fell asleep comes again"


def test_without_its_sleep_nothing_of_it_is_excused() -> None:
    assert {text.split(":")[0] for text in judge(awake(), []).problems()} >= {"unowned", "duplicated"}


def rows(partition: int, offset: int, epoch: int, after_s: float = 0.2, incarnation: int = 1) -> Callable[[Run], Run]:
    """Return a lie with one more row of a, so long after a woke up."""
    return lambda run: with_rows(run, row(partition, offset, "a", epoch, WOKE_AT + after_s, incarnation=incarnation))


LIES: dict[str, tuple[Callable[[Run], Run], str]] = {
    "a batch after it has stopped": (
        rows(0, KILLED_OFFSET + 1, 1, 0.8),
        "a batch passed 0.500 s after the zombie had said that it runs nothing",
    ),
    "a commit of what it processed afterwards": (
        lambda run: with_commits(run, said(KILLED_OFFSET + 1, partition=2)),
        "partition 2: Kafka took [33] under an old epoch",
    ),
    "a second request": (
        lambda run: with_commits(run, said(KILLED_OFFSET, WOKE_AT + 0.25)),
        "partition 0: Kafka took [32, 32] under an old epoch",
    ),
    "a commit that goes back": (
        lambda run: with_commits(run, said(20, partition=2)),
        "rewound: partition 2: a went from 30 back to 20",
    ),
    "a row under the new owner's epoch": (rows(0, KILLED_OFFSET + 1, 4), "unowned: "),
    "a row of what it never had": (rows(3, 39, 1), "unowned: "),
    "a row of another life": (rows(0, KILLED_OFFSET + 1, 1, incarnation=2), "unowned: "),
    "a commit under an epoch that nobody granted": (
        lambda run: with_commits(run, said(KILLED_OFFSET, epoch=3)),
        "commits unowned: ",
    ),
    "a commit of what it never had": (lambda run: with_commits(run, said(39, partition=3)), "commits unowned: "),
}


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_caught_as_what_it_is(lie: str) -> None:
    told, says = LIES[lie]
    problems = judge(told(awake()), [SLEEP]).problems()
    assert any(text.startswith(says) for text in problems), problems


def test_a_stop_that_comes_late_is_caught() -> None:
    (problem,) = judge(awake(), [replace(SLEEP, stopped_at=WOKE_AT + 5.0)]).problems()
    assert problem == "the zombie stopped after 5.0 s, and had 3.0 s"


def test_a_right_that_came_while_it_slept_is_none_of_its_old_ones() -> None:
    early = replace(SLEEP, epoch=0)
    assert any(text.startswith("unowned: ") for text in judge(awake(), [early]).problems())


def test_a_broker_that_fences_takes_not_even_what_was_on_its_way() -> None:
    (problem,) = judge(awake(), [SLEEP], fenced_by_broker=True).problems()
    assert problem.startswith("partition 0: Kafka took [32] under an old epoch")


@pytest.mark.parametrize(
    ("offset", "wrong"),
    [
        pytest.param(TAKEN_OFFSET, False, id="where its giver has left off"),
        pytest.param(TAKEN_OFFSET + 1, True, id="beyond that"),
    ],
)
def test_a_taker_may_have_had_its_start_on_its_way(offset: int, wrong: bool) -> None:
    run = good()
    slept = replace(
        run,
        rows=[r for r in run.rows if (r.partition, r.consumer) != (1, "c")],
        commits=[c for c in run.commits if (c.partition, c.entry.owner) != (1, "c")],
    )
    started = with_commits(slept, commit(1, offset, "c", 2, WOKE_AT + 0.1))
    (waking,) = judge(started, [TAKER]).wakings
    assert len(waking.commits) == 1
    assert bool(waking.problems) == wrong


def test_of_several_sleepers_each_is_judged_by_its_own_deeds() -> None:
    verdict = judge(awake(), [SLEEP, replace(TAKER, stopped_at=WOKE_AT + 4.0)])
    assert [one.problems for one in verdict.wakings] == [(), ("the zombie stopped after 4.0 s, and had 3.0 s",)]
    assert verdict.findings.problems() == []
