"""The transition table: a topic changes from one state to another only by this table.

A state sums up the partitions (`draft.label`). Table and partitions must agree.
"""

from collections.abc import Mapping
from enum import StrEnum

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine.draft import Draft, label
from coordinator_tasks.core.model import State


class Signal(StrEnum):
    """The events that lead from one state to the next: the labels of the diagram."""

    PLANNED_CLOSES = "planned: something to close"
    PLANNED_STARTS = "planned: only starts"
    PLANNED_NOTHING = "planned: nothing moves"
    SOME_CLOSED = "some closes confirmed"
    ALL_CLOSED = "all closes confirmed"
    CLOSED_FOR_GOOD = "all closes confirmed, nothing to start"
    ALL_STARTED = "all starts confirmed"
    OWNER_LOST = "an owner is isolated or gone"
    NOBODY_LEFT = "all consumers gone"
    NOT_RUNNING = "a consumer does not run what it holds"


TRANSITIONS: Mapping[State, Mapping[Signal, State]] = {
    State.INITIAL: {Signal.PLANNED_STARTS: State.STARTING, Signal.PLANNED_CLOSES: State.CLOSING},
    State.STARTING: {
        Signal.ALL_STARTED: State.STABLE,
        Signal.OWNER_LOST: State.STARTING,
        Signal.PLANNED_STARTS: State.STARTING,
        Signal.PLANNED_CLOSES: State.CLOSING,
        Signal.PLANNED_NOTHING: State.STABLE,
        Signal.NOBODY_LEFT: State.STABLE,
    },
    State.STABLE: {
        Signal.PLANNED_CLOSES: State.CLOSING,
        Signal.PLANNED_STARTS: State.STARTING,
        Signal.PLANNED_NOTHING: State.STABLE,
        Signal.NOT_RUNNING: State.STARTING,
        Signal.NOBODY_LEFT: State.STABLE,
    },
    State.CLOSING: {
        Signal.ALL_CLOSED: State.STARTING,
        Signal.SOME_CLOSED: State.CLOSING,
        Signal.CLOSED_FOR_GOOD: State.STABLE,
        Signal.PLANNED_CLOSES: State.CLOSING,
        Signal.PLANNED_STARTS: State.STARTING,
        Signal.PLANNED_NOTHING: State.STABLE,
        Signal.NOBODY_LEFT: State.STABLE,
    },
}


class TableBroken(CoordinatorError, code="KPC-052"):
    """The coordinator's decision and the table of states disagree: a defect of this product, found before the write.

    Remedy: report the defect with the output of `topics --json` and `history TOPIC --json`.
    """


def signal_of_plan(draft: Draft) -> Signal:
    """Return the signal of the plan that made this draft."""
    if draft.to_close:
        return Signal.PLANNED_CLOSES
    return Signal.PLANNED_STARTS if draft.to_start else Signal.PLANNED_NOTHING


def next_state(before: State, signal: Signal, draft: Draft) -> State:
    """Return the next state by the table; raises `TableBroken` if the partitions contradict the table."""
    after = TRANSITIONS[before].get(signal)
    if after is not label(draft):
        raise TableBroken(f"{before} with {signal!r} should give {label(draft)}, the table says {after}")
    return after
