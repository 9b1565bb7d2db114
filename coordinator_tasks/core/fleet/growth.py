"""The number of consumers that a fleet needs, by measured rates. Pure: measurements, memory and limits decide.

A partition needs a read rate of its write rate divided by the wanted utilisation, plus its lag divided by the time to
catch up. A consumer's capacity is the read rate measured during a continuous backlog. Before the fleet grows,
partitions move from overloaded consumers to others. A growth that brings no more throughput is undone. No decision is
made on old measurements, or while partitions move or processes start or end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heapify, heapreplace
from itertools import islice
from math import ceil, inf
from statistics import median

from coordinator_tasks.core.errors import BadGrowth
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
    found, memory = _judged(limits, seen, memory)
    acts = limits.act and found.kind not in (GrowthKind.HOLD, GrowthKind.CANNOT_HELP)
    return _kept(replace(found, acted=acts), memory)


def _judged(limits: Limits, seen: GrowthObservation, memory: Memory) -> tuple[GrowthDecision, Memory]:
    memory = replace(memory, capacity=_capacity(limits, seen, memory))
    if not memory.capacity:
        why = "nobody has had a backlog throughout yet, so what one consumer gives is not known"
        return _bounded(limits, seen) or _said(GrowthKind.HOLD, seen, seen.count, why), memory
    free, kept = _needs(limits, seen, memory)
    needs = [*free, *(min(memory.capacity, one) for one in kept.values())]
    desired = _desired(limits, needs, memory.capacity)
    memory = replace(memory, wanted=_wanted(memory, seen.now, desired))
    found = _decided(limits, seen, memory, needs, desired)
    full = sorted(owner for owner, one in kept.items() if one > memory.capacity)
    if full and found.kind is GrowthKind.HOLD:
        stay = f"{shown(full)} {agreed(len(full), 'has', 'have')} more than one consumer gives, pinned or of frozen topics; unpin or unfreeze"
        found = replace(found, reasons=(*found.reasons, stay))
    if (too_hot := hot(seen, memory)) and found.kind in (GrowthKind.HOLD, GrowthKind.GROW):
        kind = GrowthKind.CANNOT_HELP if found.kind is GrowthKind.HOLD else found.kind
        hot_texts = tuple(_hot_texts(memory, too_hot))
        both = (hot_texts, found.reasons) if kind is GrowthKind.CANNOT_HELP else (found.reasons, hot_texts)
        found = replace(found, kind=kind, reasons=(*both[0], *both[1]))
    return found, memory


def _decided(
    limits: Limits, seen: GrowthObservation, memory: Memory, needs: Sequence[float], desired: int
) -> GrowthDecision:
    count = seen.count
    if (step := _bounded(limits, seen) or _undone(limits, seen, memory, needs)) is not None:
        return step
    if desired > count:
        return _more(limits, seen, memory, needs, desired)
    if moves := _due_moves(limits, seen, memory):
        why = "some consumer has more than it can read, and others have room"
        return replace(_said(GrowthKind.MOVE, seen, count, why), moves=moves)
    if desired < count:
        return _fewer(limits, seen, memory, needs, desired)
    return _said(GrowthKind.HOLD, seen, count, f"{_are(count)} enough: {_balance(needs, memory, count)}")


def _wanted(memory: Memory, now: float, desired: int) -> tuple[tuple[float, int], ...]:
    """Return the pairs needed to tell how long a smaller fleet has been enough."""
    past = [one for one in memory.wanted if one[0] <= now]  # a future time comes from a clock that was ahead
    return (*past[:1], *(one for one in past[1:] if one[1] > desired), (now, desired))


def _capacity(limits: Limits, seen: GrowthObservation, memory: Memory) -> float:
    """Return the capacity of one consumer: the median of the busy consumers, smoothed over the observations.

    While a growth is judged, it does not fall: if the sink is the limit, each consumer reads less after a growth.
    """
    if not seen.busy:
        return memory.capacity
    current = median(seen.busy.values())
    smoothed = (memory.capacity + current) / 2 if memory.capacity else current
    judging = _recent(memory, seen.now, {GrowthKind.GROW}, 2 * (limits.start_up_s + limits.window_s))
    return max(memory.capacity, smoothed) if judging else smoothed


def _need(limits: Limits, one: Load) -> float:
    return one.rate / limits.utilisation + one.lag / limits.catch_up_s


def _needs(limits: Limits, seen: GrowthObservation, memory: Memory) -> tuple[list[float], dict[str, float]]:
    """Return each free partition's need (at most one consumer's capacity), and owner → need of its bound partitions.

    The needs include the backlog that builds up until a new consumer reads. A partition pinned to an absent consumer is
    free, because the strategy places it.
    """
    rates = sum(one.rate for one in seen.loads)
    grows_by = max(0.0, rates - seen.count * memory.capacity) * limits.start_up_s / limits.catch_up_s
    needs = {one: _need(limits, one) for one in seen.loads}
    whole = sum(needs.values())
    factor = 1 + grows_by / whole if grows_by and whole else 1.0
    free, kept, movable = list[float](), dict[str, float](), _movable(seen, memory)
    for load, need in needs.items():
        if load not in movable and (load.frozen or load.pin == load.owner):
            kept[load.owner] = kept.get(load.owner, 0.0) + factor * need
        else:
            free.append(min(memory.capacity, factor * need))
    return free, kept


def _movable(seen: GrowthObservation, memory: Memory) -> set[Load]:
    """Return the partitions that are neither frozen nor pinned by a person."""
    own = own_pins(memory.decisions)
    return {one for one in seen.loads if not one.frozen and one.pin in ("", own.get((one.topic, one.partition)))}


def _desired(limits: Limits, needs: Sequence[float], capacity: float) -> int:
    """Return the smallest number of consumers whose capacity meets these needs, plus the spare consumers."""
    most = max(1, min(limits.most, len(needs)))
    first = max(1, min(most, ceil(sum(needs) / capacity - 1e-9)))
    needed = next((n for n in range(first, most + 1) if _fits(needs, n, capacity)), most)
    return max(limits.least, min(limits.most, needed + limits.spare))


def _fits(needs: Sequence[float], count: int, capacity: float) -> bool:
    """Return whether `count` consumers can share the needs, the largest need first, to the least loaded consumer."""
    loads = [0.0] * count
    heapify(loads)
    for one in sorted(needs, reverse=True):
        heapreplace(loads, loads[0] + one)
    return max(loads) <= capacity * (1 + 1e-9)


def _undone(limits: Limits, seen: GrowthObservation, memory: Memory, needs: Sequence[float]) -> GrowthDecision | None:
    """Return the decision to undo a growth that brought no more throughput; `None` otherwise, or if too early."""
    last = next((one for one in reversed(memory.decisions) if one.kind in CHANGES and one.acted), None)
    if last is None or last.kind is not GrowthKind.GROW or last.desired != seen.count:
        return None
    age, judged_at = seen.now - last.at, limits.start_up_s + limits.window_s
    last = _first_of_row(memory, last, judged_at)
    if not judged_at <= age < 2 * judged_at or sum(needs) <= last.count * memory.capacity:
        return None
    if 2 * len(seen.busy) < seen.count:
        return None  # if the sink were the limit, most consumers would have a backlog
    more = seen.count - last.count
    hoped = last.throughput * (1 + RISE * more / max(1, last.count))
    if seen.throughput >= hoped:
        return None
    count = max(limits.least, last.count)
    why = (
        f"adding consumers cannot help: {seen.throughput:,.0f} records/s are read with {seen.count} consumers, "
        f"{last.throughput:,.0f} were with {last.count}; the sink or the brokers are the limit"
    )
    return _left(GrowthKind.UNDO, seen, count, why)


def _first_of_row(memory: Memory, last: GrowthDecision, judged_at: float) -> GrowthDecision:
    """Return the first of a row of growths, each decided before the previous growth could be judged."""
    for one in reversed(memory.decisions):
        if one.kind is GrowthKind.GROW and one.acted and one.desired == last.count and 0 < last.at - one.at < judged_at:
            last = one
    return last


def _more(
    limits: Limits, seen: GrowthObservation, memory: Memory, needs: Sequence[float], desired: int
) -> GrowthDecision:
    count, capacity, balance = seen.count, memory.capacity, _balance(needs, memory, seen.count)
    undone = sum(
        one.kind is GrowthKind.UNDO and one.acted and seen.now - one.at < REMEMBERED_S for one in memory.decisions
    )
    blocked_s = BLOCKED_WINDOWS * limits.window_s * 2 ** max(0, undone - 1)
    if _recent(memory, seen.now, {GrowthKind.UNDO}, blocked_s):
        why = f"adding consumers cannot help: more of them have read no more within the last {blocked_s / 60:.0f} min ({balance})"
        return _said(GrowthKind.CANNOT_HELP, seen, count, why)
    enough = sum(needs) <= count * capacity
    moves = _due_moves(limits, seen, memory) if enough else ()
    if moves and not _recent(memory, seen.now, {GrowthKind.MOVE}, 3 * limits.window_s):
        return replace(
            _said(GrowthKind.MOVE, seen, count, f"{balance}, which is enough if it is shared better"), moves=moves
        )
    if enough and _recent(memory, seen.now, {GrowthKind.MOVE}, limits.window_s):
        return _said(GrowthKind.HOLD, seen, count, f"{balance}; the effect of the last moves is not known yet")
    if _recent(memory, seen.now, {GrowthKind.GROW}, max(limits.grow_pause_s, limits.start_up_s)):
        return _said(GrowthKind.HOLD, seen, count, f"{balance}; the last consumers have just been added")
    return _said(GrowthKind.GROW, seen, min(desired, max(2 * count, count + STEP)), balance)


def _fewer(
    limits: Limits, seen: GrowthObservation, memory: Memory, needs: Sequence[float], desired: int
) -> GrowthDecision:
    count, capacity, balance = seen.count, memory.capacity, _balance(needs, memory, seen.count)
    since = [at for at, number in memory.wanted if number >= count]
    first = memory.wanted[0][0] if memory.wanted else seen.now
    calm_s = seen.now - max([first, *since])
    if calm_s < limits.shrink_pause_s or _recent(memory, seen.now, CHANGES, limits.shrink_pause_s):
        return _said(
            GrowthKind.HOLD, seen, count, f"{balance}; fewer would do for {calm_s:.0f} of {limits.shrink_pause_s:.0f} s"
        )
    recent = [number for at, number in memory.wanted if seen.now - at <= limits.shrink_pause_s]
    left = max(desired, *recent)
    while left < count and not _fits(needs, max(1, left - limits.spare), SLACK * capacity):
        left += 1
    if left >= count:
        return _said(GrowthKind.HOLD, seen, count, f"{balance}; one fewer would be close to its limit")
    return _left(GrowthKind.SHRINK, seen, left, balance)


def hot(seen: GrowthObservation, memory: Memory) -> tuple[Load, ...]:
    """Return the partitions whose rate exceeds a consumer's capacity, so that more consumers cannot help."""
    return tuple(one for one in seen.loads if memory.capacity and one.rate > memory.capacity)


