"""How `weighted` comes to its answer.

What has to be done is done first: partitions that nobody has, or that somebody may not have (bans, required zones, more
than `max.partitions`), go to whoever carries least, the heaviest first (LPT, Graham 1969). Then whoever is above the
tolerance is relieved, and whoever is left below the floor is given something, as long as a move is worth it. Each such
move lowers a load and ends below it, so it comes to an end, and a second run finds nothing more to do.
"""

import math
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.weighted.book import SLACK, Book
from coordinator_tasks.core.assignors.weighted.parameters import Rules, Zones
from coordinator_tasks.core.assignors.weighted.table import NOBODY

MOST_ROUNDS = 100


def planned(problem: Problem, rules: Rules) -> Book:
    """The account after everything that is to be moved has been."""
    book = Book(problem, rules)
    planner = _Planner(book)
    planner.evict()
    planner.settle()
    # It comes to an end by itself; the limit is for figures so small that rounding undoes what a move has gained.
    for _ in range(MOST_ROUNDS):
        if not planner.relieve_all() | planner.fill_all():
            break
    while planner.take_back():
        pass  # every time something fewer is moved
    return book


class _Planner:
    def __init__(self, book: Book) -> None:
        self.book, self.rules, self.top = book, book.rules, book.top
        self.gain = book.level * max(self.rules.min_gain, 2 * SLACK)
        self._before = {member: book.ratio(member) for member in book.seats}

    # What has to be done ---------------------------------------------------------------------------------------------

    def evict(self) -> None:
        """Take away what its owner may not have."""
        book, rules, fixed = self.book, self.rules, self.book.problem.fixed
        for member, banned in sorted(rules.bans.items()):
            for partition in sorted(banned or ()):
                if book.placed.get(partition) == member and partition not in fixed:
                    book.move(partition, NOBODY)
        if rules.zones is Zones.REQUIRE and book.problem.zones:
            wrong = [p for p, m in book.placed.items() if m and p not in fixed and not book.may_have(m, p)]
            for partition in wrong:
                book.move(partition, NOBODY)
        for member in book.seats:
            over = book.count[member] - book.limit[member]
            if over > 0:
                for partition in book.stock(member).partitions[: int(over)]:
                    book.move(partition, NOBODY)

    def settle(self) -> None:
        """Give what nobody has to whoever carries least, the heaviest first."""
        if self.book.is_plain:
            self.book.spread()
            return
        hopeless: set[tuple[str, ...]] = set()
        for partition in self.book.homeless() if self.book.seats else ():
            taker = self._home(partition)
            if taker is not None:
                self.book.move(partition, taker)
            elif any(self.book.has_room(m) for m in self.book.seats):
                may = tuple(m for m in self.book.seats if self.book.may_have(m, partition))
                if may not in hopeless and not self._make_room(partition, may):
                    hopeless.add(may)

    def _home(self, partition: int) -> str | None:
        book, weight = self.book, self.book.weight(partition)
        may = [m for m in book.takers((partition,)) if book.may_have(m, partition)]
        if not may:
            return None
        best = min(may, key=lambda m: ((book.load[m] + weight) / book.capacity[m], m))
        near = [m for m in may if book.is_near(m, partition)]
        if not near or best in near:
            return best
        there = min(near, key=lambda m: ((book.load[m] + weight) / book.capacity[m], m))
        return there if (book.load[there] + weight) / book.capacity[there] <= self.top else best

    def _make_room(self, partition: int, may: Iterable[str]) -> bool:
        """Shift partitions along a chain of members, so that one of those that may have this one has room for it."""
        book = self.book
        outlets: dict[str, tuple[int, str]] = {m: (-1, NOBODY) for m in book.seats if book.has_room(m)}
        grew = True
        while grew and outlets.keys().isdisjoint(may):
            grew = False
            for member in [m for m in book.seats if m not in outlets]:
                shift = next(
                    ((p, m) for p in book.stock(member).partitions for m in outlets if book.may_have(m, p)), None
                )
                if shift is not None:
                    outlets[member] = shift
                    grew = True
        taker = next((m for m in may if m in outlets), NOBODY)
        found = taker != NOBODY
        while taker != NOBODY:
            following, onward = outlets[taker]
            book.move(partition, taker)
            partition, taker = following, onward
        return found

    # What is worth it ------------------------------------------------------------------------------------------------

    def relieve_all(self) -> bool:
        """Relieve everybody above the tolerance, move by move whoever is fullest then; False if nothing was moved."""
        book = self.book
        fullest = [(-ratio, m) for m in book.seats if (ratio := book.ratio(m)) > self.top]
        if not any(-ratio > book.alarm for ratio, _ in fullest):
            return False
        before = {member: book.load[member] for _, member in fullest}
        trails: dict[str, list[int]] = {member: [] for _, member in fullest}
        book.read(before)
        heapify(fullest)
        while fullest:
            _, giver = heappop(fullest)
            found = self._way_out(giver, book.load[giver] - self._goal(giver, before[giver]))
            if found is not None:
                book.move(*found)
                trails[giver].append(found[0])
                if book.load[giver] > self._goal(giver, before[giver]) * (1 + SLACK):
                    heappush(fullest, (-book.ratio(giver), giver))
        return sum(self._is_worth(giver, before[giver], trail) for giver, trail in trails.items()) > 0

    def take_back(self) -> bool:
        """Undo what somebody has given away who was within the tolerance, and is so with it again: it took something in
        passing, and was relieved of something else. False if there is nothing like it.
        """
        book = self.book
        undone = False
        for partition in sorted(book.moved):
            owner, holder = book.problem.owned[partition], book.placed[partition]
            if self._before.get(owner, math.inf) > self.top or not (
                book.has_room(owner) and self._spares(holder, partition)
            ):
                continue
            again = (book.load[owner] + book.weight(partition)) / book.capacity[owner]
            if again <= self.top and book.may_have(owner, partition):
                book.move(partition, owner)
                undone = True
        return undone

    def _spares(self, holder: str, partition: int) -> bool:
        """Whether the holder is left with the floor without the partition."""
        book = self.book
        if holder == NOBODY or not self.rules.floor:
            return holder != NOBODY
        least = self.rules.floor * book.level * book.capacity[holder]
        return book.load[holder] - book.weight(partition) >= least * (1 - SLACK)

    def _goal(self, giver: str, before: float) -> float:
        """What the giver is to carry in the end: no more than the tolerance, and relieved by no less than the gain."""
        capacity = self.book.capacity[giver]
        return min(self.book.level * (1 + self.rules.tolerance) * capacity, before - self.gain * capacity)

    def _is_worth(self, giver: str, before: float, trail: list[int]) -> bool:
        """Whether the giver was relieved by the gain; what it gave is taken back if not."""
        if before - self.book.load[giver] >= self.gain * self.book.capacity[giver] * (1 - SLACK):
            return bool(trail)
        for partition in reversed(trail):
            self.book.move(partition, giver)
        return False

    def _way_out(self, giver: str, need: float) -> tuple[int, str] | None:
        """The partition to take from the giver, and for whom: within the tolerance if possible."""
        stock = self.book.stock(giver)
        takers = self.book.takers(stock.partitions)
        for most in (self.top, self.book.ratio(giver)):
            for taker in takers:
                partition = self._pick(giver, taker, need, most)
                if partition is not None:
                    return partition, taker
        return None

    def _pick(self, giver: str, taker: str, need: float, most: float, weight: float = math.inf) -> int | None:
        """The best partition for the taker, of at most `weight`.

        The taker ends at no more than `most`, and well below what the giver has now.
        """
        book = self.book
        ceiling = min(most, book.ratio(giver) - self.gain)
        room = min(weight, ceiling * book.capacity[taker] - book.load[taker])
        if taker == giver or room <= 0:
            return None
        far: int | None = None
        for partition in book.stock(giver).picks(need, room):
            if not self._allowed(partition, taker):
                continue
            if book.is_near(taker, partition) or not book.is_near(giver, partition):
                return partition
            far = partition if far is None else far
        return far

    def _allowed(self, partition: int, taker: str) -> bool:
        book, budget = self.book, self.rules.max_moves
        if budget is not None and len(book.moved) >= budget and partition not in book.moved:
            return False
        return book.may_have(taker, partition)

    def fill_all(self) -> bool:
        """Give to those that are left below the floor; False if nothing was moved."""
        book, floor = self.book, self.book.level * self.rules.floor
        empty = sorted((ratio, m) for m in book.seats if (ratio := book.ratio(m)) < floor * (1 - SLACK))
        return sum(self._fill(member) for _, member in empty) > 0

    def _fill(self, taker: str) -> bool:
        book = self.book
        share = min(1.0, self.rules.floor + self.rules.hysteresis) if self.rules.floor else 0.0
        goal = share * book.level * book.capacity[taker]
        givers = [(-book.ratio(m), m) for m in book.seats if m != taker]
        heapify(givers)
        filled = False
        while givers and book.load[taker] < goal * (1 - SLACK) and book.has_room(taker):
            _, giver = heappop(givers)
            partition = self._gift(giver, taker, goal - book.load[taker])
            if partition is not None:
                book.move(partition, taker)
                heappush(givers, (-book.ratio(giver), giver))
                filled = True
        return filled

    def _gift(self, giver: str, taker: str, need: float) -> int | None:
        """The best partition that leaves the giver with no less than the taker, and above the floor."""
        book = self.book
        mine, theirs = book.capacity[giver], book.capacity[taker]
        even = (book.load[giver] * theirs - book.load[taker] * mine) / (mine + theirs)
        left = book.load[giver] - self.rules.floor * book.level * mine
        return self._pick(giver, taker, need, self.top, min(even, left) * (1 + SLACK))
