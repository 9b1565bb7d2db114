"""Mixed subscriptions: the exact number of partitions of each topic for each member.

Partitions of a topic differ only in their present owner. So the unknowns are the numbers x[member, topic]: a flow from
topics to their subscribers. Up to `own[member, topic]` of them need no move.

1. Loads. A load vector is decreasingly minimal if and only if no path of hand-overs leads from a member to a member
with at least two partitions less (the loads form an M-convex set; Frank and Murota, "Decreasing minimization on
M-convex sets", 2022; for one partition per topic see Harvey, Ladner, Lovász and Tamir, "Semi-matchings", 2006). `level`
hands partitions on along such paths until none is left.

2. Moves. Among flows with these loads, a flow has the fewest moves if and only if the residual graph has no cycle of
negative cost. A hand-over costs 1 if the giver loses a partition that it owned before, and -1 if the taker regains such
a partition. Two members whose loads differ by 1 may exchange their loads (minimum-cost flow with convex costs).
`cheapen` finds cycles of negative cost by Bellman-Ford, and cancels them until none is left.

Both steps start from the present assignment, so a small change costs little. If a step takes many rounds, `linked`
shortens it.
"""

import heapq
from functools import cached_property

import numpy as np

from coordinator_tasks.core.assignors.cycles import Edges, Flags, Numbers, negative_cycles
from coordinator_tasks.core.assignors.linked import Cheapener, Leveller, TopicGraph, graph_of


def fewest_moves_of(owned: list[dict[int, int]], counts: list[int], base: list[int]) -> list[dict[int, int]]:
    """Return for each topic: subscriber → its partitions in the best balance with the fewest moves.

    `owned`: for each topic, subscriber → its present partitions. `counts` and `base` are those of `Flow`.
    """
    shape = len(base), len(owned)
    subscribed, own = np.zeros(shape, np.bool_), np.zeros(shape, np.int32)
    subscribers = [list(of_topic) for of_topic in owned]
    for topic, (members, of_topic) in enumerate(zip(subscribers, owned, strict=True)):
        subscribed[members, topic] = True
        own[members, topic] = list(of_topic.values())
    flow = Flow(subscribed, own, np.array(counts, np.int32), np.array(base, np.int32))
    flow.solve()
    return [
        dict(zip(members, flow.x[members, topic].tolist(), strict=True)) for topic, members in enumerate(subscribers)
    ]


MOST_ROUNDS, MOST_CYCLE_ROUNDS = 20, 1_000
"""Rounds of `level` and of the searches of `cheapen` before the shortcuts of `linked`, if they apply."""


