"""One owned partition, from the grant to the last commit. Times are the clock's monotonic seconds."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from coordinator_tasks.core.model import Committed, Overwritten, RunningPartition, StateSize, Token
from coordinator_tasks.core.protocol.fence import Judgement
from coordinator_tasks.core.protocol.holding import Grant
from spark_apps.agent.ownership.log_end import LogEnd
from spark_apps.agent.ownership.passes import Passes
from spark_apps.agent.ownership.phases import TRANSITIONS, Phase, PhaseEvent


class Listened(StrEnum):
    """What the listener was told about a holding: nothing, the begin, or begin and end."""

    NOTHING = "nothing"
    ASSIGNED = "assigned"
    ALL = "all"


OVERWRITTEN_S = 300.0
"""Seconds for which a foreign commit over ours is reported. An audit sees the entry only until we commit again."""
_COMMITTING = (Phase.STARTING, Phase.GUARDING, Phase.READY)


@dataclass(slots=True)
class StartInputs:
    """Facts that decide the partition's start."""

    shown: tuple[Token, int] | None = None  # the newest token so far in an entry or a release, and its offset
    given: bool = False  # the start is from the sink, the application or the log: Kafka's entry no longer changes it
    sought: int = 0  # epoch of the seek where the partition starts; earlier commits do not change the start
    first_epoch: int | None = None  # of the first claim in a sink that keeps state and has no position


@dataclass(slots=True)
class Commits:
    """The commits under one grant. `acknowledged`: the last offset that Kafka has acknowledged (`None` = none).

    `farewell`: commit once more before the end, to record the time at which no record was left.
    """

    acknowledged: int | None = None
    acknowledged_at: float = -inf
    sent: bool = False  # a commit may be under way
    rewrite: bool = False  # another consumer has overwritten our entry
    farewell: bool = False
    failing_at: float | None = None  # time of the first failure in a row
    # an older owner's entry that replaced ours, and when it was last seen
    overwritten: tuple[Committed, float] | None = None

    def overwritten_by(self, now: float) -> Overwritten | None:
        """Return the client that lately overwrote our commit, with an older token or none; `None` if no client did."""
        if self.overwritten is None or now - self.overwritten[1] > OVERWRITTEN_S:
            return None
        entry, at = self.overwritten
        return Overwritten(entry.owner, entry.token.epoch if entry.token is not None else 0, now - at)


