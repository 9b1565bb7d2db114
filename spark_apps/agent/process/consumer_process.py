"""A consumer as a process, for any kind of sink: session, incarnation, status interface, agent, leave.

This module uses real threads and real time. Spark applications and plain clients both run it.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from coordinator_tasks import __version__
from coordinator_tasks.core.errors import Refused, StoreUnavailable
from coordinator_tasks.core.machine.presence import wants
from coordinator_tasks.core.model import ConsumerStatus, Member, TopicNode
from coordinator_tasks.core.names import Paths, check_address, check_consumer
from coordinator_tasks.core.ports import GroupOffsets, RecordAccess
from coordinator_tasks.core.text import topic_patterns
from coordinator_tasks.core.text.json_fields import MAX_REAL
from coordinator_tasks.logs import know
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.signals import on_signals
from coordinator_tasks.status_tokens import StatusTokens
from coordinator_tasks.wiring import ConsumerSession, Settings, open_consumer_session
from spark_apps.agent.interface.metrics import exposed
from spark_apps.agent.interface.sampling import SampledStatus
from spark_apps.agent.interface.status_server import Interface, StatusServer
from spark_apps.agent.process.agent import Agent, AgentTiming
from spark_apps.agent.process.journal import Journal
from spark_apps.agent.settings import Identity, Pacing, Timing
from spark_apps.agent.threads.topics import Topics
from spark_apps.agent.zookeeper.view import existing
from spark_apps.delivery.lineage import RunFacts, opened
from spark_apps.records.options import ISOLATION

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LONGEST_SLEEP_S = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """One consumer of a site.

    `topics`: names or regular expressions of the wanted topics; empty = any. `host`, `port`: the interface's listening
    address; its token and certificate are the site's. `run_folder`: where the launcher looks for the incarnation; empty
    = nowhere. `start_timeout_s`: how long a start waits for ZooKeeper. `measure_bytes`: sample a few records of each
    partition from time to time, for plans by bytes. `advertised`: the address for other hosts, if not the bound
    address; `direct` False: this address is a proxy's. `own_name`: this host's name in the bound address, if others use
    another.
    """

    site: Settings
    consumer: str
    topics: tuple[str, ...] = ()
    rack: str = ""
    capacity: float = 1.0
    attributes: dict[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 0
    advertised: str = ""
    own_name: str = ""
    direct: bool = True
    run_folder: str = ""
    start_timeout_s: float = 60.0
    measure_bytes: bool = False
    timing: Timing = field(default_factory=Timing)
    pacing: Pacing = field(default_factory=Pacing)
    agent_timing: AgentTiming = field(default_factory=AgentTiming)

    def __post_init__(self) -> None:
        check_consumer(self.consumer)
        problem = topic_patterns.problem(self.topics)
        if problem:
            raise Refused(f"{problem}; correct --topics")
        if self.advertised:
            check_address(self.advertised)
        if not 0 <= self.capacity <= MAX_REAL:
            raise Refused(f"{self.capacity} is no capacity; give a number from 0 to {MAX_REAL:.0f}")


class LeaveRequests:
    """Requests to leave, from any thread; kept until the agent exists."""

    def __init__(self) -> None:
        self._asked: list[float | None] = []
        self._leave: Callable[[float | None], None] | None = None

    def ask(self, within_s: float | None) -> None:
        """Leave within `within_s` seconds; `None` = the default limit."""
        self._asked.append(within_s)  # before the test of `_leave`, so that a concurrent `hand_to` finds the request
        if self._leave is not None:
            self._leave(within_s)

    @property
    def any(self) -> bool:
        return bool(self._asked)

    def hand_to(self, leave: Callable[[float | None], None]) -> None:
        """Pass later requests to `leave`, and earlier requests too. The same request may be passed twice."""
        self._leave = leave
        for within_s in tuple(self._asked):
            leave(within_s)


class Process:
    """A consumer between its registration and its end."""

    def __init__(self, settings: ConsumerSettings, session: ConsumerSession, incarnation: int) -> None:
        self.settings = settings
        self.identity = Identity(settings.consumer, settings.site.cluster, incarnation)
        self.clock = session.clock
        self._session = session
        self._wake = threading.Event()
        self._offsets: dict[tuple[str, str], GroupOffsets] = {}
        self._requests = LeaveRequests()
        self._said: str | None = None
        self._spark_ui = self._application_id = ""
        self.lineage = opened(RunFacts(settings.site.cluster, settings.consumer, incarnation))
        self.agent: Agent | None = None

    def wake(self) -> None:
        """Let the agent look at once. Callable from any thread."""
        self._wake.set()

    def wants(self, topics: tuple[str, ...]) -> None:
        """Register for these topics; empty = any. Call before `run`."""
        self.settings = replace(self.settings, topics=topics)

    def works_in(self, spark_ui: str, application_id: str) -> None:
        """Register with this Spark UI (empty = no UI) and Spark application. Call before `run`."""
        self._spark_ui, self._application_id = spark_ui, application_id

    def connect(self, node: TopicNode) -> GroupOffsets:
        """Return the access to the committed offsets of a topic's group. A request ends after the commit time-out."""
        level = node.properties.get(ISOLATION, "read_uncommitted")
        key = (node.group_id, level)
        if key not in self._offsets:  # topics of one group share the clients
            self._offsets[key] = self._connect(node, level)
        return self._offsets[key]

    def topics(self, among: Callable[[str], bool]) -> Iterator[tuple[str, TopicNode]]:
        """Yield the existing topics that this consumer wants, `among` these names; raises `Unavailable` kinds."""
        settings = self.settings
        paths = Paths(settings.site.cluster)
        return existing(self._session.zk, paths, lambda topic: among(topic) and wants(settings.topics, topic))

    def records(self, group: str) -> RecordAccess:
        """Return the access to single records. The account needs rights on the group."""
        return self._session.records(group)

    def _connect(self, node: TopicNode, level: str) -> GroupOffsets:
        kafka = {ISOLATION: level, **self.settings.site.kafka}
        site = replace(self.settings.site, kafka=kafka, answer_timeout_s=self.settings.timing.commit_timeout_s)
        return replace(self._session, settings=site).group_offsets(node.group_id)

    def leave(self, within_s: float | None = None) -> None:
        """Ask for a clean leave. A second call ends the wait for hand-offs."""
        self._requests.ask(within_s)

    @property
    def leaving(self) -> bool:
        return self._requests.any

    def run(self, topics: Topics) -> int:
        """Serve until the consumer has left. Return 0 after a clean leave, 1 after a forced leave; raises `IdInUse`."""
        interface = Interface()
        settings = self.settings
        site = settings.site
        tokens = StatusTokens(site.status_token, site.status_token_file)
        address = (settings.host, settings.port)
        server = StatusServer(
            interface, *address, tokens, settings.advertised, site.interface_tls, own_name=settings.own_name
        )
        try:
            self.agent = self._agent(server.address, topics)
            self._requests.hand_to(self.agent.leave)
            journal = Journal(self.agent.standing)
            know(incarnation=self.identity.incarnation, epoch_of=journal.epoch_of)
            with self._status(self.agent) as status:
                figures = self.agent.figures
                interface.status, interface.post, interface.condition = status, self.agent.posted, self.agent.condition
                interface.metrics = lambda: exposed(figures())
                while not self.agent.finished:
                    self.agent.step()
                    journal.look(self.clock.monotonic())
                    if self.agent.failure:
                        self._say_leaving(self.agent.failure)
                    self._wake.wait(LONGEST_SLEEP_S)
                    self._wake.clear()
            self._say_leaving(self.agent.failure)
            if self.agent.failure:
                log.error("consumer %s has left: %s", settings.consumer, self.agent.failure)
            return 1 if self.agent.failure else 0
        finally:
            server.close()

    def _say_leaving(self, reason: str) -> None:
        """Tell the launcher that this process ends, so that the launcher kills a stuck process."""
        if not self.settings.run_folder or self._said == reason:
            return
        self._said = reason
        try:
            RunFolder(Path(self.settings.run_folder)).write_leaving(reason, time.time())
        except OSError as error:
            log.warning("the launcher cannot be told that consumer %s leaves: %s", self.settings.consumer, error)

    @contextmanager
    def _status(self, agent: Agent) -> Iterator[Callable[[], ConsumerStatus]]:
        """Yield the function that returns the agent's status, with record sizes if wanted."""
        if not self.settings.measure_bytes:
            yield agent.status
            return
        sampled = SampledStatus(agent.status, self._session.sampler())
        with sampled.sampling():
            yield sampled.status

    def _registration(self, address: str) -> Member:
        settings = self.settings
        return Member(
            consumer=settings.consumer,
            incarnation=self.identity.incarnation,
            address=settings.advertised or address,
            boot_id=_boot_id(),
            rack=settings.rack,
            capacity=settings.capacity,
            topics=settings.topics,
            direct=settings.direct,
            attributes=settings.attributes,
            process=self._session.process,
            release=__version__,
            spark_ui=self._spark_ui,
            application_id=self._application_id,
        )

    def _agent(self, address: str, topics: Topics) -> Agent:
        return Agent(
            self._session.zk,
            self._session.registry,
            self.clock,
            self._registration(address),
            self.settings.site.cluster,
            topics=topics,
            wake=self.wake,
            timing=self.settings.agent_timing,
            separate=self._session.separate,
        )