class Flow:
    """The unknowns and the bounds of the flow.

    `x`, `own` and `subscribed` are [member, topic]. `counts`: number of partitions of each topic. `base`: the load of
    each member outside these topics.
    """

    def __init__(self, subscribed: Flags, own: Numbers, counts: Numbers, base: Numbers | None = None) -> None:
        self.subscribed = subscribed
        self.own = own
        self.x = own.copy()
        self._before: Numbers = own.sum(axis=1, dtype=np.int32) + (0 if base is None else base)
        self.loads = self._before.copy()
        self._free = counts - own.sum(axis=0, dtype=np.int32)

    @property
    def moves(self) -> int:
        """Return the number of owned partitions that move."""
        return int(np.maximum(self.own - self.x, 0).sum())

    @property
    def even(self) -> bool:
        return int(self.loads.max() - self.loads.min()) <= 1

    def solve(self) -> bool:
        """Reach the best balance with the fewest moves.

        Return False if a bound proves that the moves are the fewest, so that no cycles had to be searched.
        """
        self.fill()
        self.level()
        moves = self.moves
        if moves == 0 or (self.even and moves == fewest_moves(self._before, int(self.loads.sum()))):
            return False
        self.cheapen()
        return True

    def fill(self) -> None:
        """Give partitions without an owner to the members with the least load. Topics with few subscribers go first."""
        subscribers = np.ascontiguousarray(self.subscribed.T)
        width = subscribers.sum(axis=1)
        topics = np.flatnonzero((self._free > 0) & (width > 0))
        for topic in topics[np.argsort(width[topics], kind="stable")].tolist():
            members = subscribers[topic].nonzero()[0]
            takers, given = raised(self.loads[members], int(self._free[topic]))
            chosen = members[takers]
            self.x[chosen, topic] += given
            self.loads[chosen] += given

    def level(self) -> None:
        """Make the load vector decreasingly minimal. Free partitions (which cost no move) are handed on first."""
        rounds = 0
        for free_only in (True, False):
            while not self.even and self._level_once(free_only):
                rounds += 1
                if rounds == MOST_ROUNDS and self._graph is not None:
                    Leveller(self._graph, self.own, self.x, self.loads).run()

    def _level_once(self, free_only: bool) -> bool:
        """For each member with a path, hand one partition on along the path. Return False if no member has a path."""
        reach, *vias = self._reachable(free_only)
        via_topic, via_member = (via.tolist() for via in vias)
        steep = np.flatnonzero(self.loads >= reach + 2)
        heap = list(zip((-self.loads[steep]).tolist(), steep.tolist(), strict=True))
        heapq.heapify(heap)
        # A member that cannot pass a partition on cannot do so later in this round: further givers have no larger load.
        stuck: set[int] = set()
        while heap:
            load, member = heapq.heappop(heap)
            path = [member]
            while (
                (topic := via_topic[path[-1]]) >= 0 and path[-1] not in stuck and self._has(path[-1], topic, free_only)
            ):
                path += [topic, via_member[topic]]
            if topic < 0 and self.loads[member] >= self.loads[path[-1]] + 2:
                self._pass_on(path)
                heapq.heappush(heap, (load + 1, member))
            else:
                stuck.update(path[::2])
        return bool(len(steep))

    def _has(self, member: int, topic: int, free_only: bool) -> bool:
        return bool(self.x[member, topic] > (self.own[member, topic] if free_only else 0))

    def _pass_on(self, path: list[int]) -> None:
        """Hand one partition on at each step of the path member, topic, member, ..."""
        for giver, topic, taker in zip(path[:-1:2], path[1::2], path[2::2], strict=True):
            self.x[giver, topic] -= 1
            self.x[taker, topic] += 1
        self.loads[path[0]] -= 1
        self.loads[path[-1]] += 1

    def _reachable(self, free_only: bool) -> tuple[Numbers, Numbers, Numbers]:
        """Return per member the least load that it can reach and the next topic, and per topic the next member.

        The search runs backwards from the members with the least load, until no unreached member has at least two
        partitions more. An unreached member gets its own load; -1 means that there is no next node.
        """
        reach = np.full(len(self.loads), -1, np.int32)
        via_topic = np.full(len(self.loads), -1, np.int32)
        via_member = np.full(self.x.shape[1], -1, np.int32)
        for load in np.unique(self.loads).tolist():
            frontier: Numbers = np.flatnonzero((self.loads == load) & (reach < 0)).astype(np.int32)
            reach[frontier] = load
            while len(frontier):
                frontier = self._step_back(frontier, free_only, reach, via_topic, via_member)
                reach[frontier] = load
            if not ((reach < 0) & (self.loads >= load + 2)).any():
                break
        return np.where(reach < 0, self.loads, reach), via_topic, via_member

    def _step_back(
        self, frontier: Numbers, free_only: bool, reach: Numbers, via_topic: Numbers, via_member: Numbers
    ) -> Numbers:
        """Return the newly reached members, which can hand on to the frontier. Fill `via_topic` and `via_member`."""
        takes = self.subscribed[frontier]
        topics = np.flatnonzero((via_member < 0) & takes.any(axis=0))
        via_member[topics] = frontier[_spread(takes[:, topics])]
        givers = np.flatnonzero(reach < 0)
        x = self.x[np.ix_(givers, topics)]
        worth = (x > self.own[np.ix_(givers, topics)]).astype(np.int8)
        if not free_only:
            worth += x > 0  # passing on a partition that it did not own costs a member nothing
        can = worth.any(axis=1)
        found: Numbers = givers[can].astype(np.int32)
        if len(found):
            via_topic[found] = topics[worth[can].argmax(axis=1)]
        return found

    def cheapen(self) -> None:
        """Reach the fewest moves that the present loads allow."""
        edges, rounds = (Edges(self.subscribed.T), Edges(self.subscribed)), 0
        while True:
            cycles, more = negative_cycles(*edges, self.own, self.x, self.loads)
            if not cycles:
                return
            for cycle in cycles:
                for giver, topic, taker in cycle:
                    self.x[giver, topic] -= 1
                    self.x[taker, topic] += 1
                    self.loads[giver] -= 1
                    self.loads[taker] += 1
            before, rounds = rounds, rounds + more
            if before < MOST_CYCLE_ROUNDS <= rounds and self._graph is not None:
                Cheapener(self._graph, self.own, self.x, self.loads).run()

    @cached_property
    def _graph(self) -> TopicGraph | None:
        return graph_of(self.subscribed)


def quotas(counts: Numbers, total: int) -> Numbers:
    """Return each member's number of partitions, from its present number, if all members may have all partitions."""
    level, larger = divmod(total, len(counts))
    quota = np.full(len(counts), level, np.int32)
    if larger:
        over = counts > level
        quota[np.concatenate([np.flatnonzero(over), np.flatnonzero(~over)])[:larger]] += 1
    return quota


def fewest_moves(counts: Numbers, total: int) -> int:
    """Return a lower bound of the moves to the most even loads, for any subscriptions."""
    return int(np.maximum(counts - quotas(counts, total), 0).sum())


def _spread(takes: Flags) -> Numbers:
    """Return for each column a row that is set. The rows differ if possible, so that paths end at different members."""
    if len(takes) == 1:
        return np.zeros(takes.shape[1], np.int32)
    rank = np.cumsum(takes, axis=0, dtype=np.int32)
    wanted = np.arange(takes.shape[1]) % np.maximum(rank[-1], 1) + 1
    chosen: Numbers = (rank == wanted).argmax(axis=0).astype(np.int32)
    return chosen


def raised(loads: Numbers, units: int) -> tuple[Numbers, Numbers]:
    """Return how many of the `units` each member gets, so that the largest load is as small as possible."""
    if units < len(loads):
        least = np.argpartition(loads, units - 1)[:units].astype(np.int32)
        low = loads[least]
        if int(low.max()) - int(low.min()) <= 1:
            return least, np.ones(units, np.int32)
    order = np.argsort(loads, kind="stable").astype(np.int32)
    ascending = loads[order]
    # To raise the first k members to the height of the next, k times this height less the sum of their loads is needed.
    size = np.arange(1, len(loads))
    below = int(np.searchsorted(size * ascending[1:] - np.cumsum(ascending[:-1]), units, side="left")) + 1
    height, rest = divmod(units + int(ascending[:below].sum()), below)
    given = height - ascending[:below]
    given[:rest] += 1
    return order[:below], given
