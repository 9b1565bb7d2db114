"""Decisions of `machine`: the next step of a topic, which the caller performs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.core.model import Explanation, Record, TopicNode, TopicState


class Step(StrEnum):
    """Steps that a task may take. Every task handles losses as well."""

    PLAN = "plan"
    START = "start"
    SETTLE = "settle"


ALL_STEPS = frozenset(Step)


class TopicOutcome(StrEnum):
    """How a step of a topic ends: in a decision, in a task's report, and in a wait for confirmations.

    `WRITTEN` in a decision, a preview or a wait means that the step can be written now.
    """

    WRITTEN = "written"
    UNCHANGED = "unchanged"  # nothing is outstanding
    WAITING = "waiting"  # a confirmation or a waiting time is outstanding
    STUCK = "stuck"  # the confirmation has been outstanding for `policy.stuck_after_s`, or as long as the task waits
    HELD = "held"  # a person or a neighbour has to act first
    OVERTAKEN = "overtaken"  # another change came first: read or plan again


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step of a topic. `WRITTEN` comes with the new state, its record, and the node if changed.

    - `relies_on`: consumers counted as closed without a confirmation. The versions of their `ids` and `directives`
      nodes guard the write.
    - `blockers`: consumer → the missing confirmation.
    - `wake_in_s`: seconds until the next check.
    - `explanation`: the strategy's reasons for its moves.
    - `left_out`: sentences about consumers and offsets ignored because they are wrong.
    - `ends_rollback`: remove the roll back from the configuration.
    - `pack_over`: pack a node above this number of bytes; `None` means never.
    - `may_wait`: a plan for all partitions; without the plan every partition still has an owner.
    - `approval`: digest for a person's approval; empty if no approval is needed.
    - `settled`: every partition is in its place, and the reason says only this.
    """

    outcome: TopicOutcome
    reason: str
    state: TopicState | None = None
    node: TopicNode | None = None
    record: Record | None = None
    relies_on: frozenset[str] = frozenset()
    blockers: Mapping[str, str] | None = None
    wake_in_s: float = 0.0
    explanation: Explanation | None = None
    left_out: tuple[str, ...] = ()
    ends_rollback: bool = False
    pack_over: int | None = None
    may_wait: bool = False
    approval: str = ""
    settled: bool = False
