"""The present state for a person: topics and owners, consumers and running partitions. Writes nothing.

An unreadable topic or consumer shows a problem in place of figures. The others are still listed.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable, Malformed, Refused
from coordinator_tasks.core.machine import crashes, fleet_topics
from coordinator_tasks.core.machine.causes import absence
from coordinator_tasks.core.machine.crashes import Exits
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.machine.failures import CommonFailure, by_cause, failures_of
from coordinator_tasks.core.machine.fleet_topics import conflicts
from coordinator_tasks.core.machine.life import Life, interfaces
from coordinator_tasks.core.machine.presence import presence, wants
from coordinator_tasks.core.machine.restarts import said
from coordinator_tasks.core.machine.unread import NO_OWNER, moving_in, unowned_in, unread
from coordinator_tasks.core.machine.world import Presence, TopicView, World
from coordinator_tasks.core.model import (
    CauseKind,
    Condition,
    ConsumerStatus,
    Ending,
    Failure,
    Fleet,
    State,
    StateSize,
    TopicNode,
    TopicStatus,
    Unreachable,
)
from coordinator_tasks.core.text import topic_patterns
from coordinator_tasks.core.text.partition_text import agreed, because, named, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import redeployment, upgrades
from coordinator_tasks.service.nodes import observe, store, upgrade_store
from coordinator_tasks.service.nodes.cluster import ClusterObservation
from coordinator_tasks.service.nodes.fleet import CODE, fleets, why_not_launched
from coordinator_tasks.service.nodes.observe import (
    holders_of,
    known,
    load_claims,
    load_directives,
    load_members,
    unasked,
)
from coordinator_tasks.service.plan import overrides, transitions
from coordinator_tasks.service.watch.consumer_pages import NO_PAGES, ConsumerPages, pages_of
from coordinator_tasks.service.watch.fleet_starts import fleet_starts, starts_of
from coordinator_tasks.service.watch.silent_kafka import silenced

DRAINING = "draining"
STARTING, NOT_STARTED = "starting", "not started"
EXPECTED = "expected"
"""A presence for figures: absent for an announced restart."""
PRESENCES = (*Presence, EXPECTED, DRAINING, STARTING, NOT_STARTED)
_UNSEEN = (
    "it has never registered: the launcher or the DAG `consumers` starts it; if that lasts, `driver.log` in its run "
    "folder says why"
)
_WISHES = frozenset({CauseKind.PAUSED, CauseKind.PINNED, CauseKind.ROLLED_BACK, CauseKind.SPLIT})
"""Causes that `wishes` already shows."""
_ENDED = (Presence.GONE, STARTING, NOT_STARTED)


@dataclass(frozen=True, slots=True)
class TopicOverview:
    """A managed topic. `owners`: consumer → number of partitions.

    - `moving`: partitions that wait for a close or a start.
    - `unread`: partition → why it is not read, and the remedy. `unowned`: the numbers of these partitions.
    - `reason`: the step that is due or awaited. `blockers`: consumers that delay the step.
    - `failing`: sentences about partitions that owners cannot process. `failures`: the same as values.
    - `wishes`: a person's freezes, pauses and pins. `wished`: the `reason` is one of the wishes.
    - `problem`: why the topic is unreadable; the figures are then empty.
    """

    topic: str
    state: State = State.INITIAL
    epoch: int = 0
    partitions: int = 0
    owners: Mapping[str, int] = field(default_factory=dict)
    moving: tuple[int, ...] = ()
    unowned: tuple[int, ...] = ()
    unread: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""
    blockers: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    problem: str = ""
    failing: tuple[str, ...] = ()
    failures: tuple[CommonFailure, ...] = ()
    wished: bool = False


@dataclass(frozen=True, slots=True)
class RunningTopic:
    """A consumer's report of one topic, and its grants.

    `lag_records`: `None` if no partition's lag is known. `lag_unknown`: number of `assigned` partitions without a
    reported lag. `failures`: processing failures of the consumer, which `reports` names too. `states`: partition → size
    of the state that a stateful pipeline keeps.
    """

    topic: str
    assigned: tuple[int, ...] = ()
    running: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()
    paused: tuple[int, ...] = ()
    acted_epoch: int = 0
    lag_records: int | None = None
    lag_unknown: int = 0
    reports: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    states: Mapping[int, StateSize] = field(default_factory=dict)

    def reports_without(self, errors: Collection[str]) -> tuple[str, ...]:
        return tuple(report for report in self.reports if not any(error in report for error in errors))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the reports for a person. A sink that does not answer is named once, without its error."""
        away = [one for one in self.failures if one.away]
        rest = self.reports_without([one.why for one in away])
        if not away:
            return rest
        waiting = {p for p in self.assigned if any(one.concerns(p) for one in away)}
        wait = f"{named(waiting)} {agreed(len(waiting), 'waits', 'wait')}" if waiting else "the topic waits"
        return (f"the sink does not answer: {wait} for {max(one.for_s for one in away):.0f} s", *rest)

    @property
    def lag(self) -> str:
        """Return the lag in records as a text; empty if unknown."""
        if self.lag_records is None:
            return ""
        return f"at least {self.lag_records}" if self.lag_unknown else str(self.lag_records)


