"""One partition that a consumer owns, from the grant to the last commit. Times are the clock's monotonic seconds."""

from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf

from coordinator_tasks.core.model import Committed, RunningPartition, Token
from coordinator_tasks.core.protocol.fence import Judgement
from coordinator_tasks.core.protocol.holding import Grant
from spark_apps.agent.ownership.phases import TRANSITIONS, Event, Phase


class Listened(StrEnum):
    """What the application has been told of a holding."""

    NOTHING = "nothing"
    ASSIGNED = "assigned"
    ALL = "all"


INFLOW_S = 60.0
INFLOW_MIN_S = 10.0
_COMMITTING = (Phase.STARTING, Phase.GUARDING, Phase.READY)


@dataclass(frozen=True, slots=True)
class Inflow:
    """How fast the log's end moves: the plain mean since the first look, and from `INFLOW_S` on a decaying one.

    `rate` is in records per second; None until looks lie `INFLOW_MIN_S` apart, as a burst between two looks says little.
    """

    end: int
    at: float
    began_at: float
    first_end: int | None = None
    rate: float | None = None

    def seen(self, end: int, now: float) -> "Inflow":
        """With one more fetch."""
        first = self.end if self.first_end is None else self.first_end
        age, gap = now - self.began_at, now - self.at
        if gap <= 0:
            return self
        rate = self.rate
        if rate is None or age <= INFLOW_S:
            rate = max(0, end - first) / age if age >= INFLOW_MIN_S else None
        else:
            rate += (max(0, end - self.end) / gap - rate) * (1 - exp(-gap / INFLOW_S))
        return Inflow(end, now, self.began_at, first, rate)


