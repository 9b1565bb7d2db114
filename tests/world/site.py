"""A whole cluster over the fakes: the production services, and consumers that act by the production rules.

Nothing happens by itself: a test (or a scenario file) says when a consumer reads, acts or dies and when a task runs.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.member_codec import decode_claim, encode_claim
from coordinator_tasks.core.errors import UNREADABLE
from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import (
    Actor,
    Answer,
    Committed,
    Condition,
    ConsumerStatus,
    Ending,
    Isolation,
    Member,
    Record,
    Release,
    RunningPartition,
    Silence,
    State,
    Token,
    TopicConfig,
    TopicNode,
    TopicState,
    TopicStatus,
    Unreachable,
)
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Connection, SetData
from coordinator_tasks.core.protocol import claims
from coordinator_tasks.core.protocol.holding import Reading, accepts, changes, grants, may_hold, owes_release
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.service.nodes.history import records
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.zookeeper import FakeZooKeeper

LOOP = Actor("loop", "test")


@dataclass
class Process:
    """A consumer process.

    `stubborn`: releases, but continues and reports so; `plain`: only knows `assignments`; `leaving`: closes all
    partitions, and begins nothing. `rate`: reported records/s for each partition.
    """

    site: "Site"
    member: Member
    zk: FakeZooKeeper
    pictures: dict[str, TopicNode] = field(default_factory=dict)
    running: dict[str, dict[int, Token]] = field(default_factory=dict)
    released: dict[str, dict[int, int]] = field(default_factory=dict)
    isolated: bool = False
    silence: Silence | None = None
    stubborn: bool = False
    plain: bool = False
    leaving: bool = False
    rate: float | None = None

    @property
    def connected(self) -> bool:
        return self.zk.connection is Connection.CONNECTED

    def read(self, topic: str) -> None:
        """Read the topic node and the own directive, and accept them as far as the rules allow."""
        with suppress(*UNREADABLE):  # an unreadable node changes nothing
            isolation = self.site.isolation(self.member.consumer)
            self.isolated = isolation is not None and isolation.incarnation in (0, self.member.incarnation)
        node = self.zk.find(self.site.paths.topic(topic))
        if node is not None and node.data:
            self.accept(topic, codec.decode_node(topic, node.data))

    def accept(self, topic: str, seen: TopicNode) -> None:
        if accepts(self.pictures.get(topic), seen) is Reading.ACT:
            self.pictures[topic] = seen

    def act(self, topic: str) -> None:
        """Stop, release and start all at once, by the accepted node."""
        me, incarnation, picture = self.member.consumer, self.member.incarnation, self.pictures.get(topic)
        runs, released = self.running.setdefault(topic, {}), self.released.setdefault(topic, {})
        owed = {} if self.plain else owes_release(picture, me, incarnation, self.isolated)
        found = {} if self.plain else self.site.releases(topic)
        todo = changes(grants(picture, me, incarnation, found, self.isolated), runs, (), owed, released)
        for partition in [*runs] if self.leaving else todo.stop if not self.stubborn else ():
            del runs[partition]
        granted = {} if self.leaving else grants(picture, me, incarnation, found, self.isolated)
        for grant in changes(granted, runs, (), owed, released).start:
            self._start(topic, grant.partition, grant.token)
        due = owed if self.stubborn else changes({}, runs, (), owed, released).release
        for partition in due if self.connected else ():
            assert picture is not None
            self._release(topic, partition, picture)

    def _start(self, topic: str, partition: int, token: Token) -> None:
        group = self.site.kafka.offsets("g")
        known = group.committed(topic, [partition]).get(partition)
        entry = Committed(
            known.offset if known else 0, token, self.member.consumer, self.site.name, self.pictures[topic].topic_id
        )
        group.commit(topic, {partition: entry})
        self.running[topic][partition] = token

    def _release(self, topic: str, partition: int, picture: TopicNode) -> None:
        entry = picture.handoff[partition]
        token = Token(entry.epoch - 1, self.member.incarnation, picture.generation)
        release = Release(entry.epoch, self.member.consumer, self.member.incarnation, 0, picture.generation, token)
        path = self.site.paths.partition(topic, partition)
        self.zk.transact([SetData(path, codec.encode_release(release))])
        self.released[topic][partition] = entry.epoch

    def answer(self, asked: Member) -> Answer:
        if self.silence is not None:
            return Unreachable(self.silence, "connection refused" if self.silence is Silence.REFUSED else "no answer")
        if asked.address != self.member.address:
            return Unreachable(Silence.REFUSED, "connection refused")
        found = {topic: self._status(topic, picture) for topic, picture in self.pictures.items()}
        condition = Condition.LEAVING if self.leaving else Condition.OK
        return ConsumerStatus(
            self.member.consumer,
            self.site.name,
            self.member.incarnation,
            self.member.boot_id,
            condition.value,
            found,
            condition=condition,
        )

    def _status(self, topic: str, picture: TopicNode) -> TopicStatus:
        held = {} if self.plain else may_hold(picture, self.member.consumer, self.member.incarnation, self.isolated)
        runs = {p: RunningPartition(0, t, started=True, rate=self.rate) for p, t in self.running.get(topic, {}).items()}
        return TopicStatus(picture.generation, picture.epoch, held, runs)


@dataclass
class Site(Cluster):
    """A cluster with topics and consumer processes."""

    processes: dict[str, Process] = field(default_factory=dict)

    def add_topic(self, topic: str = "orders", partitions: int = 4) -> TopicConfig:
        self.kafka.create_topic(topic, partitions)
        return topics.add_topic(self.coordinator, topic, "g", actor=PERSON)

    def starts(self, *consumers: str, topics: tuple[str, ...] = ()) -> None:
        for consumer in consumers:
            session = self.server.connect()
            self.process(self.join(consumer, session, topics), session)

    def process(self, member: Member, session: FakeZooKeeper) -> Process:
        """The process of a registered member."""
        process = self.processes[member.consumer] = Process(self, member, session)
        self.statuses.answers[member.consumer] = process.answer
        return process

    def register(self, member: Member, session: FakeZooKeeper) -> None:
        ZooKeeperRegistry(session, self.paths, self.clock).register(member)

    def dies(self, consumer: str, how: Ending | None = Ending.REAPED, reason: str = "") -> None:
        """End the session at once, with a report of end and reason unless `how` is `None`.

        The report comes from the launcher, or from the process itself.
        """
        process = self.processes.pop(consumer)
        process.zk.close()
        self.statuses.answers[consumer] = Unreachable(Silence.REFUSED, "connection refused")
        if how is not None:
            path = self.paths.id(consumer)
            node = self.zk.get(path)
            claim = decode_claim(path, node.data, consumer, node.stat.version)
            ended = claims.ended(claim, process.member.incarnation, how, reason, self.clock.now())
            self.zk.transact([SetData(path, encode_claim(ended))])

    def loses_session(self, consumer: str) -> None:
        """Cut the consumer off from ZooKeeper: the node vanishes, the interface continues to answer."""
        process = self.processes[consumer]
        process.zk.expire()
        process.zk.suspend()

    def tells(self, consumer: str, change: Callable[[TopicStatus], TopicStatus]) -> None:
        """Change what the consumer's interface says of each topic from now on."""
        answer = self.processes[consumer].answer

        def answered(asked: Member) -> Answer:
            said = answer(asked)
            if not isinstance(said, ConsumerStatus):
                return said
            return replace(said, topics={topic: change(one) for topic, one in said.topics.items()})

        self.statuses.answers[consumer] = answered

    def everybody_acts(self, *names: str) -> None:
        for _ in range(2):  # a taker needs the giver's release
            for topic in names or filter(is_topic, transitions.topics(self.coordinator)):
                for process in self.processes.values():
                    if process.connected:
                        process.read(topic)
                    process.act(topic)

    def settles(self, rounds: int = 30) -> None:
        """Consumers and the plain loop's step take turns until nothing is written any more."""
        for _ in range(rounds):
            self.clock.advance(2)
            self.everybody_acts()
            reports = transitions.step(self.coordinator, transitions.topics(self.coordinator), LOOP)
            if all(report.outcome is not TopicOutcome.WRITTEN for report in reports):
                return
        raise AssertionError(f"it does not settle: {reports}")

    def step(self, after_s: float = 0.0) -> TopicReport:
        """The plain loop's step of orders, so many seconds later."""
        self.clock.advance(after_s)
        (report,) = transitions.step(self.coordinator, ["orders"], LOOP)
        return report

    # Present state
    # ------------------------------------------------------------------------------------------------------

    def node(self, topic: str = "orders") -> TopicNode:
        return codec.decode_node(topic, self.zk.get(self.paths.topic(topic)).data)

    def state(self, topic: str = "orders") -> TopicState:
        found = self.zk.find(self.paths.state(topic))
        return codec.decode_state(topic, found.data) if found is not None else TopicState(State.INITIAL)

    def releases(self, topic: str = "orders") -> dict[int, Release]:
        found = {}
        for child in self.zk.children(self.paths.topic(topic)):
            release = codec.decode_release(child, self.zk.get(f"{self.paths.topic(topic)}/{child}").data)
            if release is not None:
                found[int(child)] = release
        return found

    def history(self, topic: str = "orders") -> list[Record]:
        """Oldest first."""
        return list(reversed(records(self.coordinator, topic, 1_000)))

    def counts(self, topic: str = "orders") -> dict[str, int]:
        owners = list(self.node(topic).assignments.values())
        return {owner: owners.count(owner) for owner in sorted(set(owners))}

    def owned(self, consumer: str, topic: str = "orders") -> set[int]:
        return {partition for partition, owner in self.node(topic).assignments.items() if owner == consumer}

    def commit(self, partition: int, offset: int) -> None:
        """Consumer a commits an offset of orders under the present token."""
        node = self.node()
        token = Token(node.since[partition], 1, node.generation)
        entry = Committed(offset, token, "a", self.name, node.topic_id)
        self.kafka.offsets("g").commit("orders", {partition: entry})

    def check(self, topic: str = "orders") -> None:
        assert invariants.of_topic(self.node(topic), self.state(topic)) == []

    def isolation(self, consumer: str) -> Isolation | None:
        return directives.read_directive(self.coordinator, consumer).isolation

    def with_policy(self, **changes: float) -> None:
        self.policy = replace(self.policy, **changes)  # type: ignore[arg-type]
        self.coordinator = replace(self.coordinator, policy=self.policy)


def stable_site(*consumers: str, partitions: int = 4, names: tuple[str, ...] = ("orders",)) -> Site:
    """Return a site with Stable topics shared by the consumers."""
    site = Site()
    for topic in names:
        site.add_topic(topic, partitions)
    site.starts(*consumers)
    site.settles()
    assert all(site.state(topic).state is State.STABLE for topic in names)
    return site
