"""The lag of every partition, sampled each minute from the commits in Kafka, with Burrow's status. Pure.

A sample is judged once, when it is made, so all readers see the same status.
"""

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator_tasks.core.measure.lag import WINDOW, EndPoints, LagLook, LagStatus, group_status, partition_status

EVERY_S = 60.0
KEPT = 60
"""Number of samples: an hour."""
JUDGED_BY = 2 * WINDOW
"""Number of samples needed to judge a partition: a window of commits, and a silence as long as a window."""
FRESH_S = 3 * EVERY_S
"""Seconds after which a sample is no longer recent."""
MOST_PARTITIONS = 20_000
"""Default of `policy.lag_partitions`. A sample then takes 484 KB at most. ZooKeeper holds an hour of samples in memory.
"""
NOBODY = -1
UNKNOWN = -1
COLUMNS = ("owners", "offsets", "lags", "late", "statuses", "commits")
"""Columns of a topic beside its partitions."""
_PARTS = 10  # tenths of a second


@dataclass(frozen=True, slots=True)
class TopicMoment:
    """One topic in columns: entry n of each column is about the same partition.

    `owners`: indexes in the sample's `consumers`, or `NOBODY`. `offsets`: the group's committed offsets. `lags`:
    offsets from the commit to the log's end. `late`: age of the next record to read, in tenths of a second, -1 if
    unknown. `statuses`: Burrow's numbers. `commits`: 1 if the entry counts as a commit.
    """

    group: str
    partitions: Sequence[int] = field(default_factory=lambda: array("i"))
    owners: Sequence[int] = field(default_factory=lambda: array("i"))
    offsets: Sequence[int] = field(default_factory=lambda: array("q"))
    lags: Sequence[int] = field(default_factory=lambda: array("q"))
    late: Sequence[int] = field(default_factory=lambda: array("q"))
    statuses: Sequence[int] = field(default_factory=lambda: array("b"))
    commits: Sequence[int] = field(default_factory=lambda: array("b"))


@dataclass(frozen=True, slots=True)
class LagMoment:
    """Every partition at one moment. `left_out`: number of partitions beyond the limit."""

    at: float
    consumers: tuple[str, ...] = ()
    topics: Mapping[str, TopicMoment] = field(default_factory=dict)
    left_out: int = 0

    def owner(self, place: int) -> str:
        return "" if place == NOBODY else self.consumers[place]


def statuses(moment: LagMoment | None) -> dict[tuple[str, int], LagStatus]:
    """Return (topic, partition) → Burrow's status."""
    topics = moment.topics.items() if moment is not None else ()
    return {
        (topic, partition): LagStatus(status)
        for topic, one in topics
        for partition, status in zip(one.partitions, one.statuses, strict=True)
    }


def group_statuses(moment: LagMoment | None) -> dict[str, LagStatus]:
    """Return group → Burrow's status."""
    found: dict[str, set[LagStatus]] = {}
    for one in moment.topics.values() if moment is not None else ():
        found.setdefault(one.group, set()).update(map(LagStatus, one.statuses))
    return {group: group_status(every) for group, every in sorted(found.items())}


class PartitionMoment(NamedTuple):
    """One partition, with Kafka's offsets and the planned owner. `owner` is empty without an owner."""

    group: str
    topic: str
    partition: int
    owner: str
    offset: int
    end: int

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.partition

    @property
    def lag(self) -> int:
        return max(0, self.end - self.offset)


class _Past(NamedTuple):
    at: float
    offset: int
    lag: int
    commit: int


Track = dict[tuple[str, int], list[_Past]]


def seconds(late: int) -> float | None:
    """Return the seconds that an entry of the column `late` stands for; `None` if unknown."""
    return None if late == UNKNOWN else late / _PARTS


def slot_of(at: float) -> int:
    """Return the index of a sample in the ring. The ring has one place per minute of the hour."""
    return int(at // EVERY_S) % KEPT


def tracks(past: Sequence[LagMoment]) -> Track:
    """Return (topic, partition) → its entries in these samples, oldest first."""
    found: Track = {}
    for moment in past:
        for topic, one in moment.topics.items():
            for partition, offset, lag, commit in zip(one.partitions, one.offsets, one.lags, one.commits, strict=True):
                found.setdefault((topic, partition), []).append(_Past(moment.at, offset, lag, commit))
    return found


def stand(seen: Collection[PartitionMoment], before: Track) -> list[PartitionMoment]:
    """Return lagging partitions whose committed offset is the same as in the last sample.

    Only the owners know whether such a partition runs.
    """
    return [one for one in seen if one.lag and one.key in before and before[one.key][-1].offset == one.offset]


def judged(
    at: float,
    seen: Sequence[PartitionMoment],
    before: Track,
    running: Collection[tuple[str, int]],
    most: int = MOST_PARTITIONS,
) -> LagMoment:
    """Return the sample of at most `most` partitions. `running`: partitions that their owners report as running.

    Burrow expects a commit in every sample, but our consumers commit only changes. So an owner counts as committing if
    it runs the partition or has nothing to commit.
    """
    names: dict[str, int] = {}
    topics: dict[str, TopicMoment] = {}
    for one in seen[:most]:
        track = before.get(one.key, [])
        commit = not track or track[-1].offset != one.offset or not one.lag or one.key in running
        late_s, status = _judged(at, one, track, commit=commit) if one.lag else (0.0, LagStatus.OK)
        of = topics.setdefault(one.topic, TopicMoment(one.group))
        owner = names.setdefault(one.owner, len(names)) if one.owner else NOBODY
        late = UNKNOWN if late_s is None else round(late_s * _PARTS)
        values = (one.partition, owner, one.offset, one.lag, late, status, commit)
        for column, value in zip(("partitions", *COLUMNS), values, strict=True):
            getattr(of, column).append(value)
    return LagMoment(at, tuple(names), topics, max(0, len(seen) - most))


def _judged(at: float, one: PartitionMoment, track: Sequence[_Past], *, commit: bool) -> tuple[float | None, LagStatus]:
    points = EndPoints()
    for past in track:
        points.see(past.offset + past.lag, past.at)
    points.see(one.end, at)
    looks = [LagLook(past.at, past.offset, past.lag) for past in track if past.commit]
    if commit:
        looks.append(LagLook(at, one.offset, one.lag))
    ends = [past.offset + past.lag for past in track[1 - WINDOW :]] + [one.end]
    late_s = points.behind_s(one.offset, at)
    if not looks:  # no commit in all samples
        return late_s, LagStatus.STOP
    return late_s, partition_status(looks[-WINDOW:], ends, one.lag, at, WINDOW * EVERY_S)
