"""Observe the world once: registrations, directives and the consumers' own answers. Note absent consumers.

The notes (an absence, a first answer, an isolation by the platform) are evidence that outlives this process. Each note
is a compare-and-set in ZooKeeper. If another writer was faster, the next observation repeats the note.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from coordinator_tasks.core.assignors.weights import totals
from coordinator_tasks.core.codecs import member_codec
from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable, Malformed, NoAccess, Refused
from coordinator_tasks.core.machine.life import interfaces, with_leave
from coordinator_tasks.core.machine.presence import absence_of, note_absence, note_refusal, presence
from coordinator_tasks.core.machine.question import Together
from coordinator_tasks.core.machine.world import Answers, Presence, TopicView, World
from coordinator_tasks.core.model import (
    Absence,
    Answer,
    Committed,
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    IdClaim,
    Isolation,
    Member,
    Silence,
    TopicDescription,
    TopicNode,
    Unreachable,
    topic_status,
)
from coordinator_tasks.core.names import is_consumer
from coordinator_tasks.core.ports import Operation, VersionCheck, committed_of
from coordinator_tasks.core.protocol import claims as claim_steps
from coordinator_tasks.core.protocol.znodes import CHUNK, children, chunks, find_many, put, written
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.concerned import Links

PLATFORM = "platform"
NOTES_AT_ONCE = 100
V = TypeVar("V")
Offsets: TypeAlias = Mapping[int, Committed] | Refused | None
"""A group's committed offsets of one topic, the brokers' refusal, or `None` without an answer."""
_NONE: Mapping[str, Any] = {}
_LOOPBACK = ("127.", "localhost", "[::1]", "::1")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which of the `managed` topics to decide on. `consumers`: further consumers to observe.

    `alone`: no plan is written or shown, so linked topics do not matter.
    """

    topics: Collection[str]
    managed: Collection[str]
    alone: bool
    consumers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Observation:
    """The world without the parts of a single topic, and consumer → incarnations with partitions.

    - `owned`: topic → consumer → number of partitions; `of_all`: the same over all topics.
    - `committed`: topic → the group's offsets. `together`: the joint plan of all topics.
    - `asked_at`: when the consumers were asked. `topics`: the topics whose consumers were asked; `None` means all.
    """

    world: World
    holders: Mapping[str, frozenset[int]]
    owned: Mapping[str, Mapping[str, int]]
    of_all: Mapping[str, int]
    committed: Mapping[str, Offsets] = field(default_factory=dict)
    together: Together | None = None
    asked_at: float = 0.0
    topics: frozenset[str] | None = None

    def among(self, consumers: Collection[str]) -> "Observation":
        """Return the observation of these consumers alone."""
        world, wanted = self.world, frozenset(consumers)
        mine = replace(
            world,
            members=_of(world.members, wanted),
            claims=_of(world.claims, wanted),
            directives=_of(world.directives, wanted),
            answers=Answers(_of(world.answers, wanted)),
            totals=_of(world.totals, wanted),
            unclear=_of(world.unclear, wanted),
        )
        return replace(self, world=mine, of_all=_of(self.of_all, wanted))

    def world_of(self, topic: str) -> World:
        """Return the world for one topic: the group's offsets, and every consumer's load from the other topics.

        Raises `Refused` if the brokers refuse to give the group's offsets.
        """
        committed = self.committed.get(topic, {})
        if isinstance(committed, Refused):
            raise committed
        mine = self.owned.get(topic, {})
        loads = Counter({who: others for who, count in self.of_all.items() if (others := count - mine.get(who, 0))})
        fresh = secrets.token_hex(8)
        return replace(self.world, committed=committed, loads=loads, fresh=fresh, together=self.together)

    def of_unread(self, topics: Collection[str]) -> Counter[str]:
        """Return consumer → number of partitions of these topics, by the topics' nodes or the consumers' answers."""
        found = Counter[str]()
        for topic in topics:
            found.update(self.owned[topic] if topic in self.owned else self._running(topic))
        return found

    def _running(self, topic: str) -> dict[str, int]:
        told = {c: topic_status(answer, topic) for c, answer in self.world.answers.items()}
        return {c: len(status.running) for c, status in told.items() if status is not None}


def _of(part: Mapping[str, V], consumers: frozenset[str]) -> dict[str, V]:
    return {consumer: part[consumer] for consumer in part if consumer in consumers}