def _hot_texts(memory: Memory, too_hot: Sequence[Load]) -> Iterator[str]:
    """Yield a sentence for each of the first `MAX_MOVES` topics."""
    topics: dict[str, list[Load]] = {}
    for one in too_hot:
        topics.setdefault(one.topic, []).append(one)
    for topic, loads in islice(topics.items(), MAX_MOVES):
        most = max(one.rate for one in loads)
        gets = "it gets" if len(loads) == 1 else "each gets up to"
        yield (
            f"adding consumers cannot help {named([one.partition for one in loads])} of {topic}: {gets} {most:,.0f} records/s, "
            f"and one consumer gives {memory.capacity:,.0f}; give the topic more partitions, or its consumers more cores"
        )


def _bounded(limits: Limits, seen: GrowthObservation) -> GrowthDecision | None:
    """Return the step into the limits; `None` within the limits."""
    count, bound = seen.count, min(max(seen.count, limits.least), limits.most)
    reason = f"{_are(count)} outside of {limits.least} to {limits.most}"
    if bound > count:
        return _said(GrowthKind.GROW, seen, bound, reason)
    return _left(GrowthKind.SHRINK, seen, bound, reason) if bound < count else None


def _left(kind: GrowthKind, seen: GrowthObservation, desired: int, why: str) -> GrowthDecision:
    """Return the decision to have `desired` consumers, or the nearest number that frozen topics allow."""
    leaves = _cheapest(seen, seen.count - desired)
    if desired < seen.count and not leaves:
        why += "; none can leave: each keeps partitions of a frozen topic; unfreeze it"
        return _said(GrowthKind.HOLD, seen, seen.count, why)
    return replace(_said(kind, seen, seen.count - len(leaves), why), leaves=leaves)


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


