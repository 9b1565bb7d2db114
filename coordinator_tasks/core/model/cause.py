"""Causes of a transition."""

from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.core.model.ending import Ending


class CauseKind(StrEnum):
    """What has caused a transition; the comments name the fields of `Cause` in use."""

    JOINED = "joined"  # consumers
    DRAINING = "draining"  # consumer, by, why
    DROPPED = "dropped"  # consumer: no longer a target
    ISOLATED = "isolated"  # consumer, by, why
    GONE = "gone"  # consumer, ending, by (of a planned restart), why
    UNOWNED = "unowned"  # partitions
    TAKERS = "takers"  # consumers: the first ones of the topic
    RECREATED = "recreated"  # the topic's id, and the former one
    VANISHED = "vanished"  # partitions
    REMOVED = "removed"  # the topic, by a person
    CONFIGURED = "configured"
    CHANGED = "changed"  # an input of the plan
    PAUSED = "paused"  # partitions
    RESUMED = "resumed"  # partitions
    PINNED = "pinned"  # consumer, partitions
    ROLLED_BACK = "rolledBack"  # rebalance, by, why
    ROLLBACK_ENDED = "rollbackEnded"  # rebalance, changed consumers; amount: seconds
    SPLIT = "split"  # consumers, partitions; by: fleet of the upgrade
    CONTINUED = "continued"  # the causes behind this one, in a further plan
    PLAIN = "plain"  # consumers that read a topic's node in the plain form only
    NOT_RUNNING = "notRunning"  # consumers
    LOADS = "loads"  # why: the plan's summary
    UNEVEN = "uneven"  # over all topics; why: the plan's summary
    FIRST = "first"  # plan of the topic
    LOST = "lost"  # what of the topic: node, state
    RESTORED = "restored"  # ZooKeeper; why: the evidence
    FORGOTTEN = "forgotten"  # by ZooKeeper, which was lost; why: the evidence
    FOREIGN = "foreign"  # commit, or ZooKeeper was restored; why: the evidence
    MORE = "more"  # amount: further causes
    TOLD = "told"  # why: a sentence of a reset, or of an earlier version


@dataclass(frozen=True, slots=True)
class Cause:
    """One of the causes of a transition. `by` and `why` are words of a person or a program, never to be compared."""

    kind: CauseKind
    names: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    by: str = ""
    why: str = ""
    ending: Ending | None = None
    amount: float = 0.0

    @property
    def name(self) -> str:
        """Return the first name; empty if there is none."""
        return self.names[0] if self.names else ""
