"""The ownership of one topic: what this consumer may run, hands out, commits and releases.

No Spark, no threads, no real time, no ZooKeeper: reads are handed in by `on_node`, `on_releases` and `on_isolated`,
releases to be written wait in `outbox`, requests to Kafka come from `work` and go back to `answer` (or `tick` performs
them at once). A holder is used by one thread at a time. Cut off between any two of these, nothing is lost: the commit
comes first, then the partition is closed, then its release is written.
"""

from collections.abc import Collection, Iterable, Mapping

from coordinator_tasks.core.model import Handoff, Release, Token, TopicNode, TopicStatus
from coordinator_tasks.core.ports import Clock, GroupOffsets
from coordinator_tasks.core.protocol.holding import (
    Changes,
    Grant,
    Reading,
    accepts,
    changes,
    grants,
    may_hold,
    takes_over,
)
from spark_apps.agent.ownership.batch_times import BatchTimes
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.held import Held, Listened
from spark_apps.agent.ownership.ledger import Ledger
from spark_apps.agent.ownership.listening import Happening, Telling, next_telling, starts_after
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.ownership.releasing import Releasing
from spark_apps.agent.ownership.work import Result, Work, perform
from spark_apps.agent.reports import Reports
from spark_apps.agent.settings import Identity, Terms, Timing
from spark_apps.delivery import Standing, Step, Writer
from spark_apps.records.batches import Range


