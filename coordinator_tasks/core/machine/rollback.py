"""Roll back: the assignment before an earlier rebalance, and how long the roll back holds. Pure."""

from collections.abc import Iterable, Mapping

from coordinator_tasks.core.model import Record, Rollback, State, TopicConfig
from coordinator_tasks.core.text.partition_text import because, shown


def said(wanted: Rollback) -> str:
    """Return the roll back in a sentence, for plans and the history."""
    by = f" (by {wanted.by}{because(wanted.why)})" if wanted.by else because(wanted.why)
    return f"rolled back to before rebalance {wanted.rebalance}{by}"


def why_over(wanted: Rollback, able: Mapping[str, int], now: float) -> str:
    """Return why the roll back is over; empty while the roll back holds. `able`: consumer → incarnation, the targets
    now.
    """
    if wanted.for_s:
        over = now >= wanted.at + wanted.for_s
        return f"{_of(wanted)} has ended after {duration(wanted.for_s)}" if over else ""
    changed = sorted(c for c in able.keys() | wanted.targets.keys() if able.get(c) != wanted.targets.get(c))
    return f"{_of(wanted)} has ended with the change of membership: {shown(changed)}" if changed else ""


def _of(wanted: Rollback) -> str:
    return f"the roll back to before rebalance {wanted.rebalance}"


def until(wanted: Rollback) -> str:
    """Return how long the roll back holds, for a person."""
    if wanted.for_s:
        return f"for {duration(wanted.for_s)}, whoever joins or leaves"
    return "until the next change of membership"


def duration(seconds: float) -> str:
    """Return a duration such as `90 s` or `30 min`."""
    return f"{seconds / 60:g} min" if seconds % 60 == 0 else f"{seconds:g} s"


def placed(config: TopicConfig, able: Mapping[str, int], now: float) -> dict[int, str]:
    """Return partition → consumer of the roll back, for consumers that are able to take partitions."""
    wanted = config.rollback
    if wanted is None or why_over(wanted, able, now):
        return {}
    return {p: c for p, c in wanted.assignments.items() if c in able}


def begun(first: Record) -> bool:
    """Return whether a rebalance may start with this record."""
    return first.source in (State.INITIAL, State.STABLE)


def before(owners: Mapping[int, str], undone: Iterable[Record]) -> dict[int, str]:
    """Return partition → owner before these records; partitions without an owner are left out.

    `owners`: partition → owner or taker after the records. `undone`: newest first.
    """
    owner_of = dict(owners)
    for record in undone:
        # If one plan moved a partition twice, the first move names the previous owner.
        for move in reversed(record.moves):
            owner_of[move.partition] = move.giver
    return {partition: owner for partition, owner in sorted(owner_of.items()) if owner}
