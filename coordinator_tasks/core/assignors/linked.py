"""Many members with few of many topics each: the paths and cycles of `flow`, searched between topics.

A member with two topics links the topics: it takes a partition of one, and gives a partition of the other. So a search
visits some hundred topics in place of some thousand members. The searches here are shortcuts: after a shortcut, `flow`
searches on until no path and no cycle is left.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from coordinator_tasks.core.assignors.cycles import Flags, Numbers, Places, cycles_in

MIN_SIZE = 100_000
"""Minimum members x topics. Below, `flow` alone is fast enough."""
MOST_PAIRS = 1_000_000
"""Maximum number of (member, taken topic, given topic)."""
_NEVER = 1 << 20
_BITS = 32
"""Bits of a member's or node's number, below the cost in one integer."""
Edge: TypeAlias = tuple[int, int]


def graph_of(subscribed: Flags) -> "TopicGraph | None":
    """Return the graph of the topics; `None` if the problem is small, or the members have too many topics."""
    pairs = int((subscribed.sum(axis=1, dtype=np.int64) ** 2).sum())
    return TopicGraph(subscribed) if subscribed.size >= MIN_SIZE and pairs <= MOST_PAIRS else None


class TopicGraph:
    """The subscriptions by member and by topic, and the members between each two topics."""

    def __init__(self, subscribed: Flags) -> None:
        self.topics = subscribed.shape[1]
        self.topics_of = [row.nonzero()[0].tolist() for row in subscribed]
        self.members_of = [column.nonzero()[0] for column in subscribed.T]
        self.by_member = subscribed.nonzero()
        self.first_of_member = _firsts(self.by_member[0])
        self.by_topic = subscribed.T.nonzero()[::-1]
        self.first_of_topic = _firsts(self.by_topic[1])
        member, taken, given = self._triples()
        order = np.lexsort((member, given, taken))
        self.member, self.taken, self.given = member[order], taken[order], given[order]
        self.first = _firsts(self.taken * self.topics + self.given)
        """Places of the first member of each pair of topics."""
        ends = [*self.first[1:].tolist(), len(self.member)]
        self.pair = self.taken[self.first], self.given[self.first]
        edges = zip(*(one.tolist() for one in self.pair), strict=True)
        self._spans = dict(zip(edges, zip(self.first.tolist(), ends, strict=True), strict=True))

    def _triples(self) -> tuple[Places, Places, Places]:
        """Return member, taken topic and given topic of each possible step."""
        members, topics = self.by_member
        counts = np.diff(np.append(self.first_of_member, len(members)))
        each = np.repeat(counts, counts)
        left = np.repeat(np.arange(len(members)), each)
        start = np.repeat(np.repeat(self.first_of_member, counts), each)
        right = start + np.arange(len(left)) - np.repeat(np.cumsum(each) - each, each)
        other = left != right
        left, right = left[other], right[other]
        return members[left], topics[left], topics[right]

    def between(self, taken: int, given: int) -> Places:
        """Return the members with both topics."""
        first, end = self._spans[taken, given]
        return self.member[first:end]


class Shortcut(ABC):
    """Changes an assignment in rounds. The parameters are those of `flow.Flow`."""

    def __init__(self, graph: TopicGraph, own: Numbers, x: Numbers, loads: Numbers) -> None:
        self._graph, self._own, self._x, self._loads = graph, own, x, loads

    def run(self) -> None:
        """Repeat rounds until a round changes nothing."""
        while self._round():
            pass

    @abstractmethod
    def _round(self) -> bool:
        """Return whether the round has changed the assignment."""


class Leveller(Shortcut):
    """Evens the loads out, along paths of topics to the members with the least load."""

    def _round(self) -> bool:
        graph, x, loads = self._graph, self._x, self._loads
        self._search()
        members, topics = graph.by_member
        reached = np.where(x[members, topics] > 0, np.array(self._least)[topics], _NEVER)
        who = members[graph.first_of_member]
        givers = who[loads[who] >= np.minimum.reduceat(reached, graph.first_of_member) + 2]
        pushed = False
        for giver in givers[np.argsort(-loads[givers], kind="stable")].tolist():
            while self._push_any(giver):
                pushed = True
        return pushed

    def _search(self) -> None:
        """Find for each topic the least load that a partition of the topic can reach, and the next topic on the way."""
        graph, x = self._graph, self._x
        lows = np.full(graph.topics, _NEVER)
        lows[graph.by_topic[1][graph.first_of_topic]] = np.minimum.reduceat(
            self._loads[graph.by_topic[0]], graph.first_of_topic
        )
        passes = np.logical_or.reduceat(x[graph.member, graph.given] > 0, graph.first)
        before: list[list[int]] = [[] for _ in range(graph.topics)]
        for taken, given in zip(*(one[passes].tolist() for one in graph.pair), strict=True):
            before[given].append(taken)
        self._least, self._next, self._last = [_NEVER] * graph.topics, [-1] * graph.topics, list(range(graph.topics))
        self._dead: set[int] = set()
        for low in np.unique(lows[lows < _NEVER]).tolist():
            self._spread(low, np.flatnonzero(lows == low).tolist(), before)

    def _spread(self, low: int, starts: list[int], before: list[list[int]]) -> None:
        """Reach all topics whose partitions can come to the `starts`, unless they can come to a smaller load."""
        frontier = [start for start in starts if self._least[start] == _NEVER]
        for start in frontier:
            self._least[start] = low
        while frontier:
            following = []
            for topic in frontier:
                for one in before[topic]:
                    if self._least[one] == _NEVER:
                        self._least[one], self._next[one], self._last[one] = low, topic, self._last[topic]
                        following.append(one)
            frontier = following

    def _push_any(self, giver: int) -> bool:
        """Hand one partition on. A partition that the giver did not own goes first."""
        x, own, load = self._x, self._own, self._loads[giver]
        topics = [
            topic
            for topic in self._graph.topics_of[giver]
            if topic not in self._dead and x[giver, topic] > 0 and self._least[topic] + 2 <= load
        ]
        topics.sort(key=lambda topic: (self._least[topic], x[giver, topic] <= own[giver, topic]))
        return any(self._push(giver, topic) for topic in topics)

    def _push(self, giver: int, topic: int) -> bool:
        """Hand a partition of the topic on. A topic whose way is blocked is dead until the next search."""
        graph, x, own, loads = self._graph, self._x, self._own, self._loads
        ends = graph.members_of[self._last[topic]]
        end = int(ends[loads[ends].argmin()])
        steps, way, member, used = list[tuple[int, int, int]](), [topic], giver, {giver, end}
        blocked = loads[giver] < loads[end] + 2
        while not blocked and (following := self._next[topic]) >= 0:
            members = graph.between(topic, following)
            has = x[members, following]
            worth = (has > 0).astype(np.int8) + (has > own[members, following])
            best = int(worth.argmax())
            taker = int(members[best])
            blocked = not worth[best] or taker in used
            used.add(taker)
            steps.append((member, topic, taker))
            member, topic = taker, following
            way.append(topic)
        if blocked:
            self._dead.update(way)
            return False
        for gives, what, takes in (*steps, (member, topic, end)):
            x[gives, what] -= 1
            x[takes, what] += 1
        loads[giver] -= 1
        loads[end] += 1
        return True


class Cheapener(Shortcut):
    """Cancels cycles of negative cost. The nodes are the topics, and for each load a node for the exchange of loads.

    An edge from topic to topic is a member that takes the first and gives the second. An edge to the node of a load is
    a member with this load that takes the topic; an edge from the node is a member with a load more that gives.
    """

    def _round(self) -> bool:
        froms, tos, keys = (np.concatenate(one) for one in zip(*self._edges(), strict=True))
        order = np.argsort(tos, kind="stable")
        froms, tos, keys = froms[order], tos[order], keys[order]
        costs = keys >> _BITS
        places = {edge: at for at, edge in enumerate(zip(froms.tolist(), tos.tolist(), strict=True))}
        first = _firsts(tos)
        nodes, coded = tos[first], (costs << _BITS) + froms
        size = int(max(froms.max(), tos.max())) + 1
        distance, parent = np.zeros(size, np.int64), np.full(size, -1, np.int64)
        changed, rounds = True, 0
        while changed:
            best = np.minimum.reduceat((distance[froms] << _BITS) + coded, first)
            better = best >> _BITS < distance[nodes]
            distance[nodes[better]] = (best >> _BITS)[better]
            parent[nodes[better]] = (best & (1 << _BITS) - 1)[better]
            changed, rounds = bool(better.any()), rounds + 1
            if changed and rounds > 4 and rounds % 8:
                continue  # looking for cycles takes longer than a round
            ways = [
                [places[edge] for edge in zip((cycle[-1], *cycle), cycle, strict=False)] for cycle in cycles_in(parent)
            ]
            found = [way for way in ways if costs[way].sum() < 0]
            if found:
                members = (keys & (1 << _BITS) - 1).tolist()
                cycles = [[(int(froms[at]), int(tos[at]), members[at]) for at in way] for way in found]
                return sum(map(self._cancel, cycles)) > 0
        return False

    def _edges(self) -> Iterator[tuple[Places, Places, Places]]:
        """Yield first nodes, second nodes, and the least costs with the member in one integer."""
        graph, own, x, loads = self._graph, self._own, self._x, self._loads
        taking, giving = -(x < own).astype(np.int64), (x <= own).astype(np.int64)
        give = np.where(x[graph.member, graph.given] > 0, giving[graph.member, graph.given], _NEVER)
        best = np.minimum.reduceat(((taking[graph.member, graph.taken] + give) << _BITS) + graph.member, graph.first)
        possible = best < _NEVER >> 1 << _BITS
        yield graph.pair[0][possible], graph.pair[1][possible], best[possible]
        members, topics = graph.by_topic
        for number, low in enumerate(np.unique(loads).tolist()):
            takes = loads[members] == low
            gives = (loads[members] == low + 1) & (x[members, topics] > 0)
            if takes.any() and gives.any():
                for chosen, price in ((takes, taking), (gives, giving)):
                    who, what = members[chosen], topics[chosen]
                    first = _firsts(what)
                    hub = np.full(len(first), graph.topics + number)
                    ends = (what[first], hub) if chosen is takes else (hub, what[first])
                    yield *ends, np.minimum.reduceat((price[who, what] << _BITS) + who, first)

    def _cancel(self, cycle: list[tuple[int, int, int]]) -> bool:
        """Follow the cycle as often as this saves moves. Return False if an earlier cycle has changed its members."""
        topics, x, loads = self._graph.topics, self._x, self._loads
        changes, shifts = dict[Edge, int](), dict[int, int]()
        for taken, given, member in cycle:
            if taken < topics:
                changes[member, taken] = changes.get((member, taken), 0) + 1
            if given < topics:
                changes[member, given] = changes.get((member, given), 0) - 1
            shift = (taken < topics) - (given < topics)
            shifts[member] = shifts.get(member, 0) + shift
        moved = {member: shift for member, shift in shifts.items() if shift}
        if sorted(loads[member] for member in moved) != sorted(
            loads[member] + shift for member, shift in moved.items()
        ):
            return False
        owned = {place: int(self._own[place]) for place in changes}
        now, followed = {place: int(x[place]) for place in changes}, False
        while True:
            then = {place: count + changes[place] for place, count in now.items()}
            if min(then.values()) < 0 or _moves(owned, then) >= _moves(owned, now):
                break
            now, followed = then, True
            if moved:
                break
        for place, count in now.items():
            x[place] = count
        for member, shift in moved.items() if followed else ():
            loads[member] += shift
        return followed


def _moves(owned: dict[Edge, int], counts: dict[Edge, int]) -> int:
    return sum(max(0, owned[place] - count) for place, count in counts.items())


def _firsts(ordered: Places) -> Places:
    """Return the place of the first of each run of equal numbers."""
    return np.flatnonzero(np.diff(ordered, prepend=-1))
