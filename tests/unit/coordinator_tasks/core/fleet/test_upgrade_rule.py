"""The facts by which a step of an upgrade is judged, and the built-in rule."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf

import pytest

from coordinator_tasks.core.fleet.upgrade import Rule, TopicSeen, UpgradeMark, UpgradeObservation
from coordinator_tasks.core.fleet.upgrade_rule import Facts, PartitionFacts, facts_of, failures
from coordinator_tasks.core.model import (
    Answer,
    Condition,
    ConsumerStatus,
    RunningPartition,
    Silence,
    Token,
    TopicStatus,
    Unreachable,
)
from tests.unit.coordinator_tasks.core.codecs.test_codecs import UPGRADE

HELD_S = 60.0


def answer(position: int, lag: int | None, written: float | None, **more: object) -> ConsumerStatus:
    running = RunningPartition(position, Token(1, 3), started=True, lag_records=lag, rate=written)
    topics = {"orders": TopicStatus("g", 1, running={45: running})}
    return replace(ConsumerStatus("c", "main", 3, "boot", "ok", topics), **more)  # type: ignore[arg-type]


def facts(said: Mapping[str, Answer], position: int, before: float | None, held_s: float = HELD_S) -> Facts:
    """Of partition 45, which was at 100 when the step began to be held."""
    upgrade = replace(
        UPGRADE,
        since_at=0.0,
        hold_s=HELD_S,
        new_consumers=("c",),
        chosen={"orders": (45,)},
        mark=UpgradeMark(0.0, {"orders": {45: 100}}),
        baseline={"orders": {45: before}} if before is not None else {},
    )
    seen = UpgradeObservation(
        held_s, {"c": 3}, frozenset({"c"}), {"orders": TopicSeen({45: "c"})}, {"orders": {45: position}}
    )
    return facts_of(upgrade, seen, said)


@pytest.mark.parametrize(
    ("position", "lag", "written", "before", "lag_s"),
    [
        (100, 0, None, None, 0.0),
        (100, 200, 100.0, None, 2.0),
        (700, 200, None, None, 20.0),
        (100, 200, 0.5, 50.0, 4.0),
        (130, 200, None, 50.0, 4.0),
        (700, 200, 1.0, 5.0, 20.0),
        (100, 200, None, None, inf),
        (100, None, 100.0, 50.0, None),
    ],
    ids=[
        *("nothing waits", "at what is written", "at what is processed now"),
        "at what was processed before: what is written is not known well yet",
        *("at what was processed before: it has hardly begun", "at what is processed now, as it is the highest"),
        *("nothing moves, and nothing else is known", "unknown"),
    ],
)
def test_a_lag_in_seconds_is_at_the_highest_known_rate(
    position: int, lag: int | None, written: float | None, before: float | None, lag_s: float | None
) -> None:
    found = facts({"c": answer(position, lag, written)}, position, before)
    one = found.partitions["orders"][45]
    assert (one.consumer, one.lag_records, one.lag_s, one.before) == ("c", lag, lag_s, before)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (answer(100, 0, 1.0), None),
        (answer(100, 0, 1.0, health="stuck: no batch", condition=Condition.STUCK), "c: its health is stuck: no batch"),
        (answer(100, 0, 1.0, reports=("no disk",)), "c: no disk"),
        (
            answer(100, 0, 1.0, topics={"orders": TopicStatus("g", 1, query_alive=False, reports=("fenced",))}),
            "c: the query of orders does not run",
        ),
        (Unreachable(Silence.SILENT, "no answer"), "c does not answer"),
    ],
)
def test_what_counts_as_an_error_of_a_new_consumer(said: Answer, error: str | None) -> None:
    assert facts({"c": said}, 100, None).errors[:1] == (() if error is None else (error,))


def judged(one: PartitionFacts, rule: Rule, errors: tuple[str, ...] = (), ends: bool = True) -> tuple[str, ...]:
    found = Facts("billing", "v2", 50, HELD_S, ends, {"orders": {45: one}}, errors)
    return failures(replace(UPGRADE, rule=rule), found)


def test_a_limit_that_is_met_exactly_is_no_failure() -> None:
    rule = Rule(max_lag_s=30.0, max_errors=1, min_rate=0.5)
    assert judged(PartitionFacts("c", 30, 30.0, 5.0, 10.0), rule, ("one",)) == ()
    assert len(judged(PartitionFacts("c", 30, 30.1, 4.9, 10.0), rule, ("one", "two"))) == 3


def test_a_rate_is_judged_when_the_step_ends_and_only_where_records_wait_and_came_before() -> None:
    rule = Rule(min_rate=0.5)
    slow = PartitionFacts("c", 30, 3.0, 1.0, 10.0)
    assert judged(slow, rule) == ("less than 50% of the records per second before: orders/45 1.0 after 10.0 records/s",)
    assert judged(slow, rule, ends=False) == ()
    for one in (replace(slow, lag_records=0), replace(slow, before=0.05), replace(slow, rate=None)):
        assert judged(one, rule) == ()
