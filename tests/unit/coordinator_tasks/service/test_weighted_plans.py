"""The coordinator with `weighted`: sources of weights, changed loads as a cause, records in the history."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.assignors.weights import Measure, Totals, measured, totals
from coordinator_tasks.core.codecs.history_codec import decode_record, encode_record
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.machine import explain
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import (
    ConsumerStatus,
    MoveKind,
    RunningPartition,
    State,
    Token,
    TopicDescription,
    TopicStatus,
)
from spark_apps.agent.ownership.log_end import INFLOW_MIN_S, INFLOW_S, Inflow
from tests.world.scene import CONFIG, TOPIC, Scene, stable

LAG = {"measure": "lag", "partition.weight": "0", "min.gain": "0", "interval.s": "100"}


def weighted(*consumers: str, partitions: int = 4, **parameters: str) -> Scene:
    named = {name.replace("_", "."): text for name, text in parameters.items()}
    config = replace(CONFIG, strategy="weighted", parameters={**LAG, **named})
    return stable(*consumers, partitions=partitions, config=config)


def lags(scene: Scene, *behind: int | None) -> Scene:
    """Each consumer reports the lag of its partitions."""
    for consumer, answer in scene.answers.items():
        assert isinstance(answer, ConsumerStatus)
        running = answer.topics[TOPIC].running
        scene.says(consumer, running={p: replace(one, lag_records=behind[p]) for p, one in running.items()})
    return scene


def status(topics: dict[str, dict[int, tuple[int | None, float | None]]], consumer: str = "a") -> ConsumerStatus:
    """Topic → partition → lag and rate."""
    token = Token(1, 1)
    found = {
        topic: TopicStatus(
            "g", 1, {}, {p: RunningPartition(0, token, True, False, *said) for p, said in running.items()}
        )
        for topic, running in topics.items()
    }
    return ConsumerStatus(consumer, "c", 1, "boot", "ok", found)


# Where weights come from ---------------------------------------------------------------------------------------------


def test_weights_are_what_the_consumers_say_and_other_topics_are_carried() -> None:
    answers = {
        "a": status({TOPIC: {0: (5, 1.5), 1: (None, None)}, "other": {0: (7, 2.0), 1: (None, 0.5)}}),
        "b": status({TOPIC: {2: (1, 4.0)}}, "b"),
    }
    sums = totals(answers, {})
    assert sums == {"a": Totals(12, 4.0), "b": Totals(1, 4.0)}
    found = measured(TOPIC, Measure.LAG, (0, 1, 2), {}, answers, sums, {"a": 2})
    assert (found.partitions, found.carried) == ({0: 5, 2: 1}, {"a": 7.0, "b": 0.0})
    found = measured(TOPIC, Measure.RECORDS, (0, 1, 2), {}, answers, sums, {"a": 2})
    assert (found.partitions, found.carried) == ({0: 1.5, 2: 4.0}, {"a": 2.5, "b": 0.0})
    found = measured(TOPIC, Measure.PARTITIONS, (0, 1, 2), {}, answers, sums, {"a": 2})
    assert (found.partitions, found.carried) == ({}, {"a": 2.0})


def test_a_topic_without_known_weights_weighs_the_average_of_other_topics() -> None:
    """Otherwise such a topic would weigh nothing beside real loads, and go to one consumer."""
    answers = {"a": status({"other": {0: (60, None), 1: (40, None)}}), "b": status({"other": {2: (20, None)}}, "b")}
    found = measured(TOPIC, Measure.LAG, (0, 1), {}, answers, totals(answers, {}), {"a": 2, "b": 1})
    assert found.partitions == {0: 40.0, 1: 40.0}


def test_racks_of_replicas_come_from_the_brokers_description() -> None:
    scene = Scene(2, config=replace(CONFIG, strategy="weighted", parameters={"zones": "require"}))
    scene.description = TopicDescription(TOPIC, "id-1", 2, racks={0: ("r2",), 1: ("r1",)})
    scene.joins("a", rack="r1").joins("b", rack="r2").settles()
    assert scene.owned == {"a": [1], "b": [0]}


def test_a_wrong_measure_of_another_strategy_holds_with_a_sentence() -> None:
    scene = Scene(config=replace(CONFIG, parameters={"measure": "size"})).joins("a")
    assert scene.decide().outcome is TopicOutcome.HELD
    assert "'measure' of topic orders is 'size'; choose one of partitions, lag, records, bytes" in scene.decide().reason


# The rate that a consumer reports -----------------------------------------------------------------------------------


def inflow(*looks: tuple[float, int]) -> Inflow:
    """After looks at the log's end at these times."""
    (at, end), *rest = looks
    found = Inflow(end, at, at)
    for now, seen in rest:
        found = found.seen(seen, now)
    return found


def test_a_rate_is_told_only_after_some_seconds_and_is_their_mean_at_first() -> None:
    assert inflow((0, 100)).rate is None
    assert inflow((0, 100), (INFLOW_MIN_S - 1, 900)).rate is None
    assert inflow((0, 100), (5, 900), (INFLOW_MIN_S, 300)).rate == pytest.approx(200 / INFLOW_MIN_S)
    assert inflow((0, 100), (20, 300), (40, 900)).rate == pytest.approx(20)