def snapshot(
    c: Coordinator, nodes: Mapping[str, TopicNode], *, note: bool = True, scope: Scope | None = None
) -> Observation:
    """Observe everything once. `nodes`: the nodes of all managed topics, as read before. They name the owners.

    With `note` False no notes are written. `scope`: observe only the consumers and topics that the scope concerns. An
    unreadable node of a consumer makes only this consumer unclear. Raises `StoreUnavailable` or `DiscoveryUnavailable`;
    after either error the caller changes nothing.
    """
    holders, unclear = holders_of(nodes), dict[str, str]()
    # Read the claims of owners before the registrations. A write that relies on a claim then fails after a later
    # registration.
    first = holders if scope is None else holders_of({topic: nodes[topic] for topic in scope.topics if topic in nodes})
    claims = load_claims(c, sorted(first), unclear)
    c.zk.sync()
    members = load_members(c, unclear)
    topics: frozenset[str] | None = None
    if scope is not None:
        links = Links(scope.managed, nodes, members)
        concerned = links.of(scope.topics)
        topics = frozenset(scope.topics) if scope.alone else concerned.topics
        consumers = links.consumers_of(topics) | scope.consumers | unclear.keys()
        members = {consumer: one for consumer, one in members.items() if consumer in consumers}
        holders = {consumer: held for consumer, held in holders.items() if consumer in consumers}
    claims |= load_claims(c, sorted((members.keys() | holders.keys()) - claims.keys()), unclear)
    asked_at = c.clock.now()
    everybody = interfaces([*members, *sorted(holders.keys() - members.keys())], members, claims)
    answers = Answers(c.statuses.ask(everybody, known(nodes, members, claims)))
    unclear |= unasked(answers)
    directives = load_directives(c, unclear, None if topics is None else members.keys() | holders.keys())
    loads = totals(answers, {topic: node.paused for topic, node in nodes.items()})
    world = World(c.clock.now(), members, claims, directives, answers, totals=loads, unclear=unclear)
    owned = {topic: Counter(node.assignments.values()) for topic, node in nodes.items()}
    of_all = Counter[str]()
    for counts in owned.values():
        of_all.update(counts)
    seen = Observation(world, holders, owned, of_all, asked_at=asked_at, topics=topics)
    return noted(c, seen) if note else seen


def noted(c: Coordinator, seen: Observation) -> Observation:
    """Write the notes of an observation. Return the observation with the notes."""
    return replace(seen, world=note_absences(c, seen.world, seen.holders, seen.asked_at))


def known(
    nodes: Mapping[str, TopicNode], members: Mapping[str, Member] = _NONE, claims: Mapping[str, IdClaim] = _NONE
) -> dict[str, int]:
    """Return consumer → number of partitions that it may run. 0: only its interface has answered."""
    found = {c: 0 for c, one in claims.items() if c in members and one.answered == members[c].incarnation}
    for node in nodes.values():
        sides = (one for entry in node.handoff.values() for one in (entry.giver, entry.taker))
        # `incarnations` also lists consumers that only close partitions
        for consumer in chain(node.assignments.values(), sides, node.incarnations):
            found[consumer] = found.get(consumer, 0) + 1
    return found


def unasked(answers: Mapping[str, Answer]) -> dict[str, str]:
    """Return consumer → the limit because of which the consumer was not asked.

    Nothing is known about such a consumer. It keeps its partitions and gets no more.
    """
    return {
        consumer: f"{consumer}: {one.detail}; remove registrations that are none of the site's, or look again"
        for consumer, one in answers.items()
        if isinstance(one, Unreachable) and one.silence is Silence.UNASKED
    }


def holders_of(nodes: Mapping[str, TopicNode]) -> dict[str, frozenset[int]]:
    """Return consumer → its incarnations with grants."""
    found: dict[str, frozenset[int]] = {}
    for node in nodes.values():
        for consumer, incarnation in node.incarnations.items():
            found[consumer] = found.get(consumer, frozenset()) | {incarnation}
    return found


def load_members(c: Coordinator, unclear: dict[str, str]) -> dict[str, Member]:
    """Return the registered consumers. `unclear` gets the problem of each registration that cannot be read."""
    members = dict(c.discovery.members())
    unclear.update({consumer: member.problem for consumer, member in members.items() if member.problem})
    return members


def load_claims(c: Coordinator, consumers: Collection[str], unclear: dict[str, str]) -> dict[str, IdClaim]:
    """Return the claims (`ids` nodes) of these consumers. `unclear` gets each unreadable claim."""
    return _load(c, consumers, c.paths.id, member_codec.decode_claim, unclear)


def load_directives(
    c: Coordinator, unclear: dict[str, str], consumers: Collection[str] | None = None
) -> dict[str, Directive]:
    """Return these consumers' directives (`None`: all) with their own requests. `unclear` gets unreadable nodes."""

    def listed(folder: str) -> list[str]:
        return [one for one in children(c.zk, folder) if consumers is None or one in consumers]

    found = _load(c, listed(c.paths.directives), c.paths.directive, member_codec.decode_directive, unclear)
    leaves = _load(c, listed(c.paths.leaves), c.paths.leave, _decode_leave, unclear)
    return found | {
        consumer: with_leave(found.get(consumer, Directive(consumer)), one) for consumer, one in leaves.items()
    }


