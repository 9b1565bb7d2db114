"""The size of a fleet: more consumers by the pattern of their ids, or fewer by draining."""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from coordinator_tasks.core.errors import BadFleet, LookAgain
from coordinator_tasks.core.fleet.growth import MAX_CONSUMERS
from coordinator_tasks.core.model import Draining, DrainKind, DrainOwner, Fleet
from coordinator_tasks.core.names import check_consumer, check_words
from coordinator_tasks.core.ports import Operation, VersionCheck
from coordinator_tasks.core.protocol.znodes import compare_and_set
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.nodes.directives import drained, put_request, read_directive

NUMBER = "{}"
"""Placeholder of the number in a pattern of ids."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """`joins`: ids to launch, also ids drained before. `leaves`: ids to drain and to remove from the fleet."""

    fleet: Fleet
    joins: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


def would_scale(
    c: Coordinator, app: str, count: int, pattern: str = "", version: int = -1, left_out: Collection[str] = ()
) -> Scaled:
    """Return the changes that `scale` would make, or raise the same errors."""
    return _planned(c, _fleet(c, app, version), count, pattern, left_out)


def scale(
    c: Coordinator,
    app: str,
    count: int,
    pattern: str = "",
    *,
    by: str,
    why: str,
    beside: Callable[[], list[Operation]] = list,
    version: int = -1,
    left_out: Collection[str] = (),
) -> Scaled:
    """Bring a fleet to `count` consumers in one transaction. Application, arguments and settings stay.

    New ids follow the `pattern` (`billing-{}`), by default the pattern of the fleet's ids. A drained id is used again,
    and its draining ends, unless `left_out` has the id. The highest numbers leave first. Repeating changes nothing. The
    same transaction writes the operations of `beside`. If `version` is not -1, the stored fleet must have this version
    (else `LookAgain`). Raises `NotManaged`, `BadFleet` for an impossible size or pattern, and `LookAgain`.
    """
    draining = _draining(c, DrainOwner(DrainKind.PERSON), by, why)
    return _scaled(c, app, lambda found: _planned(c, found, count, pattern, left_out), draining, beside, version)


def drain_of(
    c: Coordinator,
    app: str,
    leaves: Collection[str],
    *,
    by: str,
    why: str,
    beside: Callable[[], list[Operation]] = list,
    version: int = -1,
) -> Scaled:
    """Drain consumers for the fleet's growth, and remove them from the fleet.

    The same transaction writes the operations of `beside`. `version`: as for `scale`.
    """

    def planned(found: Fleet) -> Scaled:
        fleets.check_no_upgrade(found)
        mine = tuple(one for one in found.consumers if one in leaves)
        kept = tuple(one for one in found.consumers if one not in leaves)
        return Scaled(replace(found, consumers=kept) if mine else found, leaves=mine)

    return _scaled(c, app, planned, _draining(c, DrainOwner(DrainKind.GROWTH, app), by, why), beside, version)


def _draining(c: Coordinator, owner: DrainOwner, by: str, why: str) -> Draining:
    return Draining(check_words(by, "name"), check_words(why, "reason"), c.clock.now(), owner=owner)


def _scaled(
    c: Coordinator,
    app: str,
    plan: Callable[[Fleet], Scaled],
    draining: Draining,
    beside: Callable[[], list[Operation]],
    version: int,
) -> Scaled:
    def attempt() -> tuple[list[Operation], Scaled]:
        found = _fleet(c, app, version)
        planned = plan(found)
        if planned.fleet == found:
            return beside(), planned
        others = [one for one in fleets.fleets(c) if one.app != app]
        guards = [VersionCheck(c.paths.fleet(one.app), one.version) for one in others]
        return [*guards, fleets.put_fleet(c, planned.fleet), *_directives(c, planned, draining), *beside()], planned

    return compare_and_set(c.zk, c.paths.fleet(app), attempt)


def _fleet(c: Coordinator, app: str, version: int) -> Fleet:
    found = fleets.fleet_of(c, app)
    if version not in (-1, found.version):
        raise LookAgain(f"the fleet {app!r} was changed by somebody else meanwhile; do it again")
    return found


def _directives(c: Coordinator, planned: Scaled, draining: Draining) -> Iterator[Operation]:
    for consumer in planned.joins:
        old = read_directive(c, consumer)
        if old.draining is not None:
            yield from put_request(c, replace(old, draining=None))
    for consumer in planned.leaves:
        old = read_directive(c, consumer)
        if (new := drained(old, draining)) != old:
            yield from put_request(c, new)


def _planned(c: Coordinator, found: Fleet, count: int, pattern: str, left_out: Collection[str]) -> Scaled:
    if not 0 <= count <= MAX_CONSUMERS:
        raise BadFleet(f"a fleet has 0 to {MAX_CONSUMERS} consumers, and not {count}; give such a number")
    fleets.check_no_upgrade(found)
    now = found.consumers
    if count <= len(now):
        leaves = sorted(now, key=_by_number, reverse=True)[: len(now) - count]
        kept = tuple(one for one in now if one not in leaves)
        return Scaled(replace(found, consumers=kept) if leaves else found, leaves=tuple(leaves))
    taken = {*left_out, *(one for fleet in fleets.fleets(c) for one in fleet.consumers)}
    joins = tuple(free_ids(c, pattern or pattern_of(found), taken, count - len(now)))
    wanted = replace(found, consumers=(*now, *joins))
    if problem := fleets.why_not_launched(c, wanted):
        raise BadFleet(problem)
    return Scaled(wanted, joins=joins)


def pattern_of(found: Fleet) -> str:
    """Return the pattern of the fleet's ids: their common text, with `{}` for the number at the end."""
    stems = {re.sub(r"[0-9]+$", "", one) for one in found.consumers if one[-1:].isdigit()}
    if len(stems) != 1 or not all(one[-1:].isdigit() for one in found.consumers):
        said = shown(found.consumers) or "none"
        raise BadFleet(
            f"the ids of the fleet {found.app!r} ({said}) have no common form that ends in a number; say how new ids look, "
            f"with {NUMBER} for the number: --pattern {found.app}-{NUMBER}"
        )
    return stems.pop() + NUMBER


def free_ids(c: Coordinator, pattern: str, taken: Collection[str], wanted: int) -> Iterator[str]:
    """Yield the `wanted` lowest free ids. Ids of isolated consumers are left out, because they are never launched."""
    if pattern.count(NUMBER) != 1:
        raise BadFleet(
            f"the pattern {pattern[:80]!r} needs {NUMBER} once, where the number stands; write it like app-{NUMBER}"
        )
    found = 0
    for number in range(1, MAX_CONSUMERS + len(taken) + wanted + 1):
        consumer = check_consumer(pattern.replace(NUMBER, str(number)))
        if consumer in taken or read_directive(c, consumer).isolation is not None:
            continue
        yield consumer
        found += 1
        if found == wanted:
            return
    raise BadFleet(f"there are not enough free ids of the form {pattern!r}; readmit consumers, or give another pattern")


def _by_number(consumer: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `b-2` before `b-10`."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"([0-9]+)", consumer)]
