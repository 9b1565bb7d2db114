"""The wanted consumers of fleets, the missing consumers, and the reported ends of former processes."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from coordinator_tasks.core.codecs.member_codec import (
    decode_claim,
    decode_directive,
    decode_fleet,
    encode_claim,
    encode_fleet,
)
from coordinator_tasks.core.errors import BadFleet, CoordinatorError, Malformed, NotManaged
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.machine.presence import absence_of
from coordinator_tasks.core.model import Directive, Ending, Fleet, FleetVersion, IdClaim
from coordinator_tasks.core.names import check_app, check_consumer, has_control, is_app, is_consumer
from coordinator_tasks.core.ports import Node, Operation, SetData, VersionCheck
from coordinator_tasks.core.protocol import claims
from coordinator_tasks.core.protocol.znodes import children, compare_and_set, find_many, put
from coordinator_tasks.core.text.json_fields import MAX_COUNT
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import upgrade_store


@dataclass(frozen=True, slots=True)
class Launch:
    """A consumer to start: the Spark application with its arguments and settings."""

    app: str
    consumer: str
    application: str
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


CODE = "code"
"""The attribute under which a consumer registers its fleet's version of the code; also the name of `{code}`."""
STARTS_S = 180.0
"""Seconds from drawing an incarnation to registration. After that, the warm-up has failed or the host is lost."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def set_fleet(c: Coordinator, fleet: Fleet) -> Fleet:
    """Write the wanted consumers of an application. Repeating changes nothing.

    If `fleet.version` is not -1, the stored fleet must have this version (else `LookAgain`). Raises `InvalidName`.
    Raises `BadFleet` for a repeated id, an id in another application's fleet, or a fleet that this host may not launch.
    """
    path, attempt = c.paths.fleet(check_app(fleet.app)), partial(_setting, c, fleet)
    check_set(c, fleet)
    c.zk.ensure(c.paths.fleets)
    if fleet.version < 0:
        return compare_and_set(c.zk, path, attempt)
    operations, result = attempt()
    c.zk.transact(operations)
    return result


def check_set(c: Coordinator, fleet: Fleet) -> None:
    """Raise the errors of `set_fleet`. Write nothing."""
    _setting(c, fleet)


def _setting(c: Coordinator, fleet: Fleet) -> tuple[list[Operation], Fleet]:
    """Return the guarded write of a fleet, and the resulting fleet. If nothing changes, there is no operation."""
    path = c.paths.fleet(check_app(fleet.app))
    for consumer in fleet.consumers:
        check_consumer(consumer)
    if len(set(fleet.consumers)) != len(fleet.consumers):
        raise BadFleet(f"the fleet of {fleet.app!r} names a consumer twice; give each its own id")
    check_texts(fleet)
    if problem := why_not_launched(c, fleet):
        raise BadFleet(problem)
    known = {one.app: one for one in fleets(c)}
    present = known.pop(fleet.app, None)
    if present is not None and not present.application and present.problem:
        raise BadFleet(present.problem)
    guards = _apart(c, fleet, known.values())
    wanted = fleet if present is None else _kept(fleet, present)
    if present is not None and replace(present, version=-1) == replace(wanted, version=-1):
        return [], present
    version = -1 if present is None else present.version
    write = put(path, encode_fleet(wanted), fleet.version if fleet.version >= 0 else version)
    return [*guards, write], replace(wanted, version=version + 1)


def _kept(fleet: Fleet, present: Fleet) -> Fleet:
    """Return the fleet with the stored redeployments and other versions, which a request does not name."""
    check_no_upgrade(present)
    name = present.name if version_of(fleet) == version_of(present) else fleet.name
    return replace(fleet, replaced=present.replaced, name=name, versions=present.versions)


def check_no_upgrade(fleet: Fleet) -> None:
    """Raise `BadFleet` while the fleet is being upgraded."""
    if fleet.runs:
        name = next(iter(fleet.runs.values()))
        raise BadFleet(
            f"the fleet {fleet.app!r} is being upgraded to {name!r}; wait for it, or roll it back with "
            f"`roll-back-upgrade {fleet.app}`"
        )


def version_of(fleet: Fleet) -> FleetVersion:
    """Return the version of the fleet's own fields. Consumers that an upgrade has started have another version."""
    return FleetVersion(fleet.application, fleet.arguments, fleet.conf, fleet.environment, fleet.code)


