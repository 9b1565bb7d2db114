"""The way back: the assignment before an earlier rebalance, and how long it holds. Pure."""

from collections.abc import Iterable, Mapping

from coordinator_tasks.core.model import Record, Rollback, State, TopicConfig
from coordinator_tasks.core.text.partition_text import because, shown


def said(wanted: Rollback) -> str:
    """The roll back in a sentence, for plans and the history."""
    by = f" (by {wanted.by}{because(wanted.why)})" if wanted.by else because(wanted.why)
    return f"rolled back to before rebalance {wanted.rebalance}{by}"


def why_over(wanted: Rollback, able: Mapping[str, int], now: float) -> str:
    """Why the roll back no longer holds; an empty text = it holds. `able`: consumer → incarnation, the targets now."""
    if wanted.for_s:
        over = now >= wanted.at + wanted.for_s
        return f"{_of(wanted)} has ended after {duration(wanted.for_s)}" if over else ""
    changed = sorted(c for c in able.keys() | wanted.targets.keys() if able.get(c) != wanted.targets.get(c))
    return f"{_of(wanted)} has ended with the change of membership: {shown(changed)}" if changed else ""


def _of(wanted: Rollback) -> str:
    return f"the roll back to before rebalance {wanted.rebalance}"


def until(wanted: Rollback) -> str:
    """How long it holds, for a person."""
    if wanted.for_s:
        return f"for {duration(wanted.for_s)}, whoever joins or leaves"
    return "until the next change of membership"


def duration(seconds: float) -> str:
    """`90 s`, `30 min`."""
    return f"{seconds / 60:g} min" if seconds % 60 == 0 else f"{seconds:g} s"


def placed(config: TopicConfig, able: Mapping[str, int], now: float) -> dict[int, str]:
    """Partition → the consumer that the roll back gives it to, while that is able."""
    wanted = config.rollback
    if wanted is None or why_over(wanted, able, now):
        return {}
    return {p: c for p, c in wanted.assignments.items() if c in able}


def begun(first: Record) -> bool:
    """Whether this record may be the first one of its rebalance."""
    return first.source in (State.INITIAL, State.STABLE)


def before(owners: Mapping[int, str], undone: Iterable[Record]) -> dict[int, str]:
    """Partition → its owner before these records; without an owner it is left out.

    `owners`: partition → its owner (or taker) after them. `undone`: the newest first.
    """
    found = dict(owners)
    for record in undone:
        # Of a partition that one plan moved twice, the first move names the owner before it.
        for move in reversed(record.moves):
            found[move.partition] = move.giver
    return {partition: owner for partition, owner in sorted(found.items()) if owner}
