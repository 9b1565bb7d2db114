"""A topic and all inputs of `decide`, as a table of facts that a test changes and decides upon.

`Scene` starts Stable and confirmed, with everything at its place; each method makes one event happen. Consumers act on
a written node only when told so (`acts`), so a test states exactly the outstanding confirmations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator_tasks.core.assignors.weights import totals
from coordinator_tasks.core.codecs.codec import encode_node
from coordinator_tasks.core.codecs.packed import begins_packed
from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.machine.decision import ALL_STEPS, Decision, Step, TopicOutcome
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import (
    Actor,
    Answer,
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
    State,
    Token,
    TopicConfig,
    TopicDescription,
    TopicNode,
    TopicState,
    TopicStatus,
    Unreachable,
)
from coordinator_tasks.core.protocol.holding import may_hold
from tests.world.node_steps import of_step

TOPIC = "orders"
ACTOR = Actor("loop", "test")
LONG_AGO = 100.0
NOW = 1_000.0
DESCRIPTION = TopicDescription(TOPIC, "id-1", 4)
CONFIG = TopicConfig(TOPIC, "id-1", "host:9092", "g", initial_partitions=100)


def member(consumer: str, incarnation: int = 1, **more: Any) -> Member:
    return Member(consumer, incarnation, f"http://{consumer}", "boot", registered_at=LONG_AGO, **more)


def answer(consumer: str, incarnation: int, topic: TopicStatus | None) -> ConsumerStatus:
    return ConsumerStatus(consumer, "c", incarnation, "boot", "ok", {TOPIC: topic} if topic is not None else {})


def running(tokens: Mapping[int, int], incarnation: int = 1, *, generation: str = "g1") -> dict[int, RunningPartition]:
    """Return partition → running state, given the epochs of acquisition."""
    return {p: RunningPartition(10, Token(e, incarnation, generation), started=True) for p, e in tokens.items()}


@dataclass
class Scene:
    """See the module. `partitions` are the listed partitions."""

    partitions: int = 4
    now: float = NOW
    config: TopicConfig = CONFIG
    policy: Policy = field(default_factory=Policy)
    node: TopicNode | None = None
    state: TopicState | None = None
    releases: dict[int, Release] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    claims: dict[str, IdClaim] = field(default_factory=dict)
    directives: dict[str, Directive] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    committed: dict[int, Committed] | None = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)
    description: TopicDescription | None = DESCRIPTION
    missing: bool = False
    fresh: str = "f00dfeed0badcafe"
    last: Decision | None = None
    packed: bool = False  # the form of the stored node

    # Events
    # --------------------------------------------------------------------------------------------------------------

    def joins(self, *consumers: str, incarnation: int = 1, at: float = LONG_AGO, **more: Any) -> "Scene":
        """Register the consumer since long ago; its interface answers, without any acts so far."""
        for consumer in consumers:
            self.members[consumer] = replace(member(consumer, incarnation, **more), registered_at=at)
            self.claims[consumer] = IdClaim(
                consumer,
                incarnation,
                f"http://{consumer}",
                "boot",
                answered=incarnation,
                version=self._version(consumer),
                ended=self.claims[consumer].ended if consumer in self.claims else {},
            )
            self.answers[consumer] = answer(consumer, incarnation, None)
        return self

    def dies(self, consumer: str, how: Ending = Ending.REAPED) -> "Scene":
        """No longer registered, and known to be gone."""
        incarnation = self.members.pop(consumer).incarnation
        claim = self.claims[consumer]
        self.claims[consumer] = replace(claim, ended={**claim.ended, incarnation: how}, version=self._version(consumer))
        self.answers[consumer] = Unreachable(Silence.REFUSED, "refused")
        return self

    def vanishes(self, consumer: str, *, answers: bool = False) -> "Scene":
        """No longer registered; nothing else is known."""
        del self.members[consumer]
        if not answers:
            self.answers[consumer] = Unreachable(Silence.SILENT, "no answer within 2 s")
        return self

    def is_silent(self, consumer: str) -> "Scene":
        self.answers[consumer] = Unreachable(Silence.SILENT, "no answer within 2 s")
        return self

    def is_isolated(self, consumer: str, *, readmit: bool = False) -> "Scene":
        old = self.directives.get(consumer, Directive(consumer))
        isolation = Isolation("ann", "wrong results", LONG_AGO, readmit=readmit)
        self.directives[consumer] = replace(old, isolation=isolation, version=old.version + 1)
        return self

    def drains(self, consumer: str, *, incarnation: int = 0, leaving: int = 0) -> "Scene":
        old = self.directives.get(consumer, Directive(consumer))
        draining = Draining("ann", "", LONG_AGO, incarnation, leaving)
        self.directives[consumer] = replace(old, draining=draining, version=old.version + 1)
        return self

    def acts(self, *consumers: str, runs: Iterable[int] | None = None) -> "Scene":
        """The consumers have acted on the node: they run their `assignments`, or just `runs`."""
        assert self.node is not None
        for consumer in consumers:
            incarnation = self.claims[consumer].incarnation
            held = may_hold(self.node, consumer, incarnation, isolated=False)
            held_now = {p: e for p, e in held.items() if p in self.node.assignments}
            tokens = held_now if runs is None else {p: held.get(p, 0) for p in runs}
            status = TopicStatus(
                self.node.generation,
                self.node.epoch,
                held,
                running(tokens, incarnation, generation=self.node.generation),
            )
            self.answers[consumer] = answer(consumer, incarnation, status)
        return self

    def says(self, consumer: str, **changes: Any) -> "Scene":
        """Change the consumer's report of the topic."""
        before = self.answers[consumer]
        assert isinstance(before, ConsumerStatus)
        topic = replace(before.topics[TOPIC], **changes)
        self.answers[consumer] = replace(before, topics={TOPIC: topic})
        return self

    def releases_entry(self, partition: int) -> "Scene":
        """The giver has written its release of the partition's entry."""
        assert self.node is not None
        entry = self.node.handoff[partition]
        incarnation = self.node.incarnations[entry.giver]
        token = Token(entry.epoch - 1, incarnation, self.node.generation)
        self.releases[partition] = Release(entry.epoch, entry.giver, incarnation, 10, self.node.generation, token)
        return self

    def later(self, seconds: float) -> "Scene":
        self.now += seconds
        return self

    # Deciding --------------------------------------------------------------------------------------------------------

    def view(self) -> TopicView:
        partitions = tuple(range(self.partitions))
        return TopicView(
            *(self.config, self.node, self.state, partitions, dict(self.releases)),
            *(self.description, self.missing, self.packed),
        )

    def world(self) -> World:
        return World(
            self.now,
            self.members,
            self.claims,
            self.directives,
            self.answers,
            self.committed,
            self.loads,
            totals(self.answers, {TOPIC: self.node.paused if self.node is not None else ()}),
            self.fresh,
        )

    def decide(self, *steps: Step) -> Decision:
        return decide(self.view(), self.world(), self.policy, ACTOR, frozenset(steps) if steps else ALL_STEPS)

    def step(self, *steps: Step) -> Decision:
        """Decide, check and write; fails unless there is something to write."""
        decision = self.decide(*steps)
        assert decision.outcome is TopicOutcome.WRITTEN, decision
        return self.write(decision)

    def write(self, decision: Decision) -> Decision:
        assert decision.state is not None
        assert decision.record is not None
        node = decision.node or self.node
        assert node is not None
        assert invariants.of_topic(node, decision.state) == []
        if self.node is not None and decision.node is not None:
            assert of_step(self.node, decision.node) == []
        assert decision.record.source is (self.state.state if self.state is not None else State.INITIAL)
        assert decision.record.target is decision.state.state
        if decision.node is not None:
            self.packed = begins_packed(encode_node(decision.node, decision.pack_over))
        self.node, self.state, self.last = node, decision.state, decision
        return decision

    def settles(self, rounds: int = 20) -> "Scene":
        """Let everybody registered act and the coordinator write until nothing is left to write."""
        for _ in range(rounds):
            if self.node is not None:
                self.acts(*self.members)
            decision = self.decide()
            if decision.outcome is not TopicOutcome.WRITTEN:
                return self
            self.write(decision)
        raise AssertionError(f"it does not settle: {self.last}")

    # Present state
    # -------------------------------------------------------------------------------------------------------

    @property
    def owned(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for partition, consumer in (self.node.assignments if self.node is not None else {}).items():
            found.setdefault(consumer, []).append(partition)
        return found

    def counts(self) -> dict[str, int]:
        return {consumer: len(partitions) for consumer, partitions in self.owned.items()}

    def _version(self, consumer: str) -> int:
        return self.claims[consumer].version + 1 if consumer in self.claims else 0


def stable(*consumers: str, partitions: int = 4, **more: Any) -> Scene:
    """Return a Stable topic shared by the consumers."""
    description = TopicDescription(TOPIC, "id-1", partitions)
    scene = Scene(partitions=partitions, description=description, **more).joins(*consumers)
    scene.settles()
    assert scene.state is not None
    assert scene.state.state is State.STABLE
    return scene
