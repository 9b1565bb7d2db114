"""Running upgrades of fleets: a person's requests, and the steps. Any process may do a step.

The record holds the desired state. Every call first writes the desired state to topics, fleet and directives, under
guards on the record's version. Then the call decides the next step. So the next call continues after a crash, and two
parallel calls have one effect.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from coordinator_tasks.core.codecs.codec import encode_config
from coordinator_tasks.core.errors import UNREADABLE, BadRule, BadUpgrade, LookAgain, Malformed, Refused
from coordinator_tasks.core.fleet.upgrade import (
    ENDURES,
    FORWARD,
    Upgrade,
    UpgradePhase,
    advanced,
    back,
    continued,
    paused,
)
from coordinator_tasks.core.model import Draining, Split
from coordinator_tasks.core.names import check_words, is_topic
from coordinator_tasks.core.ports import Operation, SetData
from coordinator_tasks.core.protocol.znodes import compare_and_set
from coordinator_tasks.core.text.partition_text import agreed, because, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets.upgrade_look import away, configurations, judged, look, outage
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.nodes import frozen_topics, topics, upgrade_store
from coordinator_tasks.service.nodes.directives import put_request, read_directive
from coordinator_tasks.service.plan import transitions

MAX_STEPS = 8
"""Maximum steps of a call. Each step writes once."""
MAX_VERSIONS = 5
"""Maximum number of versions that a fleet keeps beside its own."""
_ATTEMPTS = 20
log = logging.getLogger(__name__)

# Requests of persons -------------------------------------------------------------------------------------------------


def pause(c: Coordinator, app: str, *, by: str, why: str) -> Upgrade:
    """Pause the upgrade until a person continues it or rolls it back. Moves under way finish."""
    by, why = check_words(by, "name"), check_words(why, "reason")

    def change(old: Upgrade) -> Upgrade:
        return old if old.paused else paused(old, c.clock.now(), f"by {by}{because(why)}")

    return _change(c, app, change)


def go_on(c: Coordinator, app: str, *, by: str, why: str) -> Upgrade:
    """Continue a paused upgrade. The hold of a step begins again, and the step is judged anew."""
    by, why = check_words(by, "name"), check_words(why, "reason")

    def change(old: Upgrade) -> Upgrade:
        return continued(old, c.clock.now(), by, why) if old.paused else old

    return _change(c, app, change)


def roll_back(c: Coordinator, app: str, *, by: str, why: str) -> Upgrade:
    """Move everything back to the old consumers, also from a pause. Raises `BadUpgrade` if the old version is gone."""
    by, why = check_words(by, "name"), check_words(why, "reason")

    def change(old: Upgrade) -> Upgrade:
        if old.reason:
            return continued(old, c.clock.now(), by, why) if old.paused else old
        return back(replace(old, paused=""), c.clock.now(), f"rolled back by {by}{because(why)}")

    return _change(c, app, change, to_roll_back)


def under_way(c: Coordinator, app: str) -> Upgrade:
    """Return the fleet's upgrade, which may be paused or continued. Raises `BadUpgrade` if the upgrade is over."""
    found = upgrade_store.read(c, app)
    if not found.over:
        return found
    if found.reason:
        raise BadUpgrade(
            f"the {found.said} was rolled back ({found.reason}), so there is nothing to do; begin another one"
        )
    raise BadUpgrade(
        f"the {found.said} is done, so it cannot be paused, continued or rolled back; to go back, upgrade to "
        f"{found.old_name!r}: `upgrade {app} {found.old_name}`"
    )


def to_roll_back(c: Coordinator, app: str) -> Upgrade:
    """Return the fleet's upgrade if it can be rolled back, or is being rolled back; otherwise raises `BadUpgrade`."""
    found = under_way(c, app)
    if not found.reason and found.phase not in FORWARD:
        wait = f"continue it with `continue-upgrade {app}`" if found.paused else "wait until it is Done"
        left = agreed(len(found.old_consumers), "has", "have")
        raise BadUpgrade(
            f"the {found.said} is {found.phase.value}: {shown(found.old_consumers)} {left} left, so it cannot be rolled back; "
            f"{wait}, and then go back with `upgrade {app} {found.old_name}`"
        )
    return found


def _change(
    c: Coordinator,
    app: str,
    change: Callable[[Upgrade], Upgrade],
    find: Callable[[Coordinator, str], Upgrade] = under_way,
) -> Upgrade:
    def attempt() -> tuple[list[Operation], Upgrade]:
        old = find(c, app)
        new = change(old)
        changed = replace(new, version=old.version + 1)
        return ([], old) if new == old else ([upgrade_store.write(c, new)], changed)

    return compare_and_set(c.zk, c.paths.upgrade(app), attempt)


# Steps of any caller -------------------------------------------------------------------------------------------------


