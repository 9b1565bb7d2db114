"""Requests of a person or the platform to a consumer: isolation, readmission, draining, a planned restart.

Each request is one compare-and-set. The next plan follows the request.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from coordinator_tasks.core.codecs.member_codec import decode_directive, encode_claim, encode_directive
from coordinator_tasks.core.errors import (
    CoordinatorError,
    DiscoveryUnavailable,
    Malformed,
    NoAccess,
    NotManaged,
    Refused,
)
from coordinator_tasks.core.machine.life import Life, interfaces
from coordinator_tasks.core.machine.presence import subscribes
from coordinator_tasks.core.model import (
    MAX_RESTART_S,
    Answer,
    ConsumerStatus,
    Directive,
    Draining,
    IdClaim,
    Isolation,
    Member,
    PlannedRestart,
    TopicNode,
    topic_status,
)
from coordinator_tasks.core.names import check_words, is_topic
from coordinator_tasks.core.ports import Operation, SetData, VersionCheck
from coordinator_tasks.core.protocol.znodes import children, compare_and_set, find_many, put, written
from coordinator_tasks.core.text.partition_text import duration, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import frozen_topics, store
from coordinator_tasks.service.nodes.fleet import with_consumer, without
from coordinator_tasks.service.nodes.observe import load_claims, load_directives

MAX_ISOLATED_S = 366 * 86_400.0
UNTIL_ANOTHER = "until another consumer is there that reads it"
"""End of a sentence about a draining consumer that keeps partitions because no other consumer may own them."""


def isolate(c: Coordinator, consumer: str, *, by: str, why: str, until_at: float = 0.0) -> Directive:
    """Isolate the consumer until it is readmitted: it may run nothing, and counts as closed.

    `until_at`: when the isolation may end; 0 means when a person readmits the consumer. Raises `NotManaged` for a
    consumer unknown to this cluster, and `Refused` for a time too far ahead.
    """
    check_known(c, consumer)
    by, why = check_words(by, "name"), check_words(why, "reason")
    check_isolation(until_at - c.clock.now())

    def change(old: Directive) -> Directive:
        wanted = Isolation(by, why, c.clock.now(), 0, until_at)
        if old.isolation is not None and old.isolation == replace(wanted, at=old.isolation.at):
            return old
        return replace(old, isolation=wanted)

    return _change(c, consumer, change)


def check_isolation(for_s: float) -> None:
    """Raise `Refused` for an impossible duration of an isolation."""
    if not for_s <= MAX_ISOLATED_S:
        raise Refused(
            f"an isolation lasts {MAX_ISOLATED_S / 86_400:g} days at most, or until a person ends it, and not {for_s:g} s: give "
            "fewer, or 0"
        )


def readmit(c: Coordinator, consumer: str, by: str) -> Directive:
    """Readmit the consumer once it confirms that nothing runs. Without an isolation, change nothing."""
    check_known(c, consumer)
    by = check_words(by, "name")

    def change(old: Directive) -> Directive:
        if old.isolation is None or old.isolation.readmit:
            return old
        why = f"{old.isolation.why}; readmission asked by {by}"
        return replace(old, isolation=replace(old.isolation, readmit=True, why=why))

    return _change(c, consumer, change)


def drain(c: Coordinator, consumer: str, by: str, why: str) -> Directive:
    """Drain the consumer and remove its id from the fleet, in one transaction."""
    check_known(c, consumer)
    draining = Draining(check_words(by, "name"), check_words(why, "reason"), c.clock.now())
    return _change(c, consumer, lambda old: drained(old, draining), lambda: without(c, consumer))


def drained(old: Directive, draining: Draining) -> Directive:
    """Return the directive with a person's draining. If a draining of all incarnations is stored already, its time
    stays.

    A person's draining replaces any other draining. Otherwise an upgrade, a redeployment or growth would end it.
    """
    before = old.draining
    if before is None or before.incarnation:
        return replace(old, draining=draining)
    return replace(old, draining=replace(before, by=draining.by, why=draining.why, owner=draining.owner))


def undrain(c: Coordinator, consumer: str, app: str = "") -> Directive:
    """End the draining of the consumer. With `app`, the same transaction adds the consumer to this fleet.

    Raises `NotManaged` for an unknown consumer or fleet.
    """
    check_known(c, consumer)
    beside = partial(with_consumer, c, app, consumer) if app else list
    return _change(c, consumer, lambda old: replace(old, draining=None), beside)


def would_expect_restart(
    c: Coordinator, consumer: str, within_s: float, *, moves: bool, by: str, why: str
) -> PlannedRestart | None:
    """Return the restart that `expect_restart` would write, or raise the same errors; `None` without a restart."""
    check_known(c, consumer)
    by, why = check_words(by, "name"), check_words(why, "reason")
    if not 0 <= within_s <= MAX_RESTART_S:
        raise Refused(
            f"a restart takes 0 to {duration(MAX_RESTART_S)}, and not {duration(within_s)}; give fewer minutes, or drain the consumer"
        )
    if not within_s:
        return None
    member, old = c.discovery.members().get(consumer), read_directive(c, consumer)
    if member is None:
        raise Refused(
            f"{consumer} is not registered, so nobody knows which process is to restart; ask before it ends, or start it"
        )
    # Older requests are still stored, but only requests to this process count. An earlier planned restart is no
    # obstacle.
    life = Life(consumer, member.incarnation, directive=replace(old, restart=None))
    asked = "isolated" if life.isolation is not None else "draining" if life.draining is not None else ""
    if asked:
        end = "readmit" if asked == "isolated" else "undrain"
        raise Refused(
            f"{consumer} is {asked}, so it keeps nothing for a restart; {end} it first, or restart it as it is"
        )
    if moves and (kept := frozen_topics.why_kept(c, [consumer])):
        raise Refused(f"{kept}, or let the partitions wait")
    partitions: dict[str, frozenset[int]] = {}
    for topic, node in store.load_nodes(c.zk, c.paths, children(c.zk, c.paths.configs)).items() if moves else ():
        if mine := frozenset(p for p, owner in node.assignments.items() if owner == consumer):
            partitions[topic] = mine
    now = c.clock.now()
    found = PlannedRestart(by, why, now, now + within_s, member.incarnation, moves, partitions)
    return replace(found, capacity=member.capacity, rack=member.rack, attributes=member.attributes)


def expect_restart(c: Coordinator, consumer: str, within_s: float, *, moves: bool, by: str, why: str) -> Directive:
    """Expect the next process of this id within this time, and keep its partitions for it; 0 ends the expectation.

    Until then the partitions wait, or, with `moves`, other consumers run them. Repeating starts the time again. Raises
    `NotManaged` for an unknown consumer, and `Refused`.
    """

    def change(old: Directive) -> Directive:
        wanted = would_expect_restart(c, consumer, within_s, moves=moves, by=by, why=why)
        before = old.restart
        if wanted is not None and before is not None and before.incarnation == wanted.incarnation and before.moves:
            # The consumer had these partitions before the earlier planned restart gave them away.
            former = {t: before.partitions.get(t, frozenset()) for t in {*before.partitions, *wanted.partitions}}
            both = {t: had | wanted.partitions.get(t, frozenset()) for t, had in former.items()}
            wanted = replace(wanted, partitions=both if moves else {})
        return replace(old, restart=wanted)

    return _change(c, consumer, change)


def read_directive(c: Coordinator, consumer: str) -> Directive:
    """Return the directive of a consumer; an empty directive (version -1) if there is none."""
    path = c.paths.directive(consumer)
    node = c.zk.find(path)
    return Directive(consumer) if node is None else decode_directive(path, node.data, consumer, node.stat.version)


def put_directive(c: Coordinator, directive: Directive) -> Operation:
    """Return the write of a directive at its version."""
    return put(c.paths.directive(directive.consumer), encode_directive(directive), directive.version)


def put_request(c: Coordinator, directive: Directive) -> list[Operation]:
    """Return the writes of a directive that a person or a policy requests.

    The writes also clear the consumer's earlier registrations and failed ends, so that these no longer count as
    flapping. An unreadable claim stays unchanged.
    """
    operations = [put_directive(c, directive)]
    claim = load_claims(c, [directive.consumer], {}).get(directive.consumer)
    if claim is not None and (claim.registrations or claim.failed_at):
        data = encode_claim(replace(claim, registrations=(), failed_at={}))
        operations.append(SetData(c.paths.id(claim.consumer), data, claim.version))
    return operations


def registered(c: Coordinator) -> dict[str, Life]:
    """Return the registered consumers, each with its registration and directive."""
    asked, now = load_directives(c, {}), c.clock.now()
    members = c.discovery.members()
    return {one: Life(one, who.incarnation, who, directive=asked.get(one), now=now) for one, who in members.items()}


def may_have(topic: str, lives: Mapping[str, Life]) -> set[str]:
    """Return the registered consumers that read the topic and are neither isolated nor draining."""
    able = {one for one, life in lives.items() if life.isolation is None and life.draining is None}
    return {one for one in able if (member := lives[one].member) is not None and subscribes(member, topic)}


def without_taker(c: Coordinator, consumer: str, topics: Collection[str]) -> list[str]:
    """Return the given topics that no other consumer may own; empty while the registry does not answer."""
    try:
        lives = registered(c)
    except DiscoveryUnavailable:
        return []
    return [topic for topic in topics if not may_have(topic, lives) - {consumer}]


def _change(
    c: Coordinator,
    consumer: str,
    change: Callable[[Directive], Directive],
    beside: Callable[[], list[Operation]] = list,
) -> Directive:
    """Change a directive. The same transaction writes the operations of `beside`."""

    def attempt() -> tuple[list[Operation], Directive]:
        old = read_directive(c, consumer)
        new = change(old)
        return [*([] if new == old else put_request(c, new)), *beside()], new

    return compare_and_set(c.zk, c.paths.directive(consumer), attempt)


def check_known(c: Coordinator, consumer: str) -> None:
    """Raise `NotManaged` for a consumer without a registration or directive in this cluster."""
    if any(c.zk.find(path) is not None for path in (c.paths.id(consumer), c.paths.directive(consumer))):
        return
    listed = shown(children(c.zk, c.paths.ids)) or "none"
    raise NotManaged(
        f"cluster {c.paths.cluster!r} has never seen a consumer {consumer!r} (it knows: {listed}); correct the id"
    )


@dataclass(frozen=True, slots=True)
class _Topics:
    """The topic nodes at one moment; `None` if not planned yet. `versions`: guards for writes that rely on the nodes.

    `unreadable`: topics with unreadable nodes. The incarnations with grants are unknown there.
    """

    nodes: Mapping[str, TopicNode | None]
    versions: Mapping[str, int]
    unreadable: frozenset[str] = frozenset()


def complete_readmissions(c: Coordinator, problems: list[str] | None = None) -> tuple[str, ...]:
    """End due isolations of consumers that now confirm that nothing runs. Return the readmitted consumers.

    A consumer confirms by its own answer, with an acted epoch of at least every topic's current epoch. The known end of
    every incarnation with a grant confirms too. The versions of topics, claim and directive guard the write. After a
    concurrent change, the next call tries again. An unreadable node is added to `problems`, and stops only readmissions
    that need it.
    """
    problems = problems if problems is not None else []
    unclear: dict[str, str] = {}
    asked, now = load_directives(c, unclear).values(), c.clock.now()
    waiting = [one for one in asked if one.isolation is not None and one.isolation.is_over(now)]
    consumers = [directive.consumer for directive in waiting]
    found = load_claims(c, consumers, unclear) if waiting else {}
    problems += [f"{consumer} is not readmitted: {problem}" for consumer, problem in unclear.items()]
    if not waiting:
        return ()
    topics = _read_topics(c, problems)
    claims = {one: found.get(one, IdClaim(one, 0)) for one in consumers if one not in unclear}
    members = dict(c.discovery.members())
    answers = c.statuses.ask(interfaces(claims, members, claims))
    done = []
    for directive in waiting:
        claim, member = claims.get(directive.consumer), members.get(directive.consumer)
        if claim is None or (member is not None and member.problem):
            continue  # unknown whether partitions run
        confirmed = _runs_nothing(directive, claim, member, answers.get(directive.consumer), topics)
        try:
            if confirmed and _lift(c, directive, claim, topics):
                done.append(directive.consumer)
        except NoAccess as error:
            problems.append(f"{directive.consumer} is not readmitted: {error}")
    return tuple(done)


def _read_topics(c: Coordinator, problems: list[str]) -> _Topics:
    c.zk.sync()
    names = filter(is_topic, c.zk.children(c.paths.assignments))
    unreadable: dict[str, CoordinatorError] = {}
    found = find_many(c.zk, {name: c.paths.topic(name) for name in names}, unreadable)
    nodes: dict[str, TopicNode | None] = {}
    for name, node in found.items():
        try:
            nodes[name] = store.read_node(c.paths.topic(name), node)
        except Malformed as error:
            unreadable[name] = error
    problems += [f"nobody who may run topic {name} is readmitted: {error}" for name, error in unreadable.items()]
    return _Topics(nodes, {name: node.stat.version for name, node in found.items()}, frozenset(unreadable))


def _runs_nothing(
    directive: Directive, claim: IdClaim, member: Member | None, answer: Answer | None, topics: _Topics
) -> bool:
    consumer = directive.consumer
    if any(member is None or subscribes(member, topic) or topic_status(answer, topic) for topic in topics.unreadable):
        return False
    planned = {topic: node for topic, node in topics.nodes.items() if node is not None}
    isolated = directive.isolation.incarnation if directive.isolation is not None else 0
    granted = {node.incarnations[consumer] for node in planned.values() if consumer in node.incarnations}
    # If one incarnation is isolated, its answer or its end is enough. Any other isolation needs the answer or end of
    # each incarnation that may run. If a second process of the id drew an incarnation beside a live registration, it
    # was never admitted, and its end proves nothing about the registered incarnation. The registry may list an older
    # registration; the claim has the last.
    registered = {max(member.incarnation, claim.registered)} if member is not None else set[int]()
    present = registered or {claim.incarnation, claim.answered}
    unknown = ({isolated} if isolated else present | granted) - claim.ended.keys() - {0}
    if not unknown:
        return True
    if not isinstance(answer, ConsumerStatus) or unknown != {answer.incarnation}:
        return False
    if any(status.running for status in answer.topics.values()):
        return False
    # A process that started after a topic's removal never takes the topic up, so its answer omits the topic.
    return all(
        _acted_on(answer, topic, node)
        for topic, node in planned.items()
        if consumer in node.incarnations
        or (topic in answer.topics if node.removed else member is None or subscribes(member, topic))
    )


def _acted_on(answer: ConsumerStatus, topic: str, node: TopicNode) -> bool:
    status = answer.topics.get(topic)
    return status is not None and status.generation == node.generation and status.acted_epoch >= node.epoch


def _lift(c: Coordinator, directive: Directive, claim: IdClaim, topics: _Topics) -> bool:
    guards: list[Operation] = [VersionCheck(c.paths.topic(name), version) for name, version in topics.versions.items()]
    if claim.version >= 0:
        guards.append(VersionCheck(c.paths.id(claim.consumer), claim.version))
    return written(c.zk, [*guards, put_directive(c, replace(directive, isolation=None))])