def test_later_a_rate_follows_what_is_new_and_forgets_what_is_old() -> None:
    steady = [(float(second), 10 * second) for second in range(int(INFLOW_S) + 1)]
    assert inflow(*steady).rate == pytest.approx(10)
    quiet = [(INFLOW_S + second, steady[-1][1]) for second in range(1, int(INFLOW_S) + 1)]
    assert inflow(*steady, *quiet).rate == pytest.approx(10 / 2.71828, rel=1e-3)


# When changed loads are a reason -------------------------------------------------------------------------------------


def test_changed_loads_are_a_reason_once_the_topic_was_stable_for_the_interval() -> None:
    scene = lags(weighted("a", "b"), 900, 10, 900, 10)
    assert scene.owned == {"a": [0, 2], "b": [1, 3]}
    assert scene.later(99).decide().outcome is TopicOutcome.UNCHANGED
    decision = scene.later(1).step()
    assert decision.reason.startswith("loads have changed: weighted by lag: 1 moves; the fullest is ")
    assert [(m.giver, m.taker, m.kind) for m in decision.record.moves] == [("a", "b", MoveKind.HANDOFF)]
    assert decision.state.state is State.CLOSING
    assert decision.state.planned, "it was a whole plan: nothing is left to go on with"


def test_the_lag_of_paused_partitions_is_no_reason() -> None:
    scene = weighted("a", "b", partitions=6)
    scene.config = replace(scene.config, paused=frozenset({0}))
    scene.settles()
    assert scene.owned == {"a": [0, 2, 4], "b": [1, 3, 5]}
    lags(scene, 9_000, 10, 10, 10, 10, 10).later(1_000)
    assert scene.decide().outcome is TopicOutcome.UNCHANGED
    scene.config = replace(scene.config, paused=frozenset())
    scene.settles()
    lags(scene, 9_000, 10, 10, 10, 10, 10).later(1_000)
    assert scene.decide().outcome is TopicOutcome.WRITTEN


@pytest.mark.parametrize(
    "change",
    [
        {"frozen": True},
        {"strategy": "balanced", "parameters": {}},
        {"parameters": {**LAG, "measure": "partitions"}},
        {"parameters": {**LAG, "tolerance": "0.9", "hysteresis": "0.9"}},
        {"parameters": {**LAG, "max.moves": "0"}},
    ],
    ids=["frozen", "a strategy that does not measure", "nothing is measured", "within the hysteresis", "no budget"],
)
def test_otherwise_changed_loads_are_no_reason(change: dict[str, Any]) -> None:
    scene = weighted("a", "b")
    scene.config = replace(scene.config, **change)
    scene.settles()
    lags(scene, 900, 10, 900, 10).later(1_000)
    assert scene.decide().outcome is TopicOutcome.UNCHANGED


# Limits --------------------------------------------------------------------------------------------------------------


def test_partitions_that_no_limit_lets_anybody_have_are_held_for_a_person_and_the_rest_runs() -> None:
    scene = weighted("a", "b", max_partitions="1")
    assert scene.counts() == {"a": 1, "b": 1}
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.HELD
    assert (
        "partitions 2, 3 have no owner: strategy 'weighted' may give them to none of the live consumers"
        in decision.reason
    )
    scene.joins("c").settles()
    assert scene.counts() == {"a": 1, "b": 1, "c": 1}
    scene.config = replace(scene.config, parameters=LAG)
    scene.settles()
    assert sum(scene.counts().values()) == 4


# What is told and kept -----------------------------------------------------------------------------------------------


def test_a_record_says_how_its_moves_were_come_to_and_is_read_back() -> None:
    scene = lags(weighted("a", "b"), 900, 10, 900, 10).later(101)
    decision = scene.step()
    record = decision.record
    assert (record.plan.strategy, len(record.plan.inputs)) == ("weighted", 16)
    (reason,) = record.plan.moves
    assert reason.partitions == tuple(m.partition for m in record.moves)
    assert reason.text == (
        "a carried 1800 records of lag (198 % of the level), above the tolerance of 5 %; "
        "b carried 20 records of lag (2.2 % of the level)"
    )
    assert decode_record("p", encode_record(record), -1) == record
    assert [one.partitions for one in decision.explanation.stays], "a preview also says why the others stay"


def test_what_does_not_fit_into_the_plan_is_told_with_the_reason_why_it_waits() -> None:
    scene = stable("a", "b", partitions=12, policy=Policy(max_write_bytes=12 * 27 + 3 * 67 + 3 * 82))
    scene.joins("c")
    decision = scene.step()
    moved = {m.partition for m in decision.record.moves}
    assert {p for one in decision.explanation.moves for p in one.partitions} == moved
    waiting = [
        one
        for one in decision.explanation.stays
        if one.text.startswith("moves in a further plan, as this one is full: ")
    ]
    assert len(moved) + sum(len(one.partitions) for one in waiting) == 4


def test_every_partition_is_explained_at_any_time_without_changing_anything() -> None:
    scene = lags(weighted("a", "b"), 900, 10, 900, 10)
    found = explain(scene.view(), scene.world(), scene.policy)
    told = sorted(p for one in (*found.moves, *found.stays) for p in one.partitions)
    assert told == [0, 1, 2, 3]
    assert scene.decide().outcome is TopicOutcome.UNCHANGED
