"""Decisions of `machine`: the next step of a topic. The caller performs the step."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.core.model import Explanation, Record, TopicNode, TopicState


class Step(StrEnum):
    """Steps that a task may take. Apart from these steps, every task handles lost consumers."""

    PLAN = "plan"
    START = "start"
    SETTLE = "settle"


ALL_STEPS = frozenset(Step)


class TopicOutcome(StrEnum):
    """The outcome of a topic's step: in a decision, in a task's report, and in a wait for confirmations.

    In a decision, a preview or a wait, `WRITTEN` means that the step can be written now.
    """

    WRITTEN = "written"
    UNCHANGED = "unchanged"  # nothing is outstanding
    WAITING = "waiting"  # a confirmation or a waiting time is outstanding
    STUCK = "stuck"  # a confirmation has been missing for `policy.stuck_after_s`, or for as long as the task waits
    HELD = "held"  # a person or another system has to act first
    OVERTAKEN = "overtaken"  # another writer was faster: read or plan again


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step of a topic. `WRITTEN` comes with the new state, its record, and the node if changed.

    - `relies_on`: consumers counted as closed without a confirmation. The write checks the versions of their `ids` and
      `directives` nodes.
    - `blockers`: consumer → the missing confirmation.
    - `wake_in_s`: seconds until the next check.
    - `explanation`: the strategy's reasons for its moves.
    - `left_out`: sentences about consumers and offsets that are ignored because they are wrong.
    - `ends_rollback`: remove the roll back from the configuration.
    - `pack_over`: pack a node above this number of bytes; `None` means never.
    - `may_wait`: the decision is a plan for all partitions, and every partition has an owner without the plan too.
    - `approval`: digest for a person's approval; empty if no approval is needed.
    - `settled`: nothing is left to do; every partition is in its place.
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
