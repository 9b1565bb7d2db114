"""The partitions of one topic that ZooKeeper grants to a consumer, and the stops, starts and releases to do."""

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
from spark_apps.delivery import SinkEntry


class Grants:
    """The grants of one topic. `opened` False: start nothing, because no query reads yet. `isolated`: run nothing."""

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
        self._concerned: set[int] = set()  # partitions about which a problem may be reported
        self._unread_since: float | None = None  # since when a granted partition waits for the first query

    # Events ----------------------------------------------------------------------------------------------------------

    def on_node(self, seen: TopicNode) -> Reading:
        """Take a read of the topic node. Accept a newer node; else keep the accepted node and report the problem.

        After a problem, running partitions continue and no partition starts, because another consumer may own it by
        now.
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
        """Take a posted topic node like a read, unless ZooKeeper shows another node than the accepted node.

        In that case a post of the accepted generation is old: a current node names the generation that it supersedes.
        """
        accepted = self._holdings.accepted
        if not (self._astray and accepted is not None and seen.generation == accepted.generation):
            self.on_node(seen)

    def on_unreadable(self, sentence: str) -> None:
        """Note that the topic node has vanished or is unreadable: start no partition, and report the problem."""
        self._astray = True
        self._reports.add("node", sentence)

    def on_releases(self, releases: Mapping[int, Release]) -> None:
        """Take reads of partition nodes. An older read never replaces a newer read."""
        for partition, release in releases.items():
            known = self._releases.get(partition)
            if known is None or release.epoch >= known.epoch:
                self._releases[partition] = release
        self._changed()

    def on_isolated(self, isolated: bool) -> None:
        """Take our own directive. An isolated consumer stops everything and releases nothing."""
        if isolated and not self.isolated:
            self._holdings.look_soon()
        self.isolated = isolated
        self._changed()

    def on_isolation_lost(self) -> None:
        """Note that ZooKeeper has lost the directive that isolated this consumer, without a readmission.

        Earlier grants count again only after another read of the topic's node: another consumer may own the partitions
        by a node that this consumer has not read.
        """
        accepted = self._holdings.accepted
        if accepted is not None:
            self._void = (accepted.generation, accepted.epoch)
        self.on_isolated(False)

    def ask_in(self, group: str) -> None:
        """Send requests to Kafka in this group from now on. No partition of the former group is held."""
        self._holdings.group = group
        self._changed()

    def refused(self, partition: int, standing: SinkEntry) -> None:
        """End a holding because the sink has another owner's token."""
        self._holdings.fence(self._holdings.held[partition], standing.token)
        where = (
            f"in the sink under {standing.consumer} ({shown(standing.token)}): stopped; if "
            "that was before ZooKeeper was lost or the topic was added again, delete its row there (docs/delivery.md)"
        )
        self._reports.add(partition, f" stands {where}", partition=partition, several=f" stand {where}")

    def stop(self, why: str = "") -> None:
        """Stop everything for good, and commit all passed offsets. Release nothing."""
        if why:
            self._reports.add("stopped", why)
        if not self._stopping:
            for held in self._holdings.held.values():
                held.commits.farewell = held.passes.empty_at > held.passes.last_at
        self._stopping = True
        self._changed()

    def _resume(self, paused: Collection[int]) -> None:
        """Do not count the time of a pause as a stall."""
        for partition in self._holdings.paused - frozenset(paused):
            if partition in self._holdings.held:
                self._holdings.held[partition].progressed_at = self._clock.monotonic()

    # Views for others
    # --------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Return whether no partition is held and no release is owed."""
        return not (self._holdings.held or self._holdings.owed_releases or self._releasing.outbox)

    @property
    def involved(self) -> bool:
        """Return whether the accepted node names this consumer as owner, giver or taker, or a partition is held."""
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
        """Return this consumer's incarnation in the accepted node; `None` if absent."""
        accepted = self._holdings.accepted
        return accepted.incarnations.get(self._identity.consumer) if accepted is not None else None

    def awaited(self) -> dict[int, Handoff]:
        """Return the hand-offs to this consumer without a release yet. Their partition nodes need watches."""
        mine = self._identity
        entries = takes_over(self._holdings.accepted, mine.consumer, mine.incarnation, self.isolated)
        return {p: e for p, e in entries.items() if p not in self._holdings.held}

    def may_hold(self) -> dict[int, int]:
        """Return partition → epoch for each partition that the accepted node lets this consumer run or take over."""
        mine = self._identity
        return may_hold(self._holdings.accepted, mine.consumer, mine.incarnation, self.isolated)

    # The rules -------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """Apply grants that may have changed."""
        self._granted = None
        self.apply()
        self._holdings.awaiting = bool(self.awaited())
        self._forget()

    def _forget(self) -> None:
        """End reports about partitions that are neither held, nor granted, nor to be released.

        Without any such partition, no request goes to Kafka or the sink, so reports about failed requests end as well.
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
        """Bring the holdings in line with the grants. Repeated, because a close may allow a release or a start."""
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
        """End the reports about a partition; with `stopped`, also the report about the reason of its stop."""
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

    def unread(self, limit_s: float, *, failing: bool) -> tuple[int, ...]:
        """Return the granted partitions that have waited for the topic's first query for `limit_s`.

        If the query fails to start (`failing`), the failure is reported and the query is started again, so the wait
        begins anew.
        """
        if self._granted is None:
            return ()  # the node has just changed
        if self.opened or failing or not self._granted:
            self._unread_since = None
            return ()
        now = self._clock.monotonic()
        self._unread_since = now if self._unread_since is None else self._unread_since
        return tuple(sorted(self._granted)) if now - self._unread_since > limit_s else ()

    def _is_void(self, token: Token) -> bool:
        return self._void is not None and token.generation == self._void[0] and token.epoch <= self._void[1]
