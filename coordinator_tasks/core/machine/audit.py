"""Compare ZooKeeper's grants, the consumers' reports and Kafka's commits. Pure.

A snapshot may catch a hand-off half-way. So a deviation that is normal during a hand-off counts only if a second
snapshot, some seconds later, shows the deviation again. Any other deviation counts at once.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.machine import causes, restarts
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.machine.presence import presence
from coordinator_tasks.core.machine.recovery import doubted
from coordinator_tasks.core.machine.unread import moving_in, unread
from coordinator_tasks.core.machine.world import Policy, Presence, TopicView, World
from coordinator_tasks.core.model import (
    Committed,
    Fleet,
    Member,
    Overwritten,
    RunningPartition,
    Token,
    TopicNode,
    TopicStatus,
    topic_status,
)
from coordinator_tasks.core.protocol.fence import Judgement, is_far_ahead, judge
from coordinator_tasks.core.text.partition_text import first, named, shown


class FindingKind(StrEnum):
    """Kinds of deviation. Each value is the error code, which `docs/errors.md` explains."""

    TWO_OWNERS = "KPC-080"
    NO_OWNER = "KPC-081"
    INTRUDER = "KPC-082"
    STALE = "KPC-083"
    OLD_CODE = "KPC-084"
    NO_WORD = "KPC-085"

    @property
    def word(self) -> str:
        """Return the kind's name for programs and metrics, such as `two_owners`."""
        return self.name.lower()