def _decode_leave(path: str, raw: bytes, consumer: str, _version: int) -> Draining:
    # A consumer can write only its own node, so the request is its own.
    return replace(member_codec.decode_leave(path, raw), by=consumer)


def _load(
    c: Coordinator,
    consumers: Collection[str],
    path_of: Callable[[str], str],
    decode: Callable[[str, bytes, str, int], V],
    unclear: dict[str, str],
) -> dict[str, V]:
    paths = {consumer: path_of(consumer) for consumer in consumers if is_consumer(consumer)}
    found, denied = dict[str, V](), dict[str, CoordinatorError]()
    nodes = (find_many(c.zk, {one: paths[one] for one in chunk}, denied) for chunk in chunks(list(paths), CHUNK))
    for consumer, node in chain.from_iterable(one.items() for one in nodes):
        if not node.data and node.stat.version == 0:
            continue  # no node was ever written; an emptied node counts as unreadable
        try:
            found[consumer] = decode(paths[consumer], node.data, consumer, node.stat.version)
        except Malformed as error:
            unclear[consumer] = str(error)
    unclear.update({consumer: str(error) for consumer, error in denied.items()})
    return found


def note_absences(c: Coordinator, world: World, holders: Mapping[str, frozenset[int]], asked_at: float) -> World:
    """Note first answers, absences and ends. Isolate consumers that have been absent and silent for too long.

    `asked_at`: a consumer was silent from then on if it was not registered at that time and has not answered since.
    """
    # If ZooKeeper lost the claim of a holder, a new claim stores the holder's absence.
    lost = {
        consumer: IdClaim(consumer, max(held))
        for consumer, held in holders.items()
        if consumer not in world.claims and consumer not in world.unclear
    }
    unclear = dict(world.unclear)
    notes = [
        (claim, updated)
        for consumer, claim in {**world.claims, **lost}.items()
        if (updated := _noted(c, world, claim, holders.get(consumer, frozenset()), asked_at)) != claim
    ]
    claims = {**world.claims, **_put_claims(c, notes, unclear)}
    world = replace(world, claims=claims, unclear=unclear)
    isolated = {}
    for consumer, incarnation in _overdue(c, world, holders):
        try:
            directive = _isolate(c, world, consumer, incarnation)
        except NoAccess as error:
            unclear[consumer] = str(error)
            continue
        if directive is not None:
            isolated[consumer] = directive
    return replace(world, directives={**world.directives, **isolated}, unclear=unclear)


def _noted(c: Coordinator, world: World, claim: IdClaim, held: frozenset[int], asked_at: float) -> IdClaim:
    if claim.consumer in world.unclear:
        return claim  # unknown whether the consumer is absent
    answer = world.answers.get(claim.consumer)
    member = world.members.get(claim.consumer)
    if isinstance(answer, ConsumerStatus) and member is not None and answer.incarnation == member.incarnation:
        claim = claim if claim.answered == answer.incarnation else replace(claim, answered=answer.incarnation)
    absent = sorted(i for i in held if i not in claim.ended and (member is None or member.incarnation != i))
    if not absent:
        return _noted_end(c, world, claim, held)
    incarnation = absent[-1]
    if member is not None:
        answer = None  # the answer came from the successor's address
    times = (min(asked_at, world.now), world.now, c.zk.session_timeout_s)
    note, gone = note_absence(claim, incarnation, answer, same_boot(c, claim), *times)
    claim = replace(claim, absence=note, refused_at=0.0)
    return claim_steps.ended(claim, incarnation, Ending.REFUSED) if gone else claim


def _noted_end(c: Coordinator, world: World, claim: IdClaim, held: frozenset[int]) -> IdClaim:
    """Note that no process is absent, or that the end of the absent process is known.

    `rejoin_grace_s` counts from the first note of the end. A note with a future time comes from a clock that jumped,
    and is replaced. Otherwise all consumers would wait until that time.
    """
    member = world.members.get(claim.consumer)
    if member is not None:
        answer = world.answers.get(claim.consumer)
        # Parsing the address is slow, and only a refusal needs the host.
        refused = isinstance(answer, Unreachable) and answer.silence is Silence.REFUSED
        since_at = note_refusal(claim, member, answer, refused and same_boot(c, claim), world.now)
        unchanged = claim.absence is None and claim.refused_at == since_at
        return claim if unchanged else replace(claim, absence=None, refused_at=since_at)
    ended = max((i for i in held if i in claim.ended), default=None)
    if ended is None or not c.policy.rejoin_grace_s or absence_of(claim, ended, world.now) is not None:
        return claim
    return replace(claim, absence=Absence(ended, world.now))


