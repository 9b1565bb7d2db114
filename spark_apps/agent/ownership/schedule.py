"""Decides which request to Kafka or to the sink is due, by the rules of `requests`. Each request has a number."""

from collections.abc import Iterable, Mapping
from math import inf

from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.ports import Clock
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.ownership.work import Commit, ListBounds, ListOffsets, OffsetFetch, SinkClaim, Work
from spark_apps.agent.settings import Identity, Timing


class Schedule:
    """The due times of a topic's requests, in the clock's monotonic seconds. `asked_at`: time of the last request."""

    def __init__(self, holdings: Holdings, identity: Identity, clock: Clock, timing: Timing) -> None:
        self.asked_at = -inf
        self._holdings = holdings
        self._identity = identity
        self._clock = clock
        self._timing = timing
        self._fetch_at = -inf
        self._holding = False  # whether a partition was held at the last fetch
        self._id_at = -inf
        self._known_id = ("", -inf)
        self._commit_at = -inf
        self._retry_at = -inf
        self.claim_at = -inf
        self._list_bounds_at = -inf
        self._failures = 0
        self._ends_listed_at = -inf
        self._ends_wanted = False
        self._bounds_at = -inf

    # Events
    # -------------------------------------------------------------------------------------------------------------

    def want_ends(self) -> None:
        """Read the log's ends as soon as allowed."""
        self._ends_wanted = True

    @property
    def ends_at(self) -> float:
        """Return when the log's ends may be read again."""
        return self._ends_listed_at + self._ends_pause_s

    def want_bounds(self) -> None:
        """Read the log's beginnings together with the next ends."""
        self._bounds_at = -inf

    def fetched(self, entries: bool, topic_id: str | None) -> None:
        """Take the answer to a fetch. `topic_id` is `None` if the fetch did not ask for the id."""
        if entries:
            self._fetch_at = self.asked_at + self._timing.look_s
        if topic_id is not None:
            self._id_at = self.asked_at
            self._known_id = (topic_id, self.asked_at)

    def answered(self) -> None:
        """Note an answered request. The next failure counts as the first."""
        self._failures = 0

    def failed(self) -> None:
        """Pause after a failed request to Kafka, longer after each failure."""
        pause = min(self._timing.retry_max_s, self._timing.retry_s * 2**self._failures)
        self._retry_at = self._clock.monotonic() + pause
        self._failures = min(self._failures + 1, 10)

    def pause_bounds(self) -> None:
        """Pause requests for the log's bounds, because the last answer did not decide every start.

        Other requests do not wait.
        """
        self._list_bounds_at = self._clock.monotonic() + self._timing.retry_max_s

    def pause_claims(self) -> None:
        """Pause claims, because the sink did not take every claim. Requests to Kafka do not wait."""
        self.claim_at = self._clock.monotonic() + self._timing.retry_max_s

    # Due requests
    # ------------------------------------------------------------------------------------------------------

    def next(self) -> Work | None:
        now = self._clock.monotonic()
        if now < self._retry_at:
            return None
        work = self._due(now)
        if work is not None:
            self._holdings.number += 1
            self.asked_at = now
        return work

    def next_at(self) -> float:
        """Return when the next request is due if nothing happens; infinite = never."""
        now = self._clock.monotonic()
        due = self._committable(now)
        if self._urgent(due) or self._wants_id(now) or self._has_ended:
            return self._retry_at
        times = [self._list_bounds_at] if self._holdings.unknown else []
        if self._holdings.fetchable:
            times += self._times(due)
        times += [h.cool_until for p, h in self._holdings.due.items() if p not in due and not h.deferred]
        return max(min(times, default=inf), self._retry_at)

    def _times(self, due: Mapping[int, OwnedPartition]) -> list[float]:
        """Return the due times of all requests for which no other party waits."""
        held = self._holdings.held
        times = [self._fetch_at]
        if due:
            times.append(self._commit_at)
        times += [self._fetch_from(h) for h in held.values()]
        if self._unclaimed:
            times.append(self.claim_at)
        if any(h.phase is Phase.READY and not h.closing for h in held.values()):
            times.append(self.ends_at if self._ends_wanted else self._ends_at)
        return times

    def _due(self, now: float) -> Work | None:
        due = self._committable(now)
        fresh = all(h.is_sure(now, self._timing.fresh_s) for h in due.values())
        if due and fresh and any(h.closing for h in due.values()):
            return self._commit(due)
        fetchable = self._holdings.fetchable
        if fetchable and (not fresh or self._fetch_due(now)):
            return self._fetch(fetchable, now)
        if due and (self._urgent(due) or (now >= self._commit_at and not self._ends_first)):
            return self._commit(due)
        if self._wants_id(now) or self._has_ended:
            return self._fetch((), now)
        tokens = self._unclaimed
        if tokens and now >= self.claim_at:
            return self._claim(tokens)
        unknown = self._holdings.unknown
        if unknown and now >= self._list_bounds_at:
            return ListBounds(unknown, self._next_number, self._times_ms(unknown))
        return self._list_offsets(now) or (self._commit(due) if due and now >= self._commit_at else self._recommit(now))

    @property
    def _ends_first(self) -> bool:
        """Return whether to read the log's ends before the next commit that is not urgent.

        The ends are read once before each such commit, because a batch waits for them.
        """
        return self._ends_wanted and self._ends_listed_at <= self._commit_at

    @property
    def _unclaimed(self) -> dict[int, Token]:
        """Return the tokens of the partitions that wait for a claim in the sink."""
        waiting = {p: h for p, h in self._holdings.held.items() if h.phase is Phase.CLAIMING}
        return {p: h.token for p, h in sorted(waiting.items()) if h.topic_id == self._holdings.topic_id}

    def _claim(self, tokens: Mapping[int, Token]) -> SinkClaim:
        seeks = self._holdings.accepted.seeks if self._holdings.accepted is not None else {}
        forget = {p: seek.epoch for p, seek in seeks.items() if p in tokens}
        states = {p: seek.state for p, seek in seeks.items() if p in tokens and seek.state is not None}
        count = self._holdings.partition_count
        return SinkClaim(self._identity, self._holdings.topic_id, tokens, forget, self._next_number, count, states)

    def _committable(self, now: float) -> dict[int, OwnedPartition]:
        """Return the holdings with a due commit, except deferred holdings and holdings that cool down."""
        return {p: h for p, h in self._holdings.due.items() if not (h.deferred or h.is_cooling_down(now))}

    @staticmethod
    def _urgent(due: Mapping[int, OwnedPartition]) -> bool:
        """Return whether a start, a stop, an overwritten entry or a batch waits for these commits."""
        return any(h.closing or h.commits.rewrite or h.promised or h.commits.acknowledged is None for h in due.values())

    @property
    def _next_number(self) -> int:
        return self._holdings.number + 1

    # Fetches ---------------------------------------------------------------------------------------------------------

    def _fetch(self, partitions: tuple[int, ...], now: float) -> OffsetFetch:
        topic_id = self._holdings.topic_id
        held = {p: h.token for p, h in self._holdings.held.items() if not h.fenced and h.topic_id == topic_id}
        self._holding = bool(held)
        return OffsetFetch(partitions, self._next_number, topic_id, held, self._id_due(now))

    @property
    def _has_ended(self) -> bool:
        """Return whether nothing is held any more and no fetch has been made since."""
        return self._holding and not self._holdings.fetchable

    def _fetch_due(self, now: float) -> bool:
        if now >= self._fetch_at or any(not one.unknown for one in self._holdings.owed_releases.values()):
            return True
        return any(now >= self._fetch_from(h) for h in self._holdings.held.values())

    def _fetch_from(self, held: OwnedPartition) -> float:
        """Return when this partition needs a fetch before the regular fetch; infinite = never."""
        if held.fenced:
            return inf
        if held.deferred or (held.phase is Phase.GUARDING and not held.closing):
            return held.looked_at + self._timing.guard_look_s
        return -inf if held.phase is Phase.FETCHING and not held.closing else inf

    def _id_due(self, now: float) -> bool:
        """Return whether a fetch also asks for the topic's id: a holding begins, or the last answer is old."""
        holdings = self._holdings
        if self._wants_id(now):
            return True
        begun = [h for h in holdings.held.values() if h.phase is not Phase.READY and not h.closing]
        begins = any(h.grant.release is None for h in begun) or (bool(begun) and not self._knows_id(now))
        partitions = holdings.accepted.initial_partitions if holdings.accepted is not None else 0
        return begins or bool(holdings.owed_releases) or now - self._id_at >= partitions * self._timing.id_each_s

    def _wants_id(self, now: float) -> bool:
        """Return whether to ask for the topic's id ahead, while a release is awaited, to save time at the start."""
        return self._holdings.awaiting and now - self._id_at > self._timing.id_fresh_s

    def _knows_id(self, now: float) -> bool:
        """Return whether Kafka has lately confirmed the topic node's id."""
        node, (topic_id, at) = self._holdings.accepted, self._known_id
        return node is not None and topic_id == node.topic_id and now - at <= self._timing.id_fresh_s

    # Commits ---------------------------------------------------------------------------------------------------------

    def _commit(self, due: Mapping[int, OwnedPartition]) -> Commit:
        pause_s = max(self._timing.commit_s, len(self._holdings.held) * self._timing.commit_each_s)
        self._commit_at = self._clock.monotonic() + pause_s
        for held in due.values():
            held.commits.sent = True
        return Commit({p: self._entry(h) for p, h in sorted(due.items())}, self._next_number)

    def _entry(self, held: OwnedPartition) -> Committed:
        offset = max(held.passed, held.commits.acknowledged or 0)
        last_pass = self._holdings.stalls.last_pass(held.passes, self._clock.monotonic(), pending=held.pending)
        consumer, cluster = self._identity.consumer, self._identity.cluster
        state = self._holdings.terms.keeps_state
        return Committed(offset, held.token, consumer, cluster, held.topic_id, last_pass, state)

    def _recommit(self, now: float) -> Commit | None:
        ready = {
            p: h for p, h in self._holdings.held.items() if h.phase is Phase.READY and not (h.fenced or h.deferred)
        }
        idle = {p: h for p, h in ready.items() if h.is_sure(now, self._timing.fresh_s)}
        old = {p: h for p, h in idle.items() if now - h.commits.acknowledged_at >= self._timing.recommit_s}
        return self._commit(old) if old else None

    # The log's bounds ------------------------------------------------------------------------------------------------

    def _times_ms(self, partitions: Iterable[int]) -> dict[int, int]:
        first, node = self._holdings.first, self._holdings.accepted
        if first is None or node is None:
            return {}
        times = {p: first.time_ms(p) for p in partitions if p < node.initial_partitions}
        return {p: at for p, at in times.items() if at is not None}

    def _list_offsets(self, now: float) -> ListOffsets | None:
        ready = {p: h for p, h in self._holdings.held.items() if h.phase is Phase.READY and not h.closing}
        wanted = self._ends_wanted and now - self._ends_listed_at >= self._ends_pause_s
        allowed = wanted or now >= self._ends_at
        if not allowed:
            # Only new partitions need the ends at once.
            ready = {p: h for p, h in ready.items() if h.log.asked_from is None}
        if not ready:
            return None
        everything = wanted and now - self._bounds_at >= self._timing.bounds_s
        # The former owner read the released partition a moment ago, so the start needs no comparison with the log.
        bounds = [p for p, h in ready.items() if everything or (h.log.asked_from is None and h.grant.release is None)]
        self._bounds_at = now if everything else self._bounds_at
        for held in ready.values():
            held.log.asked_from, held.log.asked_at = held.position, now
        if allowed:
            self._ends_wanted = False
            self._ends_listed_at = now
        return ListOffsets(tuple(sorted(ready)), self._next_number, tuple(sorted(bounds)))

    @property
    def _ends_at(self) -> float:
        """Return when to read the log's ends without a plan for a batch, so that the reported lag stays recent."""
        wanted_before = self._ends_listed_at > -inf
        return self._ends_listed_at + max(self._timing.ends_s, self._ends_pause_s) if wanted_before else inf

    @property
    def _ends_pause_s(self) -> float:
        return max(self._timing.measure_s, len(self._holdings.held) * self._timing.measure_each_s)
