"""What `machine` returns: one step of one topic, for the caller to perform."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.core.model import Explanation, Record, TopicNode, TopicState


class Step(StrEnum):
    """What a task may do; every task deals with losses as well."""

    PLAN = "plan"
    START = "start"
    SETTLE = "settle"


ALL_STEPS = frozenset(Step)


class Verdict(StrEnum):
    """What the caller does with a decision."""

    WRITE = "write"
    NOTHING = "nothing"  # everything is as it should be
    WAIT = "wait"  # a confirmation or a waiting time is outstanding
    HOLD = "hold"  # a person or a neighbour has to act first


@dataclass(frozen=True, slots=True)
class Decision:
    """One step of one topic. With `WRITE`: the new state, its record, and the node if it changes.

    `relies_on`: consumers that count as closed without their own confirmation; the write is guarded by the versions of
    their `ids` and `directives` nodes. `blockers`: consumer → what is missing from it. `wake_in_s`: look again then.
    `explanation`: why the strategy moves what it moves, and nothing else. `left_out`: sentences about single consumers
    and offsets that are wrong and therefore do not count. `ends_rollback`: the configuration loses its roll back. `pack_over`: the
    node is packed if it has more bytes (`None` = never).
    `may_wait`: a plan for everybody, without which every partition still has an owner. `approval`: the digest under which a
    person may approve it; empty = it needs no approval, or has it.
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
