"""The lag of partitions in the last hour, from ZooKeeper, so that every API server shows the same figures.

A server itself keeps only the owners' positions of some seconds ago, to compute their speed.
"""

import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.measure.lag import LagStatus, furthest_s
from coordinator_tasks.core.measure.lag_moments import EVERY_S, FRESH_S, KEPT, NOBODY, LagMoment, seconds, statuses
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.watch import lag_moments

SPEED_S = 8.0
"""Minimum seconds over which a speed is measured."""
REMEMBER_S = 60.0
LOOK_S = 5.0
"""Seconds between two checks for a newer sample; a minute if a sample of the last hour cannot be read."""
MOST_TOTALS = 60


@dataclass(frozen=True, slots=True)
class PartitionNow:
    """One partition now. `owner`: empty without an owner. Unknown figures are NaN."""

    topic: str
    partition: int
    owner: str = ""
    position: float = math.nan
    lag: float = math.nan
    rate: float = math.nan


@dataclass(frozen=True, slots=True)
class Point:
    """A sample of an owner's lag. `lag`: records in all partitions; `late_s`: seconds of the partition furthest behind.

    `read`: records per second committed since the previous sample, in partitions held since then. `None` = unknown.
    """

    at: float
    lag: int
    late_s: float | None
    read: float | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    """The samples of a cluster, oldest first. `problems`: why samples cannot be read."""

    now: float = 0.0
    moments: tuple[LagMoment, ...] = ()
    problems: tuple[str, ...] = ()

    def statuses(self) -> dict[tuple[str, int], LagStatus]:
        """Return (topic, partition) → Burrow's status, as in the metrics; empty if the last sample is old."""
        fresh = bool(self.moments) and self.moments[-1].at > self.now - FRESH_S
        return statuses(self.moments[-1]) if fresh else {}

    def totals(self, topic: str) -> list[int]:
        """Return the lag of the whole topic in records, for each sample."""
        return [sum(one.topics[topic].lags) for one in self.moments if topic in one.topics][-MOST_TOTALS:]

    def speeds(self, owners: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], float]:
        """Return (topic, partition) → records per second committed by this owner between the last two samples."""
        found: dict[tuple[str, int], float] = {}
        for before, last in list(pairwise(self.moments))[-1:]:
            if last.at <= self.now - FRESH_S or last.at - before.at > FRESH_S:
                continue
            known = _places(before)
            for key, (owner, offset) in _places(last).items():
                was, earlier = known.get(key, ("", 0))
                if owner and owner == was == owners.get(key) and offset >= earlier:
                    found[key] = (offset - earlier) / (last.at - before.at)
        return found

    def of_topic(self, topic: str, partition: int | None = None) -> dict[str, list[Point]]:
        """Return owner → points, for a topic or one of its partitions, only of samples during the ownership."""
        pairs = ((before, moment) for before, moment in self._pairs() if topic in moment.topics)
        return grouped(sample for pair in pairs for sample in _samples(*pair, topic, partition))

    def of_consumer(self, consumer: str) -> dict[str, list[Point]]:
        return grouped(
            (topic, point)
            for before, moment in self._pairs()
            if consumer in moment.consumers
            for topic in moment.topics
            for _, point in _samples(before, moment, topic, None, moment.consumers.index(consumer))
        )

    def _pairs(self) -> Iterator[tuple[LagMoment | None, LagMoment]]:
        """Yield each sample with the previous sample; `None` if there is none, or if a sample in between is missing."""
        for before, moment in zip((None, *self.moments), self.moments, strict=False):
            yield (before if before is not None and moment.at - before.at <= FRESH_S else None), moment


def _places(moment: LagMoment) -> dict[tuple[str, int], tuple[str, int]]:
    """Return (topic, partition) → owner and committed offset."""
    return {
        (topic, partition): (moment.owner(owner), offset)
        for topic, one in moment.topics.items()
        for partition, owner, offset in zip(one.partitions, one.owners, one.offsets, strict=True)
    }