def in_version(fleet: Fleet, version: FleetVersion) -> Fleet:
    """Return the fleet with another version as its own."""
    return replace(fleet, **{name: getattr(version, name) for name in FleetVersion.__slots__})


def put_fleet(c: Coordinator, fleet: Fleet) -> Operation:
    """Return the write of a stored fleet at its version."""
    return SetData(c.paths.fleet(fleet.app), encode_fleet(fleet), fleet.version)


def without(c: Coordinator, consumer: str) -> list[Operation]:
    """Return the guarded writes that remove a consumer from its fleet."""
    return [
        put_fleet(c, replace(fleet, consumers=tuple(one for one in fleet.consumers if one != consumer)))
        for fleet in fleets(c)
        if consumer in fleet.consumers
    ]


def fleet_of(c: Coordinator, app: str) -> Fleet:
    """Return the fleet of an application; raises `NotManaged`, and `BadFleet` if unreadable."""
    known = {one.app: one for one in fleets(c)}
    if check_app(app) not in known:
        listed = shown(known) or "none"
        raise NotManaged(
            f"cluster {c.paths.cluster!r} has no fleet {app!r} (it has: {listed}); correct the name, or set it first"
        )
    found = known[app]
    if not found.application and found.problem:
        raise BadFleet(found.problem)
    return found


def with_consumer(c: Coordinator, app: str, consumer: str) -> list[Operation]:
    """Return the guarded writes that add a consumer to a fleet; raises as `set_fleet`.

    During an upgrade only the upgrade's consumers may be added. Another consumer would never get the new version.
    """
    found = fleet_of(c, app)
    if consumer in found.consumers:
        return []
    upgrade = upgrade_store.find(c, app)
    if upgrade is None or consumer not in (*upgrade.old_consumers, *upgrade.new_consumers):
        check_no_upgrade(found)
    wanted = replace(found, consumers=(*found.consumers, check_consumer(consumer)))
    guards = _apart(c, wanted, [one for one in fleets(c) if one.app != app])
    return [*guards, put_fleet(c, wanted)]


def _apart(c: Coordinator, fleet: Fleet, others: Collection[Fleet]) -> list[Operation]:
    """Return the guards against a consumer in two fleets. Raises `BadFleet` if a consumer is already in two fleets."""
    for other in others:
        if shared := sorted(set(fleet.consumers) & set(other.consumers)):
            raise BadFleet(
                f"consumer {shared[0]!r} is in the fleet of {other.app!r} already; give it another id in {fleet.app!r}"
            )
    return [VersionCheck(c.paths.fleet(other.app), other.version) for other in others]


def fleets(c: Coordinator) -> tuple[Fleet, ...]:
    """Return all fleets, sorted by application.

    `problem` of a fleet: which part is unreadable, or why the fleet is not launched.
    """
    denied: dict[str, CoordinatorError] = {}
    nodes = find_many(c.zk, {app: c.paths.fleet(app) for app in filter(is_app, children(c.zk, c.paths.fleets))}, denied)
    found = [_read_or_named(c.paths.fleet(app), app, node) for app, node in nodes.items()]
    found += [Fleet(app, "", (), problem=str(error)) for app, error in denied.items()]
    return tuple(replace(fleet, problem=fleet.problem or why_not_launched(c, fleet)) for fleet in found)


def why_not_launched(c: Coordinator, fleet: Fleet) -> str:
    """Return why this host may launch no consumer of the fleet; empty if it may."""
    if not fleet.consumers:
        return ""
    own = (one for one in dict.fromkeys(fleet.runs.values()) if one in fleet.versions)
    every = (fleet, *(in_version(fleet, fleet.versions[one]) for one in own))
    return next(filter(None, (c.allowed.problem(resolved(one)) for one in every)), "")


