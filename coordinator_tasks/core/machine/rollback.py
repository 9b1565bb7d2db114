"""The return to the assignment before an earlier rebalance, and how long the roll back holds. Pure."""

from collections.abc import Iterable, Mapping

from coordinator_tasks.core.model import Cause, CauseKind, Record, Rollback, State, TopicConfig
from coordinator_tasks.core.text import cause_text
from coordinator_tasks.core.text.partition_text import duration


def said(wanted: Rollback) -> str:
    """Return the roll back in a sentence, for plans."""
    return cause_text.of_one(cause(wanted))


def cause(wanted: Rollback) -> Cause:
    """Return the roll back as a cause."""
    return Cause(CauseKind.ROLLED_BACK, (wanted.rebalance,), by=wanted.by, why=wanted.why)


def ended(wanted: Rollback, able: Mapping[str, int], now: float) -> Cause | None:
    """Return the cause that ends the roll back; `None` while it holds. `able`: the present targets."""
    if wanted.for_s:
        over = now >= wanted.at + wanted.for_s
        return Cause(CauseKind.ROLLBACK_ENDED, (wanted.rebalance,), amount=wanted.for_s) if over else None
    changed = sorted(c for c in able.keys() | wanted.targets.keys() if able.get(c) != wanted.targets.get(c))
    return Cause(CauseKind.ROLLBACK_ENDED, (wanted.rebalance, *changed)) if changed else None


def until(wanted: Rollback) -> str:
    """Return how long the roll back holds, for a person."""
    if wanted.for_s:
        return f"for {duration(wanted.for_s)}, whoever joins or leaves"
    return "until the next change of membership"


def placed(config: TopicConfig, able: Mapping[str, int], now: float) -> dict[int, str]:
    """Return partition → consumer by the roll back. Consumers that may not take partitions are left out."""
    wanted = config.rollback
    if wanted is None or ended(wanted, able, now) is not None:
        return {}
    return {p: c for p, c in wanted.assignments.items() if c in able}


def begun(first: Record) -> bool:
    """Return whether a rebalance may start with this record."""
    return first.source in (State.INITIAL, State.STABLE)


def before(owners: Mapping[int, str], undone: Iterable[Record]) -> dict[int, str]:
    """Return partition → owner before these records. Partitions without an owner are left out.

    `owners`: partition → owner or taker after the records. `undone`: newest first.
    """
    owner_of = dict(owners)
    for record in undone:
        # If a plan moved a partition twice, the first move names the owner before the plan.
        for move in reversed(record.moves):
            owner_of[move.partition] = move.giver
    return {partition: owner for partition, owner in sorted(owner_of.items()) if owner}
