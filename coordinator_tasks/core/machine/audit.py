"""Who owns what: ZooKeeper's word, the consumers' own word, and what is committed in Kafka, held against each other.

Pure. One look may meet a hand-off half-way. So what a hand-off can look like counts only if a second look, some seconds
later, finds the same; what no consumer of ours ever does counts at once.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from coordinator_tasks.core.machine import causes, restarts
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
)
from coordinator_tasks.core.protocol.fence import Judgement, is_far_ahead, judge
from coordinator_tasks.core.text.partition_text import first, named, shown


class Kind(StrEnum):
    """What is wrong; the value is the code, with a row in docs/errors.md."""

    TWO_OWNERS = "KPC-080"
    NO_OWNER = "KPC-081"
    INTRUDER = "KPC-082"
    STALE = "KPC-083"
    OLD_CODE = "KPC-084"
    NO_WORD = "KPC-085"

    @property
    def word(self) -> str:
        """Its name for programs and metrics, such as `two_owners`."""
        return self.name.lower()


ALARMS = frozenset({Kind.TWO_OWNERS, Kind.NO_OWNER, Kind.INTRUDER, Kind.STALE})
"""A person should look at these soon; the others only limit what is known, or are normal during an upgrade."""
MEND: Mapping[Kind, str] = {
    Kind.TWO_OWNERS: "isolate the consumer that ZooKeeper does not name, and end its process",
    Kind.NO_OWNER: "see with `topics` and `status` what is awaited; without a possible owner, start a consumer with a pipeline for the topic",
    Kind.INTRUDER: "stop the intruder, or give the intruder a group of its own",
    Kind.STALE: "find the process that commits under the old token, and end it; the owner commits again within a second",
    Kind.OLD_CODE: "`redeploy` the fleet, or start the consumer again with the wanted release",
    Kind.NO_WORD: "see with `status` whether the consumer runs, and whether its address and the brokers can be reached",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """One observation of one partition (-1 = of the whole group). `lasting`: it counts only if two looks find it."""

    kind: Kind
    partition: int
    who: str
    says: str
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with some partitions of a topic (none = with the group, or with a consumer), and what to do next."""

    code: str
    topic: str
    partitions: tuple[int, ...]
    who: str
    says: str
    mend: str
    alarm: bool

    @property
    def told(self) -> str:
        """For a person, in one line."""
        return f"{self.code}: {self.says}; {self.mend}"


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits. `commits`: partitions whose committed entry changed between two looks; `records`: offsets gained."""

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
    """One look at one topic. The world was observed after the topic, and `world.committed` after the answers.

    `subscribers`: the members of the topic's group in Kafka.
    """
    node = view.node
    if view.config.removed or (node is not None and node.removed):
        return set()
    found = {
        Trace(
            Kind.INTRUDER,
            -1,
            one,
            f"{one} subscribes with group {view.config.group_id}: Kafka refuses all other commits",
        )
        for one in subscribers
    }
    found.update(_unread(view, world, policy))
    found.update(Trace(Kind.INTRUDER, -1, who, said) for who, said in sorted(doubted(view, world, policy).items()))
    if node is None:
        return found
    runners = _runners(view.topic, world)
    found.update(_of_runners(view, node, runners))
    found.update(_of_owners(view, node, world, policy))
    found.update(_of_committed(view, node, world, cluster))
    return found


def suspicious(found: Collection[Trace]) -> bool:
    """Whether a second look is needed to say what is true."""
    return any(one.lasting for one in found)


def findings(topic: str, first: Collection[Trace], second: Collection[Trace]) -> list[Finding]:
    """What counts of two looks, the worst kind first; partitions with one sentence are one finding."""
    keys = {_matter(one) for one in first}
    lasting = {one for one in second if one.lasting and _matter(one) in keys}
    counted = lasting | {one for one in (*first, *second) if not one.lasting}
    groups: dict[tuple[Kind, str, str], set[int]] = {}
    for one in counted:
        groups.setdefault((one.kind, one.who, one.says), set()).add(one.partition)
    return [
        Finding(
            kind,
            topic,
            which := tuple(sorted(partitions - {-1})),
            who,
            _sentence(topic, which, says),
            MEND[kind],
            kind in ALARMS,
        )
        for (kind, who, says), partitions in sorted(groups.items(), key=lambda item: (item[0], sorted(item[1])))
    ]


def _matter(one: Trace) -> tuple[Kind, int, str, str]:
    """What has to be the same in two looks: a consumer that lies about a partition makes new epochs meanwhile."""
    disputed = one.kind in (Kind.TWO_OWNERS, Kind.INTRUDER)
    return one.kind, one.partition, one.who, "" if disputed else one.says


def _sentence(topic: str, partitions: Collection[int], says: str) -> str:
    return f"{named(partitions)} of {topic}: {says}" if partitions else f"{topic}: {says}"


def _unread(view: TopicView, world: World, policy: Policy) -> Iterator[Trace]:
    owners = view.node.assignments if view.node is not None else {}
    for partition, why in unread(view, world, policy).items():
        yield Trace(Kind.NO_OWNER, partition, owners.get(partition, ""), why)


def _runners(topic: str, world: World) -> dict[int, list[_Runner]]:
    """Consumers that report running each partition."""
    found: dict[int, list[_Runner]] = {}
    for consumer in sorted(world.answers):
        status = world.status(consumer)
        said = status.topics.get(topic) if status is not None else None
        if status is None or said is None:
            continue
        for partition, running in said.running.items():
            found.setdefault(partition, []).append(_Runner(consumer, status.incarnation, running))
    return found


def _of_runners(view: TopicView, node: TopicNode, runners: Mapping[int, list[_Runner]]) -> Iterator[Trace]:
    for partition, several in runners.items():
        owner = node.assignments.get(partition, "")
        named_as = owner or "nobody"
        if len(several) > 1:
            said = " and ".join(first(f"{one.consumer} under epoch {one.running.token.epoch}" for one in several))
            who = shown(one.consumer for one in several)
            yield Trace(Kind.TWO_OWNERS, partition, who, f"{said} both run it, and ZooKeeper names {named_as}")
            continue
        (one,) = several
        if not _may_run(view, node, partition, one):
            said = f"{one.consumer} (incarnation {one.incarnation}) runs it, and ZooKeeper names {named_as}"
            yield Trace(Kind.INTRUDER, partition, one.consumer, said)
        elif one.consumer == owner and not one.running.closing and one.running.token.epoch < node.since[partition]:
            said = f"{owner} runs it under epoch {one.running.token.epoch}, and ZooKeeper grants it under {node.since[partition]}"
            yield Trace(Kind.STALE, partition, owner, said)


def _may_run(view: TopicView, node: TopicNode, partition: int, one: _Runner) -> bool:
    """Whether ZooKeeper lets this incarnation run the partition, or waits until it has closed it."""
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
    """Owners that are lost, say nothing, or do not run what they own."""
    moving = moving_in(view) | unread(view, world, policy).keys()
    of_owner: dict[str, list[int]] = {}
    for partition, owner in node.assignments.items():
        if partition not in moving:
            of_owner.setdefault(owner, []).append(partition)
    for owner, partitions in of_owner.items():
        incarnation = node.incarnations.get(owner, 0)
        is_there = presence(owner, incarnation, world, policy)
        life = world.life(owner, incarnation)
        if is_there is Presence.ABSENT and life.kept_until and life.restart is not None:
            said = f"{owner}, its owner, is restarting, expected until {_clock(life.kept_until)}: {restarts.said(life.restart)}"
            yield from (Trace(Kind.NO_WORD, p, owner, said) for p in partitions)
            continue
        if is_there in _LOST:
            yield from (Trace(Kind.NO_OWNER, p, owner, f"{owner}, its owner, {_LOST[is_there]}") for p in partitions)
            continue
        word = _word(owner, incarnation, view.topic, node, world)
        if isinstance(word, str):
            yield from (Trace(Kind.NO_WORD, p, owner, word) for p in partitions)
            continue
        idle = [p for p in partitions if p not in word.running]
        why = causes.hold(view) or f"{owner} owns it and does not run it"
        yield from (Trace(Kind.NO_OWNER, p, owner, why) for p in idle)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S UTC")


def _word(owner: str, incarnation: int, topic: str, node: TopicNode, world: World) -> TopicStatus | str:
    """What the owner says of the topic as it is stored, or why that is not known."""
    status = world.status(owner)
    if status is None:
        return f"{owner}, its owner, is registered and does not answer"
    if status.incarnation != incarnation:
        return f"{owner}, its owner, answers as incarnation {status.incarnation}, not {incarnation}"
    said = status.topics.get(topic)
    if said is None:
        return f"{owner}, its owner, says nothing of the topic"
    if said.generation != node.generation or said.acted_epoch < node.epoch:
        return f"{owner}, its owner, does not follow ZooKeeper: it acts on an older plan"
    return said


def _of_committed(view: TopicView, node: TopicNode, world: World, cluster: str) -> Iterator[Trace]:
    """Committed entries that are not the owner's, of partitions whose owner says that its start is committed."""
    for partition, owner in node.assignments.items():
        status = world.status(owner)
        said = status.topics.get(view.topic) if status is not None else None
        running = said.running.get(partition) if said is not None else None
        if running is not None and running.overwritten is not None:
            yield _of_overwritten(partition, owner, running.overwritten)
        if world.committed is None or running is None or not running.started or running.closing:
            continue
        trace = _of_commit(partition, owner, running.token, world.committed.get(partition), node, cluster)
        if trace is not None:
            yield trace