def advance(c: Coordinator, problems: list[str] | None = None, apps: Sequence[str] | None = None) -> Iterator[str]:
    """Do the next steps of these fleets' upgrades (`None`: all). Yield a line for each step. `problems` gets the waits.

    Raises the `Unavailable` kinds.
    """
    problems = problems if problems is not None else []
    for app in upgrade_store.fleets_with_upgrades(c) if apps is None else apps:
        try:
            yield from advance_one(c, app)
            waits = why_waits(c, upgrade_store.read(c, app))
        except (Malformed, Refused, LookAgain) as error:
            waits = str(error)
        if waits:
            problems.append(f"the upgrade of {app} waits: {waits}")


def giving(upgrade: Upgrade) -> tuple[str, ...]:
    """Return the consumers that give partitions away in the present phase."""
    old, new = upgrade.old_consumers, upgrade.new_consumers
    gives = {UpgradePhase.MOVING: old, UpgradePhase.DRAINING: old, UpgradePhase.RETURNING: new}
    return () if upgrade.paused else gives.get(upgrade.phase, ())


def drains_again(c: Coordinator, consumer: str) -> Iterator[str]:
    """Yield a warning if an upgrade will drain an undrained consumer again. Unreadable records are skipped."""
    for app in upgrade_store.fleets_with_upgrades(c):
        with suppress(*UNREADABLE):
            upgrade = upgrade_store.read(c, app)
            if upgrade.phase in (UpgradePhase.DRAINING, UpgradePhase.RETURNING) and consumer in giving(upgrade):
                yield f"the {upgrade.said} is {upgrade.phase.value}: it drains {consumer} again"


def why_waits(c: Coordinator, upgrade: Upgrade) -> str:
    """Return what blocks the moves, with the remedy; empty if nothing blocks, or if the upgrade is over or paused.

    Raises `Malformed`, and `BadFleet` if the fleet cannot be read.
    """
    if upgrade.outage is not None and upgrade.phase in ENDURES and not upgrade.paused:
        return f"{upgrade.outage.waits}; it goes on by itself then, or goes back by `roll-back-upgrade {upgrade.app}`"
    gives, moving = giving(upgrade), upgrade.phase is UpgradePhase.MOVING
    kept = frozen_topics.why_kept(c, gives, upgrade.topics if moving else ()) if gives else ""
    if kept or moving or not gives:
        return kept
    members = c.discovery.members()
    still = [one for one in gives if one in members]
    others = [one for one in fleets.fleet_of(c, upgrade.app).consumers if one not in gives]
    if still and not members.keys() & set(others):
        lacking = upgrade.old_consumers if upgrade.phase is UpgradePhase.RETURNING else upgrade.new_consumers
        back = f"bring one back with `undrain {lacking[0]} --fleet {upgrade.app}`"
        remedy = f"`status` says why {shown(others)} {agreed(len(others), 'is', 'are')} not" if others else back
        return f"no other consumer of the fleet is there to take what {shown(still)} {agreed(len(still), 'has', 'have')}; {remedy}"
    if still and c.clock.now() - upgrade.since_at >= upgrade.patience_s:
        has, it = agreed(len(still), "has", "have"), agreed(len(still), "it still has", "they still have")
        return f"{shown(still)} {has} not left for {upgrade.patience_s:g} s; `topics` and `status` say what {it}"
    return ""


def advance_one(c: Coordinator, app: str) -> Iterator[str]:
    """Do the next steps of an upgrade. Yield a line for each step. Raises `LookAgain` if another process is at it."""
    for _ in range(MAX_STEPS):
        upgrade = upgrade_store.read(c, app)
        if upgrade.over or upgrade.paused:
            return
        ensure(c, upgrade)
        following = _following(c, upgrade)
        if following == upgrade:
            return
        if upgrade_store.save(c, following, _ending(c, following) if following.over else ()) is None:
            raise LookAgain(f"the {upgrade.said} was changed by somebody else meanwhile; it continues")
        for event in following.events:
            if event not in upgrade.events:
                log.info("%s: %s", upgrade.said, event.text)
                yield f"{upgrade.said}: {event.text}"


def _following(c: Coordinator, upgrade: Upgrade) -> Upgrade:
    seen, answers = look(c, upgrade)
    try:
        failed = judged(c, upgrade, seen, answers)
    except BadRule as error:
        return paused(upgrade, seen.now, error.told)
    return advanced(upgrade, seen, failed, outage(c, upgrade, seen, answers), away=away(upgrade, answers))