def resolved(fleet: Fleet) -> Fleet:
    """Return the fleet for a launch: `{code}` in application and arguments is replaced by the version of the code."""

    def put_in(text: str) -> str:
        return text.replace("{" + CODE + "}", fleet.code)

    arguments = tuple(map(put_in, fleet.arguments))
    return replace(fleet, application=put_in(fleet.application), arguments=arguments)


def check_texts(fleet: Fleet) -> None:
    """Raise `BadFleet` for an impossible version of code, name of a variable, or text for a process."""
    if fleet.code and not is_app(fleet.code):
        raise BadFleet(f"{fleet.code[:80]!r} cannot be a version of code; give letters, digits, '.', '_' and '-'")
    if not fleet.code and any("{" + CODE + "}" in text for text in (fleet.application, *fleet.arguments)):
        raise BadFleet(f"the fleet of {fleet.app!r} names {{code}} and has no version of the code; give it with --code")
    for what, text in [("application", fleet.application), *(("Spark setting", name) for name in fleet.conf)]:
        if not text.isprintable():
            raise BadFleet(f"the {what} {text[:80]!r} has characters that cannot be shown; leave them out")
    for text in (*fleet.arguments, *fleet.conf.values(), *fleet.environment.values()):
        if has_control(text):
            raise BadFleet(f"{text[:80]!r} has a control character; leave the character out")
    for name in fleet.environment:
        if not _VARIABLE.fullmatch(name):
            raise BadFleet(f"{name[:80]!r} cannot name a variable of the environment; give letters, digits and '_'")


def _read_or_named(path: str, app: str, node: Node) -> Fleet:
    """Return the fleet. An unreadable fleet has no consumers and a `problem`, so that it does not stop other fleets."""
    try:
        fleet = decode_fleet(path, node.data, app, node.stat.version)
    except Malformed as error:
        return Fleet(app, "", (), version=node.stat.version, problem=str(error))
    usable = tuple(consumer for consumer in fleet.consumers if is_consumer(consumer))
    if unknown := sorted(set(fleet.runs.values()) - fleet.versions.keys()):
        problem = f"{path} has no version {unknown[0][:80]!r}, which a consumer of it runs; set the fleet again"
        return Fleet(app, "", (), version=node.stat.version, problem=problem)
    if usable == fleet.consumers:
        return fleet
    strange = next(consumer for consumer in fleet.consumers if not is_consumer(consumer))
    problem = f"{path} names {strange[:80]!r}, which cannot be a consumer id: that is left out; set the fleet again"
    return replace(fleet, consumers=usable, problem=problem)


def missing(c: Coordinator, problems: list[str] | None = None) -> tuple[Launch, ...]:
    """Return the consumers to start now.

    A consumer is started if it is in a fleet, is not registered, its last process is over, and no directive keeps the
    next process from starting. A process is over in three cases:

    - Its end is known.
    - The platform has isolated the consumer after long silence. Then other consumers have the partitions. A lost host
      reports no end.
    - A person isolated and readmits the consumer, and the process has been silent for the platform's waiting time.

    A consumer is not started while its last process starts or is merely silent, while a node is unreadable, or if this
    host may not launch the fleet. Unreadable and forbidden consumers are added to `problems`.
    """
    found = fleets(c)
    problems = problems if problems is not None else []
    problems.extend(fleet.problem for fleet in found if fleet.problem)
    wanted = [(fleet, consumer) for fleet in found if not why_not_launched(c, fleet) for consumer in fleet.consumers]
    if not wanted:
        return ()
    members = c.discovery.members()
    absent = [(fleet, consumer) for fleet, consumer in wanted if consumer not in members]
    denied: dict[str, CoordinatorError] = {}
    claims_found = find_many(c.zk, {consumer: c.paths.id(consumer) for _, consumer in absent}, denied)
    directives_found = find_many(c.zk, {consumer: c.paths.directive(consumer) for _, consumer in absent}, denied)
    problems += [f"{consumer} is not launched: {error}" for consumer, error in denied.items()]
    launches = []
    for fleet, consumer in absent:
        try:
            if consumer not in denied and _is_due(
                c, consumer, claims_found.get(consumer), directives_found.get(consumer)
            ):
                launches.append(_launch(fleet, consumer))
        except Malformed as error:
            problems.append(f"{consumer} is not launched: {error}")
    return tuple(launches)


