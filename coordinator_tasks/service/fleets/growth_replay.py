"""Replay a growth policy on a cluster snapshot, with the real policy and the real planner, minute by minute.

Records arrive at the rates of the snapshot, times a factor. Every consumer reads the same number of records per second.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fleet.growth import (
    CHANGES,
    GrowthDecision,
    GrowthKind,
    GrowthObservation,
    Limits,
    Load,
    Memory,
    decide,
)
from coordinator_tasks.core.machine import what_if
from coordinator_tasks.core.machine.what_if import ClusterMoment, SiteChange
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.pause_prediction import PastMove
from coordinator_tasks.core.text.partition_text import agreed, counted
from coordinator_tasks.service.plan.preview import Preview, previewed

TICK_S, TICKS = 5.0, 12
"""Seconds of a tick, and ticks between two decisions of the policy. In each tick, records arrive and are read."""
MAX_MINUTES = 1_440
_JOINS = "the new consumers read"
Places: TypeAlias = NDArray[np.int64]
"""For each row (partition), the index of the owner among the consumers."""
Figures: TypeAlias = NDArray[np.float64]
"""For each row (partition), a number of records."""


@dataclass(frozen=True, slots=True)
class Growing:
    """`capacity`: records/s that a consumer reads. `load`: factor on the snapshot's rates."""

    limits: Limits
    capacity: float
    load: float = 1.0
    minutes: int = 60

    def check(self) -> None:
        """Raises `Refused`."""
        self.limits.check()
        if not 0 < self.capacity <= 1e12:
            raise Refused(f"a consumer cannot read {self.capacity:g} records/s; give what one reads as capacity=1000")
        if not 0 <= self.load <= 1e6:
            raise Refused(f"the rates cannot come {self.load:g} times; give load=2 for twice the rates")
        if not 1 <= self.minutes <= MAX_MINUTES:
            raise Refused(f"{self.minutes} minutes cannot be replayed; give 1 to {MAX_MINUTES} as minutes=60")


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """`after_s`: seconds since the snapshot. `what`: the decision, or the start of consumers. `topics`: the moves."""

    after_s: float
    what: str
    topics: tuple[Preview, ...] = ()


@dataclass(frozen=True, slots=True)
class Replayed:
    """The final number of `consumers`, and the final `lag` in records.

    `worst_lag`: the largest lag, `worst_after_s` seconds after the snapshot.
    """

    happened: tuple[ReplayEvent, ...]
    consumers: int
    moves: int
    lag: int
    worst_lag: int
    worst_after_s: float

    @property
    def lines(self) -> tuple[str, ...]:
        found: list[str] = []
        for one in self.happened:
            found.append(f"after {_minutes(one.after_s)}: {one.what}")
            for preview in one.topics:
                if preview.moves:
                    found += [f"  {line}" for line in (*preview.lines[:1], *(f"  {text}" for text in preview.pauses))]
        worst = f"at most {self.worst_lag:,} {agreed(self.worst_lag, 'record', 'records')} behind, after {_minutes(self.worst_after_s)}"
        behind = f"{self.lag:,} {agreed(self.lag, 'record', 'records')} behind"
        end = f"in the end: {counted(self.consumers, 'consumer')}, {behind}; {worst}; {counted(self.moves, 'move')}"
        return (*found, end)


def _minutes(seconds: float) -> str:
    return f"{round(seconds / 60, 1):g} min"


def replayed(
    site: ClusterMoment,
    growing: Growing,
    policy: Policy,
    past: Mapping[str, Collection[PastMove]],
    topics: Collection[str] = (),
) -> tuple[ClusterMoment, Replayed]:
    """Return the final cluster, and the events.

    All registered consumers form the fleet, and the records of all topics count. `topics`: topics whose moves are
    reported; empty means all. Raises `Refused`.
    """
    growing.check()
    running = _Replay(site, growing, policy, past, topics)
    for number in range(growing.minutes):
        running.minute(number)
    return running.site, running.result()