def _of_overwritten(partition: int, owner: str, found: Overwritten) -> Trace:
    """The owner sees each entry and commits over it: two looks of ours would have to meet it."""
    if not found.epoch:
        said = f"{found.by or 'somebody'} without a token has committed it over {owner} within the last minutes"
        return Trace(Kind.INTRUDER, partition, found.by, said, lasting=False)
    said = (
        f"{found.by} has committed it under epoch {found.epoch} over {owner} within the last minutes, by {owner}'s word"
    )
    return Trace(Kind.STALE, partition, found.by, said, lasting=False)


def _of_commit(
    partition: int, owner: str, own: Token, entry: Committed | None, node: TopicNode, cluster: str
) -> Trace | None:
    if entry is None:
        return Trace(Kind.NO_WORD, partition, owner, f"nothing is committed, though {owner} says that its start is")
    if entry.token is None:
        said = f"somebody without a token has committed it over {owner}"
        return Trace(Kind.INTRUDER, partition, "", said, lasting=False)
    who = entry.owner or "a consumer without a name"
    if entry.cluster and entry.cluster != cluster:
        said = f"{who} of cluster {entry.cluster[:80]!r} commits it as well"
        return Trace(Kind.INTRUDER, partition, who, said, lasting=False)
    epoch = entry.token.epoch
    if is_far_ahead(epoch, node.epoch):
        said = f"{who} has committed it under epoch {epoch}, which the topic cannot have reached"
        return Trace(Kind.INTRUDER, partition, who, said)
    verdict = judge(own, entry, node.topic_id, owner)
    if verdict is Judgement.FENCED:
        said = f"{who} has committed it under epoch {epoch}, and {owner} runs it under {own.epoch}"
        return Trace(Kind.INTRUDER, partition, who, said)
    if verdict is Judgement.REWRITE and entry.topic_id != node.topic_id:
        return Trace(Kind.STALE, partition, who, f"{who} has committed it for a former topic of this name")
    if verdict is Judgement.REWRITE:
        said = f"{who} has committed it under epoch {epoch}, over {owner}, which runs it under {own.epoch}"
        return Trace(Kind.STALE, partition, who, said)
    return None