def ensure(c: Coordinator, upgrade: Upgrade) -> None:
    """Make splits, directives and fleet match the record. Repeatable. Raises `LookAgain` if the record changes."""
    _write_splits(c, upgrade, {topic: split_of(upgrade, topic) for topic in configurations(c, upgrade)})
    if upgrade.phase is UpgradePhase.DRAINING:
        _until_written(c, upgrade, lambda: _drains(c, upgrade, upgrade.old_consumers))
    if upgrade.phase is UpgradePhase.RESTORING:
        _until_written(c, upgrade, lambda: _restores(c, upgrade))
    if upgrade.phase is UpgradePhase.RETURNING:
        _until_written(c, upgrade, lambda: _drains(c, upgrade, upgrade.new_consumers))
    if upgrade.phase in (UpgradePhase.DRAINING, UpgradePhase.FINISHING):
        _write_splits(c, upgrade, dict.fromkeys(_others(c, upgrade)))


def _until_written(c: Coordinator, upgrade: Upgrade, attempt: Callable[[], list[Operation]]) -> None:
    for _ in range(_ATTEMPTS):
        if upgrade_store.guarded(c, upgrade, attempt()):
            return
    raise LookAgain(f"what the {upgrade.said} has to write changed {_ATTEMPTS} times; it is tried again")


def _others(c: Coordinator, upgrade: Upgrade) -> Iterator[str]:
    """Yield the topics outside the upgrade whose split has kept the new consumers out since the upgrade began."""
    for topic in filter(is_topic, transitions.topics(c)):
        with suppress(Malformed, Refused):
            split = topics.configuration(c, topic).split
            if topic not in upgrade.topics and split is not None and split.app == upgrade.app:
                yield topic


def _write_splits(c: Coordinator, upgrade: Upgrade, splits: Mapping[str, Split | None]) -> None:
    for topic, wanted in splits.items():

        def attempt(topic: str = topic, wanted: Split | None = wanted) -> list[Operation]:
            config, version = topics.managed(c, topic)
            other = config.split is not None and config.split.app != upgrade.app
            if config.split == wanted or (other and wanted is None):
                return []
            return [SetData(c.paths.config(topic), encode_config(replace(config, split=wanted)), version)]

        _until_written(c, upgrade, attempt)


def split_of(upgrade: Upgrade, topic: str) -> Split | None:
    """Return the split of this topic in the present phase."""
    if upgrade.phase is UpgradePhase.FINISHING or upgrade.over:
        return None
    return Split(upgrade.app, upgrade.new_consumers, frozenset(upgrade.chosen.get(topic, ())))


def _drains(c: Coordinator, upgrade: Upgrade, consumers: tuple[str, ...]) -> list[Operation]:
    """Return the writes that drain these consumers, even if not started yet, and remove them from the fleet."""
    fleet = fleets.fleet_of(c, upgrade.app)
    kept = tuple(one for one in fleet.consumers if one not in consumers)
    operations: list[Operation] = []
    if kept != fleet.consumers:
        operations.append(fleets.put_fleet(c, replace(fleet, consumers=kept)))
    for consumer in consumers:
        old = read_directive(c, consumer)
        if old.draining is None or old.draining.incarnation:
            draining = Draining(upgrade.app, upgrade.said, c.clock.now(), owner=upgrade.owner)
            operations += put_request(c, replace(old, draining=draining))
    return operations


def _restores(c: Coordinator, upgrade: Upgrade) -> list[Operation]:
    """Return the writes that end this upgrade's draining of the old consumers, and add them to the fleet again."""
    fleet = fleets.fleet_of(c, upgrade.app)
    found = {one: read_directive(c, one) for one in upgrade.old_consumers}
    ours = {one: old for one, old in found.items() if old.draining is not None and old.draining.owner == upgrade.owner}
    lacking = tuple(one for one in ours if one not in fleet.consumers)
    operations = [write for one in ours.values() for write in put_request(c, replace(one, draining=None))]
    if lacking:
        operations.append(fleets.put_fleet(c, replace(fleet, consumers=(*fleet.consumers, *lacking))))
    return operations


def _ending(c: Coordinator, upgrade: Upgrade) -> list[Operation]:
    """Return the write that gives the fleet a single version again."""
    fleet = fleets.fleet_of(c, upgrade.app)
    leaves = upgrade.old_consumers if upgrade.phase is UpgradePhase.DONE else upgrade.new_consumers
    consumers = tuple(one for one in fleet.consumers if one not in leaves)
    wanted = replace(fleet, consumers=consumers, runs={})
    versions = dict(fleet.versions)
    if upgrade.phase is UpgradePhase.DONE:
        wanted = replace(fleets.in_version(wanted, upgrade.new), name=upgrade.new_name, replaced={})
        versions = {name: one for name, one in versions.items() if name not in (upgrade.old_name, upgrade.new_name)}
        versions[upgrade.old_name] = upgrade.old
    wanted = replace(wanted, versions=dict(list(versions.items())[-MAX_VERSIONS:]))
    return [fleets.put_fleet(c, wanted)]
