"""A consumer process: production agent, ownership, batch planners, a reading query and a sink.

The three kinds of thread are fibers: the agent, a worker per topic for requests to Kafka, and the query. Batches of the
query are planned, pass the sink, and are covered by the next batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry, claim_incarnation
from coordinator_tasks.core.codecs.packed import begins_packed
from coordinator_tasks.core.errors import IdInUse, LookAgain, Refused, StoreUnavailable
from coordinator_tasks.core.model import FORMATS, PROPERTIES, SEEKS, ConsumerStatus, Member, TopicNode
from coordinator_tasks.core.ports import Clock
from coordinator_tasks.core.protocol.claims import MAX_STEP
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import perform
from spark_apps.agent.process.agent import Agent, AgentTiming
from spark_apps.agent.settings import Identity, Pacing
from spark_apps.records.batches import BatchOffset
from tests.simulation.interfaces import Listener
from tests.simulation.kafka import Offsets
from tests.simulation.kernel import Fiber, Host
from tests.simulation.zookeeper import Session

if TYPE_CHECKING:
    from tests.simulation.world import World

TIMING = AgentTiming(close_timeout_s=6.0, finish_s=4.0, stalled_s=60.0)
V = TypeVar("V")


@dataclass
class Query:
    """The query of a topic: `current` is the batch under way, `passed` whether the sink has it."""

    ownership: TopicOwnership
    planner: BatchPlanner
    start: BatchOffset
    current: BatchOffset | None = None
    passed: bool = False


class Queries:
    """`topics.Topics`; a query opens the ownership with its first look."""

    def __init__(self, identity: Identity, clock: Clock) -> None:
        self.queries: dict[str, Query] = {}
        self.broken = ""
        self._identity = identity
        self._clock = clock

    def names(self) -> tuple[str, ...]:
        return tuple(self.queries)

    def appeared(self, topic: str, node: TopicNode) -> str:
        ownership = TopicOwnership(topic, self._identity, self._clock, acquiring=False)
        planner = BatchPlanner(ownership, self._clock, Pacing(max_offsets=40))
        self.queries[topic] = Query(ownership, planner, planner.initial())
        del node
        return ""

    def edit(self, topic: str, change: Callable[[TopicOwnership], V]) -> V:
        return change(self.queries[topic].ownership)

    def failure(self) -> str:
        return self.broken

    def trouble(self) -> str:
        return ""

    def halt(self) -> None:
        for query in self.queries.values():
            query.current = None
            query.ownership.query_ended(self.broken)


class Consumer(Host):
    """A process of an id, from launch to end; `slots` are the threads."""

    def __init__(self, world: "World", name: str, number: int, session: Session) -> None:
        super().__init__(world.kernel, f"{name}.{number}")
        self.world = world
        self.consumer = name
        self.incarnation = 0
        self.session = session
        self.address = f"http://{name}:{9000 + number}"
        self.agent: Agent | None = None
        self.topics: Queries | None = None
        self.host_lost = False
        self.said_end = False
        self.failed = ""  # the error of which it ends, as its launcher reports it
        self.hanging = False
        self.slots: dict[str, Fiber] = {}
        self.woken = False
        self._refused_at = 0.0
        self._paths = world.paths
        self.listener = Listener(self._status, self._posted, lambda: self.running and self.agent is not None)

    # The threads ------------------------------------------------------------------------------------------------------

    def threads(self) -> list[str]:
        """Return the runnable threads, in a fixed order."""
        if not self.running:
            return []
        found = ["agent"]
        for topic in self.topics.names() if self.topics is not None else ():
            found += [f"kafka {topic}", f"query {topic}"]
        now = self.kernel.now
        return [slot for slot in found if slot not in self.slots or self.slots[slot].wake_at <= now]

    def go(self, slot: str, operations: int, fault: str = "") -> bool:
        """Let a thread run for `operations`; True if it did anything."""
        kind, _, topic = slot.partition(" ")
        if kind == "query":
            return self._query(topic)
        if kind == "agent" and self._cut_short():
            self.world.oracle.taint(self)  # the process may end without its last commits
        fiber = self.slots.get(slot)
        if fiber is None:
            run = self._agent_step if kind == "agent" else self._worker_step(topic)
            if run is None:
                return True
            fiber = self.slots[slot] = Fiber(self, slot, run)
            self.kernel.resume(fiber)
        fiber.fault = fault
        for _ in range(operations):
            if fiber.dead or not self.alive or fiber.wake_at > self.kernel.now:
                break
            self.kernel.resume(fiber)
        if fiber.dead:
            self.slots.pop(slot, None)
        return True

    def due(self, slot: str) -> bool:
        """Whether a thread has something to do at once."""
        kind, _, topic = slot.partition(" ")
        fiber = self.slots.get(slot)
        if not self.running or (fiber is not None and fiber.wake_at > self.kernel.now):
            return False
        ownership = self.ownership(topic) if topic else None
        if kind == "kafka" and ownership is not None:
            return ownership.requests.next_at() <= self.kernel.now
        return kind == "agent" and self.woken

    def _cut_short(self) -> bool:
        """Return whether a query of this consumer has failed, or the leave is past the time-out."""
        until = self.agent._leave_until if self.agent is not None else None
        failed = self.topics is not None and self.topics.broken
        return bool(failed) or (until is not None and self.kernel.now >= until)

    def _agent_step(self) -> None:
        self.woken = False
        try:
            if self.agent is None:
                self._start()
            if self.agent is not None:
                self.agent.step()
        except IdInUse:
            # A registration waits for the other's session time-out, then its process gives up.
            self._refused_at = self._refused_at or self.kernel.now
            if self.kernel.now - self._refused_at > self.session.session_timeout_s:
                self.ends()
            return
        except StoreUnavailable:
            return
        if self.agent is not None and self.agent.finished:
            self.ends()

    def _start(self) -> None:
        try:
            self.incarnation = self.incarnation or claim_incarnation(
                self.session, self._paths, self.consumer, step=1 + crc32(self.name.encode()) % MAX_STEP
            )
        except LookAgain:
            return
        identity = Identity(self.consumer, self._paths.cluster, self.incarnation)
        self.topics = Queries(identity, self.clock)
        formats = (SEEKS, PROPERTIES) if self.session.older else FORMATS
        member = Member(self.consumer, self.incarnation, self.address, "boot", process=self.name, formats=formats)
        registry = ZooKeeperRegistry(self.session, self._paths, self.clock, is_gone=self.world.is_gone)
        self.agent = Agent(
            self.session,
            registry,
            self.clock,
            member,
            self._paths.cluster,
            topics=self.topics,
            wake=self._wake,
            timing=TIMING,
        )

    def _wake(self) -> None:
        self.woken = True

    def _worker_step(self, topic: str) -> Callable[[], None] | None:
        """Work as the runner does: ask the ownership, perform outside of its lock, answer."""
        ownership = self.ownership(topic)
        if ownership is None or ownership.holdings.accepted is None:
            return None
        work, brokers, group = ownership.requests.work(), self.world.brokers, ownership.holdings.accepted.group_id
        if work is None:
            return None
        looks, offsets = self.world.oracle.looks, Offsets(brokers, self, group)
        looks.on_request(self, topic, work)

        def run() -> None:
            result = perform(offsets, topic, work)
            ownership.requests.answer(result)
            looks.on_answer(self, topic, result)

        return run

    def _query(self, topic: str) -> bool:
        """Step the query: plan a batch (which covers the last), or pass the batch under way through the sink."""
        query = self.topics.queries[topic] if self.topics is not None else None
        if query is None or self.hanging or not query.ownership.alive:
            return False
        if query.current is not None and not query.passed:
            query.passed = True
            self.world.on_pass(self, topic, query)
            return True
        if query.current is not None:
            query.start, query.current, query.passed = query.current, None, False
            self.world.oracle.pauses.on_cover(self, topic, query.start.ranges, self.kernel.now)
        if not query.ownership.grants.opened:
            query.ownership.open()
        try:
            query.current = query.planner.offer(query.start)
        except Refused as error:
            self.topics.broken = str(error) if self.topics is not None else ""
        if query.current is not None:
            self.world.oracle.on_offer(self, topic, query)
        return query.current is not None

    # Life and death ---------------------------------------------------------------------------------------------------

    def ownership(self, topic: str) -> TopicOwnership | None:
        query = self.topics.queries.get(topic) if self.topics is not None else None
        return query.ownership if query is not None else None

    def ends(self) -> None:
        """End the process; the session is closed last."""
        self.alive = False
        self.listener.closed = True
        self.session.close()

    def dies(self) -> None:
        """Killed: no word to anybody."""
        self.alive = False
        for fiber in list(self.slots.values()):
            self.kernel.kill(fiber)
        self.slots.clear()
        self.listener.closed = not self.host_lost
        self.session.abandon()

    def _status(self) -> ConsumerStatus:
        assert self.agent is not None
        return self.agent.status()

    def _posted(self, topic: str, raw: bytes) -> bool:
        unreadable = self.session.older and begins_packed(raw)
        return self.agent is not None and not unreadable and self.agent.posted(topic, raw)
