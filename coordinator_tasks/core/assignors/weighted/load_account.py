"""The account of loads for `weighted`. Every move updates the account, so no load is counted twice.

Sums are made in the order of partition numbers, so the order of a problem's mappings never changes a result. A
partition without an owner is listed under `NOBODY`.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush, heapreplace, nlargest
from typing import TypeAlias

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.weighted.parameters import Rules, Zones
from coordinator_tasks.core.assignors.weighted.partitions_by_weight import PartitionsByWeight
from coordinator_tasks.core.assignors.weighted.table import NOBODY, PartitionTable

_READ_AT_ONCE = 64
SLACK = 1e-9  # share of a load: the rounding error of a sum
Entry: TypeAlias = tuple[float, int, str]


class LoadAccount:
    """The account of a problem. Fixed partitions begin at their given members, all others at their present owners.

    - `placed`: partition → member, in numerical order. A member outside the problem has only fixed partitions.
    - `seats`: the members that may have partitions: not banned from all, and with a capacity.
    - `load`, `count`: member → weight and number of its partitions, including other topics.
    - `level`: the load per capacity if all movable partitions were spread evenly. No answer can be better.
    """

    def __init__(self, problem: Problem, rules: Rules) -> None:
        self.problem, self.rules = problem, rules
        banned = {m for m, what in rules.bans.items() if what is None}
        self.seats = tuple(sorted(m for m, one in problem.members.items() if one.capacity > 0 and m not in banned))
        self.capacity = {m: problem.members[m].capacity for m in self.seats}
        self.limit = {m: rules.limit_of(m) for m in self.seats}
        self._table = PartitionTable(problem, rules, self.seats)
        self.placed, self._carried = self._table.placed, self._table.carried
        self.count = Counter(self._table.counts())
        self.load = self._table.loads()
        self.level = self._level()
        for member in self.seats:
            self.load[member] += self._carried.get(member, 0.0)
            self.count[member] += problem.loads.get(member, 0)
        self.moved: set[int] = set()
        self._barred = frozenset[int]().union(*(what for what in rules.bans.values() if what is not None))
        self._by_weight: dict[str, PartitionsByWeight] = {}
        self._heaps: dict[tuple[float, str], list[Entry]] = {}

    # Queries ----------------------------------------------------------------------------------------------------------

    @property
    def top(self) -> float:
        """Return the load per capacity up to which a member is not relieved: the level plus the tolerance."""
        return self.level * (1 + self.rules.tolerance) * (1 + SLACK)

    @property
    def alarm(self) -> float:
        """Return the load per capacity that a member must exceed before any is relieved: the hysteresis on top."""
        return self.level * (1 + self.rules.tolerance + self.rules.hysteresis) * (1 + SLACK)

    def weight(self, partition: int) -> float:
        """Return the partition's weight; if unknown, the mean of the known weights."""
        return self._table.weight(partition)

    def ratio(self, member: str) -> float:
        return self.load[member] / self.capacity[member]

    def racks(self, partition: int) -> tuple[str, ...]:
        """Return the racks of the partition's replicas; empty if racks do not count."""
        return self.problem.zones.get(partition, ()) if self.rules.zones is not Zones.OFF else ()

    def is_near(self, member: str, partition: int) -> bool:
        """Return whether the member is in a rack of the partition's replicas; True if the racks are unknown."""
        racks = self.racks(partition)
        return not racks or self.problem.members[member].rack in racks

    def may_have(self, member: str, partition: int) -> bool:
        """Return whether bans and required zones allow the member to have the partition. The limit is not checked."""
        if self.rules.bars(member, partition):
            return False
        if self.rules.zones is not Zones.REQUIRE or self.is_near(member, partition):
            return True
        return not any(self.is_near(one, partition) and not self.rules.bars(one, partition) for one in self.seats)

    def has_room(self, member: str) -> bool:
        return self.count[member] < self.limit[member]

    def homeless(self) -> list[int]:
        """Return the partitions without an owner, the heaviest first."""
        return self._table.of_nobody()[0]

    def by_weight(self, member: str) -> PartitionsByWeight:
        """Return the member's movable partitions, the lightest first."""
        if member not in self._by_weight:
            # One pass over all partitions also makes the lists of the members that will probably be read next.
            unread = [m for m in self.seats if m not in self._by_weight]
            self.read({member, *nlargest(_READ_AT_ONCE, unread, key=self._entry)})
        return self._by_weight[member]

    def read(self, members: Collection[str]) -> None:
        """Make the sorted lists of these members' partitions in one pass over all partitions."""
        unread = [m for m in members if m not in self._by_weight]
        self._by_weight |= {m: PartitionsByWeight(*held) for m, held in self._table.movable(unread).items()}

    def answer(self) -> dict[int, str]:
        return {p: m for p, m in self.placed.items() if m != NOBODY} if self.count[NOBODY] else self.placed

    # Changes ----------------------------------------------------------------------------------------------------------

    def move(self, partition: int, taker: str) -> None:
        """Give the partition to a member or to `NOBODY`."""
        giver, weight = self.placed[partition], self.weight(partition)
        self._table.place(partition, taker)
        if giver in self._by_weight:
            self._by_weight[giver].remove(partition, weight)
        if taker in self._by_weight:
            self._by_weight[taker].add(partition, weight)
        self._change(giver, -weight, -1)
        self._change(taker, weight, 1)
        owner = self.problem.owned.get(partition)
        if owner is not None and owner != taker:
            self.moved.add(partition)
        else:
            self.moved.discard(partition)

    def _change(self, member: str, weight: float, count: int) -> None:
        self.count[member] += count
        if member in self.capacity:
            self.load[member] += weight
            heap = self._heaps.get(self._kind(member))
            if heap is not None:
                heappush(heap, self._entry(member))

    def _entry(self, member: str) -> Entry:
        return self.ratio(member), self.count[member], member

    def _kind(self, member: str) -> tuple[float, str]:
        """Return the member's kind. In a kind, the member with the least load is the best taker of any partition."""
        rack = self.problem.members[member].rack if self.rules.zones is not Zones.OFF else ""
        return self.capacity[member], rack

    def lightest(self) -> list[str]:
        """Return for each kind the member with the least load that has room, sorted by load per capacity."""
        if not self._heaps:
            for member in self.seats:
                self._heaps.setdefault(self._kind(member), []).append(self._entry(member))
            for heap in self._heaps.values():
                heapify(heap)
        found: list[Entry] = []
        for heap in self._heaps.values():
            while heap and (heap[0] != self._entry(heap[0][2]) or not self.has_room(heap[0][2])):
                heappop(heap)  # stale, or without room; a later change pushes the member again
            if heap:
                found.append(heap[0])
        return [member for _, _, member in sorted(found)] if len(found) > 1 else [one[2] for one in found]

    def takers(self, partitions: Iterable[int] = ()) -> list[str]:
        """Return members with room, those with the least load first.

        The best of each kind is enough, unless a member is banned from one of these partitions: then return all.
        """
        if self._barred and not self._barred.isdisjoint(partitions):
            return [m for _, _, m in sorted(self._entry(m) for m in self.seats if self.has_room(m))]
        return self.lightest()

    @property
    def is_plain(self) -> bool:
        """Return whether every member with room may have every partition, and all have equal capacities."""
        rules, capacities = self.rules, set(self.capacity.values())
        return len(capacities) == 1 and not rules.bans and (rules.zones is Zones.OFF or not self.problem.zones)

    def spread(self) -> None:
        """Give unowned partitions, the heaviest first, to the member with the least load. Only for a plain account."""
        homeless, weights = self._table.of_nobody()
        seats, limit, capacity = self.seats, self.limit, next(iter(self.capacity.values()), 1.0)
        # The index of a seat sorts like its name. The load stands last and is never compared.
        heap = [(self.ratio(m), self.count[m], i, self.load[m]) for i, m in enumerate(seats) if self.has_room(m)]
        heapify(heap)
        takers: list[int] = []
        for weight in weights if heap else ():
            _, count, seat, load = heap[0]
            takers.append(seat)
            count, load = count + 1, load + weight
            if count < limit[seats[seat]]:
                heapreplace(heap, (load / capacity, count, seat, load))
                continue
            heappop(heap)
            self.count[seats[seat]], self.load[seats[seat]] = count, load
            if not heap:
                break
        for _, count, seat, load in heap:
            self.count[seats[seat]], self.load[seats[seat]] = count, load
        self.count[NOBODY] -= len(takers)
        self._table.deal(homeless[: len(takers)], takers)

    # Start ------------------------------------------------------------------------------------------------------------

    def _level(self) -> float:
        """Return the level that all movable partitions reach if they fill the members up above their fixed loads."""
        fixed: dict[str, list[int]] = {m: [] for m in self.seats}
        for partition, member in self.problem.fixed.items():
            if member in fixed and partition in self.placed:
                fixed[member].append(partition)
        stays = {m: sum(map(self.weight, sorted(found))) for m, found in fixed.items()}
        movable = sum(self.load[m] for m in self.seats) + self.load.get(NOBODY, 0.0) - sum(stays.values())
        for member in self.seats:
            stays[member] += self._carried.get(member, 0.0)
        level, capacity, load = 0.0, 0.0, movable
        for member in sorted(self.seats, key=lambda m: (stays[m] / self.capacity[m], m)):
            if capacity and load / capacity <= stays[member] / self.capacity[member]:
                break
            capacity += self.capacity[member]
            load += stays[member]
            level = load / capacity
        return level
