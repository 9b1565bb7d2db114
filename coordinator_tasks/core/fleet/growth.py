"""The number of consumers that a fleet needs, by measured rates. Pure: measurements, memory and limits decide.

A partition needs a read rate of its write rate divided by the wanted utilisation, plus its lag divided by the time to
catch up. A consumer's capacity is the read rate measured during a continuous backlog. Before the fleet grows,
partitions move from overloaded consumers to others. A growth that brings no more throughput is undone. No decision is
made on old measurements, or while partitions move or processes start or end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heapreplace
from itertools import islice
from math import ceil, inf
from statistics import median

from coordinator_tasks.core.errors import BadGrowth
from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.text.partition_text import agreed, counted, named, shown

MAX_CONSUMERS = 10_000
MAX_KEPT = 50
"""Maximum number of stored decisions."""
MAX_MOVES = 5
"""Maximum moves of one decision. The next decision takes their effect into account."""
RISE = 0.25
"""A growth is undone if the throughput rises by less than this share of the expected rise."""
BLOCKED_WINDOWS = 10
"""Windows without a new growth after a growth was undone. Each further undone growth of a day doubles them."""
REMEMBERED_S = 86_400.0
STEP = 4
"""A growth at most doubles the number of consumers, or adds this many if that is more. The next waits for its effect.
"""
SLACK = 0.9
"""Share of its capacity that a smaller fleet may need. With the rest, the fleet need not grow again at once."""


class GrowthKind(StrEnum):
    """Kinds of decisions."""

    HOLD = "hold"
    MOVE = "move"
    GROW = "grow"
    SHRINK = "shrink"
    UNDO = "undo"
    CANNOT_HELP = "cannot help"


CHANGES = frozenset({GrowthKind.GROW, GrowthKind.SHRINK, GrowthKind.UNDO})


@dataclass(frozen=True, slots=True)
class Limits:
    """A person's limits for one fleet. Times are in seconds.

    - `least`, `most`: number of consumers. `spare`: number of warm consumers beyond the need.
    - `utilisation`: which share of a consumer's capacity the rates of its partitions may take, 0 < u <= 1.
    - `catch_up_s`: time to read a backlog. `start_up_s`: time from a launch to the first read.
    - `window_s`: time from the end of the start-up until the effect is judged.
    - `grow_pause_s`, `shrink_pause_s`: least time between two steps.
    - `act`: False means shadow mode, in which decisions are only reported.
    """

    least: int = 1
    most: int = 10
    spare: int = 0
    utilisation: float = 0.7
    catch_up_s: float = 300.0
    start_up_s: float = 60.0
    window_s: float = 180.0
    grow_pause_s: float = 60.0
    shrink_pause_s: float = 300.0
    act: bool = False

    def check(self) -> None:
        """Raise `BadGrowth` for limits out of range."""
        if not 1 <= self.least <= self.most <= MAX_CONSUMERS:
            raise BadGrowth(
                f"a fleet cannot grow from {self.least} to {self.most} consumers; give a least and a most from 1 to "
                f"{MAX_CONSUMERS}, the least not above the most"
            )
        if not 0 <= self.spare < self.most:
            raise BadGrowth(f"{self.spare} warm spares do not fit into {self.most} consumers; give fewer")
        if not 0 < self.utilisation <= 1:
            raise BadGrowth(
                f"a utilisation of {self.utilisation:g} cannot be; give more than 0 and at most 1, such as 0.7"
            )
        for name in ("catch_up_s", "start_up_s", "window_s", "grow_pause_s", "shrink_pause_s"):
            if not 1 <= getattr(self, name) <= 86_400:
                what = name.removesuffix("_s").replace("_", "-")
                raise BadGrowth(f"a {what} of {getattr(self, name):g} s cannot be; give 1 to 86400 seconds")


@dataclass(frozen=True, slots=True)
class Load:
    """A partition: records/s written (`rate`), records/s read (`read`), and the lag in records.

    `pin`: the consumer to which the partition is pinned; empty without a pin. `frozen`: the topic is frozen, so the
    partition cannot move.
    """

    topic: str
    partition: int
    owner: str
    rate: float
    lag: float
    read: float
    pin: str = ""
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class GrowthObservation:
    """An observation of the fleet. `busy`: consumer → records/s read during an uninterrupted backlog.

    `unsure`: why no decision is possible now (old measurements, an upgrade, an unfinished rebalance); else empty.
    """

    now: float
    consumers: tuple[str, ...]
    loads: tuple[Load, ...] = ()
    busy: Mapping[str, float] = field(default_factory=dict)
    unsure: str = ""

    @property
    def count(self) -> int:
        return len(self.consumers)

    @property
    def throughput(self) -> float:
        return sum(one.read for one in self.loads)

    @property
    def lag(self) -> float:
        return sum(one.lag for one in self.loads)


@dataclass(frozen=True, slots=True)
class GrowthMove:
    """A move of a partition from its owner to another consumer."""

    topic: str
    partition: int
    giver: str
    taker: str


@dataclass(frozen=True, slots=True)
class GrowthDecision:
    """A step at the time `at` from `count` consumers to `desired` consumers. `leaves`: consumers that the step drains.

    `throughput`: records/s read at this time. `lag`: records. `acted`: False means that the decision is only reported.
    """

    kind: GrowthKind
    at: float
    count: int
    desired: int
    reasons: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()
    moves: tuple[GrowthMove, ...] = ()
    throughput: float = 0.0
    lag: float = 0.0
    acted: bool = False

    @property
    def text(self) -> str:
        where = f" to {counted(self.desired, 'consumer')}" if self.kind in CHANGES else ""
        return f"{self.kind}{where}: {'; '.join(self.reasons)}"

    @property
    def said(self) -> str:
        """Return the text, shortened, for use as the stored reason of the action."""
        return self.text[:240].strip()


@dataclass(frozen=True, slots=True)
class Memory:
    """State that is kept from one observation to the next.

    `capacity`: records/s of a busy consumer; 0 if never measured. `decisions`: changes, made or only reported, oldest
    first. `wanted`: (time, consumers needed) pairs since the first observation. A pair is dropped if a later need
    equals or exceeds it.
    """

    capacity: float = 0.0
    decisions: tuple[GrowthDecision, ...] = ()
    wanted: tuple[tuple[float, int], ...] = ()
    latest: GrowthDecision | None = None


def decide(limits: Limits, seen: GrowthObservation, memory: Memory) -> tuple[GrowthDecision, Memory]:
    """Return the decision and the next memory. If the decision acts, store both in the same write as the action."""
    if seen.unsure:
        return _kept(_said(GrowthKind.HOLD, seen, seen.count, f"nothing is decided: {seen.unsure}"), memory)
    growing = _Growing(limits, seen, memory)
    found = growing.judged()
    acts = limits.act and found.kind not in (GrowthKind.HOLD, GrowthKind.CANNOT_HELP)
    return _kept(replace(found, acted=acts), growing.memory)


class _Growing:
    """A decision on measurements that count. `needs`: of the partitions, in records/s. `desired`: number of consumers."""

    def __init__(self, limits: Limits, seen: GrowthObservation, memory: Memory) -> None:
        self.limits, self.seen, self.memory = limits, seen, memory
        self.count, self.capacity = seen.count, self._capacity()
        self.memory = replace(memory, capacity=self.capacity)
        self.needs, self.desired = list[float](), 0

    def judged(self) -> GrowthDecision:
        if not self.capacity:
            why = "nobody has had a backlog throughout yet, so what one consumer gives is not known"
            return self._bounded() or self._hold(why)
        free, kept = self._needs()
        self.needs = [*free, *(min(self.capacity, one) for one in kept.values())]
        self.desired = self._desired()
        self.memory = replace(self.memory, wanted=_wanted(self.memory, self.seen.now, self.desired))
        found = self._decided()
        full = sorted(owner for owner, one in kept.items() if one > self.capacity)
        if full and found.kind is GrowthKind.HOLD:
            stay = f"{shown(full)} {agreed(len(full), 'has', 'have')} more than one consumer gives, pinned or of frozen topics; unpin or unfreeze"
            found = replace(found, reasons=(*found.reasons, stay))
        hot = tuple(self._hot_texts())
        if not hot or found.kind not in (GrowthKind.HOLD, GrowthKind.GROW):
            return found
        if found.kind is GrowthKind.GROW:
            return replace(found, reasons=(*found.reasons, *hot))
        return replace(found, kind=GrowthKind.CANNOT_HELP, reasons=(*hot, *found.reasons))

    def _decided(self) -> GrowthDecision:
        if (step := self._bounded() or self._undone()) is not None:
            return step
        if self.desired > self.count:
            return self._more()
        if moves := self._due_moves():
            return self._move("some consumer has more than it can read, and others have room", moves)
        if self.desired < self.count:
            return self._fewer()
        return self._hold(f"{_are(self.count)} enough: {self._balance}")

    def _capacity(self) -> float:
        """Return the capacity of one consumer: the median of the busy consumers, smoothed over the observations.

        While a growth is judged, it does not fall: if the sink is the limit, each consumer reads less after a growth.
        """
        before = self.memory.capacity
        if not self.seen.busy:
            return before
        current = median(self.seen.busy.values())
        smoothed = (before + current) / 2 if before else current
        judging = self._recent({GrowthKind.GROW}, 2 * (self.limits.start_up_s + self.limits.window_s))
        return max(before, smoothed) if judging else smoothed

    def _need(self, one: Load) -> float:
        return one.rate / self.limits.utilisation + one.lag / self.limits.catch_up_s

    def _needs(self) -> tuple[list[float], dict[str, float]]:
        """Return each free partition's need (at most one consumer's capacity), and owner → need of its bound partitions.

        The needs include the backlog that builds up until a new consumer reads. A partition pinned to an absent consumer is
        free, because the strategy places it.
        """
        rates = sum(one.rate for one in self.seen.loads)
        grows_by = max(0.0, rates - self.count * self.capacity) * self.limits.start_up_s / self.limits.catch_up_s
        needs = {one: self._need(one) for one in self.seen.loads}
        whole = sum(needs.values())
        factor = 1 + grows_by / whole if grows_by and whole else 1.0
        free, kept, movable = list[float](), dict[str, float](), self._movable()
        for load, need in needs.items():
            if load not in movable and (load.frozen or load.pin == load.owner):
                kept[load.owner] = kept.get(load.owner, 0.0) + factor * need
            else:
                free.append(min(self.capacity, factor * need))
        return free, kept

    def _movable(self) -> set[Load]:
        """Return the partitions that are neither frozen nor pinned by a person."""
        own = own_pins(self.memory.decisions)
        return {
            one for one in self.seen.loads if not one.frozen and one.pin in ("", own.get((one.topic, one.partition)))
        }

    def _desired(self) -> int:
        """Return the smallest number of consumers whose capacity meets the needs, plus the spare consumers."""
        most = max(1, min(self.limits.most, len(self.needs)))
        first = max(1, min(most, ceil(sum(self.needs) / self.capacity - 1e-9)))
        needed = next((n for n in range(first, most + 1) if _fits(self.needs, n, self.capacity)), most)
        return max(self.limits.least, min(self.limits.most, needed + self.limits.spare))

    def _undone(self) -> GrowthDecision | None:
        """Return the decision to undo a growth that brought no more throughput; `None` otherwise, or if too early."""
        seen, judged_at = self.seen, self.limits.start_up_s + self.limits.window_s
        last = next((one for one in reversed(self.memory.decisions) if one.kind in CHANGES and one.acted), None)
        if last is None or last.kind is not GrowthKind.GROW or last.desired != self.count:
            return None
        age = seen.now - last.at
        last = _first_of_row(self.memory, last, judged_at)
        if not judged_at <= age < 2 * judged_at or sum(self.needs) <= last.count * self.capacity:
            return None
        if 2 * len(seen.busy) < self.count:
            return None  # if the sink were the limit, most consumers would have a backlog
        hoped = last.throughput * (1 + RISE * (self.count - last.count) / max(1, last.count))
        if seen.throughput >= hoped:
            return None
        why = (
            f"adding consumers cannot help: {seen.throughput:,.0f} records/s are read with {self.count} consumers, "
            f"{last.throughput:,.0f} were with {last.count}; the sink or the brokers are the limit"
        )
        return self._left(GrowthKind.UNDO, max(self.limits.least, last.count), why)

    def _more(self) -> GrowthDecision:
        limits, balance = self.limits, self._balance
        undone = sum(
            one.kind is GrowthKind.UNDO and one.acted and self.seen.now - one.at < REMEMBERED_S
            for one in self.memory.decisions
        )
        blocked_s = BLOCKED_WINDOWS * limits.window_s * 2 ** max(0, undone - 1)
        if self._recent({GrowthKind.UNDO}, blocked_s):
            why = f"adding consumers cannot help: more of them have read no more within the last {blocked_s / 60:.0f} min ({balance})"
            return _said(GrowthKind.CANNOT_HELP, self.seen, self.count, why)
        enough = sum(self.needs) <= self.count * self.capacity
        moves = self._due_moves() if enough else ()
        if moves and not self._recent({GrowthKind.MOVE}, 3 * limits.window_s):
            return self._move(f"{balance}, which is enough if it is shared better", moves)
        if enough and self._recent({GrowthKind.MOVE}, limits.window_s):
            return self._hold(f"{balance}; the effect of the last moves is not known yet")
        if self._recent({GrowthKind.GROW}, max(limits.grow_pause_s, limits.start_up_s)):
            return self._hold(f"{balance}; the last consumers have just been added")
        most = max(2 * self.count, self.count + STEP)
        return _said(GrowthKind.GROW, self.seen, min(self.desired, most), balance)

    def _fewer(self) -> GrowthDecision:
        now, pause_s, wanted = self.seen.now, self.limits.shrink_pause_s, self.memory.wanted
        since = [at for at, number in wanted if number >= self.count]
        calm_s = now - max([wanted[0][0] if wanted else now, *since])
        if calm_s < pause_s or self._recent(CHANGES, pause_s):
            return self._hold(f"{self._balance}; fewer would do for {calm_s:.0f} of {pause_s:.0f} s")
        left = max(self.desired, *(number for at, number in wanted if now - at <= pause_s))
        while left < self.count and not _fits(self.needs, max(1, left - self.limits.spare), SLACK * self.capacity):
            left += 1
        if left >= self.count:
            return self._hold(f"{self._balance}; one fewer would be close to its limit")
        return self._left(GrowthKind.SHRINK, left, self._balance)

    def _hot_texts(self) -> Iterator[str]:
        """Yield a sentence for each of the first `MAX_MOVES` topics with partitions that more consumers cannot help:
        their rate exceeds a consumer's capacity.
        """
        topics = grouped((one.topic, one) for one in self.seen.loads if one.rate > self.capacity)
        for topic, loads in islice(topics.items(), MAX_MOVES):
            most = max(one.rate for one in loads)
            gets = "it gets" if len(loads) == 1 else "each gets up to"
            yield (
                f"adding consumers cannot help {named([one.partition for one in loads])} of {topic}: {gets} {most:,.0f} records/s, "
                f"and one consumer gives {self.capacity:,.0f}; give the topic more partitions, or its consumers more cores"
            )

    def _bounded(self) -> GrowthDecision | None:
        """Return the step into the limits; `None` within the limits."""
        bound = min(max(self.count, self.limits.least), self.limits.most)
        reason = f"{_are(self.count)} outside of {self.limits.least} to {self.limits.most}"
        if bound > self.count:
            return _said(GrowthKind.GROW, self.seen, bound, reason)
        return self._left(GrowthKind.SHRINK, bound, reason) if bound < self.count else None

    def _left(self, kind: GrowthKind, desired: int, why: str) -> GrowthDecision:
        """Return the decision to have `desired` consumers, or the nearest number that frozen topics allow."""
        leaves = _cheapest(self.seen, self.count - desired)
        if desired < self.count and not leaves:
            return self._hold(f"{why}; none can leave: each keeps partitions of a frozen topic; unfreeze it")
        return replace(_said(kind, self.seen, self.count - len(leaves), why), leaves=leaves)

    def _due_moves(self) -> tuple[GrowthMove, ...]:
        """Return the moves that are due; none while the effect of the last moves or of a change of size is unknown."""
        settling = self._recent(CHANGES, self.limits.start_up_s + self.limits.window_s)
        return () if settling or self._recent({GrowthKind.MOVE}, self.limits.window_s) else self._moves()

    def _moves(self) -> tuple[GrowthMove, ...]:
        """Return moves of movable partitions from overloaded consumers to consumers with spare capacity.

        No consumer gives its last partition away.
        """
        capacity, moves, free = self.capacity, list[GrowthMove](), self._movable()
        needs_of: dict[str, dict[Load, float]] = {one: {} for one in self.seen.consumers}
        for load in self.seen.loads:
            if load.owner in needs_of:
                needs_of[load.owner][load] = min(capacity, self._need(load))
        loads = {one: sum(held.values()) for one, held in needs_of.items()}
        while len(moves) < MAX_MOVES:
            givers = [one for one, held in needs_of.items() if held.keys() & free]
            giver = max(givers, key=lambda one: (loads[one], one), default="")
            taker = min(loads, key=lambda one: (loads[one], one), default="")
            if not giver or loads[giver] <= capacity or len(needs_of[giver]) < 2:
                break
            held, over = needs_of[giver], loads[giver] - capacity
            fitting = [
                one for one, need in held.items() if one in free and need > 0 and loads[taker] + need <= capacity
            ]
            if not fitting:
                break
            load = min(fitting, key=lambda one: (held[one] < over, abs(held[one] - over), one.topic, one.partition))
            need = needs_of[taker][load] = held.pop(load)
            loads[giver] -= need
            loads[taker] += need
            moves.append(GrowthMove(load.topic, load.partition, load.owner, taker))
        return tuple(moves)

    def _recent(self, kinds: Collection[GrowthKind], within_s: float) -> bool:
        last = max((one.at for one in self.memory.decisions if one.kind in kinds and one.acted), default=-inf)
        return self.seen.now - last < within_s

    @property
    def _balance(self) -> str:
        return f"{sum(self.needs):,.0f} records/s are needed, and {self.count} x {self.capacity:,.0f} are there"

    def _hold(self, why: str) -> GrowthDecision:
        return _said(GrowthKind.HOLD, self.seen, self.count, why)

    def _move(self, why: str, moves: tuple[GrowthMove, ...]) -> GrowthDecision:
        return replace(_said(GrowthKind.MOVE, self.seen, self.count, why), moves=moves)


def _wanted(memory: Memory, now: float, desired: int) -> tuple[tuple[float, int], ...]:
    """Return the pairs needed to tell how long a smaller fleet has been enough."""
    past = [one for one in memory.wanted if one[0] <= now]  # a future time comes from a clock that was ahead
    return (*past[:1], *(one for one in past[1:] if one[1] > desired), (now, desired))


def _fits(needs: Sequence[float], count: int, capacity: float) -> bool:
    """Return whether `count` consumers can share the needs, the largest need first, to the least loaded consumer."""
    loads = [0.0] * count
    heapify(loads)
    for one in sorted(needs, reverse=True):
        heapreplace(loads, loads[0] + one)
    return max(loads) <= capacity * (1 + 1e-9)


def _first_of_row(memory: Memory, last: GrowthDecision, judged_at: float) -> GrowthDecision:
    """Return the first of a row of growths, each decided before the previous growth could be judged."""
    for one in reversed(memory.decisions):
        if one.kind is GrowthKind.GROW and one.acted and one.desired == last.count and 0 < last.at - one.at < judged_at:
            last = one
    return last


def _cheapest(seen: GrowthObservation, count: int) -> tuple[str, ...]:
    """Return at most `count` consumers to drain: least backlog first, then fewest and slowest partitions.

    Consumers with partitions of frozen topics are left out, because these partitions stay.
    """
    kept = {one.owner for one in seen.loads if one.frozen}
    costs = {one: (0.0, 0, 0.0) for one in seen.consumers if one not in kept}
    for load in seen.loads:
        if load.owner in costs:
            lag, number, rate = costs[load.owner]
            costs[load.owner] = (lag + load.lag, number + 1, rate + load.rate)
    return tuple(sorted(sorted(costs, reverse=True), key=costs.__getitem__)[:count])


def own_pins(decisions: Sequence[GrowthDecision]) -> dict[tuple[str, int], str]:
    """Return (topic, partition) → consumer for the pins that moves have made.

    A change of the fleet's size removes earlier pins, so only moves after the last change count.
    """
    pins: dict[tuple[str, int], str] = {}
    for past in decisions:
        if past.acted and past.kind in CHANGES:
            pins.clear()
        pins |= {(one.topic, one.partition): one.taker for one in past.moves if past.acted}
    return pins


def _are(count: int) -> str:
    return f"{counted(count, 'consumer')} {agreed(count, 'is', 'are')}"


def _said(kind: GrowthKind, seen: GrowthObservation, desired: int, why: str) -> GrowthDecision:
    return GrowthDecision(kind, seen.now, seen.count, desired, (why,), throughput=seen.throughput, lag=seen.lag)


def _kept(decision: GrowthDecision, memory: Memory) -> tuple[GrowthDecision, Memory]:
    """Return the decision, and the memory after it. Only decisions that change something are kept."""
    past = memory.decisions
    if decision.kind not in (GrowthKind.HOLD, GrowthKind.CANNOT_HELP):
        repeats = past and not decision.acted and not past[-1].acted and past[-1].kind is decision.kind
        past = (*(past[:-1] if repeats else past), decision)[-MAX_KEPT:]
    return decision, replace(memory, decisions=past, latest=decision)
