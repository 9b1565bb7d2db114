"""Invariants between a topic node and the next."""

from coordinator_tasks.core.model import TopicNode


def of_step(before: TopicNode, after: TopicNode) -> list[str]:
    """Return the violated invariants between a topic node and the next, as sentences; empty = all hold."""
    broken: list[str] = []
    if after.epoch <= before.epoch:
        broken.append(f"epochs grow: {before.epoch} was followed by {after.epoch}")
    if after.generation != before.generation and after.supersedes.get(before.generation, -1) < before.epoch:
        broken.append("a new generation covers the one before it")
    older = sorted(p for p, since in after.since.items() if since < before.since.get(p, 0))
    if older:
        broken.append(f"a holding is never older than the one before it: partitions {older}")
    return broken