ALARMS = frozenset({FindingKind.TWO_OWNERS, FindingKind.NO_OWNER, FindingKind.INTRUDER, FindingKind.STALE})
"""Kinds that need a person's attention soon. Of the other kinds, `NO_WORD` means that the audit is incomplete, and
`OLD_CODE` is normal during an upgrade.
"""
MEND: Mapping[FindingKind, str] = {
    FindingKind.TWO_OWNERS: "isolate the consumer that ZooKeeper does not name, and end its process",
    FindingKind.NO_OWNER: "see with `topics` and `status` what is awaited; without a possible owner, start a consumer with a pipeline for the topic",
    FindingKind.INTRUDER: "stop the intruder, or give the intruder a group of its own",
    FindingKind.STALE: "find the process that commits under the old token, and end it; the owner commits again within a second",
    FindingKind.OLD_CODE: "`redeploy` the fleet, or start the consumer again with the wanted release",
    FindingKind.NO_WORD: "see with `status` whether the consumer runs, and whether its address and the brokers can be reached",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """An observation of a partition; -1 means the whole group. `lasting`: counts only if both snapshots have the trace.

    `epochs`: part of the trace's identity. A plan between the snapshots changes the epochs, and so makes another trace.
    """

    kind: FindingKind
    partition: int
    who: str
    says: str
    lasting: bool = True
    epochs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A deviation and its remedy, for some partitions of a topic. Without partitions: about the group or a consumer."""

    code: str
    topic: str
    partitions: tuple[int, ...]
    who: str
    says: str
    mend: str
    alarm: bool

    @property
    def told(self) -> str:
        return f"{self.code}: {self.says}; {self.mend}"


@dataclass(frozen=True, slots=True)
class Committer:
    """A consumer that commits. Since the first snapshot: `commits` partitions with a new entry, `records` offsets
    gained.
    """

    topic: str
    who: str
    partitions: tuple[int, ...]
    commits: int
    records: int


@dataclass(frozen=True, slots=True)
class _Runner:
    consumer: str
    incarnation: int
    running: RunningPartition


def traces(
    view: TopicView, world: World, policy: Policy, cluster: str, subscribers: Collection[str] = ()
) -> set[Trace]:
    """Return the traces of a topic in the present snapshot.

    Observe the world after the topic, and `world.committed` after the consumers' answers. `subscribers`: the members of
    the topic's group in Kafka.
    """
    node = view.node
    if view.config.removed or (node is not None and node.removed):
        return set()
    why = f"subscribes with group {view.config.group_id}: Kafka refuses all other commits"
    intruders = [(member, f"{member} {why}") for member in subscribers]
    intruders += doubted(view, world, policy).items()
    evidence = {Trace(FindingKind.INTRUDER, -1, who, reason) for who, reason in intruders}
    evidence.update(_unread(view, world, policy), _of_unknown(view, world))
    if node is not None:
        evidence.update(
            _of_runners(view, node, _runners(view.topic, world)),
            _of_owners(view, node, world, policy),
            _of_committed(view, node, world, cluster),
        )
    return evidence


def suspicious(found: Collection[Trace]) -> bool:
    """Return whether the traces need a second snapshot."""
    return any(trace.lasting for trace in found)


def findings(topic: str, first: Collection[Trace], second: Collection[Trace]) -> list[Finding]:
    """Return the findings of two snapshots, the worst kind first. Partitions with the same sentence share a finding."""
    keys = {_matter(trace) for trace in first}
    lasting = {trace for trace in second if trace.lasting and _matter(trace) in keys}
    counted = lasting | {trace for trace in (*first, *second) if not trace.lasting}
    groups = grouped(sorted({((trace.kind, trace.who, trace.says), trace.partition) for trace in counted}))
    return [_finding(kind, topic, [p for p in ps if p >= 0], who, says) for (kind, who, says), ps in groups.items()]


def _matter(one: Trace) -> tuple[FindingKind, int, str, tuple[int, ...]]:
    """Return the part of a trace that must be equal in both snapshots."""
    return one.kind, one.partition, one.who, one.epochs


def _finding(kind: FindingKind, topic: str, partitions: Collection[int], who: str, says: str) -> Finding:
    where = f"{named(partitions)} of {topic}" if partitions else topic
    return Finding(kind, topic, tuple(partitions), who, f"{where}: {says}", MEND[kind], kind in ALARMS)


def _unread(view: TopicView, world: World, policy: Policy) -> Iterator[Trace]:
    for partition, why in unread(view, world, policy).items():
        yield Trace(FindingKind.NO_OWNER, partition, view.owners.get(partition, ""), why)


def _of_unknown(view: TopicView, world: World) -> Iterator[Trace]:
    """Yield partitions that wait for a consumer unknown to ZooKeeper, which a commit names as the owner."""
    for consumer, partitions in (view.state.to_close if view.state is not None else {}).items():
        if not world.knows(consumer):
            text = (
                f"a commit names {consumer} as the owner, ZooKeeper knows no such consumer, and the partition waits until {consumer} "
                "is isolated: a foreign client with a forged token, or a consumer that ZooKeeper has lost"
            )
            yield from (Trace(FindingKind.INTRUDER, partition, consumer, text) for partition in partitions)


def _runners(topic: str, world: World) -> dict[int, list[_Runner]]:
    """Return the consumers that report running each partition."""
    return grouped(
        (partition, _Runner(consumer, status.incarnation, running))
        for consumer, status in world.naming(topic).items()
        for partition, running in status.topics[topic].running.items()
    )


def _of_runners(view: TopicView, node: TopicNode, runners: Mapping[int, list[_Runner]]) -> Iterator[Trace]:
    for partition, candidates in runners.items():
        owner = node.assignments.get(partition, "")
        named_as = owner or "nobody"
        if len(candidates) > 1:
            text = " and ".join(first(f"{one.consumer} under epoch {one.running.token.epoch}" for one in candidates))
            names = shown(one.consumer for one in candidates)
            yield Trace(FindingKind.TWO_OWNERS, partition, names, f"{text} both run it, and ZooKeeper names {named_as}")
            continue
        (runner,) = candidates
        epoch = runner.running.token.epoch
        if not _may_run(view, node, partition, runner):
            text = f"{runner.consumer} (incarnation {runner.incarnation}) runs it, and ZooKeeper names {named_as}"
            yield Trace(FindingKind.INTRUDER, partition, runner.consumer, text)
        elif runner.consumer == owner and not runner.running.closing and epoch < node.since[partition]:
            text = f"{owner} runs it under epoch {epoch}, and ZooKeeper grants it under {node.since[partition]}"
            yield Trace(FindingKind.STALE, partition, owner, text, epochs=(epoch, node.since[partition]))


def _may_run(view: TopicView, node: TopicNode, partition: int, one: _Runner) -> bool:
    """Return whether ZooKeeper grants the partition to this incarnation, or waits until the incarnation closes it."""
    if view.state is not None and partition in view.state.to_close.get(one.consumer, ()):
        return True
    entry = node.handoff.get(partition)
    granted = {node.assignments.get(partition), *((entry.giver, entry.taker) if entry is not None else ())}
    return one.consumer in granted and node.incarnations.get(one.consumer) == one.incarnation


_LOST: Mapping[Presence, str] = {
    Presence.GONE: "has ended",
    Presence.ISOLATED: "is isolated",
    Presence.ABSENT: "is not registered and does not answer",
}


def _of_owners(view: TopicView, node: TopicNode, world: World, policy: Policy) -> Iterator[Trace]:
    """Yield partitions with a lost or silent owner, and partitions that their owner does not run."""
    moving = moving_in(view) | unread(view, world, policy).keys()
    settled = by_consumer((owner, p) for p, owner in node.assignments.items() if p not in moving)
    for owner, partitions in settled.items():
        incarnation = node.incarnations.get(owner, 0)
        state = presence(owner, incarnation, world, policy)
        life = world.life(owner, incarnation)
        kind, idle = FindingKind.NO_OWNER, partitions
        if state is Presence.ABSENT and life.kept_until and life.restart is not None:
            until = datetime.fromtimestamp(life.kept_until, UTC).strftime("%H:%M:%S UTC")
            kind = FindingKind.NO_WORD
            why = f"{owner}, its owner, is restarting, expected until {until}: {restarts.said(life.restart)}"
        elif state in _LOST:
            why = f"{owner}, its owner, {_LOST[state]}"
        elif isinstance(word := _word(owner, incarnation, view.topic, node, world), str):
            kind, why = FindingKind.NO_WORD, word
        else:
            idle = tuple(p for p in partitions if p not in word.running)
            why = causes.hold(view) or f"{owner} owns it and does not run it"
        yield from (Trace(kind, p, owner, why) for p in idle)


def _word(owner: str, incarnation: int, topic: str, node: TopicNode, world: World) -> TopicStatus | str:
    """Return the owner's status of the topic at the stored epoch, or a sentence that says why there is none."""
    status = world.status(owner)
    if status is None:
        return f"{owner}, its owner, is registered and does not answer"
    if status.incarnation != incarnation:
        return f"{owner}, its owner, answers as incarnation {status.incarnation}, not {incarnation}"
    said = topic_status(status, topic)
    if said is None:
        return f"{owner}, its owner, says nothing of the topic"
    if said.generation != node.generation or said.acted_epoch < node.epoch:
        return f"{owner}, its owner, does not follow ZooKeeper: it acts on an older plan"
    return said


def _of_committed(view: TopicView, node: TopicNode, world: World, cluster: str) -> Iterator[Trace]:
    """Yield foreign commits on partitions whose owner reports a committed start."""
    for partition, owner in node.assignments.items():
        running = world.running(owner, view.topic, partition)
        if running is not None and running.overwritten is not None:
            yield _of_overwritten(partition, owner, running.overwritten)
        if world.committed is None or running is None or not running.started or running.closing:
            continue
        trace = _of_commit(partition, owner, running.token, world.committed.get(partition), node, cluster)
        if trace is not None:
            yield trace


def _of_overwritten(partition: int, owner: str, found: Overwritten) -> Trace:
    """Return the trace of an overwritten entry. The trace counts at once, without a second snapshot.

    The owner notices each foreign entry and commits again, so two snapshots would rarely both catch the entry.
    """
    if not found.epoch:
        text = f"{found.by or 'somebody'} without a token has committed it over {owner} within the last minutes"
        return Trace(FindingKind.INTRUDER, partition, found.by, text, lasting=False)
    text = (
        f"{found.by} has committed it under epoch {found.epoch} over {owner} within the last minutes, by {owner}'s word"
    )
    return Trace(FindingKind.STALE, partition, found.by, text, lasting=False)


def _of_commit(
    partition: int, owner: str, own: Token, entry: Committed | None, node: TopicNode, cluster: str
) -> Trace | None:
    if entry is None:
        text = f"nothing is committed, though {owner} says that its start is"
        return Trace(FindingKind.NO_WORD, partition, owner, text)
    if entry.token is None:
        text = f"somebody without a token has committed it over {owner}"
        return Trace(FindingKind.INTRUDER, partition, "", text, lasting=False)
    committer = entry.owner or "a consumer without a name"
    if entry.cluster and entry.cluster != cluster:
        text = f"{committer} of cluster {entry.cluster[:80]!r} commits it as well"
        return Trace(FindingKind.INTRUDER, partition, committer, text, lasting=False)
    epoch = entry.token.epoch
    if is_far_ahead(epoch, node.epoch):
        text = f"{committer} has committed it under epoch {epoch}, which the topic cannot have reached"
        return Trace(FindingKind.INTRUDER, partition, committer, text)
    verdict = judge(own, entry, node.topic_id, owner)
    if verdict is Judgement.FENCED:
        text = f"{committer} has committed it under epoch {epoch}, and {owner} runs it under {own.epoch}"
        return Trace(FindingKind.INTRUDER, partition, committer, text)
    if verdict is Judgement.REWRITE and entry.topic_id != node.topic_id:
        text = f"{committer} has committed it for a former topic of this name"
        return Trace(FindingKind.STALE, partition, committer, text)
    if verdict is Judgement.REWRITE:
        text = f"{committer} has committed it under epoch {epoch}, over {owner}, which runs it under {own.epoch}"
        return Trace(FindingKind.STALE, partition, committer, text, epochs=(epoch, own.epoch))
    return None


def committers(topic: str, first: Mapping[int, Committed], second: Mapping[int, Committed]) -> list[Committer]:
    """Return the committers at the second snapshot, with their progress since the first."""
    groups = by_consumer((entry.owner or "nobody with a token", p) for p, entry in second.items())
    result = []
    for committer, partitions in groups.items():
        changed = [p for p in partitions if first.get(p) != second[p]]
        gained = sum(max(0, second[p].offset - first[p].offset) for p in changed if p in first)
        result.append(Committer(topic, committer, partitions, len(changed), gained))
    return result


def old_code(members: Mapping[str, Member], fleets: Collection[Fleet], release: str, attribute: str) -> list[Finding]:
    """Return a finding for each consumer whose release differs from the coordinator's, or whose code version differs
    from the fleet's.

    `attribute`: the registered attribute with the code version. Consumers under redeployment or upgrade are skipped.
    """
    outdated = []
    wanted = {
        c: fleet
        for fleet in fleets
        for c in fleet.consumers
        if fleet.code and c not in fleet.replaced and c not in fleet.runs
    }
    for consumer, member in sorted(members.items()):
        if member.problem:
            continue  # an unreadable registration has only an id
        runs = f"release {member.release}" if member.release else "a release that does not say its number"
        if member.release != release:
            outdated.append(_old(consumer, f"{consumer} runs {runs}, and the coordinator release {release}"))
        code, fleet = member.attributes.get(attribute, ""), wanted.get(consumer)
        if fleet is not None and code != fleet.code:
            has = code or "without a version"
            outdated.append(
                _old(consumer, f"{consumer} runs code {has}, and its fleet {fleet.app} asks for {fleet.code}")
            )
    return outdated


def _old(consumer: str, says: str) -> Finding:
    return Finding(FindingKind.OLD_CODE, "", (), consumer, says, MEND[FindingKind.OLD_CODE], alarm=False)
