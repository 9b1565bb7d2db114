"""A simulation of a changed cluster: `decide` itself, with consumers that confirm every step at once.

Nothing is stored and no consumer is asked. `ClusterMoment` is the state of a cluster at one moment, and `SiteChange` is
the supposed change of this state.
`replay` decides every topic until nothing is left to write.
"""

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.assignors import Strategies
from coordinator_tasks.core.assignors.weights import totals
from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.machine.decision import Decision, TopicOutcome
from coordinator_tasks.core.machine.draft import draft_of
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.together import TogetherPlan
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
    Member,
    MoveKind,
    RunningPartition,
    Silence,
    Token,
    TopicDescription,
    TopicNode,
    TopicStatus,
    Unreachable,
    running_in,
)
from coordinator_tasks.core.names import MAX_ID_BYTES
from coordinator_tasks.core.protocol.holding import may_hold
from coordinator_tasks.core.text.partition_text import shown

MAX_ROUNDS = 100
MAX_JOINS = 10_000
MAX_PARTITIONS = 100_000
NEW = "new-"
"""Prefix of the ids of joining consumers."""
_WHAT_IF = Actor("what if")
_HANDS = frozenset({MoveKind.START, MoveKind.HANDOFF, MoveKind.BARRIER, MoveKind.STOP})
_NOTHING = RunningPartition(0, Token(0, 0), started=True)


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """A cluster at one moment. `world`: as in `Snapshot`, without the parts of a single topic.

    `topics`: name → the topic with its effective strategy. `committed`: name → the group's offsets, `None` if unknown.
    """

    world: World
    topics: Mapping[str, TopicView]
    committed: Mapping[str, Mapping[int, Committed] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SiteChange:
    """Changes that apply all at once. A default changes nothing.

    - `join`: number of additional consumers, of capacity 1, without rack and attributes.
    - `leave`: consumers that drain.
    - `crash`: consumers that end without a release.
    - `strategy` (with all of its `parameters`) and `partitions` apply to every topic in question.
    """

    join: int = 0
    leave: tuple[str, ...] = ()
    crash: tuple[str, ...] = ()
    strategy: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 0


@dataclass(frozen=True, slots=True)
class WouldMove:
    """A partition that would change hands. An empty name means no consumer."""

    partition: int
    giver: str
    taker: str
    kind: MoveKind
    reason: str


@dataclass(frozen=True, slots=True)
class PredictedTopic:
    """The final state of a topic. `counts`: consumer → number of partitions.

    `summary`: the strategy's summary of its last plan. `waits`: why the topic does not become Stable; empty if Stable.
    """

    topic: str
    moves: tuple[WouldMove, ...]
    counts: Mapping[str, int]
    unowned: tuple[int, ...]
    summary: str = ""
    waits: str = ""


def changed(
    site: ClusterMoment, change: SiteChange, strategies: Strategies, topics: tuple[str, ...] = ()
) -> ClusterMoment:
    """Return the site with this change. Strategy and partitions change for `topics`, or for all if empty.

    Raises `Refused`.
    """
    world = _with_members(site.world, change)
    views = dict(site.topics)
    for name in topics or tuple(views):
        views[name] = _reconfigured(views[name], change, strategies)
    return replace(site, world=world, topics=views)


def _with_members(world: World, change: SiteChange) -> World:
    if not 0 <= change.join <= MAX_JOINS:
        raise Refused(f"{change.join} consumers cannot join; give a number from 0 to {MAX_JOINS}")
    for consumer in (*change.leave, *change.crash):
        if consumer not in world.members:
            known = shown(sorted(world.members)) or "none"
            raise NotManaged(f"consumer {consumer!r} is not registered (registered: {known}); name one of these")
    both = sorted(set(change.leave) & set(change.crash))
    if both:
        raise Refused(f"consumer {both[0]!r} cannot both leave and crash; name it once")
    members, claims, answers = dict(world.members), dict(world.claims), dict(world.answers)
    directives = dict(world.directives)
    for consumer in change.crash:
        claim = claims.get(consumer, IdClaim(consumer, members[consumer].incarnation))
        ended = {**claim.ended, members.pop(consumer).incarnation: Ending.REAPED}
        claims[consumer] = replace(claim, ended=ended, absence=None)
        answers[consumer] = Unreachable(Silence.REFUSED, "it has ended")
    for consumer in change.leave:
        old = directives.get(consumer, Directive(consumer))
        directives[consumer] = replace(old, draining=Draining(_WHAT_IF.kind, "", world.now))
    for consumer in _new_ids(world, change.join):
        member = Member(consumer, 1, "", "")
        members[consumer], claims[consumer] = member, IdClaim(consumer, 1, answered=1)
        answers[consumer] = ConsumerStatus(consumer, "", 1, "", "ok")
    return replace(world, members=members, claims=claims, directives=directives, answers=answers)


def _new_ids(world: World, count: int) -> list[str]:
    names = (f"{NEW}{number}"[:MAX_ID_BYTES] for number in itertools.count(1))
    free = (name for name in names if name not in world.members and name not in world.claims)
    return list(itertools.islice(free, count))


def _reconfigured(view: TopicView, change: SiteChange, strategies: Strategies) -> TopicView:
    config = view.config
    if change.parameters and not change.strategy:
        raise Refused("parameters are given without a strategy, so it is not known whose they are; name the strategy")
    if change.strategy:
        wanted = replace(config, strategy=change.strategy, parameters=dict(change.parameters))
        strategies.check(wanted)
        config = strategies.effective(wanted)
    view = replace(view, config=config)
    return _with_partitions(view, change.partitions) if change.partitions else view


def _with_partitions(view: TopicView, count: int) -> TopicView:
    now = max(view.partitions, default=-1) + 1
    if not now <= count <= MAX_PARTITIONS:
        why = "and Kafka never takes one away" if count < now else f"and more than {MAX_PARTITIONS} are not tried"
        raise Refused(
            f"topic {view.topic!r} has {now} partitions, {why}; give a number from {now} to {MAX_PARTITIONS}, and not {count}"
        )
    found = view.description or TopicDescription(view.topic, view.config.topic_id, now)
    return replace(view, partitions=tuple(range(count)), description=replace(found, partition_count=count))


def replay(site: ClusterMoment, policy: Policy) -> tuple[ClusterMoment, tuple[PredictedTopic, ...]]:
    """Decide and write until every topic is Stable or waits for a silent consumer. Return the final cluster too."""
    policy = replace(policy, settle_s=0.0, settle_max_s=0.0, rejoin_grace_s=0.0)
    running = _Replay(site, policy)
    outcomes = running.run()
    return running.site, outcomes


class _Replay:
    """One replay: the present cluster, and the decisions on each topic."""

    def __init__(self, site: ClusterMoment, policy: Policy) -> None:
        self.site, self.policy = site, policy
        self._loads = {name: loads(site.world.answers, view) for name, view in site.topics.items()}
        self._givers = {name: due_owners(view) for name, view in site.topics.items()}
        self._decided: dict[str, list[Decision]] = {name: [] for name in site.topics}
        self._last: dict[str, Decision] = {}

    def run(self) -> tuple[PredictedTopic, ...]:
        for number in range(MAX_ROUNDS):
            world = replace(self._confirmed(), now=self.site.world.now + 1.0)
            self.site = replace(self.site, world=world)
            if not self._round(f"{number:016x}"):
                break
        return tuple(self._outcome(name, view) for name, view in sorted(self.site.topics.items()))

    def _round(self, fresh: str) -> bool:
        """Decide once on each topic, with the same world. Return whether any topic was written."""
        written, site = {}, self.site
        together = TogetherPlan(site.topics.values(), lambda one: world_of(site, one), self.policy, site.world.members)
        for name, view in sorted(self.site.topics.items()):
            world = replace(world_of(site, name, fresh), together=together)
            decision = self._last[name] = decide(view, world, self.policy, _WHAT_IF)
            if decision.outcome is TopicOutcome.WRITTEN:
                self._decided[name].append(decision)
                written[name] = _written(view, decision)
        self.site = replace(self.site, topics={**self.site.topics, **written})
        return bool(written)

    def _confirmed(self) -> World:
        """Return a world in which every registered, answering consumer has acted on every node and runs its partitions."""
        world = self.site.world
        answers = dict(world.answers)
        for consumer, member in world.members.items():
            if isinstance(answer := answers.get(consumer), ConsumerStatus):
                answers[consumer] = self._status(member, answer)
        paused = {name: view.node.paused for name, view in self.site.topics.items() if view.node is not None}
        return replace(world, answers=answers, totals=totals(answers, paused))

    def _status(self, member: Member, answer: ConsumerStatus) -> ConsumerStatus:
        isolated = self.site.world.life(member.consumer, member.incarnation).isolation is not None
        topics = dict(answer.topics)
        for name, view in self.site.topics.items():
            if view.node is not None and answer.incarnation == member.incarnation:
                topics[name] = _acted(view.node, member, isolated, self._loads[name])
        return replace(answer, topics=topics)

    def _outcome(self, name: str, view: TopicView) -> PredictedTopic:
        before, after = self._givers[name], due_owners(view)
        moved = sorted(p for p in before.keys() | after.keys() if before.get(p, "") != after.get(p, ""))
        told = [one.explanation.summary for one in self._decided[name] if one.explanation is not None]
        last = self._last[name]
        return PredictedTopic(
            name,
            tuple(self._move(name, p, before.get(p, ""), after.get(p, "")) for p in moved),
            dict(sorted(Counter(after.values()).items())),
            tuple(p for p in view.partitions if p not in after) if not view.config.removed else (),
            told[-1] if told else "",
            last.reason if last.outcome in (TopicOutcome.WAITING, TopicOutcome.HELD) else "",
        )

    def _move(self, name: str, partition: int, giver: str, taker: str) -> WouldMove:
        """Return the move, with the kind of its first step and the reason of its last step.

        For a partition that has lost its owner, kind and reason come from the plan.
        """
        decided = self._decided[name]
        kinds = [MoveKind.START if taker else MoveKind.STOP]
        reasons = [decided[0].reason if decided else ""]
        for decision in decided:
            moves = decision.record.moves if decision.record is not None else ()
            moved_kinds = [one.kind for one in moves if one.partition == partition and one.kind in _HANDS]
            if moved_kinds:
                kinds += moved_kinds
                reasons.append(_why(decision, partition))
        return WouldMove(partition, giver, taker, kinds[1] if len(kinds) > 1 else kinds[0], reasons[-1])


def _why(decision: Decision, partition: int) -> str:
    said = decision.explanation.moves if decision.explanation is not None else ()
    return next((one.text for one in said if partition in one.partitions), decision.reason)


def _written(view: TopicView, decision: Decision) -> TopicView:
    """Return the topic after the decision's write."""
    config = replace(view.config, rollback=None) if decision.ends_rollback else view.config
    return replace(view, config=config, node=decision.node or view.node, state=decision.state, releases={})


def due_owners(view: TopicView) -> dict[int, str]:
    """Return partition → owner or taker."""
    return draft_of(view, "").targets(view.partitions)


def loads(answers: Mapping[str, Answer], view: TopicView) -> dict[int, RunningPartition]:
    """Return partition → position, lag and rates. If several consumers run a partition, the owner's report counts."""
    reports: dict[int, RunningPartition] = {}
    for consumer, answer in sorted(answers.items()):
        for partition, running in running_in(answer, view.topic).items():
            if partition not in reports or view.owners.get(partition) == consumer:
                reports[partition] = running
    return reports


def world_of(site: ClusterMoment, topic: str, fresh: str = "") -> World:
    """Return the world for one topic: the group's offsets, and every consumer's load from the other topics."""
    counts = Counter[str]()
    for other, view in site.topics.items():
        counts.update(view.node.assignments.values() if other != topic and view.node is not None else ())
    return replace(site.world, committed=site.committed.get(topic, {}), loads=counts, fresh=fresh)


def _acted(node: TopicNode, member: Member, isolated: bool, known: Mapping[int, RunningPartition]) -> TopicStatus:
    held = may_hold(node, member.consumer, member.incarnation, isolated=isolated)
    running = {}
    for partition in held:
        if node.assignments.get(partition) == member.consumer:
            token = Token(node.since[partition], member.incarnation, node.generation)
            running[partition] = replace(known.get(partition, _NOTHING), token=token, started=True, closing=False)
    return TopicStatus(node.generation, node.epoch, held, running)