@dataclass(slots=True)
class OwnedPartition:
    """A partition under a grant.

    `position`: the next offset to hand out. `passed`: all earlier offsets have passed the sink. `born`: number of the
    last request to Kafka before the grant; answers up to this number do not concern this holding.
    """

    grant: Grant
    topic_id: str
    born: int
    phase: Phase = Phase.FETCHING
    start: StartInputs = field(default_factory=StartInputs)
    listened: Listened = Listened.NOTHING
    position: int = 0
    passed: int = 0
    handed: bool = False  # a batch with this partition was planned
    handed_at: float = -inf
    pending: bool = False  # part of a batch that has not passed the sink
    progressed_at: float = -inf
    commits: Commits = field(default_factory=Commits)
    log: LogEnd = field(default_factory=LogEnd)
    passes: Passes = field(default_factory=Passes)
    closing: bool = False
    fenced: bool = False
    deferred: bool = False  # Kafka has not begun its transactions, or has refused its commit: wait for the next fetch
    looked_at: float = -inf
    cool_until: float = -inf

    @property
    def token(self) -> Token:
        return self.grant.token

    @property
    def due(self) -> bool:
        """Return whether a commit is due: of the start, of passed offsets, or over a foreign entry."""
        if self.fenced or self.phase not in _COMMITTING or (self.closing and not self.commits.sent):
            return False
        if self.parting and not self.promised:  # the listener waits for the batch, and the last commit for the listener
            return False
        known = self.commits.acknowledged
        return known is None or self.passed > known or self.commits.rewrite or self.commits.farewell

    @property
    def parting(self) -> bool:
        """Return whether the partition ends, and the listener was told of its begin but not yet of its end."""
        return self.closing and self.listened is Listened.ASSIGNED

    def is_cooling_down(self, at: float) -> bool:
        """Return whether a fetch at this time may miss a newer owner, because our own late commit has replaced its
        entry.

        An entry older than ours hides no owner, so we overwrite it at once.
        """
        return at < self.cool_until and not self.commits.rewrite

    def is_sure(self, now: float, fresh_s: float) -> bool:
        """Return whether the last fetch is recent enough. If not, nothing is handed out or committed."""
        return now - self.looked_at <= fresh_s and not self.is_cooling_down(self.looked_at)

    def has_committed(self, end: int) -> bool:
        return self.commits.acknowledged is not None and self.commits.acknowledged >= end

    @property
    def promised(self) -> bool:
        """Return whether the handed-out batch has to be committed before the sink gets it (at most once)."""
        return self.pending and self.passed >= self.position

    @property
    def done(self) -> bool:
        """Return whether no batch is under way and no commit is left."""
        return not (self.pending or self.parting) and (self.fenced or not self.due)

    @property
    def lag(self) -> int | None:
        """Return the number of offsets between the last passed offset and the log's end; `None` if unknown."""
        return None if self.log.offset is None else max(0, self.log.offset - self.passed)

    def advance(self, event: PhaseEvent) -> None:
        """Enter the phase that follows by the transition table."""
        self.phase = TRANSITIONS[self.phase][event]

    def place(self, offset: int, event: PhaseEvent) -> None:
        self.position = self.passed = offset
        self.advance(event)

    def fence(self) -> None:
        """Note that a newer token owns the partition: commit nothing more."""
        self.fenced = self.closing = True

    def acknowledge(self, offset: int, guarded: bool, now: float) -> None:
        self.commits.acknowledged = max(offset, self.commits.acknowledged or 0)
        self.commits.acknowledged_at = now
        self.commits.rewrite = self.commits.farewell = False
        self.commits.failing_at = None
        if self.phase is Phase.STARTING:
            self.advance(PhaseEvent.COMMITTED_GUARDED if guarded else PhaseEvent.COMMITTED)
            self.progressed_at = now

    def guard(self, verdict: Judgement, entry: Committed | None, now: float, guard_s: float) -> None:
        """Take a fetch during a guarded start.

        After `guard_s` without a foreign commit the partition is ready. After a foreign commit, the larger offset is
        committed again.
        """
        if verdict is Judgement.OURS:
            if now - self.commits.acknowledged_at > guard_s:
                self.advance(PhaseEvent.UNDISTURBED)
            return
        known = entry is not None and entry.token is not None and entry.topic_id == self.topic_id
        if known and entry is not None and entry.token is not None and entry.token.epoch >= self.start.sought:
            # A late commit of an earlier owner: everything up to its offset has passed the sink.
            self.position = self.passed = max(self.passed, entry.offset)
        self.commits.rewrite = True

    def told(self, start: int | None) -> None:
        """Note that the listener was told of the begin. `start`: where the application wants to begin instead."""
        self.advance(PhaseEvent.TOLD)
        if start is not None:
            self.position = self.passed = start
            self.start.given = True

    def is_idle(self, idle_s: float, now: float) -> bool:
        """Return whether for `idle_s` no record has come and no empty range was handed out."""
        return self.log.offset == self.position and now - max(self.handed_at, self.passes.granted_at) >= idle_s

    def hand_out(self, end: int, now: float, *, commit_first: bool = False) -> None:
        """A batch up to `end` is planned: the partition counts as running until the batch has passed the sink."""
        self.handed_at = now
        self.log.handed_from = self.position if self.log.handed_from is None else self.log.handed_from
        self.position = end
        self.pending = self.handed = True
        if commit_first:
            self.passed = end

    def cover(self, end: int, now: float) -> None:
        self.passed = max(self.passed, end)
        self.pending = self.passed < self.position
        self.progressed_at = now

    def discard(self) -> None:
        """Forget the handed-out batch, which will not pass. Its unpassed offsets are read again."""
        if self.pending:
            self.passes.discard()
        self.position = self.passed
        self.pending = False

    def see_end(self, end: int, now: float) -> None:
        """Note the log's end. At the log's end the partition does not count as stalled."""
        if self.log.asked_from is not None and end <= self.log.asked_from:
            self.passes.empty(self.log.asked_at)
        self.log.see(end, None if self.pending else self.position, now)
        if self.passed >= end:
            self.progressed_at = now

    def jump(self, offset: int) -> None:
        """Begin at `offset`, possibly an earlier offset, because the log no longer has our position."""
        self.commits.acknowledged = self.log.ahead_since = self.log.handed_from = None
        self.start.given = True
        self.place(offset, PhaseEvent.NOT_IN_LOG)

    def claim_again(self) -> None:
        """Claim again: the sink that keeps the position has failed, so the position may have moved."""
        self.commits.acknowledged = None
        self.advance(PhaseEvent.SINK_FAILED)

    def status(self, alive: bool, paused: bool, now: float, state: StateSize | None = None) -> RunningPartition:
        """Return the status. A paused partition counts as started, since it has no batch that could prove a start."""
        proved = self.handed or paused or (self.log.offset is not None and self.passed >= self.log.offset)
        started = alive and proved and self.phase is Phase.READY
        rate = self.log.inflow.rate if self.log.inflow is not None else None
        taken = self.passes.taken(now, released=self.grant.release is not None)
        return RunningPartition(
            self.passed,
            self.token,
            started,
            self.closing,
            self.lag,
            rate,
            taken=taken,
            overwritten=self.commits.overwritten_by(now),
            state=state,
        )


def shown(token: Token | None) -> str:
    """Return a token as text for a report."""
    return "unknown" if token is None else f"epoch {token.epoch}, incarnation {token.incarnation}"
