"""Cycles of hand-overs that save moves and do not change the loads: Bellman-Ford on arrays."""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
HandOver = tuple[int, int, int]
"""Giver, topic, taker."""

_NEVER = 1 << 12
"""More than the cost of any path. A hand-over costs -1, 0 or 1, and a search ends at its first cycle."""


def negative_cycles(subscribed: Flags, own: Numbers, x: Numbers, loads: Numbers) -> list[list[HandOver]]:
    """Return disjoint cycles of negative cost. Without one, no assignment with the same sorted loads has fewer moves.

    Takes O(members · topics) per round. A round makes the paths longer by one hand-over.
    """
    members, topics = x.shape
    losing = np.where(x > 0, (x <= own).astype(np.int32), _NEVER)
    taking = np.where(subscribed, -(x < own).astype(np.int32), _NEVER)
    parent = np.full(members + topics, -1, np.int64)
    at_member, at_topic = np.zeros(members, np.int32), np.zeros(topics, np.int32)
    every_member, every_topic = np.arange(members), np.arange(topics)
    while True:
        through = losing + at_member[:, None]
        best = through.argmin(axis=0)
        changed = _relax(at_topic, through[best, every_topic], parent[members:], best)
        through = taking + at_topic
        best = through.argmin(axis=1)
        changed |= _relax(at_member, through[every_member, best], parent[:members], best + members)
        best = _cheapest_one_below(at_member, loads)
        cost = np.where(best >= 0, at_member[best], _NEVER)
        changed |= _relax(at_member, cost, parent[:members], best)
        if not changed:
            return []
        found = [c for cycle in _cycles(parent.tolist()) if (c := _hand_overs(cycle, members)) and _cost(c, own, x) < 0]
        if found:
            return found


def _relax(distance: Numbers, cost: Numbers, parent: Numbers, by: Numbers) -> bool:
    better = cost < distance
    distance[better] = cost[better]
    parent[better] = by[better]
    return bool(better.any())


def _cheapest_one_below(distance: Numbers, loads: Numbers) -> Numbers:
    """Return for each member the nearest member whose load is lower by one, to exchange loads with; -1 if none."""
    order = np.lexsort((distance, loads))
    ascending = loads[order]
    first = np.searchsorted(ascending, loads - 1)
    there = ascending[first] == loads - 1
    return np.where(there, order[first], -1)


def _cycles(parent: list[int]) -> list[list[int]]:
    """Return the cycles in the graph of parents, each in the direction of the paths."""
    seen = [0] * len(parent)
    cycles = []
    for start in range(len(parent)):
        node, mark = start, start + 1
        while node >= 0 and not seen[node]:
            seen[node] = mark
            node = parent[node]
        if node >= 0 and seen[node] == mark and parent[node] >= 0:
            cycle = [node]
            while (before := parent[cycle[-1]]) != node:
                cycle.append(before)
            cycles.append(cycle[::-1])
    return cycles


def _hand_overs(cycle: list[int], members: int) -> list[HandOver]:
    """Return the hand-overs in a cycle of member, topic, member, ... Two adjacent members only exchange their loads."""
    return [
        (cycle[i - 1], node - members, cycle[(i + 1) % len(cycle)]) for i, node in enumerate(cycle) if node >= members
    ]


def _cost(hand_overs: list[HandOver], own: Numbers, x: Numbers) -> int:
    lost = sum(1 for giver, topic, _ in hand_overs if x[giver, topic] <= own[giver, topic])
    return lost - sum(1 for _, topic, taker in hand_overs if x[taker, topic] < own[taker, topic])