def same_boot(c: Coordinator, claim: IdClaim) -> bool:
    """Return whether the address still leads to the registered host. A loopback address leads to our own."""
    host = urlsplit(claim.address).netloc
    return not host.startswith(_LOOPBACK) or (bool(c.boot_id) and claim.boot_id == c.boot_id)


def _put_claims(
    c: Coordinator, notes: Sequence[tuple[IdClaim, IdClaim]], unclear: dict[str, str]
) -> dict[str, IdClaim]:
    """Return the written claims. One transaction writes many claims. If it is refused, each claim is written alone.

    `unclear` gets the claims that this account may not write.
    """
    found: dict[str, IdClaim] = {}
    for chunk in chunks(notes, NOTES_AT_ONCE):
        try:
            together = written(c.zk, [_claim_write(c, old, new) for old, new in chunk])
        except NoAccess:
            together = False
        for old, new in chunk:
            try:
                noted_claim = replace(new, version=old.version + 1) if together else put_claim(c, old, new)
                if noted_claim is not None:
                    found[new.consumer] = noted_claim
            except NoAccess as error:
                unclear[new.consumer] = str(error)
    return found


def _claim_write(c: Coordinator, old: IdClaim, new: IdClaim) -> Operation:
    return put(c.paths.id(old.consumer), member_codec.encode_claim(new), old.version)


def put_claim(c: Coordinator, old: IdClaim, new: IdClaim) -> IdClaim | None:
    """Return the written claim; `None` if another process wrote the claim, or the consumer registered."""
    return replace(new, version=old.version + 1) if written(c.zk, [_claim_write(c, old, new)]) else None


def _overdue(c: Coordinator, world: World, holders: Mapping[str, frozenset[int]]) -> list[tuple[str, int]]:
    """Return holders that have been absent and silent for `absent_after_s`."""
    if c.policy.hold_absent:
        return []
    found = []
    for consumer, incarnations in sorted(holders.items()):
        claim = world.claims.get(consumer)
        absence = claim.absence if claim is not None else None
        if absence is None or absence.incarnation not in incarnations:
            continue
        silent = presence(consumer, absence.incarnation, world, c.policy) is Presence.ABSENT
        life = world.life(consumer, absence.incarnation)
        rejoining = life.ending is not None or life.kept_until
        if silent and not rejoining and world.now - absence.since_at >= c.policy.absent_after_s:
            found.append((consumer, absence.incarnation))
    return found


def _isolate(c: Coordinator, world: World, consumer: str, incarnation: int) -> Directive | None:
    """Isolate this incarnation on behalf of the platform, unless the consumer has registered again."""
    if world.life(consumer, incarnation).isolation is not None:
        return None
    old = world.directives.get(consumer, Directive(consumer))
    why = f"absent and silent for {c.policy.absent_after_s:g} s"
    isolation = Isolation(PLATFORM, why, world.now, incarnation, readmit=True)
    new = replace(old, isolation=isolation, version=old.version + 1)
    write = put(c.paths.directive(consumer), member_codec.encode_directive(new), old.version)
    guard = VersionCheck(c.paths.id(consumer), world.claims[consumer].version)
    return new if written(c.zk, [guard, write]) else None


def describe(
    c: Coordinator, views: Collection[TopicView], silent: list[KafkaUnavailable] | None = None
) -> list[TopicView]:
    """Add Kafka's description to each topic. A topic without one stays unchanged: its known partitions suffice.

    `silent` gets the error if Kafka does not answer.
    """
    try:
        found: Mapping[str, TopicDescription | None] = c.kafka.describe([view.topic for view in views])
    except (KafkaUnavailable, Refused) as error:  # `topics.refresh_partitions` names the error
        if silent is not None and isinstance(error, KafkaUnavailable):
            silent.append(error)
        return list(views)
    return [
        replace(view, description=found.get(view.topic), missing=view.topic in found and found[view.topic] is None)
        for view in views
    ]


def committed(c: Coordinator, views: Collection[TopicView]) -> dict[str, Offsets]:
    """Return topic → the group's committed offsets, with one request for each group.

    Partitions that only Kafka has are included: offsets committed there show that ZooKeeper was lost or restored.
    """
    wanted: dict[str, dict[str, tuple[int, ...]]] = {}
    for view in views:
        there = range(view.description.partition_count) if view.description is not None else ()
        partitions = tuple(sorted({*view.partitions, *there}))
        wanted.setdefault(view.config.group_id, {})[view.topic] = partitions
    answers = c.kafka.committed(wanted)
    found: dict[str, Offsets] = {}
    for view in views:
        try:
            found[view.topic] = committed_of(answers[view.config.group_id], view.topic)
        except CoordinatorError as error:
            found[view.topic] = error if isinstance(error, Refused) else None
    return found
