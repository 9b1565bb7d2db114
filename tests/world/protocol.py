"""The whole protocol in memory: the production `decide` against consumers on the production rules, with the safety rule
checked at every start. Chance is the given `rng`; what happens next is up to the test.
"""

import random
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.machine.decision import ALL_STEPS, Step, TopicOutcome
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import (
    Actor,
    Committed,
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    IdClaim,
    Isolation,
    Member,
    Release,
    RunningPartition,
    Silence,
    Token,
    TopicConfig,
    TopicDescription,
    TopicNode,
    TopicState,
    TopicStatus,
    Unreachable,
)
from coordinator_tasks.core.protocol.holding import Reading, accepts, changes, grants, may_hold, owes_release
from tests.world.node_steps import of_step

ACTOR = Actor("loop", "walk")
POLICY = Policy(settle_s=0.0)
CONFIG = TopicConfig("orders", "id-1", "host:9092", "g", initial_partitions=100)


@dataclass
class Consumer:
    """A process: acts on whole reads, finishes batches late, releases after the commit."""

    name: str
    incarnation: int
    picture: TopicNode | None = None
    isolated: bool = False
    running: dict[int, Token] = field(default_factory=dict)
    closing: set[int] = field(default_factory=set)
    released: dict[int, int] = field(default_factory=dict)
    alive: bool = True

    def status(self) -> ConsumerStatus:
        node = self.picture
        topic = TopicStatus(
            node.generation if node else "",
            node.epoch if node else 0,
            may_hold(node, self.name, self.incarnation, self.isolated),
            {p: RunningPartition(0, t, True, p in self.closing) for p, t in self.running.items()},
        )
        return ConsumerStatus(self.name, "c", self.incarnation, "boot", "ok", {"orders": topic} if node else {})