class Holder:
    """One topic of one incarnation. `acquiring` False = start nothing before `open` (until a query reads).

    `outstanding`: the number and the ranges of the batch that is handed out and not covered; there is one at most.
    """

    def __init__(
        self, topic: str, identity: Identity, clock: Clock, timing: Timing | None = None, *, acquiring: bool = True
    ) -> None:
        self.topic = topic
        self.identity = identity
        self.reports = Reports()
        self.picture: TopicNode | None = None
        self.alive = True
        timing = timing or Timing()
        self._ledger = Ledger(identity, clock, timing, self.reports)
        self._releasing = Releasing(identity, self._ledger, clock, timing)
        self._clock = clock
        self._fresh_s = timing.fresh_s
        self._acquiring = acquiring
        self._isolated = False
        self._void: tuple[str, int] | None = None
        self._astray = False
        self._stopping = False
        self._releases: dict[int, Release] = {}
        self.outstanding: tuple[int, tuple[Range, ...]] | None = None
        self._last_batch: dict[str, float] = {}
        self._batch_times = BatchTimes()
        self._granted: dict[int, Grant] | None = None

    # Events ----------------------------------------------------------------------------------------------------------

    def on_node(self, seen: TopicNode) -> Reading:
        """A read of the topic node; acts on it if it is newer, else keeps the picture and reports it.

        Kept: what runs goes on, and what is granted and not begun waits, for somebody else may have it by now.
        """
        reading = accepts(self.picture, seen)
        if reading in (Reading.ACT, Reading.SAME):
            kept_back = self._astray or self._void is not None
            self._astray, self._void = False, None
            self.reports.clear("node")
            if reading is Reading.ACT:
                self._resume(seen.paused)
                self.picture = self._ledger.node = seen
                self._releases = {p: r for p, r in self._releases.items() if p in seen.handoff or p in seen.assignments}
            if reading is Reading.ACT or kept_back:
                self._changed()
        elif self.picture is not None:
            self._astray = True
            self.reports.add(
                "node",
                f"the topic node has epoch {seen.epoch} of generation {seen.generation!r}, older than or foreign to "
                f"epoch {self.picture.epoch} of {self.picture.generation!r} that is acted on: kept",
            )
        return reading

    def on_unreadable(self, sentence: str) -> None:
        """The topic node has vanished or cannot be read: hold, begin nothing, and say so."""
        self._astray = True
        self.reports.add("node", sentence)

    def on_releases(self, releases: Mapping[int, Release]) -> None:
        """Reads of partition nodes. An older read never replaces a newer one."""
        for partition, release in releases.items():
            known = self._releases.get(partition)
            if known is None or release.epoch >= known.epoch:
                self._releases[partition] = release
        self._changed()

    def on_isolated(self, isolated: bool) -> None:
        """Our own directive: an isolated consumer stops everything and releases nothing."""
        if isolated and not self._isolated:
            self._ledger.look_soon()
        self._isolated = isolated
        self._changed()

    def on_isolation_lost(self) -> None:
        """ZooKeeper has lost the directive that isolated us, which no readmission does.

        What was granted until then is not taken up again unless the topic's node says so once more: somebody else may have
        it by a node that we have not seen.
        """
        if self.picture is not None:
            self._void = (self.picture.generation, self.picture.epoch)
        self.on_isolated(False)

    def agree(self, terms: Terms) -> None:
        """How the topic is delivered; before anything is granted."""
        self._ledger.terms = terms

    def open(self, first: FirstOffsets | None = None, *, fail_on_data_loss: bool = True) -> None:
        """A query reads now: start what is granted; `first` is what its options say of new groups."""
        if first is not None:
            self._ledger.first = first
        self._ledger.fail_on_data_loss = fail_on_data_loss
        self._acquiring = True
        self._settle()

    def stop(self, why: str = "") -> None:
        """Stop everything for good, and commit what passed the sink; nothing is released."""
        if why:
            self.reports.add("stopped", why)
        self._stopping = True
        self._changed()

    def query_ended(self, why: str) -> None:
        """The query is terminated and no task of it is active: what it did not pass is not ours to finish."""
        self.alive = False
        self.outstanding = None
        self._batch_times.drop()
        for held in self._ledger.held.values():
            held.discard()
        self.stop(why)

    def released(self, partition: int, epoch: int) -> None:
        """Our release is on the partition's node, or a newer one is."""
        self._releasing.note(partition, epoch)

    @property
    def outbox(self) -> Mapping[int, Release]:
        """By partition: the releases that wait to be written on its node."""
        return self._releasing.outbox

    @property
    def posted(self) -> Mapping[int, Release]:
        """Those of them that are to be written now."""
        return self._releasing.posted

    # Batches ---------------------------------------------------------------------------------------------------------

    def readable(self) -> dict[int, Held]:
        """The partitions that may be part of the next batch: those that are ready, on a look as fresh as a commit needs."""
        now = self._clock.monotonic()
        return {p: h for p, h in self.ready().items() if h.is_sure(now, self._fresh_s)}

    def ready(self) -> dict[int, Held]:
        """The partitions that have started and are neither paused nor being closed."""
        paused = self.picture.paused if self.picture is not None else frozenset()
        held = self._ledger.held.items()
        return {p: h for p, h in held if h.phase is Phase.READY and not h.closing and p not in paused}

    @property
    def starting(self) -> bool:
        """Something was granted and is ready soon."""
        soon = (Phase.LOOKING, Phase.STARTING)
        return any(h.phase in soon and not h.closing for h in self._ledger.held.values())

    @property
    def expecting(self) -> bool:
        """A partition is on its way to us: its release is awaited, or it is taken up and not ready yet."""
        taken_up = any(h.phase is not Phase.READY and not h.closing for h in self._ledger.held.values())
        return self._ledger.awaiting or taken_up

    def hand_out(self, batch: int, ranges: Collection[Range]) -> None:
        """A batch is planned, the one before it is covered: from now on its partitions count as running."""
        for one in ranges:
            self._ledger.held[one.partition].hand_out(one.end, self._ledger.terms.commit_first)
        self.outstanding = (batch, tuple(ranges))
        offsets = sum(one.size for one in ranges)
        self._batch_times.begin(offsets, self._clock.monotonic())
        self._last_batch = {"batch": float(batch), "offsets": float(offsets), "planned_at": self._clock.now()}

    def cover(self, batch: int) -> None:
        """Everything up to this batch has passed the sink."""
        if self.outstanding is not None and self.outstanding[0] <= batch:
            _, ranges = self.outstanding
            self.outstanding = None
            for one in ranges:
                held = self._ledger.held.get(one.partition)
                if held is not None and held.token.epoch == one.token_epoch:
                    held.cover(one.end, self._clock.monotonic())
            self._batch_times.end(self._clock.monotonic())
            self._last_batch["passed_at"] = self._clock.now()
        self._settle()

    def refuse(self, refused: Mapping[int, Standing]) -> None:
        """The sink has left out these partitions of the batch under way: another owner's token stands there."""
        for partition in refused.keys() & self._ledger.held.keys():
            self._ledger.refused(partition, refused[partition])
        self.withdraw(refused.keys())

    def unconfirmed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Of the batch handed out: the partitions that wait for their commit, and those that must not be delivered."""
        held, found = self._ledger.held, self.outstanding
        if found is None or not self._ledger.terms.commit_first:
            return frozenset(), frozenset()
        mine = {one for one in found[1] if one.partition in held and not self._barred(one.partition, one.token_epoch)}
        waiting = {one.partition for one in mine if not held[one.partition].has_committed(one.end)}
        return frozenset(waiting), frozenset(one.partition for one in found[1] if one not in mine)

    def withdraw(self, partitions: Collection[int]) -> None:
        """These are no longer part of the batch handed out: nothing of it has passed the sink."""
        if self.outstanding is not None:
            batch, ranges = self.outstanding
            self.outstanding = (batch, tuple(one for one in ranges if one.partition not in partitions))
        for partition in self._ledger.held.keys() & set(partitions):
            self._ledger.held[partition].discard()
        self._settle()

    @property
    def writer(self) -> Writer:
        """As whom we write to a sink that keeps the positions."""
        topic_id = self.picture.topic_id if self.picture is not None else ""
        return Writer(self.identity.cluster, self.topic, topic_id, self.identity.consumer)

    def adds(self) -> dict[int, Step]:
        """What the batch under way adds to each partition."""
        held, ranges = self._ledger.held, self.outstanding[1] if self.outstanding is not None else ()
        return {p.partition: Step(held[p.partition].token, p.start, p.end) for p in ranges if p.partition in held}

    def waits(self, partitions: Iterable[int]) -> None:
        """The planner lets records of these partitions wait, for a batch that is worth it: they are not stalled."""
        for partition in partitions:
            self._ledger.held[partition].progressed_at = self._clock.monotonic()

    def want_ends(self) -> None:
        """Batches are being planned: keep the log's ends fresh."""
        self._ledger.want_ends()

    def cannot_read(self, refused: Mapping[int, str]) -> None:
        """Kafka gives nothing at the positions of these partitions, each with its reason: look whether the log has them."""
        for partition, why in refused.items():
            self.reports.add(f"read {partition}", f"partition {partition} cannot be read: {why}; it is asked for again")
        self._ledger.want_bounds()

    def reach(self) -> dict[int, tuple[int, int]]:
        """What has passed the sink and the log's end as last read, of what is held."""
        held = self._ledger.held.items()
        return {p: (min(h.passed, h.end), h.end) for p, h in held if h.end is not None}

    @property
    def caught_up(self) -> bool:
        """Something is held, nothing more is on its way to us, and all that was there when it was taken up has passed."""
        paused = self.picture.paused if self.picture is not None else frozenset()
        held = {p: h for p, h in self._ledger.held.items() if p not in paused}
        done = all(h.phase is Phase.READY and h.goal is not None and h.passed >= h.goal for h in held.values())
        return bool(self._ledger.held) and done and self.outstanding is None and not self.awaited()

    # Kafka -----------------------------------------------------------------------------------------------------------

    def work(self) -> Work | None:
        """The request to Kafka that is due, if any; answer it before asking for the next."""
        return self._ledger.work()

    def answer(self, result: Result) -> None:
        """The result of the request that `work` gave."""
        self._ledger.answer(result)
        self._settle()

    def tick(self, offsets: GroupOffsets, limit: int = 20) -> None:
        """Perform all that is due, at most `limit` requests."""
        for _ in range(limit):
            work = self.work()
            if work is None:
                return
            self.answer(perform(offsets, self.topic, work))

    def next_at(self) -> float:
        """When `work` has something next if nothing happens, in the clock's monotonic seconds."""
        return self._ledger.next_at()

    # The application ---------------------------------------------------------------------------------------------------

    def telling(self) -> Telling | None:
        """What the application is to be told now; answer it before asking for the next."""
        telling = next_telling(self._ledger.held, self._isolated)
        for partition in telling.offsets if telling is not None else ():
            self._ledger.held[partition].listened = Listened.ASSIGNED
        return telling

    def told(self, telling: Telling, wanted: Mapping[int, int]) -> None:
        """It has been told; `wanted`: where it wants partitions to begin instead."""
        held = self._ledger.held
        starts, left_out = starts_after(held, telling, wanted, adjustable=not self._ledger.terms.claims)
        for partition, start in starts.items():
            held[partition].told(start)
        if telling.happening is not Happening.ASSIGNED:
            for partition in telling.offsets:
                held[partition].listened = Listened.ALL
        for sentence in left_out:
            self.reports.add("listener", sentence)
        self._settle()

    # What others see -------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing is held and nothing is to be released."""
        return not (self._ledger.held or self._ledger.owing or self.outbox)

    @property
    def opened(self) -> bool:
        """Whether a query has begun to read."""
        return self._acquiring

    @property
    def involved(self) -> bool:
        """The picture still names us as owner, giver or taker, or something is still held."""
        consumer, picture = self.identity.consumer, self.picture
        if not self.idle:
            return True
        if picture is None or picture.removed or picture.incarnations.get(consumer) != self.identity.incarnation:
            return False
        if self._isolated or self._stopping:
            return False
        given = any(
            entry.giver == consumer and not self._releasing.is_written(p, entry) for p, entry in picture.handoff.items()
        )
        return given or consumer in picture.assignments.values()

    @property
    def granted_incarnation(self) -> int | None:
        """The incarnation of ours that the picture names as owner, giver or taker; `None` if it does not name us."""
        return self.picture.incarnations.get(self.identity.consumer) if self.picture is not None else None

    def awaited(self) -> dict[int, Handoff]:
        """The entries whose release we wait for: their partition nodes are to be watched."""
        entries = takes_over(self.picture, self.identity.consumer, self.identity.incarnation, self._isolated)
        return {p: e for p, e in entries.items() if p not in self._ledger.held}

    def stalled(self, limit_s: float) -> tuple[int, ...]:
        """Partitions with lag that have made no progress for `limit_s`."""
        now = self._clock.monotonic()
        ready = self.ready().items()
        return tuple(sorted(p for p, h in ready if (h.lag or 0) > 0 and now - h.progressed_at > limit_s))

    def overdue(self, limit_s: float) -> str:
        """Why the batch under way is taken for stuck: it takes longer than `limit_s` and far longer than is usual."""
        now = self._clock.monotonic()
        return self._batch_times.told(now) if self._batch_times.exceeds(now, limit_s) else ""

    def kept(self, limit_s: float, most_s: float) -> str:
        """Which partitions cannot be given away because their batch does not end; empty = none.

        It has taken longer than `limit_s` and far longer than is usual, or longer than `most_s`.
        """
        now = self._clock.monotonic()
        mine = sorted(p for p, h in self._ledger.held.items() if h.closing and h.pending)
        if not mine or not self._batch_times.exceeds(now, limit_s, most_s):
            return ""
        return f"partitions {mine} were taken away and cannot stop: {self._batch_times.told(now)}"

    def status(self) -> TopicStatus:
        """What our interface says of this topic."""
        picture = self.picture
        paused = picture.paused if picture is not None else frozenset()
        counted = {p: h for p, h in sorted(self._ledger.held.items()) if h.sent or h.pending}
        return TopicStatus(
            generation=picture.generation if picture is not None else "",
            acted_epoch=picture.epoch if picture is not None else 0,
            held=may_hold(picture, self.identity.consumer, self.identity.incarnation, self._isolated),
            running={p: h.status(self.alive, p in paused) for p, h in counted.items()},
            query_alive=self.alive,
            reports=self.reports.all(),
            last_batch=dict(self._last_batch),
        )

    def _resume(self, paused: Collection[int]) -> None:
        """A partition that is no longer paused has made no progress for a good reason."""
        before = self.picture.paused if self.picture is not None else frozenset()
        for partition in before - frozenset(paused):
            if partition in self._ledger.held:
                self._ledger.held[partition].progressed_at = self._clock.monotonic()

    # The rules -------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """What is granted may have changed."""
        self._granted = None
        self._settle()
        self._ledger.awaiting = bool(self.awaited())

    def _settle(self) -> None:
        """Bring what is held in line with what may be held; repeated, because a stop may allow a release or a start."""
        owed = {} if self._stopping else self._releasing.owed(self.picture, self._isolated)
        generation = self.picture.generation if self.picture is not None else ""
        self._releasing.prune(owed)
        while True:
            due = self._steps(owed)
            for partition in due.stop:
                self._ledger.held[partition].closing = True
            held = self._ledger.held.items()
            closed = [p for p, h in held if h.closing and h.done and not self._ledger.committing(p)]
            for partition in closed:
                ended = self._ledger.held.pop(partition)
                if partition in owed:
                    self._releasing.closed(ended, owed[partition], generation)
            if not closed:
                break
        for grant in due.start:
            if self.picture is not None:
                self._ledger.acquire(grant, self.picture)
        self._releasing.owe(due.release, owed, generation)

    def _steps(self, owed: Mapping[int, Handoff]) -> Changes:
        running = {p: h.token for p, h in self._ledger.held.items()}
        closing = {p for p, h in self._ledger.held.items() if h.closing}
        mine = self.identity
        if self._granted is None:
            isolated = self._isolated or self._stopping
            found = grants(self.picture, mine.consumer, mine.incarnation, self._releases, isolated)
            self._granted = {p: grant for p, grant in found.items() if not self._is_void(grant.token)}
        allowed = {p: g for p, g in self._granted.items() if not self._barred(p, g.token.epoch)}
        if self._astray or not self._acquiring:
            allowed = {p: g for p, g in allowed.items() if p in running}
        return changes(allowed, running, closing, owed, self._releasing.written)

    def _is_void(self, token: Token) -> bool:
        return self._void is not None and token.generation == self._void[0] and token.epoch <= self._void[1]

    def _barred(self, partition: int, epoch: int) -> bool:
        bar, picture = self._ledger.bars.get(partition), self.picture
        # What stopped a holding of a topic says nothing of the one that was created anew under its name.
        return bar is not None and epoch <= bar.epoch and picture is not None and bar.topic_id == picture.topic_id
