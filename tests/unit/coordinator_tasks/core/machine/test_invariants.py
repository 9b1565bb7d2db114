"""Every statement about a written node and state is broken by some node and state, and named then."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.model import Handoff, State, TopicNode, TopicState

OWNED, GIVEN, CLOSED = 0, 1, 2
"""`a` owns the first, hands the second off to `b`, and closes the third, which `b` is to start then."""
NODE = TopicNode(
    *("h:1", "g", 6, "g1", "id-1"),
    assignments={OWNED: "a"},
    since={OWNED: 5},
    handoff={GIVEN: Handoff("a", "b", 6)},
    incarnations={"a": 1, "b": 1},
)
STATE = TopicState(State.CLOSING, to_start={"b": (GIVEN, CLOSED)}, to_close={"a": (GIVEN, CLOSED)})


def node(**changes: object) -> tuple[TopicNode, TopicState]:
    return replace(NODE, **changes), STATE  # type: ignore[arg-type]


def state(**changes: object) -> tuple[TopicNode, TopicState]:
    return NODE, replace(STATE, **changes)  # type: ignore[arg-type]


def test_nothing_is_wrong_with_a_topic_in_the_middle_of_a_rebalance() -> None:
    assert invariants.of_topic(NODE, STATE) == []


ENTRY = NODE.handoff[GIVEN]


@pytest.mark.parametrize(
    ("written", "broken"),
    [
        (
            node(assignments={OWNED: "a", GIVEN: "b"}, since={OWNED: 5, GIVEN: 6}),
            "an assigned partition has no hand-off",
        ),
        (node(since={}), "every assignment has its `since`, and nothing else has"),
        (node(since={OWNED: 5, CLOSED: 5}), "every assignment has its `since`, and nothing else has"),
        (node(since={OWNED: 7}), "no holding began after the node's epoch"),
        (node(handoff={GIVEN: replace(ENTRY, epoch=7)}), "no hand-off is newer than the node"),
        (node(handoff={GIVEN: replace(ENTRY, giver="b")}), "nobody hands off to itself"),
        (state(to_start={"a": (GIVEN,), "b": (GIVEN, CLOSED)}), "a partition starts at one consumer"),
        (state(to_close={"a": (OWNED, GIVEN, CLOSED)}), "what is being closed is assigned to nobody"),
        (state(to_start={"b": (CLOSED,)}), "a hand-off's taker stands in toStart"),
        (state(to_start={"a": (GIVEN,), "b": (CLOSED,)}), "a hand-off's taker stands in toStart"),
        (
            state(to_close={"a": (GIVEN, CLOSED), "b": (GIVEN,)}),
            "partition 1 is closed at its giver alone while it is handed off",
        ),
        (state(to_close={"a": (CLOSED,)}), "partition 1 is closed at its giver alone while it is handed off"),
        (state(to_start={"b": (OWNED, GIVEN, CLOSED)}), "an assigned partition in toStart starts at its assignee"),
        (state(to_close={"a": (GIVEN,)}), "what is to start is assigned, or still being closed"),
        (node(incarnations={"a": 1}), "every holder's incarnation is named"),
        (node(incarnations={"b": 1}), "every holder's incarnation is named"),
        (state(state=State.STARTING), "Starting sums up the partitions"),
    ],
)
def test_what_is_wrong_is_said(written: tuple[TopicNode, TopicState], broken: str) -> None:
    assert broken in invariants.of_topic(*written)
