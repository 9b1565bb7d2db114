"""The plan of `weighted`.

Necessary moves come first. A partition without an owner, or with an excluded owner (bans, required zones, more than
`max.partitions`), goes to the member with the least load, the heaviest partition first (LPT, Graham 1969). Then members
above the tolerance are relieved, and members below the floor get partitions, as long as a move is worth it. Each of
these moves lowers the larger of two members' loads. So planning ends, and a second run finds nothing to do.
"""

import math
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.weighted.load_account import SLACK, LoadAccount
from coordinator_tasks.core.assignors.weighted.parameters import Rules, Zones
from coordinator_tasks.core.assignors.weighted.table import NOBODY

MOST_ROUNDS = 100


def planned(problem: Problem, rules: Rules) -> LoadAccount:
    """Return the account after all moves."""
    account = LoadAccount(problem, rules)
    planner = _Planner(account)
    planner.evict()
    planner.place_unowned()
    # The loop ends by itself. The limit is for weights so small that rounding hides the gain of a move.
    for _ in range(MOST_ROUNDS):
        if not planner.relieve_all() | planner.fill_all():
            break
    while planner.take_back():
        pass  # each pass undoes fewer moves than the last
    return account


class _Planner:
    def __init__(self, account: LoadAccount) -> None:
        self.account, self.rules, self.top = account, account.rules, account.top
        self.gain = account.level * max(self.rules.min_gain, 2 * SLACK)
        self._before = {member: account.ratio(member) for member in account.seats}

    # Necessary moves
    # -----------------------------------------------------------------------------------------------------

    def evict(self) -> None:
        account, rules, fixed = self.account, self.rules, self.account.problem.fixed
        for member, banned in sorted(rules.bans.items()):
            for partition in sorted(banned or ()):
                if account.placed.get(partition) == member and partition not in fixed:
                    account.move(partition, NOBODY)
        if rules.zones is Zones.REQUIRE and account.problem.zones:
            wrong = [p for p, m in account.placed.items() if m and p not in fixed and not account.may_have(m, p)]
            for partition in wrong:
                account.move(partition, NOBODY)
        for member in account.seats:
            over = account.count[member] - account.limit[member]
            if over > 0:
                for partition in account.by_weight(member).partitions[: int(over)]:
                    account.move(partition, NOBODY)

    def place_unowned(self) -> None:
        """Give partitions without an owner to the member with the least load, the heaviest partition first."""
        if self.account.is_plain:
            self.account.spread()
            return
        hopeless: set[tuple[str, ...]] = set()
        for partition in self.account.homeless() if self.account.seats else ():
            taker = self._home(partition)
            if taker is not None:
                self.account.move(partition, taker)
            elif any(self.account.has_room(m) for m in self.account.seats):
                may = tuple(m for m in self.account.seats if self.account.may_have(m, partition))
                if may not in hopeless and not self._make_room(partition, may):
                    hopeless.add(may)

    def _home(self, partition: int) -> str | None:
        account, weight = self.account, self.account.weight(partition)
        may = [m for m in account.takers((partition,)) if account.may_have(m, partition)]
        if not may:
            return None
        best = min(may, key=lambda m: ((account.load[m] + weight) / account.capacity[m], m))
        near = [m for m in may if account.is_near(m, partition)]
        if not near or best in near:
            return best
        there = min(near, key=lambda m: ((account.load[m] + weight) / account.capacity[m], m))
        return there if (account.load[there] + weight) / account.capacity[there] <= self.top else best

    def _make_room(self, partition: int, may: Iterable[str]) -> bool:
        """Shift partitions along a chain of members until a possible owner of this partition has room."""
        account = self.account
        outlets: dict[str, tuple[int, str]] = {m: (-1, NOBODY) for m in account.seats if account.has_room(m)}
        grew = True
        while grew and outlets.keys().isdisjoint(may):
            grew = False
            for member in [m for m in account.seats if m not in outlets]:
                shift = next(
                    ((p, m) for p in account.by_weight(member).partitions for m in outlets if account.may_have(m, p)),
                    None,
                )
                if shift is not None:
                    outlets[member] = shift
                    grew = True
        taker = next((m for m in may if m in outlets), NOBODY)
        found = taker != NOBODY
        while taker != NOBODY:
            following, onward = outlets[taker]
            account.move(partition, taker)
            partition, taker = following, onward
        return found

    # Worthwhile moves
    # ----------------------------------------------------------------------------------------------------

    def relieve_all(self) -> bool:
        """Relieve the fullest member, until no member exceeds the tolerance. Return False if nothing has moved."""
        account = self.account
        fullest = [(-ratio, m) for m in account.seats if (ratio := account.ratio(m)) > self.top]
        if not any(-ratio > account.alarm for ratio, _ in fullest):
            return False
        before = {member: account.load[member] for _, member in fullest}
        trails: dict[str, list[int]] = {member: [] for _, member in fullest}
        account.read(before)
        heapify(fullest)
        while fullest:
            _, giver = heappop(fullest)
            found = self._way_out(giver, account.load[giver] - self._goal(giver, before[giver]))
            if found is not None:
                account.move(*found)
                trails[giver].append(found[0])
                if account.load[giver] > self._goal(giver, before[giver]) * (1 + SLACK):
                    heappush(fullest, (-account.ratio(giver), giver))
        return sum(self._is_worth(giver, before[giver], trail) for giver, trail in trails.items()) > 0

    def take_back(self) -> bool:
        """Undo needless moves of members within the tolerance: such a member gave one partition away for another.

        The member gets its partition back if it then stays within the tolerance. Return False if nothing was undone.
        """
        account = self.account
        undone = False
        for partition in sorted(account.moved):
            owner, holder = account.problem.owned[partition], account.placed[partition]
            if self._before.get(owner, math.inf) > self.top or not (
                account.has_room(owner) and self._spares(holder, partition)
            ):
                continue
            again = (account.load[owner] + account.weight(partition)) / account.capacity[owner]
            if again <= self.top and account.may_have(owner, partition):
                account.move(partition, owner)
                undone = True
        return undone

    def _spares(self, holder: str, partition: int) -> bool:
        """Return whether the holder stays above the floor if it loses the partition."""
        account = self.account
        if holder == NOBODY or not self.rules.floor:
            return holder != NOBODY
        least = self.rules.floor * account.level * account.capacity[holder]
        return account.load[holder] - account.weight(partition) >= least * (1 - SLACK)

    def _goal(self, giver: str, before: float) -> float:
        """Return the load for the giver to reach: within the tolerance, and below `before` by at least the gain."""
        capacity = self.account.capacity[giver]
        return min(self.account.level * (1 + self.rules.tolerance) * capacity, before - self.gain * capacity)

    def _is_worth(self, giver: str, before: float, trail: list[int]) -> bool:
        """Return whether the giver's load fell by at least the gain. If not, give its partitions back."""
        if before - self.account.load[giver] >= self.gain * self.account.capacity[giver] * (1 - SLACK):
            return bool(trail)
        for partition in reversed(trail):
            self.account.move(partition, giver)
        return False

    def _way_out(self, giver: str, need: float) -> tuple[int, str] | None:
        """Return a partition for the giver to lose, and the taker. The taker stays within the tolerance if possible."""
        held = self.account.by_weight(giver)
        takers = self.account.takers(held.partitions)
        for most in (self.top, self.account.ratio(giver)):
            for taker in takers:
                partition = self._pick(giver, taker, need, most)
                if partition is not None:
                    return partition, taker
        return None

    def _pick(self, giver: str, taker: str, need: float, most: float, weight: float = math.inf) -> int | None:
        """Return the giver's best partition for the taker, of at most `weight`.

        The taker's load then is at most `most`, and below the giver's present load by at least the gain.
        """
        account = self.account
        ceiling = min(most, account.ratio(giver) - self.gain)
        room = min(weight, ceiling * account.capacity[taker] - account.load[taker])
        if taker == giver or room <= 0:
            return None
        far: int | None = None
        for partition in account.by_weight(giver).picks(need, room):
            if not self._allowed(partition, taker):
                continue
            if account.is_near(taker, partition) or not account.is_near(giver, partition):
                return partition
            far = partition if far is None else far
        return far

    def _allowed(self, partition: int, taker: str) -> bool:
        account, budget = self.account, self.rules.max_moves
        if budget is not None and len(account.moved) >= budget and partition not in account.moved:
            return False
        return account.may_have(taker, partition)

    def fill_all(self) -> bool:
        """Give partitions to members below the floor. Return False if nothing has moved."""
        account, floor = self.account, self.account.level * self.rules.floor
        empty = sorted((ratio, m) for m in account.seats if (ratio := account.ratio(m)) < floor * (1 - SLACK))
        return sum(self._fill(member) for _, member in empty) > 0

    def _fill(self, taker: str) -> bool:
        account = self.account
        share = min(1.0, self.rules.floor + self.rules.hysteresis) if self.rules.floor else 0.0
        goal = share * account.level * account.capacity[taker]
        givers = [(-account.ratio(m), m) for m in account.seats if m != taker]
        heapify(givers)
        filled = False
        while givers and account.load[taker] < goal * (1 - SLACK) and account.has_room(taker):
            _, giver = heappop(givers)
            partition = self._gift(giver, taker, goal - account.load[taker])
            if partition is not None:
                account.move(partition, taker)
                heappush(givers, (-account.ratio(giver), giver))
                filled = True
        return filled

    def _gift(self, giver: str, taker: str, need: float) -> int | None:
        """Return the taker's best partition. Without it, the giver has no less than the taker and the floor."""
        account = self.account
        mine, theirs = account.capacity[giver], account.capacity[taker]
        even = (account.load[giver] * theirs - account.load[taker] * mine) / (mine + theirs)
        left = account.load[giver] - self.rules.floor * account.level * mine
        return self._pick(giver, taker, need, self.top, min(even, left) * (1 + SLACK))
