"""The simulated site: servers, brokers, consumers and tasks under one clock, watched by the oracle.

Nothing happens by itself except due times; `tests.simulation.actions` has all possible actions.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery
from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.model import Actor, Committed, Directive, Member, State
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Node
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.nodes.directives import read_directive
from tests.simulation.consumer import Consumer, Query
from tests.simulation.faults import Fault, Lasting, Wait
from tests.simulation.interfaces import Interfaces
from tests.simulation.kafka import Admin, Brokers
from tests.simulation.kernel import Host, Kernel
from tests.simulation.oracle import Oracle
from tests.simulation.orchestrator import POLICY, SESSION_S, TASKS, Attempt, Call, reap
from tests.simulation.registry import Registry
from tests.simulation.withheld import Moment
from tests.simulation.zookeeper import Changes, Server, Session, Znode

PERSON = Actor("command", "ada")
SNAPSHOTS = 6
MAX_ATTEMPTS = 4
MAX_TURNS = 6  # of a thread in a round


@dataclass(frozen=True, slots=True)
class Setup:
    """The begin of a history. `by_tasks`: brought to the end by Airflow's tasks, not by the plain loop.

    `returns`: the number of the consumer that returns for certain when the faults end; the others stay dead, or
    isolated by a person, if so at that time. `None` = all return. `packs`: pack every packable node. `older`: interval
    of launched processes with a release that reads no packed node (0 = never). `fences`: commits are transactions. The
    other fields are the site's policy.
    """

    consumers: int = 3
    partitions: int = 3
    topics: tuple[str, ...] = ("orders",)
    by_tasks: bool = False
    hold_absent: bool = False
    rejoin_grace_s: float = 0.0
    returns: int | None = None
    packs: bool = False
    older: int = 0
    fences: bool = False


class World:
    """One site. `effects` counts the faults by kind and state; `trace` gets a line for every event.

    `dead_for_good`, `kept_isolated`: consumers in this condition after the faults, for good.
    """

    def __init__(self, setup: Setup, trace: list[str] | None = None) -> None:
        self.setup = setup
        self.trace = trace
        self.kernel = Kernel()
        self.paths = Paths("shop")
        self._all_folders = self.paths.folders()
        self.oracle = Oracle(self)
        self.effects: Counter[tuple[Fault, State]] = Counter()
        self.digest = hashlib.blake2b(digest_size=16)
        self.server = Server(self.kernel, self._on_write)
        self.brokers = Brokers(self.kernel, self._on_commit, self.effect, fences=setup.fences)
        self.interfaces = Interfaces(self.kernel, {}, self.effect)
        self.registry = Registry(self.kernel, self.effect, self._on_hidden)
        policy = replace(POLICY, hold_absent=setup.hold_absent, rejoin_grace_s=setup.rejoin_grace_s)
        self.policy = replace(policy, pack_over_bytes=0) if setup.packs else policy
        self.waits: Counter[tuple[Wait, State]] = Counter()
        self._waited: set[tuple[str, int, Wait]] = set()
        self.lasting: Counter[tuple[Lasting, State]] = Counter()
        self.dead_for_good: frozenset[str] = frozenset()
        self.kept_isolated: frozenset[str] = frozenset()
        self.consumers = self.oracle.consumers
        self.attempts: list[Attempt] = []
        self.snapshots: list[dict[str, Znode]] = []
        self.posts: list[tuple[str, bytes]] = []
        self.groups: dict[str, str] = {}
        self.names = tuple("abcd"[: setup.consumers])
        self.task_skew_s = 0.0
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._hand = Host(self.kernel, "person")
        self._hand_session = self.server.connect(self._hand, 1e9)
        self._folders(self._coordinator())
        for topic in setup.topics:
            self.brokers.create(topic, setup.partitions)
            self.groups[topic] = f"g-{topic}"
            topics.add_topic(self._coordinator(), topic, self.groups[topic], actor=PERSON)
        for name in self.names:
            self.launch(name)

    # Records of events
    # -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Return the state of the first topic, under which effects are counted."""
        return self.oracle.states.get(self.setup.topics[0], State.INITIAL)

    def effect(self, fault: Fault) -> None:
        self.effects[fault, self.state] += 1
        if self.trace is not None:
            self.say(f"! {fault} [{self.state}]")

    def _effect_on_task(self, fault: Fault) -> None:
        ended = fault in (Fault.EXPIRED, Fault.FROZEN, Fault.DETACHED)
        self.effect(Fault.TASK_EXPIRED if ended else fault)

    def say(self, line: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.kernel.now - 1_000_000:9.2f} {line}")

    def _on_write(self, before: Changes, after: Changes, who: str) -> None:
        for path, node in after.items():
            data = node.data if node is not None else b"-"
            if node is None or before[path] is None or before[path].data != data:  # type: ignore[union-attr]
                self.digest.update(path.encode() + data)
                if self.trace is not None:
                    self.say(f"  {who} writes {path.removeprefix(self.paths.base)} {data.decode()}")
                if path.startswith(self.paths.assignments) and path.count("/") == 4 and node is not None and data:
                    self.posts = [*self.posts[-4:], (path.rpartition("/")[2], data)]
        self.oracle.on_write(before, after, who)
        if self.server.zxid % 8 == 0:
            self.snapshots = [*self.snapshots[1 - SNAPSHOTS :], self.server.snapshot()]

    def _on_commit(self, topic: str, partition: int, entry: Committed, who: str, late: bool) -> None:
        self.digest.update(f"{topic}{partition}{entry.offset}{entry.token}".encode())
        if self.trace is not None:
            epoch = entry.token.epoch if entry.token else "no"
            self.say(f"  {who} commits {topic}-{partition} at {entry.offset}, {epoch} epoch")
        self.oracle.on_commit(topic, partition, entry, self.brokers.logs[topic].topic_id, who, late=late)

    def _on_watched(self, one: Consumer) -> Callable[[str, Node | None], None]:
        def watched(path: str, node: Node | None) -> None:
            # A process without a registration in this session, or with an outdated session, ignores all reads and
            # registers first.
            member = self.server.nodes.get(self.paths.member(one.consumer))
            known = one.agent._session if one.agent is not None else 0
            if member is not None and member.owner == one.session.number == known:
                self.oracle.shown.on_read(one, path, node.data if node is not None else None)

        return watched

    def on_pass(self, one: Consumer, topic: str, query: Query) -> None:
        batch, held = query.current, query.ownership.holdings.held
        assert batch is not None
        self.digest.update(f"{one.name}{batch.ranges}".encode())
        if self.trace is not None:
            shown = ", ".join(f"{r.partition}: {r.start}-{r.end}" for r in batch.ranges.values())
            self.say(f"  {one.name} has {topic} {shown} pass the sink")
        for each in batch.ranges.values():
            if each.partition in held:
                self.oracle.on_pass(one, topic, held[each.partition].topic_id, each)

    def _on_hidden(self, member: Member) -> None:
        if (listener := self.interfaces.listeners.get(member.address)) is not None:
            listener.hidden_at = self.kernel.now

    def note_waits(self) -> None:
        """Count the owners whose partitions wait by the site's policy, each once."""
        if not (self.setup.hold_absent or self.setup.rejoin_grace_s):
            return
        for topic, node in self.oracle.nodes.items():
            for consumer in sorted(set(node.assignments.values())):
                incarnation = node.incarnations[consumer]
                wait = self.wait_for(consumer, incarnation)
                if wait is not None and (consumer, incarnation, wait) not in self._waited:
                    self._waited.add((consumer, incarnation, wait))
                    self.waits[wait, self.oracle.states.get(topic, State.INITIAL)] += 1

    def wait_for(self, consumer: str, incarnation: int) -> Wait | None:
        """Return the wait of this life's partitions by the site's policy and the noted facts."""
        path = self.paths.id(consumer)
        stored = self.server.nodes.get(path)
        claim = decode_claim(path, stored.data, consumer, 0) if stored is not None and stored.data else None
        absence = claim.absence if claim is not None else None
        if claim is None or absence is None or absence.incarnation != incarnation:
            return None
        silent_s = self.kernel.now - absence.since_at
        if incarnation in claim.ended:
            return Wait.SAME_ID if silent_s < self.setup.rejoin_grace_s else None
        return Wait.PERSON if self.setup.hold_absent and silent_s >= POLICY.absent_after_s else None

    # Time -------------------------------------------------------------------------------------------------------------

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._numbers += 1
        self._later.append((self.kernel.now + seconds, self._numbers, call))

    def advance(self, seconds: float) -> None:
        """Let time pass, in slices, so that due events happen in order."""
        until = self.kernel.now + seconds
        while self.kernel.now < until:
            self.kernel.now = min(until, self.kernel.now + 0.5)
            self.server.tick()
            self.brokers.tick()
            due = sorted(one[:2] for one in self._later if one[0] <= self.kernel.now)
            for at_number in due:
                call = next(c for at, number, c in self._later if (at, number) == at_number)
                self._later = [one for one in self._later if one[:2] != at_number]
                call()
            for session in list(self.server.sessions):
                if session.broken:
                    session.reconnect()

    # Processes --------------------------------------------------------------------------------------------------------

    def launch(self, name: str) -> Consumer:
        self._numbers += 1
        session = self.server.connect(self._hand, SESSION_S)
        one = Consumer(self, name, self._numbers, session)
        session.host = one
        session.older = bool(self.setup.older) and self._numbers % self.setup.older == 0
        session.on_effect = self.effect
        session.on_watched = self._on_watched(one)
        self.interfaces.listeners[one.address] = one.listener
        self.consumers.append(one)
        return one

    def is_gone(self, process: str) -> bool:
        """Return a host's knowledge of local processes; processes of another host are unknown."""
        return not any(one.name == process and (one.alive or one.host_lost) for one in self.consumers)

    def alive(self, name: str = "") -> list[Consumer]:
        return [one for one in self.consumers if one.alive and name in ("", one.consumer)]

    def attempt(self, task: str, call: Call | None = None) -> Attempt:
        self._numbers += 1
        inner = call or TASKS[task]

        def run(c: Coordinator, actor: Actor) -> object:
            self._folders(c)
            return inner(c, actor)

        attempt = Attempt(self, task, run, self._numbers, self.task_skew_s)
        attempt.session.on_effect = self._effect_on_task
        self.attempts.append(attempt)
        return attempt

    def moment(self, who: str) -> Moment | None:
        """Return the time of an attempt's write; `None` for other writers."""
        for attempt in self.attempts:
            if attempt.name == who:
                began_at, skew_s = attempt.began_at, attempt.skew_s
                return Moment(began_at, began_at + skew_s, self.kernel.now + skew_s)
        return None

    def reap(self, one: Consumer) -> None:
        """Let the launcher report the end of all processes of the consumer."""
        if one.incarnation:
            self.attempt("reap", reap(one.consumer, one.incarnation, one.failed))

    def sweep(self) -> None:
        """Forget ended attempts, and the dead with a known end."""
        self.attempts = [one for one in self.attempts if one.alive and not one.fiber.dead]
        self.note_waits()

    def _folders(self, c: Coordinator) -> None:
        for folder in self._all_folders:
            if folder not in self.server.nodes:
                c.zk.ensure(folder)

    def coordinator(self, host: Host, session: Session) -> Coordinator:
        return Coordinator(
            paths=self.paths,
            zk=session,
            discovery=ZooKeeperDiscovery(session, self.paths),
            statuses=self.interfaces,
            kafka=Admin(self.brokers),
            clock=host.clock,
            policy=self.policy,
            boot_id="boot",
            bootstrap_servers="broker:9092",
        )

    def _coordinator(self) -> Coordinator:
        return self.coordinator(self._hand, self._hand_session)

    def by_hand(self, call: Callable[[Coordinator], object]) -> None:
        """A person's command, at once and without faults."""
        self._hand_session.reconnect()
        c = self._coordinator()
        self._folders(c)
        call(c)

    def directives(self) -> dict[str, Directive]:
        """Return the directives of all consumers."""
        self._hand_session.reconnect()
        c = self._coordinator()
        return {name: read_directive(c, name) for name in self.names}

    def isolated_by_hand(self) -> list[str]:
        found = {name: directive.isolation for name, directive in self.directives().items()}
        return [name for name, isolation in found.items() if isolation is not None and isolation.incarnation == 0]

    def drained_by_hand(self) -> set[str]:
        found = {name: directive.draining for name, directive in self.directives().items()}
        return {name for name, draining in found.items() if draining is not None and draining.incarnation == 0}

    # A step
    # -------------------------------------------------------------------------------------------------------------

    def units(self) -> list[tuple[Consumer | Attempt, str]]:
        """Return every runnable thread."""
        found: list[tuple[Consumer | Attempt, str]] = []
        for one in self.consumers:
            if one.alive:
                found += [(one, slot) for slot in one.threads()]
        return found + [(attempt, "") for attempt in self.attempts if attempt.ready]

    def go(self, unit: tuple[Consumer | Attempt, str], operations: int, fault: str = "") -> None:
        host, slot = unit
        if isinstance(host, Consumer):
            host.go(slot, operations, fault)
            if not host.alive and not host.said_end:
                host.said_end = True
                self.reap(host)
        else:
            host.go(operations, fault)
            if self.trace is not None and host.fiber.dead:
                self.say(f"  {host.name} ends: {host.error or host.result}")
        self.oracle.after_turn(host if isinstance(host, Consumer) else None)

    def round(self, seconds: float) -> None:
        """Everybody gets a turn, in a fixed order, and then time passes."""
        for one in list(self.consumers):
            if one.alive:
                for slot in one.threads():
                    self.go((one, slot), 100)
                for slot in one.threads():
                    turns = 0
                    while turns < MAX_TURNS and one.due(slot):
                        self.go((one, slot), 100)
                        turns += 1
        for attempt in list(self.attempts):
            if attempt.ready:
                self.go((attempt, ""), 500)
        self.sweep()
        self.oracle.after_step()
        self.advance(seconds)