def committers(topic: str, first: Mapping[int, Committed], second: Mapping[int, Committed]) -> list[Committer]:
    """Who has committed the partitions by the second look, and how much since the first one."""
    groups: dict[str, list[int]] = {}
    for partition, entry in second.items():
        groups.setdefault(entry.owner or "nobody with a token", []).append(partition)
    found = []
    for who, partitions in sorted(groups.items()):
        changed = [p for p in partitions if first.get(p) != second[p]]
        gained = sum(max(0, second[p].offset - first[p].offset) for p in changed if p in first)
        found.append(Committer(topic, who, tuple(sorted(partitions)), len(changed), gained))
    return found


def old_code(members: Mapping[str, Member], fleets: Collection[Fleet], release: str, attribute: str) -> list[Finding]:
    """Consumers of another release than the coordinator's, or of another version of the code than their fleet's.

    `attribute`: by which a consumer registers its version of the code. Who is being redeployed or upgraded is left out.
    """
    found = []
    wanted = {
        c: fleet
        for fleet in fleets
        for c in fleet.consumers
        if fleet.code and c not in fleet.replaced and c not in fleet.runs
    }
    for consumer, member in sorted(members.items()):
        if member.problem:
            continue  # nothing but its id is known
        runs = f"release {member.release}" if member.release else "a release that does not say its number"
        if member.release != release:
            found.append(_old(consumer, f"{consumer} runs {runs}, and the coordinator release {release}"))
        code, fleet = member.attributes.get(attribute, ""), wanted.get(consumer)
        if fleet is not None and code != fleet.code:
            found.append(
                _old(
                    consumer,
                    f"{consumer} runs code {code or 'without a version'}, and its fleet {fleet.app} asks for {fleet.code}",
                )
            )
    return found


def _old(consumer: str, says: str) -> Finding:
    return Finding(Kind.OLD_CODE, "", (), consumer, says, MEND[Kind.OLD_CODE], alarm=False)
