"""Observe a cluster repeatedly for metrics: present state, events, and the lag of the groups.

Events since the first observation are counted from the histories. Writes nothing and needs no Airflow.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.errors import Malformed, NoAccess
from coordinator_tasks.core.fleet.growth import GrowthDecision
from coordinator_tasks.core.machine.world import World
from coordinator_tasks.core.measure.buckets import PAUSE_S, Buckets
from coordinator_tasks.core.measure.lag import EndPoints, LagStatus
from coordinator_tasks.core.measure.lag_moments import LagMoment, group_statuses, statuses
from coordinator_tasks.core.model import Pauses, Record, Silence, State, Unreachable
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.protocol.znodes import find_many
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.fleet import fleets
from coordinator_tasks.service.plan.pauses import COMPLETE_S
from coordinator_tasks.service.watch import audit, lag_moments, overview
from coordinator_tasks.service.watch.audit import Audit
from coordinator_tasks.service.watch.group_commits import commits
from coordinator_tasks.service.watch.overview import ConsumerOverview
from coordinator_tasks.service.watch.topic_metrics import TopicFigures, figures

MAX_RECORDS = 500
"""Maximum records of a topic per observation. Older records are skipped."""
AUDIT_EVERY_S = 30.0
"""Seconds between audits. An audit asks every consumer and group, perhaps twice."""


@dataclass(slots=True)
class TopicEvents:
    """Events of a topic since the first observation.

    - `unasked`: rebalances that nobody requested. `moves`: by kind.
    - `pauses`: total seconds of each moved partition with waiting records. `extras`: the same without the usual stall.
    - `at_least`: number of pauses with bounds only. `idle`: number of moved partitions without waiting records.
    - `waited`: number of waiting records. `stalls`: for each rebalance, the longest stall of a staying partition.
    - `unowned_s`: seconds without an owner, summed over partitions.
    """

    rebalances: int = 0
    unasked: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    pauses: Buckets = field(default_factory=lambda: Buckets(PAUSE_S))
    extras: Buckets = field(default_factory=lambda: Buckets(PAUSE_S))
    at_least: int = 0
    idle: int = 0
    waited: int = 0
    stalls: Buckets = field(default_factory=lambda: Buckets(PAUSE_S))
    unowned_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a partition behind the group's commit in Kafka. `lag_s`, `status`: `None` if unknown.

    `told`: the owner answers and reports the lag.
    """

    group: str
    topic: str
    partition: int
    owner: str
    offset: int
    end: int
    lag: int
    lag_s: float | None
    status: LagStatus | None
    told: bool


@dataclass(frozen=True, slots=True)
class Survey:
    """One observation. `oldest_unowned_s`: topic → for how many seconds its oldest unowned partition has been seen.

    - `wanted`: number of consumers in fleets. `desired`: fleet → the last decision of its growth, also in shadow mode.
    - `groups`: group → Burrow's status; `None` if not judged lately. `unknown`: group → why its offsets are unknown.
    - `audited`: the last audit of ownership, and its time.
    - `broken`: consumers with an unusable answer, such as a refused certificate.
    """

    cluster: str
    topics: tuple[TopicFigures, ...]
    consumers: tuple[ConsumerOverview, ...]
    wanted: int
    happened: Mapping[str, TopicEvents]
    oldest_unowned_s: Mapping[str, float]
    lags: tuple[PartitionLag, ...]
    groups: Mapping[str, LagStatus | None]
    unknown: Mapping[str, str]
    desired: Mapping[str, GrowthDecision] = field(default_factory=dict)
    audited: Audit = field(default_factory=Audit)
    audited_at: float = 0.0
    broken: frozenset[str] = frozenset()


