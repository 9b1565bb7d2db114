"""Decisions of `machine`: the next step of a topic, for the caller to perform."""

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


class Verdict(StrEnum):
    """What the caller does with a decision."""

    WRITE = "write"
    NOTHING = "nothing"  # nothing is outstanding
    WAIT = "wait"  # a confirmation or a waiting time is outstanding
    HOLD = "hold"  # a person or a neighbour has to act first


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step of a topic. With `WRITE`: the new state, its record, and the node if changed.

    - `relies_on`: consumers counted as closed without a confirmation; the versions of their `ids` and `directives`
      nodes guard the write.
    - `blockers`: consumer → the missing confirmation.
    - `wake_in_s`: seconds until the next check.
    - `explanation`: the strategy's reasons for its moves.
    - `left_out`: sentences about wrong, and therefore ignored, consumers and offsets.
    - `ends_rollback`: remove the roll back from the configuration.
    - `pack_over`: pack the node above this number of bytes; `None` = never.
    - `may_wait`: a plan for all partitions; without the plan every partition still has an owner.
    - `approval`: digest for a person's approval; empty if no approval is needed.
    """

    verdict: Verdict
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