def _samples(
    before: LagMoment | None, moment: LagMoment, topic: str, partition: int | None, place: int | None = None
) -> Iterator[tuple[str, Point]]:
    """Yield owner and point of the topic in a sample, with the speed since the sample `before`.

    Limited to one partition, or to the owner at this place, if given.
    """
    now, then = moment.topics[topic], before.topics.get(topic) if before is not None else None
    same, known = before is not None and moment.consumers == before.consumers, len(then.partitions) if then else 0
    lags, read = dict[int, list[tuple[int, float | None]]](), dict[int, int]()
    columns = zip(now.partitions, now.owners, now.offsets, now.lags, now.late, strict=True)
    for at, (number, owner, offset, lag, tenths) in enumerate(columns):
        if owner == NOBODY or partition not in (None, number) or place not in (None, owner):
            continue
        lags.setdefault(owner, []).append((lag, seconds(tenths)))
        # The next sample shows the speed of a new partition.
        if before is not None and then is not None and at < known and then.partitions[at] == number:
            was, earlier = then.owners[at], then.offsets[at]
            if offset >= earlier and (was == owner if same else before.owner(was) == moment.owner(owner)):
                read[owner] = read.get(owner, 0) + offset - earlier
    for owner, each in lags.items():
        speed = read[owner] / (moment.at - before.at) if before is not None and owner in read else None
        yield moment.owner(owner), Point(moment.at, sum(lag for lag, _ in each), furthest_s(each), speed)


@dataclass(slots=True)
class _Known:
    """What this server knows about a cluster."""

    trend: Trend = field(default_factory=Trend)
    positions: deque[tuple[float, dict[tuple[str, int], tuple[str, float]]]] = field(
        default_factory=lambda: deque(maxlen=2)
    )


class Trends:
    """The trend of each cluster. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}

    def of(self, c: Coordinator) -> Trend:
        """Return the samples of the last hour.

        A sample is read only once, and is not tried again if missing for longer than `FRESH_S`. A cluster that nobody
        has requested for an hour is forgotten.
        """
        now = c.clock.now()
        with self._lock:
            for name in [one for one, old in self._known.items() if 0 < old.trend.now <= now - EVERY_S * KEPT]:
                del self._known[name]
            known = self._known.setdefault(c.paths.cluster, _Known())
            trend = known.trend
        begun = trend.now <= now and not trend.problems
        settled_at = max(trend.now - FRESH_S, *(one.at for one in trend.moments[-1:]), 0.0)
        minutes = int(now // EVERY_S - settled_at // EVERY_S) if begun else KEPT
        look_s = EVERY_S if trend.problems else LOOK_S
        if not minutes or trend.now <= now < trend.now + look_s:
            return replace(trend, now=now)
        problems: dict[str, str] = {}
        newer = lag_moments.read(c, now, min(KEPT, minutes) - 1, problems)
        kept = [one for one in trend.moments if now - EVERY_S * KEPT < one.at] if begun else []
        trend = Trend(now, (*kept, *newer), tuple(problems.values()))
        with self._lock:
            known.trend = trend
        return trend

    def speeds(
        self, c: Coordinator, trend: Trend, standings: Sequence[PartitionNow], *, whole: bool
    ) -> Mapping[tuple[str, int], float]:
        """Return (topic, partition) → records per second read by the current owner, without partitions that just moved.

        The speed is measured between two looks of this server at the `whole` cluster; before the second look, between
        the last two samples.
        """
        now = c.clock.now()
        here = {(one.topic, one.partition): (one.owner, one.position) for one in standings}
        with self._lock:
            positions = self._known.setdefault(c.paths.cluster, _Known()).positions
            if positions and not now - REMEMBER_S < positions[-1][0] <= now:
                positions.clear()
            before = next(((at, known) for at, known in reversed(positions) if at <= now - SPEED_S), None)
            if whole and (not positions or positions[-1][0] <= now - SPEED_S):
                positions.append((now, here))
        if before is None:
            return trend.speeds({key: owner for key, (owner, _) in here.items()})
        at, known = before
        found = {}
        for key, (owner, position) in here.items():
            was, earlier = known.get(key, ("", math.nan))
            read = position - earlier
            if owner and owner == was and read >= 0:
                found[key] = read / (now - at)
        return found