@dataclass
class Cluster:
    rng: random.Random
    partitions: int
    node: TopicNode | None = None
    state: TopicState | None = None
    history: list[TopicNode] = field(default_factory=list)
    releases: dict[int, Release] = field(default_factory=dict)
    committed: dict[int, Committed] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    claims: dict[str, IdClaim] = field(default_factory=dict)
    directives: dict[str, Directive] = field(default_factory=dict)
    now: float = 1000.0
    writes: int = 0

    def join(self, name: str) -> None:
        if name in self.consumers:
            return
        claim = self.claims.get(name, IdClaim(name, 0))
        incarnation = claim.incarnation + 1
        self.claims[name] = replace(claim, incarnation=incarnation, answered=incarnation, version=claim.version + 1)
        self.consumers[name] = Consumer(name, incarnation)

    def crash(self, name: str) -> None:
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return
        claim = self.claims[name]
        ended = {**claim.ended, consumer.incarnation: Ending.REAPED}
        self.claims[name] = replace(claim, ended=ended, version=claim.version + 1)

    def isolate(self, name: str) -> None:
        self.directives[name] = Directive(name, Isolation("ann", "odd", self.now), version=1)

    def readmit(self, name: str) -> None:
        directive, consumer = self.directives.get(name), self.consumers.get(name)
        if directive is None or directive.isolation is None or consumer is None:
            return
        acted = consumer.picture.epoch if consumer.picture else 0
        current = self.node.epoch if self.node else 0
        if consumer.isolated and acted >= current and not consumer.running:
            self.directives[name] = Directive(name, None, directive.draining, 2)

    def drain(self, name: str, on: bool) -> None:
        isolation = self.directives[name].isolation if name in self.directives else None
        self.directives[name] = Directive(name, isolation, Draining("ann", "", self.now) if on else None, 3)

    def world(self) -> World:
        members = {n: Member(n, c.incarnation, f"http://{n}", "boot") for n, c in self.consumers.items()}
        answers = {n: c.status() for n, c in self.consumers.items()}
        for name in list(answers):
            if self.rng.random() < 0.15:
                answers[name] = Unreachable(Silence.SILENT, "time-out")  # type: ignore[assignment]
        fresh = f"{self.rng.getrandbits(32):08x}"
        return World(self.now, members, self.claims, self.directives, answers, dict(self.committed), fresh=fresh)

    def view(self) -> TopicView:
        description = TopicDescription("orders", "id-1", self.partitions)
        return TopicView(CONFIG, self.node, self.state, tuple(range(self.partitions)), dict(self.releases), description)

    def coordinate(self, allowed: frozenset[Step]) -> None:
        view, world = self.view(), self.world()
        decision = decide(view, world, POLICY, ACTOR, allowed)
        if decision.outcome is not TopicOutcome.WRITTEN:
            return
        assert decision.state is not None
        assert decision.record is not None
        if decision.node is not None:
            if self.node is not None:
                assert of_step(self.node, decision.node) == []
            self.node = decision.node
            self.history.append(decision.node)
        self.state = decision.state
        assert self.node is not None
        assert invariants.of_topic(self.node, self.state) == []
        self.writes += 1

    def read(self, consumer: Consumer) -> None:
        directive = self.directives.get(consumer.name)
        consumer.isolated = directive is not None and directive.isolation is not None
        if not self.history:
            return
        stale = self.history[self.rng.randrange(max(0, len(self.history) - 3), len(self.history))]
        if accepts(consumer.picture, stale) is Reading.ACT:
            consumer.picture = stale

    def act(self, consumer: Consumer) -> None:
        granted = grants(consumer.picture, consumer.name, consumer.incarnation, self.releases, consumer.isolated)
        owed = owes_release(consumer.picture, consumer.name, consumer.incarnation, consumer.isolated)
        todo = changes(granted, consumer.running, consumer.closing, owed, consumer.released)
        consumer.closing |= set(todo.stop)
        for partition in sorted(consumer.closing):
            if self.rng.random() < 0.5:
                del consumer.running[partition]
                consumer.closing.discard(partition)
        for grant in todo.start:
            if self.rng.random() < 0.7:
                self.start(consumer, grant.partition, grant.token)
        for partition in todo.release:
            entry, picture = owed[partition], consumer.picture
            assert picture is not None
            old = self.releases.get(partition)
            if old is None or old.epoch < entry.epoch:
                token = Token(entry.epoch - 1, consumer.incarnation, picture.generation)
                release = Release(entry.epoch, consumer.name, consumer.incarnation, 0, picture.generation, token)
                self.releases[partition] = release
            consumer.released[partition] = entry.epoch

    def start(self, consumer: Consumer, partition: int, token: Token) -> None:
        consumer.running[partition] = token
        self.committed[partition] = Committed(0, token, consumer.name, "c", "id-1")
        for other in self.consumers.values():
            if other is not consumer and partition in other.running:
                isolated = {n for n, d in self.directives.items() if d.isolation is not None}
                excused = other.isolated or bool(isolated & {other.name, consumer.name})
                assert excused, f"partition {partition} runs at {other.name} and starts at {consumer.name}"

    def step(self) -> None:
        self.now += self.rng.random()
        roll = self.rng.random()
        names = ["a", "b", "c"]
        name = self.rng.choice(names)
        if roll < 0.30:
            allowed = self.rng.choice([ALL_STEPS, frozenset({Step.PLAN}), frozenset({Step.START, Step.SETTLE})])
            self.coordinate(allowed)
        elif roll < 0.85 and self.consumers:
            consumer = self.rng.choice(sorted(self.consumers.values(), key=lambda c: c.name))
            self.read(consumer) if self.rng.random() < 0.5 else self.act(consumer)
        elif roll < 0.90:
            self.join(name)
        elif roll < 0.92:
            self.crash(name)
        elif roll < 0.94:
            self.isolate(name)
        elif roll < 0.97:
            self.readmit(name)
        elif roll < 0.98:
            self.drain(name, True)
        elif roll < 0.995:
            self.drain(name, False)
        elif self.rng.random() < 0.3:
            self.node = self.state = None
            self.history.clear()  # vanished records have no reader

    def heal(self, rounds: int = 200) -> None:
        self.directives.clear() if not any(d.isolation for d in self.directives.values()) else None
        self.join("a")
        self.rng = _Calm(self.rng.random())  # type: ignore[assignment]
        for _ in range(rounds):
            self.now += 1
            for name in sorted(self.directives):
                self.drain(name, False)
                self.readmit(name)
            for consumer in sorted(self.consumers.values(), key=lambda c: c.name):
                self.read(consumer)
                self.act(consumer)
            self.coordinate(ALL_STEPS)


class _Calm(random.Random):
    """After healing: no answer is lost, every read is fresh, every batch ends."""

    def random(self) -> float:
        return 0.49

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return (stop or start) - 1
