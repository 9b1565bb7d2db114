"""Presence: only this module decides whether an incarnation may still run partitions.

A registered incarnation is never gone. Facts about incarnation 3 say nothing about incarnation 4.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf

from coordinator_tasks.core.machine.churn import backoff_until
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.machine.world import Policy, Presence, World
from coordinator_tasks.core.model import (
    PROPERTIES,
    SEEK_STATE,
    SEEKS,
    Absence,
    Answer,
    ConsumerStatus,
    Ending,
    IdClaim,
    Member,
    Silence,
    Unreachable,
)
from coordinator_tasks.core.names import KAFKAS_OWN
from coordinator_tasks.core.text import topic_patterns

_SAYS: Mapping[str, tuple[str, str]] = {
    SEEKS: ("runs 0.1.0", "that a partition is sent elsewhere"),
    PROPERTIES: ("runs 0.1.0", "the properties of a topic"),
    SEEK_STATE: ("runs an earlier release", "whether a reset keeps the state"),
}


def presence(consumer: str, incarnation: int, world: World, policy: Policy) -> Presence:
    """Return the known presence of this incarnation; never raises."""
    life = world.life(consumer, incarnation)
    if life.isolation is not None:
        return Presence.ISOLATED
    if consumer in world.unclear:
        return Presence.DETACHED
    if life.registered:
        return Presence.DETACHED if consumer in world.doubted else Presence.LIVE
    if life.ending is not None and not (life.answers and life.ending is Ending.REFUSED):
        return Presence.ABSENT if _may_rejoin(life, world, policy) else Presence.GONE
    return Presence.DETACHED if life.answers else Presence.ABSENT


def is_awaited(consumer: str, incarnation: int, world: World, policy: Policy) -> bool:
    """Return whether the incarnation has ended and its partitions wait for the id's next process."""
    ended = world.life(consumer, incarnation).ending is not None
    return ended and presence(consumer, incarnation, world, policy) is Presence.ABSENT


def _may_rejoin(life: Life, world: World, policy: Policy) -> bool:
    """Return whether a dead consumer's partitions wait for the same id.

    The partitions wait for `rejoin_grace_s`, or until the planned restart expires. There are two exceptions: a clock
    that was ahead noted the end, or the id is draining, so that its next process gets no partitions.
    """
    if life.kept_until:
        return True
    if replace(life, incarnation=0).draining is not None:
        return False
    absence = absence_of(life.claim, life.incarnation, world.now)
    return life.member is None and absence is not None and world.now - absence.since_at < policy.rejoin_grace_s


def absence_of(claim: IdClaim | None, incarnation: int, now: float) -> Absence | None:
    """Return the note of this incarnation's absence; `None` without a note, or if its clock was ahead."""
    absence = claim.absence if claim is not None else None
    counts = absence is not None and absence.incarnation == incarnation and absence.since_at <= now
    return absence if counts else None


def targets(topic: str, held: dict[str, int], world: World, policy: Policy) -> dict[str, int]:
    """Return consumer → incarnation of consumers that may get partitions of the topic, sorted by id.

    `held`: consumer → incarnation that has partitions now. A new incarnation gets none until its predecessor is lost.
    """
    able: dict[str, int] = {}
    # Thousands of members have few distinct lists of topics.
    wanted = {topics for topics in {one.topics for one in world.members.values()} if wants(topics, topic)}
    subscribed = ((consumer, one.incarnation) for consumer, one in world.members.items() if one.topics in wanted)
    for consumer, incarnation in sorted(subscribed):
        if consumer in world.unclear or consumer in world.doubted:
            continue
        life = world.life(consumer, incarnation)
        if life.isolation is not None or life.draining is not None or life.kept_until or _not_yet(life):
            continue
        if consumer not in held and in_backoff(consumer, world, policy) > 0:
            continue
        if held.get(consumer, incarnation) == incarnation:
            able[consumer] = incarnation
    return able


def subscribes(member: Member, topic: str) -> bool:
    """Return whether the member wants the topic."""
    return wants(member.topics, topic)


def wants(topics: Sequence[str], topic: str) -> bool:
    """Return whether the list includes the topic, by name or by a regular expression that matches the full name.

    An empty list includes every topic except Kafka's internal topics. An internal topic is included only by name.
    """
    if topic in KAFKAS_OWN:
        return topic in topics
    return not topics or topic_patterns.any_matches(topics, topic)