class _Replay:
    """The present cluster and its backlog. Each partition is a row, sorted by topic and number."""

    def __init__(
        self,
        site: ClusterMoment,
        growing: Growing,
        policy: Policy,
        past: Mapping[str, Collection[PastMove]],
        topics: Collection[str],
    ) -> None:
        self.site, self._growing, self._policy, self._past, self._topics = site, growing, policy, past, topics
        self._limits = replace(growing.limits, act=True)
        self._memory = Memory(capacity=growing.capacity)
        known = {name: what_if.loads(site.world.answers, view) for name, view in site.topics.items()}
        self._rows = [(name, p) for name, view in sorted(site.topics.items()) for p in view.partitions]
        found = [known[name].get(p) for name, p in self._rows]
        if not any(one is not None and one.rate for one in found):
            raise Refused(
                "the snapshot has no rates of records, so growth cannot be replayed; take one while records flow"
            )
        self._come = np.array([(one.rate or 0.0) if one is not None else 0.0 for one in found]) * growing.load * TICK_S
        self._lag = np.array([float(one.lag_records or 0) if one is not None else 0.0 for one in found])
        self._consumers = sorted(site.world.members)
        self._joining: tuple[int, float] = (0, 0.0)
        self._pinned: dict[str, set[int]] = {}
        self._told = GrowthKind.HOLD
        self._now = 0.0
        self._moves = 0
        self._worst = (float(self._lag.sum()), 0.0)
        self._happened: list[ReplayEvent] = []

    def minute(self, number: int) -> None:
        """Simulate twelve ticks, then let the policy decide."""
        owners, read, busy = self._owners(), np.zeros(len(self._rows)), set(self._consumers)
        for tick in range(TICKS):
            self._now = (number * TICKS + tick + 1) * TICK_S
            if self._joining[0] and self._now >= self._joining[1]:
                self._join()
                owners = self._owners()
            read += self._read(owners, busy)
        self._look(owners, read / (TICKS * TICK_S), busy)

    def result(self) -> Replayed:
        worst, after_s = self._worst
        lag = round(float(self._lag.sum()))
        return Replayed(tuple(self._happened), len(self._consumers), self._moves, lag, round(worst), after_s)

    def _owners(self) -> Places:
        """Return the index of each row's owner among the consumers. The index after the last one means no owner."""
        place = {one: at for at, one in enumerate(self._consumers)}
        due = {name: what_if.due_owners(view) for name, view in self.site.topics.items()}
        return np.array([place.get(due[name].get(p, ""), len(place)) for name, p in self._rows], np.int64)

    def _read(self, owners: Places, busy: set[str]) -> Figures:
        """Add the records that arrive in a tick, and subtract the records that are read.

        An overloaded consumer splits its read rate over its partitions in proportion to their backlog.
        """
        self._lag += self._come
        most = self._growing.capacity * TICK_S
        theirs = np.bincount(owners, self._lag, len(self._consumers) + 1)
        share = np.minimum(1.0, most / np.maximum(theirs, 1e-9))
        share[-1] = 0.0
        read = self._lag * share[owners]
        self._lag = self._lag - read
        self._worst = max(self._worst, (float(self._lag.sum()), self._now), key=lambda one: one[0])
        busy &= {one for one, behind in zip(self._consumers, theirs.tolist(), strict=False) if behind > most}
        return read

    def _look(self, owners: Places, read: Figures, busy: set[str]) -> None:
        names = [*self._consumers, ""]
        rows = zip(self._rows, owners.tolist(), self._come.tolist(), self._lag.tolist(), read.tolist(), strict=True)
        loads = tuple(self._load(topic, p, names[at], come, lag, took) for (topic, p), at, come, lag, took in rows)
        unsure = "consumers start" if self._joining[0] else ""
        gives = dict.fromkeys(busy, self._growing.capacity)
        seen = GrowthObservation(self._now, tuple(self._consumers), loads, gives, unsure)
        decision, self._memory = decide(self._limits, seen, self._memory)
        self._do(decision)

    def _load(self, topic: str, partition: int, owner: str, come: float, lag: float, read: float) -> Load:
        config = self.site.topics[topic].config
        return Load(topic, partition, owner, come / TICK_S, lag, read, config.pins.get(partition, ""), config.frozen)

    def _do(self, decision: GrowthDecision) -> None:
        previews: tuple[Preview, ...] = ()
        if decision.kind in CHANGES:
            self._end_pins()
        match decision.kind:
            case GrowthKind.GROW:
                self._joining = (decision.desired - decision.count, self._now + self._limits.start_up_s)
            case GrowthKind.SHRINK | GrowthKind.UNDO:
                self._consumers = [one for one in self._consumers if one not in decision.leaves]
                previews = self._changed(SiteChange(leave=decision.leaves))
            case GrowthKind.MOVE:
                for move in decision.moves:
                    self._pinned.setdefault(move.topic, set()).add(move.partition)
                    self._pin(move.topic, self._pins(move.topic) | {move.partition: move.taker})
                previews = self._changed(SiteChange())
            case GrowthKind.HOLD | GrowthKind.CANNOT_HELP:
                pass
        again = decision.kind is GrowthKind.CANNOT_HELP and decision.kind is self._told
        if decision.kind is not GrowthKind.HOLD and not again:
            self._happened.append(ReplayEvent(self._now, decision.text, previews))
        self._told = decision.kind

    def _join(self) -> None:
        before, count = self.site.world.members.keys(), self._joining[0]
        previews = self._changed(SiteChange(join=count))
        self._consumers = sorted({*self._consumers, *(self.site.world.members.keys() - before)})
        self._joining = (0, 0.0)
        self._happened.append(ReplayEvent(self._now, _JOINS, previews))

    def _changed(self, change: SiteChange) -> tuple[Preview, ...]:
        self.site, previews = previewed(self.site, change, self._policy, self._past)
        self._moves += sum(len(one.moves) for one in previews)
        return tuple(one for one in previews if not self._topics or one.topic in self._topics)

    def _pins(self, topic: str) -> dict[int, str]:
        return dict(self.site.topics[topic].config.pins)

    def _pin(self, topic: str, pins: Mapping[int, str]) -> None:
        view = self.site.topics[topic]
        pinned = replace(view, config=replace(view.config, pins=pins))
        self.site = replace(self.site, topics={**self.site.topics, topic: pinned})

    def _end_pins(self) -> None:
        for topic, partitions in self._pinned.items():
            self._pin(topic, {p: one for p, one in self._pins(topic).items() if p not in partitions})
        self._pinned.clear()