def _session(settings: ConsumerSettings, ending: ExitStack) -> ConsumerSession:
    """Connect to ZooKeeper. While ZooKeeper is down, wait and log the outage, since no ownership is known."""
    until = time.monotonic() + settings.start_timeout_s
    while True:
        try:
            return ending.enter_context(open_consumer_session(settings.site))
        except StoreUnavailable as error:
            if time.monotonic() >= until:
                raise
            log.warning("%s; waiting for it", error)


stand_in: Callable[[ConsumerSettings, object], int] | None = None
"""Runs in place of each plain consumer of this process, with its settings and its output: a replay of dead letters."""


@contextmanager
def open_process(settings: ConsumerSettings) -> Iterator[Process]:
    """Connect, draw an incarnation, and write the incarnation for the launcher; raises `StoreUnavailable`.

    Raises `Refused` in a process that replays dead letters.
    """
    if stand_in is not None:
        raise Refused(
            "a replay of dead letters runs this program, and only a PlainConsumer can replay; name the function of a Spark pipeline "
            "with --pipeline topic=module:function"
        )
    with ExitStack() as ending:
        session = _session(settings, ending)
        incarnation = session.claim_incarnation(settings.consumer)
        if settings.run_folder:
            RunFolder(Path(settings.run_folder)).write_drawn(incarnation)
        process = Process(settings, session, incarnation)
        if process.lineage is not None:
            ending.callback(process.lineage.close)
        yield process


@contextmanager
def leave_on_signals(leave: Callable[[float | None], None]) -> Iterator[None]:
    """Leave cleanly on the first SIGTERM or SIGINT, at once on the second; main thread only."""
    seen: list[int] = []

    def asked(number: int) -> None:
        seen.append(number)
        leave(None if len(seen) == 1 else 0.0)

    with on_signals(asked, signal.SIGTERM, signal.SIGINT):
        yield


def _boot_id() -> str:
    with suppress(OSError):
        return BOOT_ID.read_text().strip()
    return os.uname().nodename
