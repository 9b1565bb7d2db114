"""Cycles of hand-overs that save moves and do not change the loads: Bellman-Ford on arrays."""

from itertools import count

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]
HandOver = tuple[int, int, int]
"""Giver, topic, taker."""

_NEVER = 1 << 12
"""More than the cost of any path. A hand-over costs -1, 0 or 1, and a search ends at its first cycle."""
_BITS = 32
"""Bits of a node's number, below the cost in one integer."""


class Edges:
    """The edges of the nodes of one side, by node: rows of `has` are nodes, columns are nodes of the other side."""

    def __init__(self, has: Flags) -> None:
        self.places = has.nonzero()
        of, self._others = self.places
        self._first = np.flatnonzero(np.diff(of, prepend=-1))
        self.nodes = of[self._first]

    def with_others(self, costs: Places) -> Places:
        """Return cost and other end of each edge in one integer."""
        return (costs << _BITS) + self._others

    def cheapest(self, costs: Places, distance: Places) -> tuple[Places, Places]:
        """Return for each node the least cost to reach it, and the first other end of such an edge."""
        best = np.minimum.reduceat((distance[self._others] << _BITS) + costs, self._first)
        return best >> _BITS, best & (1 << _BITS) - 1


def negative_cycles(
    of_topics: Edges, of_members: Edges, own: Numbers, x: Numbers, loads: Numbers
) -> tuple[list[list[HandOver]], int]:
    """Return disjoint cycles of negative cost, and the number of rounds. Without one, no assignment with the same sorted loads has fewer moves.

    Takes O(edges) per round. A round makes the paths longer by one hand-over.
    """
    members, topics = x.shape
    has, had = x.T[of_topics.places], own.T[of_topics.places]
    losing = of_topics.with_others(np.where(has > 0, has <= had, _NEVER))
    taking = of_members.with_others(np.where(x < own, -1, 0)[of_members.places])
    parent = np.full(members + topics, -1, np.int64)
    at_member, at_topic = np.zeros(members, np.int64), np.zeros(topics, np.int64)
    every_member = np.arange(members)
    for rounds in count(1):
        changed = _relax(at_topic, parent[members:], of_topics.nodes, *of_topics.cheapest(losing, at_member))
        cost, best = of_members.cheapest(taking, at_topic)
        changed |= _relax(at_member, parent[:members], of_members.nodes, cost, best + members)
        best = _cheapest_one_below(at_member, loads)
        cost = np.where(best >= 0, at_member[best], _NEVER)
        changed |= _relax(at_member, parent[:members], every_member, cost, best)
        if not changed:
            break
        found = [c for cycle in cycles_in(parent) if (c := _hand_overs(cycle, members)) and _cost(c, own, x) < 0]
        if found:
            return found, rounds
    return [], rounds


def _relax(distance: Places, parent: Places, nodes: Places, cost: Places, by: Places) -> bool:
    better = cost < distance[nodes]
    distance[nodes[better]] = cost[better]
    parent[nodes[better]] = by[better]
    return bool(better.any())


def _cheapest_one_below(distance: Places, loads: Numbers) -> Places:
    """Return for each member the nearest member whose load is lower by one, to exchange loads with; -1 if none."""
    order = np.lexsort((distance, loads))
    ascending = loads[order]
    first = np.searchsorted(ascending, loads - 1)
    there = ascending[first] == loads - 1
    return np.where(there, order[first], -1)


def cycles_in(parents: Places) -> list[list[int]]:
    """Return the cycles in the graph of parents, each in the direction of the paths."""
    end = np.append(parents, -1)  # the parent of -1, no node, is -1
    for _ in range(len(parents).bit_length()):
        end = end[end]
    parent, seen = parents.tolist(), [0] * len(parents)
    cycles = []
    for start in np.flatnonzero(end >= 0).tolist():  # from here the parents never end
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