@dataclass(frozen=True, slots=True)
class ConsumerOverview:
    """One consumer. `presence`: a `Presence`, or `draining`, `starting` (incarnation drawn, not registered), or `not
    started` (wanted, but never launched).

    - `problem`: what an absent owner waits for, or else why the consumer did not answer or is not launched.
    - `ended`: if gone or flapping, why the last process ended. `exits`: the failed ends.
    - `reports`: why its replacement waits, the problem of the registration, and reports that concern no topic.
    - `release`: of this product; `code`: the fleet's version of the code. Both are empty without a registration, or if
      an older release registered.
    - `pages`: Spark UI and driver's log.
    - `left`: gone after a clean leave. `drained`: asked to give all partitions away. `expected`: absent for an
      announced restart.
    """

    consumer: str
    presence: str
    incarnation: int = 0
    address: str = ""
    health: str = ""
    condition: Condition | None = None
    problem: str = ""
    ended: str = ""
    asked: str = ""
    reports: tuple[str, ...] = ()
    topics: tuple[RunningTopic, ...] = ()
    release: str = ""
    code: str = ""
    pages: ConsumerPages = NO_PAGES
    exits: Exits | None = None
    left: bool = False
    drained: bool = False
    expected: bool = False

    @property
    def unwell(self) -> str:
        """Return the health for a person; empty if the consumer is well or has not answered.

        The failures of a topic are shown at the topic.
        """
        if self.condition in (None, Condition.OK):
            return ""
        told = self.condition is Condition.FAILING and any(topic.failures for topic in self.topics)
        return Condition.FAILING.value if told else self.health


def topics(c: Coordinator, problems: list[str] | None = None) -> list[TopicOverview]:
    """Return the managed topics, sorted. Raises the `Unavailable` kinds.

    If Kafka does not answer, `problems` gets the error, and the topics lack Kafka's facts.
    """
    names, silent = transitions.topics(c), ""
    if problems is not None and names:
        try:
            c.kafka.describe(names, {})
        except KafkaUnavailable as error:
            problems.append(error.told)
            c, silent = silenced(c, error), "Kafka does not answer"
        except Refused:
            pass  # without the right, the topics show ZooKeeper's facts, as in a plan
    reports = {report.topic: report for report in transitions.preview(c, names)}
    stored = store.load_topics(c.zk, c.paths)
    found = [_topic(view, reports.get(view.topic)) for view in stored.views]
    found += [(TopicOverview(name, problem=error.told), ()) for name, error in stored.unread.items()]
    ended, starts = _ended(c), fleet_starts(c) if any(one.unowned for one, _ in found) else ()
    told = list[TopicOverview]()
    for one, ownerless in sorted(found, key=lambda each: each[0].topic):
        starting = starts_of(one.topic, starts)
        unread = starting if one.unowned and not one.owners else ""
        reason = "; ".join(filter(None, (silent, one.reason, _ended_of(one, ended), unread)))
        told.append(replace(one, reason=reason, unread=_with_starts(one.unread, ownerless, starting)))
    return told