class Surveyor:
    """Makes the observations, and keeps the state between them."""

    def __init__(self, c: Coordinator) -> None:
        self._c = c
        self._audited: tuple[float, Audit] = (0.0, Audit())
        self._audit_at_s = -math.inf
        self._events: dict[str, _Events] = {}
        self._ends: dict[tuple[str, int], EndPoints] = {}
        self._unowned: dict[str, dict[int, float]] = {}
        self._looked_at: float | None = None

    def look(self) -> Survey:
        """Observe once. Without Kafka the lags are unknown. Raises `StoreUnavailable` and `DiscoveryUnavailable`."""
        c = self._c
        looked: list[overview.ClusterLook] = []

        def world() -> World:
            looked.append(overview.look(c))
            return looked[0].world

        topics = tuple(figures(c, look=world))
        consumers = tuple(overview.consumers(c, looked[0]))
        self._count(topics)
        unknown: dict[str, str] = {}
        moment = lag_moments.newest(c)
        lags, groups = tuple(self._measured(topics, consumers, moment, unknown)), group_statuses(moment)
        now = c.clock.monotonic()
        audited_at, audited = self._audit()
        answers = looked[0].world.answers
        unanswered = {who: answer for who, answer in answers.items() if isinstance(answer, Unreachable)}
        return Survey(
            cluster=c.paths.cluster,
            topics=topics,
            consumers=consumers,
            wanted=len({consumer for fleet in fleets(c) for consumer in fleet.consumers}),
            happened={topic: events.happened for topic, events in self._events.items()},
            oldest_unowned_s={topic: now - min(since.values()) for topic, since in self._unowned.items() if since},
            lags=lags,
            groups={one.group: groups.get(one.group) for one in lags},
            unknown=unknown,
            desired=autoscale.last_decisions(c),
            audited=audited,
            audited_at=audited_at,
            broken=frozenset(who for who, one in unanswered.items() if one.silence is Silence.BROKEN),
        )

    def _audit(self) -> tuple[float, Audit]:
        """Return the last audit and its time. Audit anew if due."""
        clock = self._c.clock
        if clock.monotonic() >= self._audit_at_s:
            found = audit.audit(self._c, always=False)
            self._audited = (clock.now(), found)
            self._audit_at_s = clock.monotonic() + AUDIT_EVERY_S
        return self._audited

    # Events ----------------------------------------------------------------------------------------------------------

    def _count(self, topics: Collection[TopicFigures]) -> None:
        names = {one.topic for one in topics}
        self._events = {topic: events for topic, events in self._events.items() if topic in names}
        for topic in sorted(names):
            if topic not in self._events:
                self._events[topic] = _Events(self._c, topic)
            self._events[topic].look()
        # Set only after everything is read. If an observation fails, the next observation counts its seconds too.
        now, unowned = self._c.clock.monotonic(), self._unowned
        passed_s = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at, self._unowned = now, {}
        for one in topics:
            before = unowned.get(one.topic, {})
            # A partition that has lost or found an owner meanwhile was unowned for half of the time, on average.
            self._events[one.topic].happened.unowned_s += passed_s * (len(before) + len(one.unowned)) / 2
            self._unowned[one.topic] = {partition: before.get(partition, now) for partition in one.unowned}

    # How far the groups are behind -----------------------------------------------------------------------------------

    def _measured(
        self,
        topics: Collection[TopicFigures],
        consumers: Collection[ConsumerOverview],
        moment: LagMoment | None,
        unknown: dict[str, str],
    ) -> Iterator[PartitionLag]:
        running = {
            (topic.topic, partition)
            for one in consumers
            if one.health
            for topic in one.topics
            for partition in topic.running
        }
        judged = statuses(moment)
        ends: dict[tuple[str, int], EndPoints] = {}
        for one in commits(self._c, topics, unknown):
            points = ends[one.key] = self._ends.get(one.key) or EndPoints()
            now = self._c.clock.monotonic()
            points.see(one.end, now)
            late_s = points.behind_s(one.offset, now)
            yield PartitionLag(*one, one.lag, late_s, judged.get(one.key), one.key in running)
        self._ends = ends


class _Events:
    """Counts the records of a topic, and the pauses once complete."""

    def __init__(self, c: Coordinator, topic: str) -> None:
        self.happened = TopicEvents()
        self._c = c
        self._topic = topic
        self._changes: int | None = None  # number of changes of the history's folder: added and pruned records
        self._last: int | None = None
        self._unasked = ""  # name of the last counted rebalance
        self._open: dict[int, _Open] = {}

    def look(self) -> None:
        """Count the new records. Skip unreadable records and histories."""
        if not is_topic(self._topic):
            return
        with suppress(NoAccess):  # a reader of the history reports the missing right
            folder = self._c.zk.find(self._c.paths.history(self._topic))
            changes = folder.stat.children_version if folder is not None else -1
            if changes != self._changes:
                self._count(self._newer())
                self._changes = changes
            self._complete()

    def _newer(self) -> list[Record]:
        names = [int(name) for name in history.names(self._c, self._topic)]
        last = self._last
        found = [] if last is None else self._read([one for one in names if one > last][-MAX_RECORDS:])
        self._last = max(names, default=-1)
        return found

    def _read(self, sequences: Collection[int]) -> list[Record]:
        paths = {sequence: self._c.paths.record(self._topic, sequence) for sequence in sequences}
        found: list[Record] = []
        for sequence, node in find_many(self._c.zk, paths, {}).items():  # unreadable records are left out too
            with suppress(Malformed):  # a reader of the history reports the unreadable record
                found.append(decode_record(paths[sequence], node.data, sequence))
        return found

    def _count(self, records: Collection[Record]) -> None:
        for record in records:
            self.happened.moves.update(str(move.kind) for move in record.moves)
            if record.unasked and record.rebalance != self._unasked:
                self.happened.unasked += 1
                self._unasked = record.rebalance
            if record.target is State.STABLE:
                self.happened.rebalances += 1
                self._open[record.sequence] = _Open(self._c.clock.monotonic() + COMPLETE_S)

    def _complete(self) -> None:
        now = self._c.clock.monotonic()
        self._open = {sequence: one for sequence, one in self._open.items() if now < one.until}
        for record in self._read(list(self._open)) if self._open else ():
            if record.pauses is not None and self._open[record.sequence].count(record.pauses, self.happened):
                del self._open[record.sequence]


class _Open:
    """An ended rebalance whose pauses are still being measured. `counted`: partitions counted so far."""

    def __init__(self, until: float) -> None:
        self.until = until
        self._counted: set[int] = set()
        self._stall_counted = False

    def count(self, found: Pauses, happened: TopicEvents) -> bool:
        """Count the new pauses. Return whether all pauses are known."""
        for one in found.measured:
            if one.partition in self._counted:
                continue
            self._counted.add(one.partition)
            happened.waited += one.records
            if one.wait_s is None:
                happened.idle += 1
            elif one.least:
                happened.at_least += 1
            else:
                happened.pauses.add(one.wait_s)
                if one.extra is not None:
                    happened.extras.add(one.extra.least_s)
        if found.unmoved is not None and not self._stall_counted:
            self._stall_counted = True
            happened.stalls.add(found.unmoved.longest_s)
        return found.missing == 0