def launch_of(c: Coordinator, consumer: str) -> Launch | None:
    """Return how to launch a consumer; `None` if no fleet has it. Raises `BadFleet` if this host may not launch it."""
    for fleet in fleets(c):
        if consumer in fleet.consumers:
            if problem := why_not_launched(c, fleet):
                raise BadFleet(problem)
            return _launch(fleet, consumer)
    return None


def _launch(fleet: Fleet, consumer: str) -> Launch:
    name = fleet.runs.get(consumer)
    found = resolved(fleet if name is None else in_version(fleet, fleet.versions[name]))
    told = ("--attribute", f"{CODE}={found.code}") if found.code else ()
    return Launch(fleet.app, consumer, found.application, (*found.arguments, *told), found.conf, found.environment)


def _is_due(c: Coordinator, consumer: str, claim_node: Node | None, directive_node: Node | None) -> bool:
    """Return whether to start the next process: the last is over, and no directive keeps the next from starting."""
    directive = None
    if directive_node is not None:
        path = c.paths.directive(consumer)
        directive = decode_directive(path, directive_node.data, consumer, directive_node.stat.version)
    if claim_node is not None:
        claim = decode_claim(c.paths.id(consumer), claim_node.data, consumer, claim_node.stat.version)
        last = Life(consumer, claim.incarnation, claim=claim, directive=directive)
        if last.incarnation and last.ending is None and not is_given_up(c, last):
            return False
    return may_start(consumer, directive, c.clock.now())


def may_start(consumer: str, directive: Directive | None, now: float) -> bool:
    """Return whether no isolation and no draining keeps the consumer's next process from starting."""
    following = Life(consumer, 0, directive=directive)
    isolation = following.isolation
    return (isolation is None or isolation.is_over(now)) and following.draining is None


def is_given_up(c: Coordinator, life: Life) -> bool:
    """Return whether this incarnation is isolated in such a way that its end need not be reported.

    If a person has isolated and readmits any incarnation, this incarnation must also have been silent for the
    platform's own waiting time.
    """
    isolation, claim, now = life.isolation, life.claim, c.clock.now()
    if isolation is None:
        return False
    if isolation.incarnation:
        return True
    absence = absence_of(claim, life.incarnation, now)
    if claim is None or absence is None or not isolation.is_over(now):
        return False
    starts_s = 0.0 if claim.registered == life.incarnation else STARTS_S
    return now - absence.since_at >= c.policy.absent_after_s + starts_s


def record_end(c: Coordinator, consumer: str, incarnation: int, how: Ending, reason: str = "") -> IdClaim:
    """Note that an incarnation has ended, and why. A later note does not replace the first.

    Raises `NotManaged` for an unknown id, and `Refused`.
    """
    if not 0 < incarnation <= MAX_COUNT:
        raise BadFleet(f"{incarnation} is no incarnation of consumer {consumer!r}; give one from 1 to {MAX_COUNT}")
    path = c.paths.id(consumer)

    def attempt() -> tuple[list[Operation], IdClaim]:
        node = c.zk.find(path)
        if node is None:
            raise NotManaged(f"cluster {c.paths.cluster!r} has never seen a consumer {consumer!r}; correct the id")
        claim = decode_claim(path, node.data, consumer, node.stat.version)
        updated = claims.ended(claim, incarnation, how, reason, c.clock.now())
        if updated == claim:
            return [], claim
        return [SetData(path, encode_claim(updated), claim.version)], replace(updated, version=claim.version + 1)

    return compare_and_set(c.zk, path, attempt)
