"""A whole cluster in memory: the coordinator of the services, with every neighbour a fake."""

from dataclasses import dataclass, field

from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery, ZooKeeperRegistry, claim_incarnation
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import FORMATS, Actor, Fleet, Member
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import ZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from tests.fakes.clock import FakeClock
from tests.fakes.consumers import FakeStatusClient
from tests.fakes.kafka import FakeKafka
from tests.fakes.zookeeper import FakeZooKeeperServer

PERSON = Actor("command", "ada")


class AllowEverything(AllowedLaunches):
    """For tests of launches."""

    def problem(self, fleet: Fleet) -> str:
        return ""


@dataclass
class Cluster:
    """`server` may be shared by several clusters; `zk` is the coordinator's own session."""

    name: str = "shop"
    clock: FakeClock = field(default_factory=FakeClock)
    kafka: FakeKafka = field(default_factory=FakeKafka)
    statuses: FakeStatusClient = field(default_factory=FakeStatusClient)
    server: FakeZooKeeperServer = field(default_factory=FakeZooKeeperServer)
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        self.server.clock = self.clock
        self.zk = self.server.connect()
        self.paths = Paths(self.name)
        for folder in self.paths.folders():
            self.zk.ensure(folder)
        self.coordinator = Coordinator(
            paths=self.paths,
            zk=self.zk,
            discovery=ZooKeeperDiscovery(self.zk, self.paths),
            statuses=self.statuses,
            kafka=self.kafka,
            clock=self.clock,
            policy=self.policy,
            bootstrap_servers="broker:9092",
            allowed=AllowEverything(),
        )

    def join(
        self,
        consumer: str,
        zk: ZooKeeper | None = None,
        topics: tuple[str, ...] = (),
        formats: tuple[str, ...] = FORMATS,
    ) -> Member:
        """Register a new process of this id for `topics` in a separate session; return its registration."""
        session = zk or self.server.connect()
        incarnation = claim_incarnation(session, self.paths, consumer, 1)
        address = f"http://{consumer}:{9000 + incarnation}"
        member = Member(consumer, incarnation, address, "boot", topics=topics, formats=formats)
        ZooKeeperRegistry(session, self.paths, self.clock).register(member)
        return member