def _due_moves(limits: Limits, seen: GrowthObservation, memory: Memory) -> tuple[GrowthMove, ...]:
    """Return the moves that are due; none while the effect of the last moves or of a change of size is unknown."""
    settling = _recent(memory, seen.now, CHANGES, limits.start_up_s + limits.window_s)
    moving = _recent(memory, seen.now, {GrowthKind.MOVE}, limits.window_s)
    return () if settling or moving else _moves(limits, seen, memory)


def _moves(limits: Limits, seen: GrowthObservation, memory: Memory) -> tuple[GrowthMove, ...]:
    """Return moves of movable partitions from overloaded consumers to consumers with spare capacity.

    No consumer gives its last partition away.
    """
    capacity, moves, free = memory.capacity, list[GrowthMove](), _movable(seen, memory)
    needs_of: dict[str, dict[Load, float]] = {one: {} for one in seen.consumers}
    for load in seen.loads:
        if load.owner in needs_of:
            needs_of[load.owner][load] = min(capacity, _need(limits, load))
    loads = {one: sum(held.values()) for one, held in needs_of.items()}
    while len(moves) < MAX_MOVES:
        givers = [one for one, held in needs_of.items() if held.keys() & free]
        giver = max(givers, key=lambda one: (loads[one], one), default="")
        taker = min(loads, key=lambda one: (loads[one], one), default="")
        if not giver or loads[giver] <= capacity or len(needs_of[giver]) < 2:
            break
        fitting = [
            one for one, need in needs_of[giver].items() if one in free and need > 0 and loads[taker] + need <= capacity
        ]
        if not fitting:
            break
        over = loads[giver] - capacity
        load = min(
            fitting,
            key=lambda one: (needs_of[giver][one] < over, abs(needs_of[giver][one] - over), one.topic, one.partition),
        )
        need = needs_of[giver].pop(load)
        needs_of[taker][load] = need
        loads[giver] -= need
        loads[taker] += need
        moves.append(GrowthMove(load.topic, load.partition, load.owner, taker))
    return tuple(moves)


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


def _recent(memory: Memory, now: float, kinds: frozenset[GrowthKind] | set[GrowthKind], within_s: float) -> bool:
    last = max((one.at for one in memory.decisions if one.kind in kinds and one.acted), default=-inf)
    return now - last < within_s


def _balance(needs: Sequence[float], memory: Memory, count: int) -> str:
    return f"{sum(needs):,.0f} records/s are needed, and {count} x {memory.capacity:,.0f} are there"


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
