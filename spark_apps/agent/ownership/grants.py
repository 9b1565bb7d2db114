"""What a consumer may hold of one topic by what ZooKeeper says, and therefore stops, begins and releases."""

from collections.abc import Collection, Mapping

from coordinator_tasks.core.model import Handoff, Release, Token, TopicNode
from coordinator_tasks.core.ports import Clock
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
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.owned_partition import shown
from spark_apps.agent.ownership.releasing import Releasing
from spark_apps.agent.reports import Reports
from spark_apps.agent.settings import Identity
from spark_apps.delivery import Standing


class Grants:
    """`opened` False = begin nothing, because no query reads yet. `isolated`: a directive says that we run nothing."""

    def __init__(
        self, identity: Identity, holdings: Holdings, releasing: Releasing, clock: Clock, reports: Reports, opened: bool
    ) -> None:
        self.opened = opened
        self.isolated = False
        self._identity = identity
        self._holdings = holdings
        self._releasing = releasing
        self._clock = clock
        self._reports = reports
        self._void: tuple[str, int] | None = None
        self._astray = False
        self._stopping = False
        self._releases: dict[int, Release] = {}
        self._granted: dict[int, Grant] | None = None
        self._concerned: set[int] = set()  # partitions of which something may have been reported

    # Events ----------------------------------------------------------------------------------------------------------

    def on_node(self, seen: TopicNode) -> Reading:
        """A read of the topic node: accept it if it is newer, else keep the accepted one and report that.

        While it is kept, what runs continues, and nothing begins: another consumer may have it by now.
        """
        accepted = self._holdings.accepted
        reading = accepts(accepted, seen)
        if reading in (Reading.ACT, Reading.SAME):
            kept_back = self._astray or self._void is not None
            self._astray, self._void = False, None
            self._reports.clear("node")
            if reading is Reading.ACT:
                self._resume(seen.paused)
                continues = accepted is not None and bool(accepted.handoff)
                self._holdings.accepted = seen
                self._holdings.stalls.begin(seen.epoch, self._clock.monotonic(), continues=continues)
                self._releases = {p: r for p, r in self._releases.items() if p in seen.handoff or p in seen.assignments}
            if reading is Reading.ACT or kept_back:
                self._changed()
        elif accepted is not None:
            self._astray = True
            self._reports.add(
                "node",
                f"the topic node has epoch {seen.epoch} of generation {seen.generation!r}, older than or foreign to "
                f"epoch {accepted.epoch} of {accepted.generation!r} that is acted on: kept",
            )
        return reading

    def on_posted(self, seen: TopicNode) -> None:
        """A topic node that was handed to us directly: as a read, unless ZooKeeper has shown us another one meanwhile.

        Then a node of the generation that we act on is an old post: the present one names what it supersedes.
        """
        accepted = self._holdings.accepted
        if not (self._astray and accepted is not None and seen.generation == accepted.generation):
            self.on_node(seen)

    def on_unreadable(self, sentence: str) -> None:
        """The topic node has vanished or cannot be read: hold, begin nothing, and report it."""
        self._astray = True
        self._reports.add("node", sentence)

    def on_releases(self, releases: Mapping[int, Release]) -> None:
        """Reads of partition nodes. An older read never replaces a newer one."""
        for partition, release in releases.items():
            known = self._releases.get(partition)
            if known is None or release.epoch >= known.epoch:
                self._releases[partition] = release
        self._changed()

    def on_isolated(self, isolated: bool) -> None:
        """Our own directive: an isolated consumer stops everything and releases nothing."""
        if isolated and not self.isolated:
            self._holdings.look_soon()
        self.isolated = isolated
        self._changed()

    def on_isolation_lost(self) -> None:
        """ZooKeeper has lost the directive that isolated us; there was no readmission.

        Earlier grants count again only after another read of the topic's node: another consumer may have them by a node that
        we have not seen.
        """
        accepted = self._holdings.accepted
        if accepted is not None:
            self._void = (accepted.generation, accepted.epoch)
        self.on_isolated(False)

    def ask_in(self, group: str) -> None:
        """Kafka is asked in this group from now on; nothing is held in the former one."""
        self._holdings.group = group
        self._changed()

    def refused(self, partition: int, standing: Standing) -> None:
        """The sink has another owner's token: ours is over."""
        self._holdings.fence(self._holdings.held[partition], standing.token)
        self._reports.add(
            partition,
            f"partition {partition} stands in the sink under {standing.consumer} ({shown(standing.token)}): stopped; if "
            "that was before ZooKeeper was lost or the topic was added again, delete its row there (docs/delivery.md)",
        )

    def stop(self, why: str = "") -> None:
        """Stop everything for good, and commit what passed the sink; nothing is released."""
        if why:
            self._reports.add("stopped", why)
        self._stopping = True
        self._changed()

    def _resume(self, paused: Collection[int]) -> None:
        """The time of a pause does not count as a stall."""
        for partition in self._holdings.paused - frozenset(paused):
            if partition in self._holdings.held:
                self._holdings.held[partition].progressed_at = self._clock.monotonic()

    # What others see -------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing is held and nothing is to be released."""
        return not (self._holdings.held or self._holdings.owed_releases or self._releasing.outbox)

    @property
    def involved(self) -> bool:
        """The accepted node still names us as owner, giver or taker, or something is still held."""
        mine, accepted = self._identity, self._holdings.accepted
        if not self.idle:
            return True
        if accepted is None or accepted.removed or self.incarnation != mine.incarnation:
            return False
        if self.isolated or self._stopping:
            return False
        gives = (p for p, entry in accepted.handoff.items() if entry.giver == mine.consumer)
        given = any(not self._releasing.is_written(p, accepted.handoff[p]) for p in gives)
        return given or mine.consumer in accepted.assignments.values()

    @property
    def incarnation(self) -> int | None:
        """The incarnation of ours that the accepted node names; `None` if it does not name us."""
        accepted = self._holdings.accepted
        return accepted.incarnations.get(self._identity.consumer) if accepted is not None else None

    def awaited(self) -> dict[int, Handoff]:
        """The entries whose release we wait for: their partition nodes are to be watched."""
        mine = self._identity
        entries = takes_over(self._holdings.accepted, mine.consumer, mine.incarnation, self.isolated)
        return {p: e for p, e in entries.items() if p not in self._holdings.held}

    def may_hold(self) -> dict[int, int]:
        """Partition → epoch of everything that the accepted node lets us run or take over."""
        mine = self._identity
        return may_hold(self._holdings.accepted, mine.consumer, mine.incarnation, self.isolated)

    # The rules -------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """What is granted may have changed."""
        self._granted = None
        self.apply()
        self._holdings.awaiting = bool(self.awaited())
        self._forget()

    def _forget(self) -> None:
        """End the reports about partitions that are neither held, granted nor to be released: moved on, or gone.

        Without any such partition nothing is asked of Kafka or of the sink, so reports about requests end as well.
        """
        concerned = {*self._holdings.held, *self._holdings.owed_releases, *self.may_hold()}
        for partition in self._concerned - concerned:
            self._reports.clear(partition)
            self._clear(partition, stopped=True)
        self._concerned = concerned
        if not concerned:
            for matter in ("kafka", "group", "sink"):
                self._reports.clear(matter)

    def apply(self) -> None:
        """Bring what is held in line with what may be held; repeated, because a close may allow a release or a start."""
        holdings = self._holdings
        owed = {} if self._stopping or holdings.in_other_group else self._releasing.owed(self.isolated)
        self._releasing.prune(owed)
        ended = False
        while True:
            due = self._steps(owed)
            for partition in due.stop:
                holdings.held[partition].closing = True
            closed = [p for p, h in holdings.held.items() if h.closing and h.done and not holdings.committing(p)]
            for partition in closed:
                held = holdings.held.pop(partition)
                self._clear(partition, stopped=not holdings.is_rejected(partition, held.token.epoch))
                if partition in owed:
                    self._releasing.closed(held, owed[partition])
            if not closed:
                break
            ended = True
        for grant in due.start:
            holdings.acquire(grant, self._clock.monotonic())
            self._reports.clear(grant.partition)
            self._clear(grant.partition, stopped=True)
        self._releasing.owe(due.release, owed)
        if ended:
            self._forget()

    def _clear(self, partition: int, *, stopped: bool) -> None:
        """What was reported of a partition is over; `stopped`: also why it stopped."""
        for matter in ("read", "leader", "rewritten", "commit", *(("lost", "topic id") if stopped else ())):
            self._reports.clear(f"{matter} {partition}")

    def _steps(self, owed: Mapping[int, Handoff]) -> Changes:
        held, mine = self._holdings.held, self._identity
        running = {p: h.token for p, h in held.items()}
        closing = {p for p, h in held.items() if h.closing}
        if self._granted is None:
            isolated = self.isolated or self._stopping
            found = grants(self._holdings.accepted, mine.consumer, mine.incarnation, self._releases, isolated)
            self._granted = {p: grant for p, grant in found.items() if not self._is_void(grant.token)}
        granted = {} if self._holdings.in_other_group else self._granted
        allowed = {p: g for p, g in granted.items() if not self._holdings.is_rejected(p, g.token.epoch)}
        if self._astray or not self.opened:
            allowed = {p: g for p, g in allowed.items() if p in running}
        return changes(allowed, running, closing, owed, self._releasing.written)

    def _is_void(self, token: Token) -> bool:
        return self._void is not None and token.generation == self._void[0] and token.epoch <= self._void[1]