def _with_starts(unread: Mapping[int, str], ownerless: Collection[int], starts: str) -> Mapping[int, str]:
    """Return the reasons. For a partition without an owner, the reason names the starting consumers."""
    return {p: f"no owner; {starts}" if starts and p in ownerless else why for p, why in unread.items()}


@dataclass(frozen=True, slots=True)
class _Ended:
    """A consumer that is missing, or gets no partitions, because its processes ended with an error.

    `topics`: the consumer's topics; empty means any topic.
    """

    consumer: str
    exits: Exits
    topics: tuple[str, ...]


def _ended(c: Coordinator) -> list[_Ended]:
    """Return the consumers whose processes ended with an error; empty if ZooKeeper's nodes are unreadable."""
    found = list[_Ended]()
    with suppress(CoordinatorError):
        members = c.discovery.members()
        missing = {
            consumer: fleet_topics.named(fleet.arguments)
            for fleet in fleets(c)
            for consumer in fleet.consumers
            if consumer not in members
        }
        reads = missing | {consumer: member.topics for consumer, member in members.items()}
        world = World(c.clock.now(), members, load_claims(c, sorted(reads), {}))
        for consumer, topics in sorted(reads.items()):
            exits = crashes.exits(consumer, world, c.policy)
            if exits is not None and (consumer in missing or exits.next_at):
                found.append(_Ended(consumer, exits, topics))
    return found


def _ended_of(topic: TopicOverview, ended: Iterable[_Ended]) -> str:
    """Return why consumers of this topic ended, if partitions are not read or an id is in back-off after crashes."""
    mine = (one for one in ended if wants(one.topics, topic.topic) and (topic.unowned or one.exits.next_at))
    return shown([f"{one.consumer}: {one.exits.told}" for one in mine])


def _topic(view: TopicView, report: transitions.TopicReport | None) -> tuple[TopicOverview, Collection[int]]:
    """Return the topic, and its partitions without an owner."""
    owners = Counter(view.node.assignments.values() if view.node is not None else ())
    moving = moving_in(view)
    ownerless = tuple(unowned_in(view))
    nobody_reads = report.unread if report is not None else dict.fromkeys(ownerless, NO_OWNER)
    found = TopicOverview(
        topic=view.topic,
        state=view.state.state if view.state is not None else State.INITIAL,
        epoch=view.node.epoch if view.node is not None else 0,
        partitions=len(view.partitions),
        owners=dict(sorted(owners.items())),
        moving=tuple(sorted(moving)),
        unowned=tuple(nobody_reads),
        unread=nobody_reads,
        # If owners fail, the topic does not count as settled.
        reason=report.reason if report is not None and not (report.failing and report.settled) else "",
        blockers=report.blockers if report is not None else (),
        wishes=overrides.told(view.config),
        failing=tuple(one.told for one in report.failing) if report is not None else (),
        failures=report.failing if report is not None else (),
        wished=report is not None and bool(report.causes) and _WISHES.issuperset(one.kind for one in report.causes),
    )
    return found, ownerless


def unowned(c: Coordinator, problems: dict[str, CoordinatorError] | None = None) -> dict[str, Mapping[int, str]]:
    """Return topic → unread partitions, with reason and remedy. Topics without unread partitions are left out.

    `problems` gets the topics that cannot be read. Raises the `Unavailable` kinds.
    """
    stored = store.load_topics(c.zk, c.paths)
    if problems is not None:
        problems |= stored.unread
    world = observe.snapshot(c, stored.nodes, note=False).world
    return unowned_of(c, observe.describe(c, stored.views), world)


def unowned_of(c: Coordinator, views: Collection[TopicView], world: World) -> dict[str, Mapping[int, str]]:
    """Return `unowned` of these topics with Kafka's descriptions, in a world observed after the topics were read."""
    found: dict[str, Mapping[int, str]] = {view.topic: unread(view, world, c.policy) for view in views}
    found = {topic: partitions for topic, partitions in found.items() if partitions}
    starts, ownerless = fleet_starts(c) if found else (), {view.topic: unowned_in(view) for view in views}
    return {
        topic: _with_starts(partitions, ownerless[topic], starts_of(topic, starts))
        for topic, partitions in found.items()
    }