@dataclass(slots=True)
class OwnedPartition:
    """One partition under one grant.

    `position`: the next offset to hand out; `passed`: everything before it has passed the sink; `committed`: the last
    acknowledged commit under this grant (None = none). `born`: the number of the last request to Kafka before the grant;
    the answer to it or to an older one says nothing about this holding.
    """

    grant: Grant
    topic_id: str
    born: int
    phase: Phase = Phase.FETCHING
    shown: tuple[Token, int] | None = None  # the newest token of an entry or a release so far, and its offset
    start_given: bool = (
        False  # the sink, the application or the log gave the position: Kafka's entry no longer changes it
    )
    listened: Listened = Listened.NOTHING
    position: int = 0
    passed: int = 0
    committed: int | None = None
    sent: bool = False  # a commit was sent, so that one may be on its way
    closing: bool = False
    fenced: bool = False
    rewrite: bool = False
    sought: int = 0  # the epoch of the seek that it began at: what was committed before says nothing of it
    handed: bool = False
    pending: bool = False  # part of a batch that has not passed the sink
    asked_from: int | None = None  # the position when the log's end was asked for
    end: int | None = None
    goal: int | None = None  # the log's end when it was taken up
    inflow: Inflow | None = None
    handed_from: int | None = None  # the first offset that was handed out since the log's beginning was fetched at
    ahead_since: float | None = None  # since when the position is behind the log's end
    looked_at: float = -inf
    cool_until: float = -inf
    committed_at: float = -inf
    failing_at: float | None = None
    progressed_at: float = -inf

    @property
    def token(self) -> Token:
        return self.grant.token

    @property
    def due(self) -> bool:
        """A commit is due: of the start, of what has passed the sink, or of our entry once more."""
        if self.fenced or self.phase not in _COMMITTING or (self.closing and not self.sent):
            return False
        if self.parting and not self.promised:  # the last commit waits for the listener, which waits for the batch
            return False
        return self.committed is None or self.rewrite or self.passed > self.committed

    @property
    def parting(self) -> bool:
        """It ends, and the listener knows of its beginning and not of its end."""
        return self.closing and self.listened is Listened.ASSIGNED

    def is_cooling_down(self, at: float) -> bool:
        """Whether a fetch at this time may miss a newer owner, whose entry a late commit of ours has hidden.

        An older entry than ours hides nobody, and is written over at once.
        """
        return at < self.cool_until and not self.rewrite

    def is_sure(self, now: float, fresh_s: float) -> bool:
        """Whether its last fetch still counts; otherwise nothing is handed out or committed."""
        return now - self.looked_at <= fresh_s and not self.is_cooling_down(self.looked_at)

    def has_committed(self, end: int) -> bool:
        """Whether a commit of `end` is acknowledged."""
        return self.committed is not None and self.committed >= end

    @property
    def promised(self) -> bool:
        """Its batch is committed before it goes to the sink."""
        return self.pending and self.passed >= self.position

    @property
    def done(self) -> bool:
        """No batch of it is under way, and nothing is left to commit."""
        return not (self.pending or self.parting) and (self.fenced or not self.due)

    @property
    def lag(self) -> int | None:
        """Offsets between what passed the sink and the log's end."""
        return None if self.end is None else max(0, self.end - self.passed)

    def advance(self, event: Event) -> None:
        """To the next phase, by the table."""
        self.phase = TRANSITIONS[self.phase][event]

    def place(self, offset: int, event: Event) -> None:
        """The start position is known."""
        self.position = self.passed = offset
        self.advance(event)

    def fence(self) -> None:
        """A newer token owns it: no further commit."""
        self.fenced = self.closing = True

    def acknowledge(self, offset: int, guarded: bool, now: float) -> None:
        """Our commit is in Kafka."""
        self.committed = max(offset, self.committed or 0)
        self.committed_at = now
        self.rewrite = False
        self.failing_at = None
        if self.phase is Phase.STARTING:
            self.advance(Event.COMMITTED_GUARDED if guarded else Event.COMMITTED)
            self.progressed_at = now

    def guard(self, verdict: Judgement, entry: Committed | None, now: float, guard_s: float) -> None:
        """One fetch of a guarded start: ready after `guard_s` undisturbed, else commit the larger offset once more."""
        if verdict is Judgement.OURS:
            if now - self.committed_at > guard_s:
                self.advance(Event.UNDISTURBED)
            return
        known = entry is not None and entry.token is not None and entry.topic_id == self.topic_id
        if known and entry is not None and entry.token is not None and entry.token.epoch >= self.sought:
            # A survivor's commit: everything up to its offset has passed the sink.
            self.position = self.passed = max(self.passed, entry.offset)
        self.rewrite = True

    def told(self, start: int | None) -> None:
        """The application knows that it begins, and wants it to begin at `start` instead, if that is given."""
        self.advance(Event.TOLD)
        if start is not None:
            self.position = self.passed = start
            self.start_given = True

    def hand_out(self, end: int, commit_first: bool = False) -> None:
        """A batch up to `end` is planned: the partition counts as running until it has passed the sink."""
        self.handed_from = self.position if self.handed_from is None else self.handed_from
        self.position = end
        self.pending = self.handed = True
        if commit_first:
            self.passed = end

    def cover(self, end: int, now: float) -> None:
        """A batch up to `end` has passed the sink."""
        self.passed = max(self.passed, end)
        self.pending = self.passed < self.position
        self.progressed_at = now

    def discard(self) -> None:
        """The query is over: the next owner reads again what it has not passed."""
        self.position = self.passed
        self.pending = False

    def see_end(self, end: int, now: float) -> None:
        """The log's end as just read. At the end, no progress is expected."""
        self.end = end
        if not self.pending:
            # Records that were read after the request may lie beyond its answer.
            ahead = self.asked_from is not None and min(self.position, self.asked_from) > end
            self.ahead_since = (now if self.ahead_since is None else self.ahead_since) if ahead else None
        self.goal = end if self.goal is None else self.goal
        self.inflow = Inflow(end, now, now) if self.inflow is None else self.inflow.seen(end, now)
        if self.passed >= end:
            self.progressed_at = now

    def jump(self, offset: int) -> None:
        """The log no longer has our position: begin at `offset`, which may be an earlier one."""
        self.committed = self.ahead_since = self.handed_from = None
        self.start_given = True
        self.place(offset, Event.NOT_IN_LOG)

    def status(self, alive: bool, paused: bool) -> RunningPartition:
        """A paused partition counts as started: it has no batch that could show it."""
        proved = self.handed or paused or (self.end is not None and self.passed >= self.end)
        started = alive and proved and self.phase is Phase.READY
        rate = self.inflow.rate if self.inflow is not None else None
        return RunningPartition(self.passed, self.token, started, self.closing, self.lag, rate)


def shown(token: Token | None) -> str:
    """A token in a report."""
    return "unknown" if token is None else f"epoch {token.epoch}, incarnation {token.incarnation}"
