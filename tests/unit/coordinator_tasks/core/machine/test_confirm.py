"""An acknowledgement is for an epoch, a generation and an incarnation."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.machine.confirm import not_running, why_not_closed, why_not_started
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.core.model import (
    Answer,
    Condition,
    ConsumerStatus,
    RunningPartition,
    Silence,
    Token,
    TopicNode,
    TopicStatus,
    Unreachable,
)

NODE = TopicNode("h", "g", 8, "g1", "t1", assignments={0: "a", 1: "a"}, since={0: 6, 1: 6}, incarnations={"a": 2})
RUNS = RunningPartition(10, Token(6, 2, "g1"), started=True)
STATUS = TopicStatus("g1", 8, running={0: RUNS})


def world(status: TopicStatus | None = STATUS, incarnation: int = 2) -> World:
    topics = {"orders": status} if status is not None else {}
    return World(0.0, answers={"a": ConsumerStatus("a", "c", incarnation, "boot", "ok", topics)})


NO_EVIDENCE = [
    pytest.param(World(0.0), "not registered", id="nobody was asked"),
    pytest.param(World(0.0, answers={"a": Unreachable(Silence.REFUSED, "x")}), "connection refused", id="refused"),
    pytest.param(World(0.0, answers={"a": Unreachable(Silence.SILENT, "no answer")}), "no answer", id="silent"),
    pytest.param(world(incarnation=1), "incarnation 1, not 2", id="an earlier incarnation answers"),
    pytest.param(world(incarnation=3), "incarnation 3, not 2", id="a later incarnation answers"),
    pytest.param(world(None), "does not know of the topic", id="it has not seen the topic"),
    pytest.param(world(replace(STATUS, generation="g0")), "generation g0, not g1", id="another generation"),
    pytest.param(world(replace(STATUS, generation="")), "generation none, not g1", id="no generation yet"),
    pytest.param(world(replace(STATUS, acted_epoch=5)), "epoch 5, not yet on 6", id="an earlier epoch"),
]


@pytest.mark.parametrize(("seen", "missing"), NO_EVIDENCE)
def test_nothing_is_known_by(seen: World, missing: str) -> None:
    for rule in (why_not_closed, why_not_started):
        assert missing in rule("a", 0, "orders", NODE, 6, seen)
    assert not_running("a", "orders", NODE, seen) == ()


def test_closed_is_acted_on_the_entrys_epoch_and_not_running() -> None:
    assert why_not_closed("a", 3, "orders", NODE, 6, world(replace(STATUS, acted_epoch=6))) == ""
    assert "still runs partition 0" in why_not_closed("a", 0, "orders", NODE, 6, world())


@pytest.mark.parametrize(
    ("status", "missing"),
    [
        pytest.param(STATUS, "", id="everything is there"),
        pytest.param(replace(STATUS, acted_epoch=6), "", id="at the plan's epoch, not the node's"),
        pytest.param(replace(STATUS, running={}), "does not run partition 0 yet", id="it does not run it"),
        pytest.param(replace(STATUS, query_alive=False), "no live query", id="the query has ended"),
        pytest.param(replace(STATUS, running={0: replace(RUNS, closing=True)}), "older holding", id="it is closing it"),
        pytest.param(
            replace(STATUS, running={0: replace(RUNS, token=Token(5, 2))}), "older holding", id="an older holding"
        ),
        pytest.param(
            replace(STATUS, running={0: replace(RUNS, token=Token(7, 2))}), "older holding", id="another holding"
        ),
        pytest.param(
            replace(STATUS, running={0: replace(RUNS, started=False)}), "or a batch is under way", id="no start yet"
        ),
    ],
)
def test_started(status: TopicStatus, missing: str) -> None:
    found = why_not_started("a", 0, "orders", NODE, 6, world(status))
    assert (missing in found) if missing else found == ""


def test_what_it_holds_but_does_not_run_is_judged_at_the_current_epoch_only() -> None:
    assert not_running("a", "orders", NODE, world()) == (1,)
    assert not_running("a", "orders", NODE, world(replace(STATUS, acted_epoch=7))) == ()
    both: Answer = ConsumerStatus("a", "c", 2, "b", "ok", {"orders": replace(STATUS, running={0: RUNS, 1: RUNS})})
    assert not_running("a", "orders", NODE, World(0.0, answers={"a": both})) == ()


def test_a_leaving_consumer_is_not_told_to_start_its_partitions() -> None:
    leaves: Answer = ConsumerStatus("a", "c", 2, "b", "leaving", {"orders": STATUS}, condition=Condition.LEAVING)
    assert not_running("a", "orders", NODE, World(0.0, answers={"a": leaves})) == ()