def held(
    c: Coordinator, consumer: str, problems: dict[str, CoordinatorError] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return topic → the consumer's partitions. `problems` gets unreadable topics."""
    nodes = store.load_nodes(c.zk, c.paths, transitions.topics(c), problems)
    owned = {
        topic: sorted(p for p, who in node.assignments.items() if who == consumer) for topic, node in nodes.items()
    }
    return {topic: tuple(partitions) for topic, partitions in owned.items() if partitions}


def at_stake(
    c: Coordinator, consumer: str, problems: dict[str, CoordinatorError] | None = None
) -> dict[str, tuple[int, ...]]:
    """Return topic → partitions that an isolation would take from this consumer: owned, closing or starting.

    `problems` gets unreadable topics.
    """
    stored = store.load_topics(c.zk, c.paths)
    if problems is not None:
        problems |= stored.unread
    found = {view.topic: at_stake_of(view).get(consumer, ()) for view in stored.views}
    return {topic: partitions for topic, partitions in found.items() if partitions}


def not_known(consumer: str, problems: Mapping[str, CoordinatorError]) -> Iterator[str]:
    """Yield a sentence about the topics that are unreadable, for display beside the consumer's partitions."""
    return (f"what {consumer} has of {topic} is not known: {problem}" for topic, problem in problems.items())


def at_stake_of(view: TopicView) -> dict[str, tuple[int, ...]]:
    """Return consumer → its owned, closing or starting partitions, sorted. Idle consumers are left out."""
    found: dict[str, set[int]] = {}
    for partition, owner in view.node.assignments.items() if view.node is not None else ():
        found.setdefault(owner, set()).add(partition)
    for listed in (view.state.to_close, view.state.to_start) if view.state is not None else ():
        for consumer, partitions in listed.items():
            found.setdefault(consumer, set()).update(partitions)
    return {consumer: tuple(sorted(partitions)) for consumer, partitions in sorted(found.items()) if partitions}


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """An observation of a cluster: the topics' nodes, all consumers with their answers, and the fleets' consumers.

    `held`: consumer → largest incarnation with a grant. `wanted`: consumer of a fleet → why it is not launched. `kept`:
    consumer → why its redeployment or upgrade waits, or that its fleet shares topics with another fleet.
    """

    nodes: Mapping[str, TopicNode]
    world: World
    everybody: tuple[str, ...]
    held: Mapping[str, int]
    wanted: Mapping[str, str]
    kept: Mapping[str, str] = field(default_factory=dict)


def of_topic(c: Coordinator, topic: str) -> ClusterLook:
    """Ask only the consumers that own, give or take partitions of this topic. Raises the `Unavailable` kinds."""
    unclear = dict[str, str]()
    nodes = store.load_nodes(c.zk, c.paths, [topic])
    held = {consumer: max(granted) for consumer, granted in holders_of(nodes).items()}
    members, claims = load_members(c, unclear), load_claims(c, sorted(held), unclear)
    answers = c.statuses.ask(interfaces(sorted(held), members, claims), known(nodes, members, claims))
    unclear |= unasked(answers)
    directives = load_directives(c, unclear, held)
    world = World(c.clock.now(), members, claims, directives, answers, unclear=unclear)
    return ClusterLook(nodes, world, tuple(sorted(held)), held, {})


def look(c: Coordinator, seen: ClusterObservation | None = None) -> ClusterLook:
    """Read all nodes, and ask each consumer's interface once. Raises the `Unavailable` kinds.

    `seen`: an observation to use. Only consumers that it lacks are read and asked.
    """
    if seen is not None:
        nodes, world = seen.topics.nodes, seen.stored_world
        unclear, directives, members = dict(world.unclear), world.directives, world.members
    else:
        nodes, unclear = store.load_nodes(c.zk, c.paths, transitions.topics(c)), dict[str, str]()
        directives, members, world = load_directives(c, unclear), load_members(c, unclear), World(0.0)
    held = {consumer: max(granted) for consumer, granted in holders_of(nodes).items()}
    every = fleets(c)
    wanted = {consumer: why_not_launched(c, fleet) for fleet in every for consumer in fleet.consumers}
    asked_of = {
        d.consumer
        for d in directives.values()
        if d.isolation is not None or d.draining is not None or d.restart is not None
    }
    everybody = sorted(members.keys() | held.keys() | wanted.keys() | asked_of | unclear.keys())
    asked = members.keys() | seen.snapshot.holders.keys() if seen is not None else set[str]()
    beside = [one for one in everybody if one not in asked]
    claims = {**world.claims, **load_claims(c, beside, unclear)}
    answers = c.statuses.ask(interfaces(beside, members, claims), known(nodes, members, claims))
    unclear |= unasked(answers)
    answers = {**world.answers, **answers}
    world = World(c.clock.now(), members, claims, directives, answers, unclear=unclear)
    return ClusterLook(nodes, world, tuple(everybody), held, wanted, dict(_kept(c, every, nodes)))


def _kept(c: Coordinator, every: Collection[Fleet], topics: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield consumer → why its redeployment or upgrade waits. Unreadable records are left out.

    The fleet's first consumer shows a problem with the fleet's topics.
    """
    shared = conflicts(every, topics)
    for fleet in every:
        if fleet.app in shared:
            yield fleet.consumers[0], "; ".join(shared[fleet.app])
        with suppress(Malformed, Refused):
            consumer, why = redeployment.why_waits(c, fleet) if fleet.replaced else ("", "")
            if why:
                yield consumer, f"the redeployment of {fleet.app} waits: {why}"
            if fleet.runs and (why := upgrades.why_waits(c, upgrade := upgrade_store.read(c, fleet.app))):
                yield from ((one, f"the upgrade of {fleet.app} waits: {why}") for one in upgrades.giving(upgrade))


def by_presence(found: Iterable[ConsumerOverview]) -> dict[str, int]:
    """Return presence → number of consumers. Zeros are included, because a gauge that is not sent keeps its last value.

    A consumer that is away for an announced restart counts as `expected`, not as absent.
    """
    counted = Counter(EXPECTED if one.expected else one.presence for one in found)
    return {str(one): counted[one] for one in PRESENCES}


def failures(found: Iterable[ConsumerOverview]) -> tuple[CommonFailure, ...]:
    """Return the processing failures at partitions that the consumers own, merged by cause."""
    return by_cause(
        common
        for one in found
        for topic in one.topics
        for common in failures_of(one.consumer, topic.topic, topic.assigned, topic.failures)
    )


def consumers(c: Coordinator, seen: ClusterLook | None = None) -> list[ConsumerOverview]:
    """Return the consumers that are registered, hold partitions, are in a fleet, or have a directive, sorted by id.

    `seen`: an observation to use. Raises the `Unavailable` kinds.
    """
    seen = look(c) if seen is None else seen
    granted = defaultdict[str, dict[str, tuple[int, ...]]](dict)
    for topic, node in seen.nodes.items():
        for consumer, partitions in by_consumer((who, p) for p, who in node.assignments.items()).items():
            granted[consumer][topic] = partitions
    return [_consumer(c, who, seen, granted[who]) for who in seen.everybody]


def _consumer(
    c: Coordinator, consumer: str, seen: ClusterLook, granted: Mapping[str, tuple[int, ...]]
) -> ConsumerOverview:
    """Return the overview. `granted`: topic → the consumer's partitions."""
    world, held = seen.world, seen.held.get(consumer, 0)
    member, claim, answer = world.members.get(consumer), world.claims.get(consumer), world.answers.get(consumer)
    last = claim.incarnation if claim is not None else 0
    # A forced leave has a reason.
    left = claim is not None and claim.ended.get(last) is Ending.LEFT and not claim.reasons.get(last)
    incarnation = member.incarnation if member is not None else held or last
    status = answer if isinstance(answer, ConsumerStatus) else None
    absent = absence(consumer, held, world, c.policy) if held else ""
    silent = answer.detail if member is not None and isinstance(answer, Unreachable) else ""
    pages = pages_of(c, consumer, member, claim)
    problem = topic_patterns.problem(member.topics) if member is not None else ""
    notes = [*filter(None, [seen.kept.get(consumer)]), *([f"registered for topics: {problem}"] if problem else [])]
    life = world.life(consumer, incarnation)
    is_there = member is not None or status is not None
    found = crashes.exits(consumer, world, c.policy)
    exits = found if found is not None and (found.count > 1 or not is_there) else None
    there = _presence(c, life, world, held)
    # Another host, with other permitted launches, may have launched a live consumer.
    unlaunched = "" if there == Presence.LIVE else seen.wanted.get(consumer, "")
    unlaunched = unlaunched or (_UNSEEN if there == NOT_STARTED else "")
    return ConsumerOverview(
        consumer=consumer,
        presence=there,
        expected=there == Presence.ABSENT and life.restart is not None,
        incarnation=incarnation,
        address=member.address if member is not None else claim.address if claim is not None else "",
        health=status.health if status is not None else "",
        condition=status.condition if status is not None else None,
        problem=world.unclear.get(consumer, "") or absent or silent or unlaunched,
        ended=exits.told if exits is not None else "",
        exits=exits,
        asked=_asked(life, ended=there in _ENDED),
        reports=(*notes, *pages.problems, *(status.reports if status is not None else ())),
        topics=_topics(status, granted, seen.nodes),
        release=member.release if member is not None else "",
        code=member.attributes.get(CODE, "") if member is not None else "",
        pages=pages,
        left=not is_there and not held and left,
        drained=life.draining is not None,
    )


def _presence(c: Coordinator, life: Life, world: World, held: int) -> str:
    found = presence(life.consumer, life.incarnation, world, c.policy)
    if found is Presence.ABSENT and not held:  # only an owner counts as absent
        return STARTING if life.incarnation else NOT_STARTED
    if found is Presence.LIVE and life.draining is not None:
        return DRAINING
    return found.value


def _asked(life: Life, *, ended: bool) -> str:
    """Return, in words, the request to this incarnation, with author and reason. `ended`: too late to follow it."""
    parts = []
    if (isolation := life.isolation) is not None:
        how = "isolated, to be readmitted," if isolation.readmit else "isolated"
        parts.append(f"{how} by {isolation.by}{because(isolation.why)}")
    restart, draining = life.restart, life.draining
    if draining is not None and (restart is None or draining.incarnation != restart.incarnation):
        parts.append(f"{'drained' if ended else 'draining'} by {draining.by}{because(draining.why)}")
    if restart is not None:
        parts.append(f"{'gives everything away, and is ' if restart.moves else ''}{said(restart)}")
    return "; ".join(parts)


def _topics(
    status: ConsumerStatus | None, granted: Mapping[str, tuple[int, ...]], nodes: Mapping[str, TopicNode]
) -> tuple[RunningTopic, ...]:
    said: Mapping[str, TopicStatus] = status.topics if status is not None else {}
    found = []
    for topic in sorted(said.keys() | granted.keys()):
        assigned = granted.get(topic, ())
        paused = tuple(p for p in assigned if p in nodes[topic].paused)
        granted_here = RunningTopic(topic, assigned, paused=paused, lag_unknown=len(assigned))
        found.append(_running(granted_here, said.get(topic)))
    return tuple(found)


def _running(granted: RunningTopic, said: TopicStatus | None) -> RunningTopic:
    if said is None:
        return granted
    known = {p: one.lag_records for p, one in said.running.items() if one.lag_records is not None}
    return replace(
        granted,
        running=tuple(sorted(said.running)),
        closing=tuple(sorted(p for p, one in said.running.items() if one.closing)),
        acted_epoch=said.acted_epoch,
        lag_records=sum(known.values()) if known else None,
        lag_unknown=len(set(granted.assigned) - known.keys()),
        reports=said.reports,
        failures=said.failures,
        states={p: one.state for p, one in sorted(said.running.items()) if one.state is not None},
    )