def who_cannot_read(format_name: str, topic: str, members: Mapping[str, Member], holders: Collection[str] = ()) -> str:
    """Return, in words, the registered consumers that would refuse a node with this field; empty if there are none."""
    for consumer, member in sorted(members.items()):
        reads = format_name in member.formats or member.problem
        if not reads and (consumer in holders or subscribes(member, topic)):
            runs, what = _SAYS[format_name]
            return (
                f"consumer {consumer} {runs}, which cannot read {what}; start it with a newer release, or stop it, and ask "
                "again"
            )
    return ""


def _not_yet(life: Life) -> bool:
    """Return whether the interface has never answered. Such a consumer gets no partition."""
    return not life.answers and (life.claim is None or life.claim.answered != life.incarnation)


def in_backoff(consumer: str, world: World, policy: Policy) -> float:
    """Return for how many more seconds a flapping id gets no partitions."""
    claim = world.claims.get(consumer)
    return max(0.0, backoff_until(claim, world.now, policy) - world.now) if claim is not None else 0.0


def note_absence(
    claim: IdClaim,
    incarnation: int,
    answer: Answer | None,
    same_boot: bool,
    asked_at: float,
    now: float,
    session_timeout_s: float,
) -> tuple[Absence | None, bool]:
    """Return the new absence note of an incarnation, and whether the incarnation is now known to be gone.

    The unregistered incarnation was asked at `asked_at`. At `now` the time to answer is over.

    The incarnation is gone if its own address has answered before, and has now refused for a session time-out. A note
    with a future time comes from a clock that jumped. Such a note would delay the end, so a new note replaces it.
    """
    if isinstance(answer, ConsumerStatus) and answer.incarnation == incarnation:
        return None, False
    absence = absence_of(claim, incarnation, now) or Absence(incarnation, asked_at)
    if not _proves(claim, incarnation, answer, same_boot):
        return Absence(incarnation, absence.since_at), False
    first_at = absence.refused_at or _refused_before(claim, incarnation, absence.since_at, session_timeout_s) or now
    since = min(first_at, now)
    return Absence(incarnation, absence.since_at, since), now - since >= session_timeout_s


def _proves(claim: IdClaim, incarnation: int, answer: Answer | None, same_boot: bool) -> bool:
    """Return whether the answer is a refusal that proves the end of the incarnation.

    A refusal by a proxy proves nothing, nor does a refusal by the loopback address after another boot.
    """
    refused = isinstance(answer, Unreachable) and answer.silence is Silence.REFUSED
    return refused and same_boot and claim.direct and claim.answered == incarnation


def _refused_before(claim: IdClaim, incarnation: int, since_at: float, session_timeout_s: float) -> float:
    """Return when the address first refused, before the registration expired at `since_at`; 0 if the refusal does not
    count.

    A session outlives the process by a time-out, which ZooKeeper rounds up. If the registration lasted longer than two
    time-outs after the refusal, the consumer was alive, and the refusal does not count.
    """
    counts = claim.registered == incarnation and 0 < since_at - claim.refused_at <= 2 * session_timeout_s
    return claim.refused_at if counts else 0.0


def note_refusal(claim: IdClaim, member: Member, answer: Answer | None, same_boot: bool, now: float) -> float:
    """Return since when the address of this registered consumer has refused connections; 0 without a refusal."""
    counts = member.incarnation == claim.registered and _proves(claim, claim.registered, answer, same_boot)
    return min(claim.refused_at or now, now) if counts else 0.0


def absent_until(consumer: str, incarnation: int, world: World, policy: Policy, session_timeout_s: float) -> float:
    """Return until when an absent incarnation's partitions wait; infinite if only a reported end stops the wait.

    If the end is known, the partitions wait until the id's waiting time is over. Otherwise they wait until refusals
    prove the end, or the platform isolates the incarnation.
    """
    life = world.life(consumer, incarnation)
    noted = life.claim.absence if life.claim is not None else None
    since_at = noted.since_at if noted is not None else world.now
    if life.ending is not None:
        return max(since_at + policy.rejoin_grace_s if policy.rejoin_grace_s else 0.0, life.kept_until)
    known_at = noted.refused_at + session_timeout_s if noted is not None and noted.refused_at > 0 else inf
    return max(life.kept_until, min(known_at, inf if policy.hold_absent else since_at + policy.absent_after_s))
