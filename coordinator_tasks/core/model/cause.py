"""Causes of a transition, and the end of a consumer's process."""

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """How an incarnation's end became known."""

    LEFT = "left"  # left cleanly and reported its incarnation
    REAPED = "reaped"  # the launcher saw all processes end, or the successor on the same host found none
    REFUSED = "refused"  # the consumer's own address refused connections for a session time-out


class CauseKind(StrEnum):
    """The kind of a transition's cause. Each comment names the fields of `Cause` that the kind uses."""

    JOINED = "joined"  # consumers
    DRAINING = "draining"  # consumer, by, why
    DROPPED = "dropped"  # consumer: no longer a target
    ISOLATED = "isolated"  # consumer, by, why
    GONE = "gone"  # consumer, ending, by (of a planned restart), why
    UNOWNED = "unowned"  # partitions
    TAKERS = "takers"  # consumers: the topic's first consumers
    RECREATED = "recreated"  # names: the topic's new id, then its former id
    VANISHED = "vanished"  # partitions
    REMOVED = "removed"  # the topic, by a person
    CONFIGURED = "configured"
    CHANGED = "changed"  # an input of the plan
    PAUSED = "paused"  # partitions
    RESUMED = "resumed"  # partitions
    PINNED = "pinned"  # consumer, partitions
    ROLLED_BACK = "rolledBack"  # rebalance, by, why
    ROLLBACK_ENDED = "rollbackEnded"  # rebalance, changed consumers; amount: seconds
    SPLIT = "split"  # names: consumers of the new version; partitions; by: the upgraded fleet
    CONTINUED = "continued"  # a further plan of a rebalance under way; the entries after this one are its causes
    PLAIN = "plain"  # consumers that cannot read a packed topic node
    NOT_RUNNING = "notRunning"  # consumers
    LOADS = "loads"  # why: the plan's summary
    UNEVEN = "uneven"  # over all topics; why: the plan's summary
    FIRST = "first"  # plan of the topic
    LOST = "lost"  # names: the lost nodes of the topic (node, state)
    RESTORED = "restored"  # an older ZooKeeper was restored; why: the evidence
    FORGOTTEN = "forgotten"  # ZooKeeper was lost; why: the evidence
    FOREIGN = "foreign"  # a foreign client commits, or ZooKeeper was restored; why: the evidence
    MORE = "more"  # amount: number of causes left out
    TOLD = "told"  # why: a sentence of a reset, or of an earlier version


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a transition. `by` and `why` are texts for display. No code compares them."""

    kind: CauseKind
    names: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    by: str = ""
    why: str = ""
    ending: Ending | None = None
    amount: float = 0.0

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""
