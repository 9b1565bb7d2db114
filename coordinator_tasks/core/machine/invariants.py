"""Invariants of every written topic node and state."""

from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.machine.draft import label
from coordinator_tasks.core.model import TopicNode, TopicState


def of_topic(node: TopicNode, state: TopicState) -> list[str]:
    """Return the violated invariants of a node and a state that were written together, as sentences."""
    broken: list[str] = []
    starting = [(p, c) for c, partitions in state.to_start.items() for p in partitions]
    takers = dict(starting)
    closers = grouped((p, c) for c, partitions in state.to_close.items() for p in partitions)

    def check(holds: bool, statement: str) -> None:
        if not holds:
            broken.append(statement)

    check(not node.assignments.keys() & node.handoff.keys(), "an assigned partition has no hand-off")
    check(node.assignments.keys() == node.since.keys(), "every assignment has its `since`, and nothing else has")
    check(all(e <= node.epoch for e in node.since.values()), "no holding began after the node's epoch")
    check(all(h.epoch <= node.epoch for h in node.handoff.values()), "no hand-off is newer than the node")
    check(all(h.giver != h.taker for h in node.handoff.values()), "nobody hands off to itself")
    check(len(takers) == len(starting), "a partition starts at one consumer")
    check(not closers.keys() & node.assignments.keys(), "what is being closed is assigned to nobody")
    check(all(takers.get(p) == h.taker for p, h in node.handoff.items()), "a hand-off's taker stands in toStart")
    for partition, entry in node.handoff.items():
        alone = closers.get(partition) == [entry.giver]
        check(alone, f"partition {partition} is closed at its giver alone while it is handed off")
    check(
        all(node.assignments.get(p, c) == c for p, c in starting),
        "an assigned partition in toStart starts at its assignee",
    )
    check(
        all(p in node.assignments or p in closers for p in takers),
        "what is to start is assigned, or still being closed",
    )
    holders = set(node.assignments.values()) | set(takers.values()) | state.to_close.keys()
    check(all(c in node.incarnations for c in holders), "every holder's incarnation is named")
    check(state.state is label(state), f"{state.state} sums up the partitions")
    return broken
