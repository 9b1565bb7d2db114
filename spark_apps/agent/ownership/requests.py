"""Requests to Kafka and to the sink about one topic, and the effects of the answers.

Rules (`schedule` decides which request is due):
- One request at a time. Commits of closing partitions come first, because another consumer waits for them.
- After a grant, the committed entry is fetched, then the start is committed, then the partition is read.
- The committed entries are fetched at least once per `look_s`, also of idle partitions. If the last fetch is older than
  `fresh_s`, nothing is handed out or committed: a process that slept fetches first. A late commit of this process may
  have replaced a newer owner's entry, so the process waits for `cool_down_s` until the newer owner has written again.
- An entry has a newer token: commit nothing more, and do not release. An entry has an older token or none: report the
  client, and write our entry again.
- Kafka refuses a commit because the partition has a new owner: our holding ends, whatever the entries say.
- A commit never goes back, and covers only passed offsets. One exception: the log has lost the position, and the
  application allows another start (`bounds`).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coordinator_tasks.core.model import Committed, Failure, Release, StartRule, Token
from coordinator_tasks.core.ports import Clock
from coordinator_tasks.core.protocol.fence import (
    Bounds,
    Judgement,
    NoStart,
    Start,
    credible,
    judge,
    sought,
    start_position,
)
from coordinator_tasks.core.protocol.holding import Via
from spark_apps.agent.ownership.bounds import misplaced, overtaken
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.holdings import Holdings, OwedRelease
from spark_apps.agent.ownership.owned_partition import Listened, OwnedPartition, shown
from spark_apps.agent.ownership.phases import Phase, PhaseEvent
from spark_apps.agent.ownership.schedule import Schedule
from spark_apps.agent.ownership.work import (
    Commit,
    CommitDone,
    Failed,
    FetchedOffsets,
    ListBounds,
    ListedBounds,
    ListedOffsets,
    ListOffsets,
    OffsetFetch,
    Result,
    SinkClaim,
    SinkClaimed,
    Work,
)
from spark_apps.agent.reports import Reports
from spark_apps.agent.settings import Identity, Timing
from spark_apps.delivery import SinkEntry, StateElsewhere

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _ClaimsFailed:
    """The failed claims in a row: the last failure, their number, and when they began (monotonic seconds)."""

    failed: Failed
    tries: int
    since: float


class Requests:
    """Requests to Kafka and the sink, one at a time; `work` returns the due request, `answer` takes the result."""

    def __init__(
        self, identity: Identity, holdings: Holdings, grants: Grants, clock: Clock, timing: Timing, reports: Reports
    ) -> None:
        self._identity = identity
        self._holdings = holdings
        self._grants = grants
        self._clock = clock
        self._timing = timing
        self._reports = reports
        self._schedule = Schedule(holdings, identity, clock, timing)
        self._claims_failed: _ClaimsFailed | None = None

    # Due requests
    # -------------------------------------------------------------------------------------------------------

    def work(self) -> Work | None:
        """Return the due request, if any. Answer the request before asking for the next."""
        if self._holdings.request is not None:
            return None
        self._holdings.request = self._schedule.next()
        return self._holdings.request

    def next_at(self) -> float:
        """Return when the next request is due if nothing happens (monotonic seconds; infinite = never)."""
        return self._schedule.next_at()

    def want_ends(self) -> None:
        self._schedule.want_ends()

    @property
    def ends_at(self) -> float:
        return self._schedule.ends_at

    def unclaimed(self) -> tuple[Failure, ...]:
        """Return the partitions that wait because the sink took no claim, with the reason; empty if none."""
        one, now = self._claims_failed, self._clock.monotonic()
        waiting = tuple(
            sorted(p for p, h in self._holdings.held.items() if h.phase is Phase.CLAIMING and not h.closing)
        )
        if one is None or not waiting:
            return ()
        next_s = max(0.0, self._schedule.claim_at - now)
        return (Failure(waiting, one.failed.reason, one.tries, now - one.since, next_s, one.failed.away),)

    def cannot_read(self, refused: Mapping[int, str]) -> None:
        """Compare positions with the log: Kafka returns no records there. `refused`: partition → Kafka's reason."""
        for partition, why in refused.items():
            if partition in self._holdings.held:
                self._reports.add(
                    f"read {partition}", f" cannot be read: {why}; it is asked for again", partition=partition
                )
        self._schedule.want_bounds()
        self._schedule.want_ends()

    # Answers
    # -----------------------------------------------------------------------------------------------------------

    def answer(self, result: Result) -> None:
        """Take the result of the request that `work` returned."""
        work, self._holdings.request = self._holdings.request, None
        self._take(work, result)
        self._grants.apply()

    def _take(self, work: Work | None, result: Result) -> None:
        now = self._clock.monotonic()
        if isinstance(work, Commit):
            self._cool_down(work, now)
        if isinstance(result, Failed):
            self._failed(work, result, now)
            return
        self._schedule.answered()
        self._reports.clear("sink" if isinstance(work, SinkClaim) else "kafka")
        if isinstance(work, Commit):
            self._reports.clear("group")
        match work, result:
            case OffsetFetch() as fetch, FetchedOffsets() as fetched:
                self._fetched(fetch, fetched, now)
            case Commit(offsets, number), CommitDone() as done:
                self._committed(offsets, number, done, now)
            case ListBounds(partitions, number), ListedBounds() as listed:
                self._bounds_listed(partitions, number, listed)
                if set(partitions) & set(self._holdings.unknown):
                    self._schedule.pause_bounds()
            case SinkClaim() as claim, SinkClaimed(found):
                self._claimed(claim, found)
            case ListOffsets(partitions, number), ListedOffsets() as listed:
                self._ends_listed(partitions, number, listed, now)

    def _cool_down(self, work: Commit, now: float) -> None:
        if now - self._schedule.asked_at > self._timing.fresh_s:
            for _, held in self._holdings.of_request(work.offsets, work.number):
                held.cool_until = now + self._timing.cool_down_s

    def _failed(self, work: Work | None, failed: Failed, now: float) -> None:
        if isinstance(work, SinkClaim):
            before = self._claims_failed
            tries, since = (1, now) if before is None else (before.tries + 1, before.since)
            self._claims_failed = _ClaimsFailed(failed, tries, since)
            self._schedule.pause_claims()
            self._reports.add("sink", failed.reason)
            return
        if isinstance(work, Commit) and failed.fenced:
            self._refused(work, failed)
            return
        if isinstance(work, ListBounds):
            self._schedule.pause_bounds()
        self._schedule.failed()
        self._reports.add("group" if failed.refused else "kafka", failed.reason)
        match work:
            case Commit(offsets, number):
                waiting = self._holdings.of_request(offsets, number)
            case OffsetFetch(number=number):  # without a recent fetch nothing is committed
                waiting = self._holdings.of_request(self._holdings.due, number)
            case _:
                return
        for partition, held in waiting:
            self._commit_fails(partition, held, failed.reason, now)

    def _commit_fails(self, partition: int, held: OwnedPartition, why: str, now: float) -> None:
        held.commits.farewell = False  # this commit only records a pause, so it is not retried
        since = held.commits.failing_at = held.commits.failing_at if held.commits.failing_at is not None else now
        if held.phase is Phase.READY and not held.closing and now - since >= self._timing.give_up_s:
            self._holdings.stop(held)
            lasted = f"its commits failed for {self._timing.give_up_s:g} s"
            self._reports.add(partition, f" stopped: {lasted}: {why}", partition=partition)

    def _defer(self, partition: int, held: OwnedPartition, why: str, now: float) -> None:
        """Let a partition wait alone, because Kafka fails only this partition's part of the request."""
        held.deferred = True
        self._reports.add(f"commit {partition}", f" cannot be committed: {why}", partition=partition)
        if held.due:
            self._commit_fails(partition, held, why, now)

    def _refused(self, work: Commit, failed: Failed) -> None:
        """End holdings after a refused commit: the broker knows a newer owner. Only a newer grant starts them again."""
        for partition, held in self._holdings.of_request(failed.fenced, work.number):
            self._holdings.fence(held)
            self._reports.add(partition, f" stopped: {failed.reason}", partition=partition)

    def _fetched(self, fetch: OffsetFetch, fetched: FetchedOffsets, now: float) -> None:
        self._schedule.fetched(bool(fetch.partitions), fetched.topic_id)
        if fetched.topic_id:
            self._holdings.described = (fetched.topic_id, fetched.partition_count)
        known = self._holdings.accepted.epoch if self._holdings.accepted is not None else 0
        entries = {partition: credible(entry, known) for partition, entry in fetched.entries.items()}
        for partition, held in self._holdings.of_request(fetch.partitions, fetch.number):
            held.deferred = False
            if fetched.topic_id and fetched.topic_id != held.topic_id:
                self._recreated(partition, held, fetched.topic_id)
            elif not held.fenced:
                if partition in fetched.unheld:
                    self._defer(partition, held, fetched.unheld[partition], now)
                elif not held.due:
                    self._reports.clear(f"commit {partition}")
                self._judge(partition, held, entries.get(partition), now)
        for partition in fetch.partitions:
            owed_release = self._holdings.owed_releases.get(partition)
            if owed_release is not None and fetch.number > owed_release.born:
                self._answer_owed(partition, owed_release, entries.get(partition))

    def _recreated(self, partition: int, held: OwnedPartition, topic_id: str) -> None:
        """End a holding because the topic was recreated: the position belongs to other records now."""
        self._holdings.fence(held)
        self._reports.add(
            f"topic id {partition}",
            f" stopped: its topic was recreated in Kafka (topic id {topic_id}, held is "
            f"{held.topic_id}), or this consumer is set to another Kafka than the coordinator; "
            "remove the topic from the coordinator and add it again, or correct the consumer's bootstrap.servers",
            partition=partition,
        )

    def _judge(self, partition: int, held: OwnedPartition, entry: Committed | None, now: float) -> None:
        held.looked_at = self._schedule.asked_at
        if entry is not None and entry.topic_id not in ("", held.topic_id):
            self._reports.add(
                f"topic id {partition}",
                f": the commit of {entry.owner} for another topic id "
                f"({entry.topic_id}) is ignored: the topic was recreated",
                partition=partition,
            )
        verdict = judge(held.token, entry, held.topic_id, self._identity.consumer)
        if entry is not None and entry.token is not None and entry.token.epoch < held.token.epoch:
            held.passes.before = entry.last_pass or held.passes.before
        if verdict is Judgement.FENCED and entry is not None:
            self._holdings.fence(held, entry.token)
            by = f"taken by {entry.owner} ({shown(entry.token)}): stopped"
            self._reports.add(partition, f" was {by}", partition=partition, several=f" were {by}")
        elif held.phase in (Phase.FETCHING, Phase.STARTING) and not held.start.given:
            if not held.deferred:  # a commit of a former owner could still follow this fetch
                self._place(partition, held, entry)
        elif held.phase is Phase.GUARDING:
            held.guard(verdict, entry, now, self._timing.guard_s)
        elif held.phase is Phase.READY and (verdict is Judgement.REWRITE or _behind(entry, held)):
            held.commits.rewrite = True
            if verdict is Judgement.REWRITE and entry is not None and entry.topic_id in ("", held.topic_id):
                held.commits.overwritten = (entry, now)
            lost = "is gone (the group or its offsets were deleted, or have expired)"
            was = lost if entry is None else f"was overwritten by {entry.owner or 'an unknown client'}"
            self._reports.add(
                f"rewritten {partition}", f": its committed entry {was}; it was written again", partition=partition
            )

    def _place(self, partition: int, held: OwnedPartition, entry: Committed | None) -> None:
        known = entry is not None and entry.topic_id in ("", held.topic_id)
        accepted = self._holdings.accepted
        asked = accepted.seeks.get(partition) if accepted is not None else None
        seek = sought(entry, held.grant.release, held.topic_id, asked)
        if seek is not None:
            self._begin(held, seek.offset)
            held.start.sought = seek.epoch
            return
        if known and entry is not None and _left_state(entry, held.start.first_epoch):
            self._holdings.stop(held)
            self._reports.add(partition, f" stopped: {_elsewhere(partition, entry).told}", partition=partition)
            return
        if held.grant.release is None and not known:
            # A start found in the log stays. A search at each fetch would, with slow brokers, never let the start be
            # committed.
            if held.phase is Phase.FETCHING:
                held.advance(PhaseEvent.NOT_COMMITTED)
            return
        start = self._start(partition, entry, held.grant.release, Bounds(0, 0))
        stands = held.grant.release if start.source == "release" else entry
        if stands is not None and stands.token is not None:
            found = (stands.token, start.offset)
            held.start.shown = found if held.start.shown is None else max(held.start.shown, found)
        # While our start is under way, a late commit of an earlier owner may replace an entry seen in an earlier fetch.
        self._begin(held, start.offset if held.start.shown is None else held.start.shown[1])

    def _begin(self, held: OwnedPartition, offset: int) -> None:
        to_tell = self._holdings.terms.listening and held.listened is Listened.NOTHING
        held.place(offset, PhaseEvent.START_TO_TELL if to_tell else PhaseEvent.START_KNOWN)

    def _claimed(self, claim: SinkClaim, found: Mapping[int, SinkEntry]) -> None:
        """Begin at the sink's positions. A partition missing in the answer is claimed again."""
        self._claims_failed = None
        for partition, held in self._holdings.of_request(claim.tokens, claim.number):
            standing = found.get(partition)
            if standing is None:
                continue
            if standing.refuses(held.token, self._identity.consumer):
                self._grants.refused(partition, standing)
            elif standing.offset is None:
                held.start.first_epoch = standing.first_epoch
                held.advance(PhaseEvent.NOT_IN_SINK)
            else:
                self._begin(held, standing.offset)
                held.start.given = True
        if found.keys() < claim.tokens.keys():
            self._schedule.pause_claims()

    def _bounds_listed(self, partitions: Iterable[int], number: int, listed: ListedBounds) -> None:
        self._note_leaderless(partitions, listed.bounds)
        for partition, held in self._holdings.of_request(partitions, number):
            if held.phase is Phase.LISTING and partition in listed.bounds:
                try:
                    self._begin(held, self._initial(partition, listed).offset)
                except NoStart as error:
                    self._holdings.stop(held)
                    self._reports.add(partition, f": {error}", partition=partition)
        for partition in partitions:
            owed_release = self._holdings.owed_releases.get(partition)
            if owed_release is not None and owed_release.unknown and partition in listed.bounds:
                try:
                    offset = self._initial(partition, listed).offset
                except NoStart as error:
                    self._reports.add(partition, f": {error}", partition=partition)
                    continue
                self._release_at(partition, owed_release, offset, None)

    def _initial(self, partition: int, listed: ListedBounds) -> Start:
        """Return the start if there is no commit and no release: the application's choice, or by the topic's rule."""
        bounds, node, first = listed.bounds[partition], self._holdings.accepted, self._holdings.first
        wanted = None
        if first is not None and node is not None and partition < node.initial_partitions:
            wanted = first.start(partition, bounds, listed.at.get(partition))
        return wanted or self._start(partition, None, None, bounds)

    def _start(self, partition: int, entry: Committed | None, release: Release | None, bounds: Bounds) -> Start:
        node = self._holdings.accepted
        if node is None:
            raise NoStart("held without a topic node")
        return start_position(partition, entry, release, node.topic_id, node.start, node.initial_partitions, bounds)

    def _committed(self, offsets: Mapping[int, Committed], number: int, done: CommitDone, now: float) -> None:
        # No former owner's commit can follow: the sink refuses rows, or the broker refuses commits, under an older
        # token.
        refused = done.alone or self._holdings.terms.claims
        for partition, held in self._holdings.of_request(offsets, number):
            if partition in done.failed:
                self._defer(partition, held, done.failed[partition], now)
            else:
                self._reports.clear(f"commit {partition}")
                held.acknowledge(offsets[partition].offset, held.grant.via is Via.GUARDED and not refused, now)

    def _note_leaderless(self, partitions: Iterable[int], known: Mapping[int, object]) -> None:
        for partition in partitions:
            if partition in known:
                self._reports.clear(f"leader {partition}")
            elif partition in self._holdings.held or partition in self._holdings.owed_releases:
                self._reports.add(
                    f"leader {partition}",
                    ": no broker says where its log begins and ends (it has no leader, or is not "
                    "there): nothing more is read of it until one does",
                    partition=partition,
                )

    def _ends_listed(self, partitions: Iterable[int], number: int, listed: ListedOffsets, now: float) -> None:
        self._note_leaderless(partitions, listed.ends)
        for partition, held in self._holdings.of_request(partitions, number):
            if partition not in listed.ends:
                continue
            held.see_end(listed.ends[partition], now)
            beginning = listed.beginnings.get(partition)
            sentence = misplaced(held, beginning, now, self._timing.ahead_s)
            if sentence:
                self._misplaced(partition, held, sentence, beginning)
            elif beginning is not None:
                if self._holdings.fail_on_data_loss is False and (sentence := overtaken(held, beginning)):
                    self._lost(partition, sentence)
                held.log.handed_from = None

    def _misplaced(self, partition: int, held: OwnedPartition, sentence: str, beginning: int | None) -> None:
        """Handle a position that is not in the log: begin by the start rule, or stop the partition."""
        accepted = self._holdings.accepted
        rule = accepted.start if accepted is not None else StartRule.NONE
        if self._holdings.fail_on_data_loss is not False or rule is StartRule.NONE or self._holdings.terms.claims:
            self._stop_lost(partition, held, sentence)
        elif beginning is None:
            self._schedule.want_bounds()
        else:
            target = held.log.offset if rule is StartRule.LATEST and held.log.offset is not None else beginning
            self._lost(partition, f"{sentence}: goes on at {target} ({rule.value}), because failOnDataLoss is false")
            held.jump(target)

    def lose(self, partition: int, sentence: str) -> None:
        """Stop a partition whose next records an executor did not find. Compare the other positions with the log."""
        if partition in self._holdings.held:
            self._stop_lost(partition, self._holdings.held[partition], sentence)
        self._schedule.want_bounds()
        self._schedule.want_ends()

    def _stop_lost(self, partition: int, held: OwnedPartition, sentence: str) -> None:
        holdings = self._holdings
        holdings.stop(held)
        otherwise = ", or set failOnDataLoss=false" if holdings.fail_on_data_loss and not holdings.terms.claims else ""
        self._lost(partition, f"{sentence}: stopped; reset its offsets{otherwise}")

    def _lost(self, partition: int, sentence: str) -> None:
        self._reports.clear(f"read {partition}")  # the report about the log's bounds gives the reason
        if self._reports.add(f"lost {partition}", f": {sentence}", partition=partition):
            log.warning("partition %d: %s", partition, sentence)

    def _answer_owed(self, partition: int, owed_release: OwedRelease, entry: Committed | None) -> None:
        accepted = self._holdings.accepted
        if entry is not None and accepted is not None and entry.topic_id in ("", accepted.topic_id):
            self._release_at(partition, owed_release, entry.offset, entry.token)
        else:
            owed_release.unknown = True

    def _release_at(self, partition: int, owed_release: OwedRelease, offset: int, token: Token | None) -> None:
        del self._holdings.owed_releases[partition]
        self._holdings.answered[partition] = (
            owed_release.entry,
            offset,
            token or Token(0, 0, self._holdings.generation),
        )


def _left_state(entry: Committed, first_epoch: int | None) -> bool:
    """Return whether an owner with state has committed this entry before anybody claimed the partition in our sink."""
    token = entry.token
    return entry.keeps_state and first_epoch is not None and token is not None and token.epoch < first_epoch


def _elsewhere(partition: int, entry: Committed) -> StateElsewhere:
    return StateElsewhere(
        f"{entry.owner} has kept state up to offset {entry.offset}, and this consumer's database has no state and no position of "
        "the partition: let all consumers use one database, or begin without state: reset-offsets TOPIC --partition "
        f"{partition} --to {entry.offset} --state reset --why WHY --execute"
    )


def _behind(entry: Committed | None, held: OwnedPartition) -> bool:
    """Return whether an earlier commit of ours arrived late and replaced our last. None is under way now."""
    return entry is not None and entry.offset < (held.commits.acknowledged or 0)
