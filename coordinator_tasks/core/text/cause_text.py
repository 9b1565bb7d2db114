"""Causes in words, for the history and the command line. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from coordinator_tasks.core.model import Cause, CauseKind
from coordinator_tasks.core.text.partition_text import agreed, because, duration, named, noun, shown

_CONTINUED = "a rebalance under way goes on"
_MOST = 10  # causes of one kind in a record


def kept(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Return the first ten causes. If there are more, the last entry has their number."""
    found = tuple(causes)
    more = (Cause(CauseKind.MORE, amount=len(found) - _MOST),) if len(found) > _MOST else ()
    return (*found[:_MOST], *more)


def of_one(cause: Cause) -> str:
    """Return one cause in words."""
    return _WORDS[cause.kind](cause)


def said(causes: Sequence[Cause], word: Callable[[Cause], str] = of_one) -> str:
    """Return the causes in one sentence. `word` turns one cause into words."""
    on = bool(causes) and causes[0].kind is CauseKind.CONTINUED
    sentence = "; ".join(map(word, causes[on:]))
    if not on:
        return sentence
    return f"{_CONTINUED} ({sentence})" if sentence else _CONTINUED


def by_whom(cause: Cause) -> str:
    """Return a text such as `(by ada: a new host)`."""
    return f"(by {cause.by}{because(cause.why)})"


def restart_planned(cause: Cause) -> str:
    """Return who planned a missing consumer's restart, as the end of a clause; empty without a planned restart."""
    return f", restart planned by {cause.by}" if cause.by else ""


def listed(partitions: Collection[int]) -> str:
    """Return `partition 7`, or `partitions 0, 1 and 2 more`, cut after ten."""
    return f"{noun(partitions)} {shown(partitions)}"


def _rolled_back(cause: Cause) -> str:
    who = f" {by_whom(cause)}" if cause.by else because(cause.why)
    return f"rolled back to before rebalance {cause.name}{who}"


def _rollback_ended(cause: Cause) -> str:
    changed = f"with the change of membership: {shown(cause.names[1:])}"
    how = f"after {duration(cause.amount)}" if cause.amount else changed
    return f"the roll back to before rebalance {cause.name} has ended {how}"


def _split(cause: Cause) -> str:
    names = shown(cause.names)
    have = f"{named(cause.partitions)} for {names} alone" if cause.partitions else f"{names} may have none yet"
    return f"upgrade of {cause.by}: {have}"


def _gone(cause: Cause) -> str:
    how = cause.ending.value if cause.ending is not None else "unknown"
    return f"gone: {cause.name} ({how}{restart_planned(cause)}{because(cause.why)})"


_WORDS: Mapping[CauseKind, Callable[[Cause], str]] = {
    CauseKind.JOINED: lambda one: f"joined: {shown(one.names)}",
    CauseKind.DRAINING: lambda one: f"draining: {one.name} {by_whom(one)}",
    CauseKind.DROPPED: lambda one: f"no longer a target: {one.name}",
    CauseKind.ISOLATED: lambda one: f"isolated: {one.name} {by_whom(one)}",
    CauseKind.GONE: _gone,
    CauseKind.UNOWNED: lambda one: f"{noun(one.partitions)} without an owner: {shown(one.partitions)}",
    CauseKind.TAKERS: lambda one: f"consumers to take partitions: {shown(one.names)}",
    CauseKind.RECREATED: lambda one: f"the topic was recreated in Kafka: id {one.name}, was {shown(one.names[1:])}",
    CauseKind.VANISHED: lambda one: f"no longer in Kafka: {listed(one.partitions)}",
    CauseKind.REMOVED: lambda _: "the topic was removed from the coordinator",
    CauseKind.CONFIGURED: lambda _: "configuration changed",
    CauseKind.CHANGED: lambda _: "consumers, their attributes, partitions or the configuration changed",
    CauseKind.PAUSED: lambda one: f"paused: {listed(one.partitions)}",
    CauseKind.RESUMED: lambda one: f"resumed: {listed(one.partitions)}",
    CauseKind.PINNED: lambda one: f"pinned to {one.name}: {listed(one.partitions)}",
    CauseKind.ROLLED_BACK: _rolled_back,
    CauseKind.ROLLBACK_ENDED: _rollback_ended,
    CauseKind.SPLIT: _split,
    CauseKind.CONTINUED: lambda _: _CONTINUED,
    CauseKind.PLAIN: lambda one: f"read in the plain form only: {shown(one.names)}",
    CauseKind.NOT_RUNNING: lambda one: f"not running what it holds: {shown(one.names)}",
    CauseKind.LOADS: lambda one: f"loads have changed: {one.why}",
    CauseKind.UNEVEN: lambda one: f"not even over all topics: {one.why}",
    CauseKind.FIRST: lambda _: "first plan",
    CauseKind.LOST: lambda one: f"the topic's {' and '.join(one.names)} {agreed(len(one.names), 'was', 'were')} lost",
    CauseKind.RESTORED: lambda one: f"ZooKeeper was restored: {one.why}",
    CauseKind.FORGOTTEN: lambda one: f"ZooKeeper was lost: {one.why}",
    CauseKind.FOREIGN: lambda one: f"ZooKeeper was restored, or a foreign client commits with the group: {one.why}",
    CauseKind.MORE: lambda one: f"and {one.amount:,.0f} more",
    CauseKind.TOLD: lambda one: one.why,
}
