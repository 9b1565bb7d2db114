"""The consumer's agent: registers in ZooKeeper, and keeps the holdings in line with the coordinator's writes.

One thread calls `step`; callbacks and other threads only wake this thread. Rules:
- A topic node counts only if read after the registration and in the registration's session.
- The queries of existing topics start before the first registration: a registered consumer may get partitions at once,
  and they would stand still until the query has started.
- Without ZooKeeper the agent continues with the accepted nodes and reports the outage. Kafka's commits stay fenced.
- If another process takes the consumer's id, this process continues with its holdings, and ends when it holds nothing.
- A leave: mark the consumer as draining, hand the partitions over, commit, stop the queries. Then write the end of the
  incarnation and of the registration in one transaction. Before a planned restart, the consumer neither drains nor
  hands over: the next process of the id gets all partitions. The status interface answers until the end. A consumer
  drained by a person leaves when it holds nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from coordinator_tasks.core.codecs.codec import decode_node
from coordinator_tasks.core.codecs.member_codec import decode_claim, encode_claim, encode_directive, encode_leave
from coordinator_tasks.core.errors import (
    CoordinatorError,
    DiscoveryUnavailable,
    IdInUse,
    InvalidName,
    LookAgain,
    Malformed,
    Unavailable,
)
from coordinator_tasks.core.machine.presence import subscribes
from coordinator_tasks.core.model import Condition, ConsumerStatus, Draining, DrainKind, DrainOwner, Ending, Member
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Clock, Connection, Create, Delete, Operation, Registry, SetData, ZooKeeper
from coordinator_tasks.core.protocol import claims
from coordinator_tasks.core.protocol.znodes import put
from spark_apps.agent.ownership.figures import ConsumerFigures
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.process.journal import TopicAccount
from spark_apps.agent.reports import Reports
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.topics import Topics
from spark_apps.agent.zookeeper.view import SessionChanged, View


@dataclass(frozen=True, slots=True)
class AgentTiming:
    """Seconds. `poll_s`: between two reads of all nodes; the nodes of large topics are read less often (`view`).

    `close_timeout_s`: limit for the hand-offs of a leave. `finish_s`: limit for the last commits after the hand-offs.
    `stalled_s`: the consumer leaves if an owned partition with lag makes no progress for this time. `stop_s`: the
    consumer leaves if the batch of a revoked partition does not end in this time. `slow_batch_s`: a longer batch makes
    the consumer unhealthy. `stop_s` and `slow_batch_s` grow to ten times the usual duration of a batch. `prepare_s`:
    limit for starting the queries before the first registration.
    """

    poll_s: float = 1.0
    prepare_s: float = 20.0
    register_s: float = 5.0
    close_timeout_s: float = 30.0
    finish_s: float = 10.0
    stalled_s: float = 300.0
    stop_s: float = 120.0
    slow_batch_s: float = 30.0


class Agent:
    """One consumer. `finished`: the leave is complete. `failure`: the reason of a forced leave."""

    def __init__(
        self,
        zk: ZooKeeper,
        registry: Registry,
        clock: Clock,
        member: Member,
        cluster: str,
        *,
        topics: Topics,
        wake: Callable[[], None],
        timing: AgentTiming | None = None,
        separate: bool = False,
    ) -> None:
        """`separate`: this consumer's ZooKeeper account is not the coordinator's, and may not write directives."""
        self.identity = Identity(member.consumer, cluster, member.incarnation)
        self.reports = Reports()
        self.finished = False
        self.failure = ""
        self._zk = zk
        self._registry = registry
        self._clock = clock
        self._member = member
        self._paths = Paths(cluster)
        self._topics = topics
        self._wake = wake
        self._timing = timing or AgentTiming()
        self._separate = separate
        self._leave_written_in = 0
        self._view = View(
            zk,
            self._paths,
            self.identity,
            clock,
            topics=topics,
            wanted=lambda topic: subscribes(member, topic),
            reports=self.reports,
            wake=wake,
        )
        self._connection = Connection.CONNECTED
        self._session = 0
        self._registered = False
        self._prepare_until: float | None = None
        self._poll_at = 0.0
        self._register_at = 0.0
        self._leave_until: float | None = None
        self._stopping = False
        self._halt_at = 0.0
        self._halted = False
        self._trouble = ""
        self._failing = ""
        zk.listen(self._on_connection)

    # From other threads ----------------------------------------------------------------------------------------------

    def _on_connection(self, connection: Connection) -> None:
        self._connection = connection
        self._wake()

    def leave(self, within_s: float | None = None) -> None:
        """Leave cleanly: hand all partitions over within `within_s` seconds; `None` = `close_timeout_s`."""
        limit_s = self._timing.close_timeout_s if within_s is None else within_s
        until = self._clock.monotonic() + limit_s
        self._leave_until = until if self._leave_until is None else min(until, self._leave_until)
        self._wake()

    def posted(self, topic: str, raw: bytes) -> bool:
        """Take a topic node that was posted to this consumer. Return False for an unknown topic; raises `Malformed`."""
        if topic not in self._topics.names():
            return False
        seen = decode_node(self._paths.topic(topic), raw)
        self._topics.edit(topic, lambda ownership: ownership.grants.on_posted(seen))
        self._view.look_again(topic)  # an outdated post would stop partitions until the stored node is read
        return True

    def status(self) -> ConsumerStatus:
        condition, why = self._health()
        return ConsumerStatus(
            consumer=self.identity.consumer,
            cluster=self.identity.cluster,
            incarnation=self.identity.incarnation,
            boot_id=self._member.boot_id,
            health=f"{condition}: {why}" if why else condition.value,
            condition=condition,
            topics={topic: self._topics.edit(topic, TopicOwnership.status) for topic in sorted(self._topics.names())},
            reports=self.reports.all(),
        )

    def figures(self) -> ConsumerFigures:
        names = sorted(self._topics.names())
        reports = len(self.reports.all()) + sum(
            self._topics.edit(topic, lambda ownership: len(ownership.problems())) for topic in names
        )
        return ConsumerFigures(
            consumer=self.identity.consumer,
            cluster=self.identity.cluster,
            incarnation=self.identity.incarnation,
            condition=self.condition(),
            registered=self._is_registered,
            reports=reports,
            topics={topic: self._topics.edit(topic, TopicOwnership.figures) for topic in names},
        )

    def standing(self) -> dict[str, TopicAccount]:
        """Return the facts for the log by topic. The consumer's own facts have an empty name."""
        found = {topic: self._topics.edit(topic, _standing) for topic in sorted(self._topics.names())}
        return {"": TopicAccount(self.reports.problems()), **found}

    def condition(self) -> Condition:
        return self._health()[0]

    def _health(self) -> tuple[Condition, str]:
        if self.failure:
            return Condition.FAILED, self.failure
        if self._leave_until is not None:
            return Condition.LEAVING, ""
        if self._trouble:
            return Condition.STUCK, self._trouble
        if self._failing:
            return Condition.FAILING, self._failing
        if self._is_registered:
            return Condition.OK, ""
        return (Condition.DETACHED if self._registered else Condition.STARTING), ""

    @property
    def _is_registered(self) -> bool:
        known = self._session != 0 and self._session == self._zk.session_id
        return known and self._connection is Connection.CONNECTED

    # The agent's thread ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Do the due work. Raises `IdInUse` from the first registration; other failed requests are only reported."""
        self._check_progress()
        if self._connection is Connection.CONNECTED:
            try:
                self._in_session()
                self.reports.clear("zookeeper")
            except SessionChanged:
                self._wake()
            except IdInUse as error:
                if not self._registered:
                    raise
                self.reports.add("zookeeper", f"{error}; going on with what is known")
                if self._leave_until is None and not self._any(lambda ownership: bool(ownership.holdings.held)):
                    self._give_up(str(error))
            except CoordinatorError as error:
                self.reports.add("zookeeper", f"{error}; going on with what is known")
        else:
            self.reports.add("zookeeper", f"ZooKeeper is {self._connection.value}: going on with what is known")
        if self._leave_until is not None:
            self._go_on_leaving(self._leave_until)

    def _in_session(self) -> None:
        now = self._clock.monotonic()
        if not self._registered and (self._leave_until is not None or not self._prepared(now)):
            return
        self._register(now)
        polling = now >= self._poll_at
        if polling:
            self._poll_at = now + self._timing.poll_s
        try:
            self._view.read(polling)
            self._view.write_releases()
        except SessionChanged:
            self._session = 0
            raise
        if self._leave_until is None and self._drained():
            self.leave()
        if self._leave_until is not None and not self.failure:
            self._mark_draining()

    def _prepared(self, now: float) -> bool:
        """Return whether each existing topic's query reads, or `prepare_s` is over and at least one query works."""
        if self._prepare_until is None:
            self._prepare_until = now + self._timing.prepare_s
        self._view.prepare()
        if self._failing and not self._any(lambda ownership: ownership.grants.opened):
            return False  # without a working query, the consumer would only keep partitions from others
        return now >= self._prepare_until or not self._any(lambda ownership: not ownership.grants.opened)

    def _register(self, now: float) -> None:
        session = self._zk.session_id
        if session == self._session and now < self._register_at:
            return
        try:
            self._registry.register(self._member)
            self.reports.clear("registry")
        except (DiscoveryUnavailable, Malformed, InvalidName) as error:
            if session != self._session:
                raise
            # Other consumers' hand-offs wait for our reads and writes. An unreadable registration still counts.
            self.reports.add("registry", f"{error}; hand-offs go on without it")
        self._registered = True
        self._register_at = now + self._timing.register_s
        if session != self._session:
            self._view.begin(session)
            self._session = session
            self._poll_at = 0.0

    def _check_progress(self) -> None:
        if self.failure or self._halted:
            return
        found, trouble, limits = self._topics.failure(), self._topics.trouble(), self._timing
        failing = ""
        for topic in self._topics.names():
            said = self._topics.edit(topic, lambda ownership: ownership.failing.sentences())
            failing = failing or next((f"topic {topic}: {sentence}" for sentence in said), "")
            stalled = self._topics.edit(topic, lambda ownership: ownership.batches.stalled(limits.stalled_s))
            if stalled and not found:
                found = f"topic {topic}: no progress for {limits.stalled_s:g} s in partitions {list(stalled)}"
            unread = self._topics.edit(topic, partial(_unread, limit_s=limits.stalled_s, failing=bool(said)))
            if unread and not found:
                found = f"topic {topic}: no query has read partitions {list(unread)} for {limits.stalled_s:g} s"
            kept = self._topics.edit(topic, lambda ownership: ownership.batches.kept(limits.stop_s, limits.stalled_s))
            if kept and not found:
                found = f"topic {topic}: {kept}"
            overdue = self._topics.edit(topic, lambda ownership: ownership.batches.overdue(limits.slow_batch_s))
            if overdue and not trouble:
                trouble = f"topic {topic}: {overdue}"
        self._trouble, self._failing = trouble, failing
        if found:
            self._give_up(found)

    def _give_up(self, why: str) -> None:
        self.failure = why
        self.reports.add("failure", why)
        self.leave(within_s=0.0)

    # Leaving ---------------------------------------------------------------------------------------------------------

    def _drained(self) -> bool:
        """Return whether a person has drained this consumer and no node names the consumer any more."""
        draining = self._view.directive.draining
        if draining is None or draining.incarnation != 0:
            return False
        return not self._any(lambda ownership: ownership.grants.involved or ownership.grants.incarnation is not None)

    def _restarts(self) -> bool:
        """Return whether a person has planned a restart of this id, for which the partitions wait."""
        restart, draining, mine = self._view.directive.restart, self._view.directive.draining, self.identity.incarnation
        return (
            restart is not None
            and restart.incarnation == mine
            and not restart.moves
            and (draining is None or draining.incarnation not in (0, mine))
            and restart.holds(self._clock.now())
        )

    def _mark_draining(self) -> None:
        mine = self.identity
        directive, draining = self._view.directive, self._view.directive.draining
        if self._restarts():
            return
        if draining is not None and mine.incarnation in (draining.incarnation, draining.leaving):
            return
        by_person = draining is not None and draining.incarnation == 0
        if by_person and not self._any(lambda ownership: ownership.grants.involved):
            return
        if self._separate:
            self._write_leave()
            return
        if draining is not None and by_person:
            # A person's draining lets the last consumer of a topic keep everything, so the mark stays. `leaving` adds
            # that this incarnation ends.
            draining = replace(draining, leaving=mine.incarnation)
        else:
            draining = self._own_leave()
        path, data = self._paths.directive(mine.consumer), encode_directive(replace(directive, draining=draining))
        write = Create(path, data) if directive.version < 0 else SetData(path, data, directive.version)
        # If another writer changed the node, read again and retry in the next step.
        with suppress(LookAgain):
            self._zk.transact([write])

    def _own_leave(self) -> Draining:
        mine, owner = self.identity, DrainOwner(DrainKind.ITSELF)
        return Draining(mine.consumer, "asked to end", self._clock.now(), mine.incarnation, owner=owner)

    def _write_leave(self) -> None:
        """Write into this consumer's leave node that this incarnation leaves, once per session."""
        if self._leave_written_in == self._session:
            return
        path = self._paths.leave(self.identity.consumer)
        found = self._zk.find(path)
        with suppress(LookAgain):
            self._zk.transact([put(path, encode_leave(self._own_leave()), -1 if found is None else found.stat.version)])
            self._leave_written_in = self._session

    def _go_on_leaving(self, until: float) -> None:
        now = self._clock.monotonic()
        over = now >= until or self._restarts()
        if not self._stopping and (over or not self._any(lambda ownership: ownership.grants.involved)):
            for topic in self._topics.names():
                self._topics.edit(topic, lambda ownership: ownership.grants.stop())
            self._stopping = True
            # The last batches get half of the remaining time.
            self._halt_at = (max(now, until) + until + self._timing.finish_s) / 2
        if not self._stopping:
            return
        idle = not self._any(lambda ownership: not ownership.grants.idle)
        if not self._halted and (idle or self.failure or now >= self._halt_at):
            self._topics.halt()
            self._halted = True
        # Without the last commits, do not write the end: the coordinator will notice the missing process.
        clean = self._halted and not self._any(lambda ownership: not ownership.grants.idle)
        self.finished = (clean and self._deregister()) or now >= until + self._timing.finish_s

    def _any(self, holds: Callable[[TopicOwnership], bool]) -> bool:
        return any(self._topics.edit(topic, holds) for topic in self._topics.names())

    def _deregister(self) -> bool:
        """Write the end of this incarnation and end its registration, in one transaction."""
        if self._connection is not Connection.CONNECTED:
            return False
        mine = self.identity
        id_path, member_path = self._paths.id(mine.consumer), self._paths.member(mine.consumer)
        try:
            claim_node, member_node = self._zk.find(id_path), self._zk.find(member_path)
            operations: list[Operation] = []
            if claim_node is not None:
                claim = decode_claim(id_path, claim_node.data, mine.consumer, claim_node.stat.version)
                ended = claims.ended(claim, mine.incarnation, Ending.LEFT, self.failure, self._clock.now())
                operations.append(SetData(id_path, encode_claim(ended), claim.version))
            if member_node is not None and member_node.stat.ephemeral_owner == self._zk.session_id:
                operations.append(Delete(member_path, member_node.stat.version))
            self._zk.transact(operations)
            self._registry.deregister(mine.consumer, mine.incarnation)
        except LookAgain:
            return False
        except (Unavailable, Malformed) as error:
            self.reports.add("zookeeper", str(error))
            return False
        return True


def _standing(ownership: TopicOwnership) -> TopicAccount:
    accepted = ownership.holdings.accepted
    epoch = accepted.epoch if accepted is not None else 0
    return TopicAccount(ownership.problems(), frozenset(ownership.holdings.held), epoch)


def _unread(ownership: TopicOwnership, limit_s: float, failing: bool) -> tuple[int, ...]:
    return ownership.grants.unread(limit_s, failing=failing)
