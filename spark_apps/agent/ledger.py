"""What a consumer holds of one topic, and everything that Kafka is asked about it.

Rules:
- One request at a time. The commits of partitions that are being closed come first: somebody waits for them.
- Before anything is read, the start is committed; before that, the committed entry is read *after* the grant came.
- Every owner looks at the committed entries at least once per `look_s`, also of an idle partition, and commits nothing
  on a look older than `fresh_s`: a process that slept looks before it writes.
- A newer token in an entry: no further commit, no release. An older one or none: report it and write ours again.
- A commit that Kafka refuses because somebody else took the partition ends our holding, whatever the entries say.
- A commit never goes back, and says only what has passed the sink.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from coordinator_tasks.core.fence import Bounds, NoStart, Start, Verdict, judge, start_position
from coordinator_tasks.core.holding import Grant, Via
from coordinator_tasks.core.model import Committed, Handoff, Release, Token, TopicNode
from coordinator_tasks.core.ports import Clock
from spark_apps.agent.first import FirstOffsets
from spark_apps.agent.held import Held, Phase
from spark_apps.agent.reports import Reports
from spark_apps.agent.settings import Identity, Timing
from spark_apps.agent.work import Commit, Done, Failed, Look, Looked, Measure, Measured, Result, Survey, Surveyed, Work


@dataclass(slots=True)
class Owing:
    """A release that is owed for a partition that does not run here: the committed offset has to be read first."""

    entry: Handoff
    born: int
    unknown: bool = False  # there is no committed offset: the log's bounds decide


@dataclass(frozen=True, slots=True)
class Bar:
    """Why a grant of this topic id up to `epoch` is not taken up again; `by` is the token that fenced it."""

    epoch: int
    topic_id: str
    by: Token | None = None


class Ledger:
    """The holdings of one topic; the holder acquires, stops and forgets them."""

    def __init__(self, identity: Identity, clock: Clock, timing: Timing, reports: Reports) -> None:
        self.held: dict[int, Held] = {}
        self.owing: dict[int, Owing] = {}
        self.answered: dict[int, tuple[Handoff, int, Token]] = {}
        self.bars: dict[int, Bar] = {}
        self.node: TopicNode | None = None
        self.first: FirstOffsets | None = None
        self.flight: Work | None = None
        self._identity = identity
        self._clock = clock
        self._timing = timing
        self._reports = reports
        self._number = 0
        self._asked_at = -inf
        self._look_at = -inf
        self._commit_at = -inf
        self._retry_at = -inf
        self._failures = 0
        self._measured_at = -inf
        self._measure_wanted = False

    # What the holder tells -------------------------------------------------------------------------------------------

    def acquire(self, grant: Grant, node: TopicNode) -> None:
        """Begin to hold a partition."""
        self.held[grant.partition] = Held(grant, node.topic_id, self._number)
        self._reports.clear(grant.partition)

    def owe(self, partition: int, entry: Handoff) -> None:
        """A release is owed for a partition that does not run here."""
        self.owing[partition] = Owing(entry, self._number)

    def committing(self, partition: int) -> bool:
        """Whether a commit of this partition is on its way."""
        return isinstance(self.flight, Commit) and partition in self.flight.offsets

    def want_ends(self) -> None:
        """Somebody plans batches: read the log's ends as soon as that is allowed again."""
        self._measure_wanted = True

    def look_soon(self) -> None:
        """Rely on no earlier look: others may own what we hold."""
        for held in self.held.values():
            held.looked_at = -inf

    # What is due -----------------------------------------------------------------------------------------------------

    def work(self) -> Work | None:
        """The next request to Kafka, if one is due; it has to be answered by `answer` before there is another."""
        now = self._clock.monotonic()
        if self.flight is not None or now < self._retry_at:
            return None
        self.flight = self._next(now)
        if self.flight is not None:
            self._number += 1
            self._asked_at = now
        return self.flight

    def next_at(self) -> float:
        """When something is due next if nothing happens (the clock's monotonic seconds; infinite = never)."""
        due = self._due()
        if self._urgent(due) or self._unknown():
            return self._retry_at
        if not self._lookable():
            return inf
        times = [self._look_at]
        if due:
            times.append(self._commit_at)
        times += [h.looked_at + self._timing.guard_look_s for h in self.held.values() if h.phase is Phase.GUARDING]
        if self._measure_wanted:
            times.append(self._measured_at + self._timing.measure_s)
        return max(min(times), self._retry_at)

    def _next(self, now: float) -> Work | None:
        due = self._due()
        fresh = all(now - h.looked_at <= self._timing.fresh_s for h in due.values())
        if due and fresh and any(h.closing for h in due.values()):
            return self._commit(due)
        lookable = self._lookable()
        if lookable and (not fresh or self._look_due(now)):
            return self._look(lookable)
        if due and (self._urgent(due) or now >= self._commit_at):
            return self._commit(due)
        unknown = self._unknown()
        if unknown:
            return Survey(unknown, self._next_number, self._times_ms(unknown))
        return self._measure(now) or self._recommit(now)

    def _due(self) -> dict[int, Held]:
        return {p: h for p, h in self.held.items() if h.due}

    @staticmethod
    def _urgent(due: Mapping[int, Held]) -> bool:
        """Whether somebody waits for these commits: a start, a stop, an entry that was overwritten."""
        return any(h.closing or h.rewrite or h.committed is None for h in due.values())

    def _lookable(self) -> tuple[int, ...]:
        return tuple(sorted({p for p, h in self.held.items() if not h.fenced} | self.owing.keys()))

    def _unknown(self) -> tuple[int, ...]:
        """Partitions without any position, so that the log's bounds decide."""
        held = {p for p, h in self.held.items() if h.phase is Phase.SURVEYING and not h.closing}
        return tuple(sorted(held | {p for p, owing in self.owing.items() if owing.unknown}))

    def _times_ms(self, partitions: Iterable[int]) -> dict[int, int]:
        first, node = self.first, self.node
        if first is None or node is None:
            return {}
        times = {p: first.time_ms(p) for p in partitions if p < node.initial_partitions}
        return {p: at for p, at in times.items() if at is not None}

    @property
    def _next_number(self) -> int:
        return self._number + 1

    def _look(self, partitions: tuple[int, ...]) -> Look:
        topic_id = self.node.topic_id if self.node is not None else ""
        held = {p: h.token for p, h in self.held.items() if not h.fenced and h.topic_id == topic_id}
        return Look(partitions, self._next_number, topic_id, held)

    def _look_due(self, now: float) -> bool:
        if now >= self._look_at or any(not owing.unknown for owing in self.owing.values()):
            return True
        return any(
            (h.phase is Phase.LOOKING and not h.closing)
            or (h.phase is Phase.GUARDING and now - h.looked_at >= self._timing.guard_look_s and not h.closing)
            for h in self.held.values()
        )

    def _commit(self, due: Mapping[int, Held]) -> Commit:
        self._commit_at = self._clock.monotonic() + self._timing.commit_s
        for held in due.values():
            held.sent = True
        return Commit({p: self._entry(h) for p, h in sorted(due.items())}, self._next_number)

    def _entry(self, held: Held) -> Committed:
        offset = max(held.passed, held.committed or 0)
        return Committed(offset, held.token, self._identity.consumer, self._identity.cluster, held.topic_id)

    def _measure(self, now: float) -> Measure | None:
        ready = {p: h for p, h in self.held.items() if h.phase is Phase.READY and not h.closing}
        allowed = self._measure_wanted and now - self._measured_at >= self._timing.measure_s
        if not ready or not (allowed or any(not h.measured for h in ready.values())):
            return None
        for held in ready.values():
            held.measured = True
        self._measure_wanted = False
        self._measured_at = now
        return Measure(tuple(sorted(ready)), self._next_number)

    def _recommit(self, now: float) -> Commit | None:
        idle = [h for h in self.held.values() if h.phase is Phase.READY and not h.fenced]
        old = {h.grant.partition: h for h in idle if now - h.committed_at >= self._timing.recommit_s}
        return self._commit(old) if old else None

    # What came back --------------------------------------------------------------------------------------------------

    def answer(self, result: Result) -> None:
        """Take the result of the request under way."""
        work, self.flight = self.flight, None
        now = self._clock.monotonic()
        if isinstance(result, Failed):
            self._failed(work, result, now)
            return
        self._failures = 0
        self._reports.clear("kafka")
        if isinstance(work, Commit):
            self._reports.clear("group")
        match work, result:
            case Look() as look, Looked() as looked:
                self._looked(look, looked, now)
            case Commit(offsets, number), Done():
                self._committed(offsets, number, now)
            case Survey(partitions, number), Surveyed() as surveyed:
                self._surveyed(partitions, number, surveyed)
                if surveyed.bounds.keys() < set(partitions):
                    # Kafka does not know them (yet): not asked again at once.
                    self._retry_at = now + self._timing.retry_max_s
            case _, Measured(ends):
                for partition in ends.keys() & self.held.keys():
                    self.held[partition].measure(ends[partition], now)

    def _failed(self, work: Work | None, failed: Failed, now: float) -> None:
        if isinstance(work, Commit) and failed.fenced:
            self._refused(work, failed)
            return
        pause = min(self._timing.retry_max_s, self._timing.retry_s * 2**self._failures)
        self._retry_at = now + pause
        self._failures = min(self._failures + 1, 10)
        self._reports.add("group" if failed.refused else "kafka", failed.reason)
        if not isinstance(work, Commit):
            return
        for partition, held in self._mine(work.offsets, work.number):
            held.failing_at = held.failing_at if held.failing_at is not None else now
            if held.phase is Phase.READY and not held.closing and now - held.failing_at >= self._timing.give_up_s:
                held.closing = True
                self.bars[partition] = Bar(held.token.epoch, held.topic_id)
                lasted = f"its commits failed for {self._timing.give_up_s:g} s"
                self._reports.add(partition, f"partition {partition} stopped: {lasted}: {failed.reason}")

    def _refused(self, work: Commit, failed: Failed) -> None:
        """The broker knows a newer owner, or one that was wrong: we stop either way, and hold it again when granted anew."""
        for partition, held in self._mine(failed.fenced, work.number):
            held.fence()
            self.bars[partition] = Bar(held.token.epoch, held.topic_id)
            self._reports.add(partition, f"partition {partition} stopped: {failed.reason}")

    def _mine(self, partitions: Iterable[int], number: int) -> list[tuple[int, Held]]:
        """The holdings that a request was about: one that began after it is another one."""
        found = [(p, self.held[p]) for p in partitions if p in self.held]
        return [(p, h) for p, h in found if number > h.born]

    def _looked(self, look: Look, looked: Looked, now: float) -> None:
        self._look_at = self._asked_at + self._timing.look_s
        entries = looked.entries
        for partition, held in self._mine(look.partitions, look.number):
            if looked.topic_id not in ("", held.topic_id):
                self._created_anew(partition, held, looked.topic_id)
            elif not held.fenced:
                self._judge(partition, held, entries.get(partition), now)
        for partition in look.partitions:
            owing = self.owing.get(partition)
            if owing is not None and look.number > owing.born:
                self._owed(partition, owing, entries.get(partition))

    def _created_anew(self, partition: int, held: Held, topic_id: str) -> None:
        """Our position means other records now: nothing more is committed."""
        held.fence()
        self.bars[partition] = Bar(held.token.epoch, held.topic_id)
        self._reports.add(
            f"topic id {partition}",
            f"partition {partition} stopped: its topic was created anew in Kafka (topic id {topic_id}, held is "
            f"{held.topic_id}); remove the topic from the coordinator and add it again with a new group.id",
        )

    def _judge(self, partition: int, held: Held, entry: Committed | None, now: float) -> None:
        held.looked_at = self._asked_at
        if entry is not None and entry.topic_id not in ("", held.topic_id):
            self._reports.add(
                f"topic id {partition}",
                f"partition {partition}: the commit of {entry.owner or 'somebody'} for another topic id "
                f"({entry.topic_id}) is ignored: the topic was created anew",
            )
        verdict = judge(held.token, entry, held.topic_id, self._identity.consumer)
        if verdict is Verdict.FENCED and entry is not None:
            held.fence()
            self.bars[partition] = Bar(held.token.epoch, held.topic_id, entry.token)
            owner = entry.owner or "another owner"
            self._reports.add(partition, f"partition {partition} was taken by {owner} ({_shown(entry.token)}): stopped")
        elif held.phase in (Phase.LOOKING, Phase.STARTING):
            self._place(partition, held, entry)
        elif held.phase is Phase.GUARDING:
            held.guard(verdict, entry, now, self._timing.guard_s)
        elif held.phase is Phase.READY and (verdict is Verdict.REWRITE or _behind(entry, held)):
            held.rewrite = True
            who = "nobody" if entry is None else entry.owner or "an unknown client"
            self._reports.add(
                f"rewritten {partition}",
                f"partition {partition}: its committed entry was overwritten by {who} and written again",
            )

    def _place(self, partition: int, held: Held, entry: Committed | None) -> None:
        known = entry is not None and entry.topic_id in ("", held.topic_id)
        if held.grant.release is None and not known:
            # A start that was found in the log already stands: looking for it at every look, slow brokers would never
            # let it be committed.
            held.phase = Phase.SURVEYING if held.phase is Phase.LOOKING else held.phase
            return
        held.place(self._start(partition, entry, held.grant.release, Bounds(0, 0)).offset)

    def _surveyed(self, partitions: Iterable[int], number: int, surveyed: Surveyed) -> None:
        for partition, held in self._mine(partitions, number):
            if held.phase is Phase.SURVEYING and partition in surveyed.bounds:
                try:
                    held.place(self._initial(partition, surveyed).offset)
                except NoStart as error:
                    held.closing = True
                    self.bars[partition] = Bar(held.token.epoch, held.topic_id)
                    self._reports.add(partition, str(error))
        for partition in partitions:
            owing = self.owing.get(partition)
            if owing is not None and owing.unknown and partition in surveyed.bounds:
                try:
                    offset = self._initial(partition, surveyed).offset
                except NoStart as error:
                    self._reports.add(partition, str(error))
                    continue
                self._settle_debt(partition, owing, offset, None)

    def _initial(self, partition: int, surveyed: Surveyed) -> Start:
        """Where nothing is committed and nothing was released: as the application wants it, else the topic's rule."""
        bounds, node = surveyed.bounds[partition], self.node
        wanted = None
        if self.first is not None and node is not None and partition < node.initial_partitions:
            wanted = self.first.start(partition, bounds, surveyed.at.get(partition))
        return wanted or self._start(partition, None, None, bounds)

    def _start(self, partition: int, entry: Committed | None, release: Release | None, bounds: Bounds) -> Start:
        node = self.node
        if node is None:
            raise NoStart(f"partition {partition} is held without a topic node")
        return start_position(partition, entry, release, node.topic_id, node.start, node.initial_partitions, bounds)

    def _committed(self, offsets: Mapping[int, Committed], number: int, now: float) -> None:
        for partition, held in self._mine(offsets, number):
            held.acknowledge(offsets[partition].offset, held.grant.via is Via.GUARDED, now)

    def _owed(self, partition: int, owing: Owing, entry: Committed | None) -> None:
        known = entry is not None and self.node is not None and entry.topic_id in ("", self.node.topic_id)
        if known and entry is not None:
            self._settle_debt(partition, owing, entry.offset, entry.token)
        else:
            owing.unknown = True

    def _settle_debt(self, partition: int, owing: Owing, offset: int, token: Token | None) -> None:
        generation = self.node.generation if self.node is not None else ""
        del self.owing[partition]
        self.answered[partition] = (owing.entry, offset, token or Token(0, 0, generation))


def _behind(entry: Committed | None, held: Held) -> bool:
    """Whether an earlier commit of ours came late and overwrote our last: nothing of ours is on its way now."""
    return entry is not None and entry.offset < (held.committed or 0)


def _shown(token: Token | None) -> str:
    return "unknown" if token is None else f"epoch {token.epoch}, incarnation {token.incarnation}"
