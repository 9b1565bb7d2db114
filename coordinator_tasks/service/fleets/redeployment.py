"""Replace the processes of a fleet one at a time. Each process drains and leaves, and the fleet launches it again with
its present settings.

The fleet's node lists the incarnations to end, so any caller continues where the last call stopped.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import BadFleet, DiscoveryUnavailable, LookAgain, Malformed, Refused
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.model import Directive, Draining, DrainKind, DrainOwner, Fleet, Member, State
from coordinator_tasks.core.names import check_words, is_topic
from coordinator_tasks.core.ports import Operation, VersionCheck
from coordinator_tasks.core.protocol.znodes import compare_and_set, find_many, written
from coordinator_tasks.core.text.partition_text import agreed, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.nodes import frozen_topics
from coordinator_tasks.service.nodes.directives import put_request, read_directive
from coordinator_tasks.service.nodes.observe import load_claims
from coordinator_tasks.service.plan import transitions

LEAST = 2
"""Minimum number of consumers. A single consumer keeps all partitions while draining, and would never leave."""


@dataclass(frozen=True, slots=True)
class Redeployed:
    """`replaced`: consumer → the incarnation that ends."""

    fleet: Fleet
    replaced: dict[str, int]


def would_redeploy(c: Coordinator, app: str) -> Redeployed:
    """Return the redeployment that `redeploy` would begin, or raise the same errors."""
    found = fleets.fleet_of(c, app)
    fleets.check_no_upgrade(found)
    if left := sorted(pending(c, found)):
        raise BadFleet(
            f"the fleet {app!r} is being redeployed: {still_run(left)}; wait for it, or remove "
            f"{agreed(len(left), 'it', 'them')} from the fleet"
        )
    members = c.discovery.members()
    live = {one: members[one].incarnation for one in found.consumers if one in members}
    if problem := fleets.why_not_launched(c, found):
        raise BadFleet(problem)
    if 0 < len(live) < LEAST:
        missing = [one for one in found.consumers if one not in live]
        when = f"ask again when {shown(missing)} {agreed(len(missing), 'is', 'are')} there; `status` says why not"
        first = when if missing else f"scale the fleet to {LEAST} first"
        raise BadFleet(
            f"{next(iter(live))} is the only live consumer of the fleet {app!r}: it keeps its partitions until another one is "
            f"there, so it cannot be replaced; {first}"
        )
    if problem := frozen_topics.why_kept(c, live):
        raise BadFleet(problem)
    return Redeployed(found, live)


def redeploy(c: Coordinator, app: str, *, by: str, why: str) -> Redeployed:
    """Begin to replace all live consumers of a fleet. `advance` then replaces one consumer at a time.

    Raises `NotManaged`. Raises `BadFleet` if a redeployment is under way, only one consumer lives, a topic of the fleet
    is frozen, or this host may not launch the fleet.
    """
    check_words(by, "name"), check_words(why, "reason")

    def attempt() -> tuple[list[Operation], Redeployed]:
        found = would_redeploy(c, app)
        wanted = replace(found.fleet, replaced=found.replaced)
        if wanted == found.fleet:
            return [], found
        return [fleets.put_fleet(c, wanted)], replace(found, fleet=wanted)

    return compare_and_set(c.zk, c.paths.fleet(app), attempt)


def advance(c: Coordinator, problems: list[str] | None = None) -> Iterator[str]:
    """Do the next step of every redeployment, for at most one consumer of each fleet. Yield a line for each step.

    `problems` gets the reasons for waiting.
    """
    for fleet in fleets.fleets(c):
        if fleet.replaced and not fleet.problem:
            try:
                yield from _step(c, fleet)
                _, waits = why_waits(c, fleet)
            except (Malformed, Refused, LookAgain) as error:
                waits = str(error)
            if waits and problems is not None:
                problems.append(f"the redeployment of {fleet.app} waits: {waits}")


def why_waits(c: Coordinator, fleet: Fleet) -> tuple[str, str]:
    """Return the next consumer to replace, and why the redeployment waits, with the remedy; the reason may be empty.

    Raises `Malformed`.
    """
    left = pending(c, fleet)
    if not left:
        return "", ""
    consumer = min(left)
    return consumer, _why_not_next(c, fleet, c.discovery.members(), consumer) or _why_long(c, fleet, consumer)


def _why_not_next(c: Coordinator, fleet: Fleet, members: Mapping[str, Member], consumer: str) -> str:
    """Return why this consumer cannot be drained, with the remedy; empty if it only waits for Stable topics."""
    if absent := sorted(set(fleet.consumers) - members.keys()):
        who = f"{shown(absent)} {agreed(len(absent), 'is', 'are')}"
        return f"{who} not registered; `status` says why, and it goes on when {who} there"
    if len(fleet.consumers) < LEAST:
        return f"{consumer} is the only consumer of the fleet, so it keeps its partitions; scale the fleet to {LEAST}"
    return frozen_topics.why_kept(c, [consumer])


def _why_long(c: Coordinator, fleet: Fleet, consumer: str) -> str:
    """Return, in words, a wait so long that a person should look; empty if there is none."""
    long_s, directive = c.policy.stuck_after_s, read_directive(c, consumer)
    before = c.clock.now() - long_s
    if is_ours(directive, fleet.app):
        late = directive.draining is not None and directive.draining.at <= before
        return f"{consumer} has not left for {long_s:g} s; `topics` and `status` say what it still has" if late else ""
    moving = sorted(topic for topic, since_at in _moving(c).items() if since_at <= before)
    has = agreed(len(moving), "has", "have")
    return f"{shown(moving)} {has} not been Stable for {long_s:g} s; `topics` says what is waited for" if moving else ""


def _step(c: Coordinator, fleet: Fleet) -> Iterator[str]:
    mine = {one: read_directive(c, one) for one in fleet.replaced if one in fleet.consumers}
    drained = [one for one, directive in mine.items() if is_ours(directive, fleet.app)]
    claims = load_claims(c, list(mine), {})
    members = c.discovery.members()
    for consumer in drained:
        old, claim = fleet.replaced[consumer], claims.get(consumer)
        last = Life(consumer, old, claim=claim, directive=mine[consumer])
        lost = consumer not in members and fleets.is_given_up(c, last)
        if lost or (claim is not None and (claim.incarnation > old or old in claim.ended)):
            if written(c.zk, put_request(c, replace(mine[consumer], draining=None))):
                yield f"{consumer} has left: it is launched again as the fleet {fleet.app} says now"
            return
    left = pending(c, fleet)
    if drained or not left:
        return
    consumer = min(left)
    if _why_not_next(c, fleet, members, consumer) or not all_stable(c):
        return
    draining = Draining(fleet.app, "redeployment", c.clock.now(), owner=_owner(fleet.app))
    wanted = replace(mine[consumer], draining=draining)
    guard = VersionCheck(c.paths.fleet(fleet.app), fleet.version)
    before = mine[consumer].draining
    free = before is None or before.incarnation not in (0, members[consumer].incarnation)
    if free and written(c.zk, [guard, *put_request(c, wanted)]):
        yield f"{consumer} gives its partitions away and ends, to be launched again as the fleet {fleet.app} says now"


def pending(c: Coordinator, fleet: Fleet) -> set[str]:
    """Return the consumers not replaced yet: the old incarnation runs, or the redeployment still drains the id."""
    members = c.discovery.members()
    return {
        one
        for one, old in fleet.replaced.items()
        if one in fleet.consumers
        if (members[one].incarnation <= old if one in members else is_ours(read_directive(c, one), fleet.app))
    }


def drains_again(c: Coordinator, consumer: str) -> Iterator[str]:
    """Yield a warning if a redeployment will drain this consumer again; nothing while the registry does not answer."""
    member = None
    with suppress(DiscoveryUnavailable):
        member = c.discovery.members().get(consumer)
    for fleet in fleets.fleets(c):
        if consumer in fleet.consumers and member is not None and member.incarnation <= fleet.replaced.get(consumer, 0):
            yield f"the redeployment of {fleet.app} is not over: it drains {consumer}, and launches it again when it has left"


def still_run(consumers: Collection[str]) -> str:
    """Return a clause that names the consumers not replaced yet."""
    return f"{shown(sorted(consumers))} still {agreed(len(consumers), 'runs', 'run')} as before"


def is_ours(directive: Directive, app: str) -> bool:
    """Return whether this fleet's redeployment has drained the consumer. Only then it ends the draining."""
    return directive.draining is not None and directive.draining.owner == _owner(app)


def _owner(app: str) -> DrainOwner:
    return DrainOwner(DrainKind.REDEPLOYMENT, app)


def all_stable(c: Coordinator) -> bool:
    """Return whether every topic with a plan is Stable."""
    return not _moving(c)


def _moving(c: Coordinator) -> dict[str, float]:
    """Return the topics that are not Stable, each with the time at which its state began."""
    paths = {topic: c.paths.state(topic) for topic in transitions.topics(c) if is_topic(topic)}
    found = {topic: codec.decode_state(paths[topic], node.data) for topic, node in find_many(c.zk, paths).items()}
    return {topic: state.since_at for topic, state in found.items() if state.state is not State.STABLE}
