"""The begin of an upgrade: preview, refusals, and the transaction that starts it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.codecs.codec import encode_config
from coordinator_tasks.core.errors import BadFleet, BadUpgrade, NotManaged
from coordinator_tasks.core.fleet.growth import MAX_CONSUMERS
from coordinator_tasks.core.fleet.upgrade import Rule, TopicSeen, Upgrade, UpgradeEvent, UpgradeObservation, more
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.model import Fleet, FleetVersion, Split, TopicConfig
from coordinator_tasks.core.names import MAX_ID_BYTES, check_app, check_version, check_words
from coordinator_tasks.core.ports import Operation, SetData, VersionCheck
from coordinator_tasks.core.protocol.znodes import compare_and_set
from coordinator_tasks.core.text.partition_text import agreed, counted, named, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets.redeployment import pending, still_run
from coordinator_tasks.service.fleets.scaling import free_ids, pattern_of
from coordinator_tasks.service.fleets.upgrade_look import site_rule
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.nodes import frozen_topics, store, topics, upgrade_store
from coordinator_tasks.service.nodes.directives import put_request, read_directive
from coordinator_tasks.service.plan import transitions

STEPS = (5, 50, 100)
MOST_STEPS = 20
MAX_TIME_S = 30 * 86_400.0
MAX_PARTITIONS = 60_000
"""Maximum partitions of an upgrade: its record keeps the position and rate of each, and must fit into one write."""
MAX_ERRORS = 1_000
FIRST = "first"
"""The name of a version that has no name."""
_BEFORE = "-before"  # suffix for the old version, if the new version has the same name


@dataclass(frozen=True, slots=True)
class WantedUpgrade:
    """A person's request. `version`: the definition of a new version; `None` if the fleet already has `name`.

    `topics`: empty means all topics in which the fleet's consumers own partitions. `count`: number of new consumers; 0
    means as many as the fleet has.
    """

    app: str
    name: str
    version: FleetVersion | None = None
    topics: tuple[str, ...] = ()
    steps: tuple[int, ...] = STEPS
    hold_s: float = 300.0
    patience_s: float = 600.0
    rule: Rule = field(default_factory=Rule)
    count: int = 0
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The upgrade to begin: its record, the fleet, and topic → owner of each partition of the old consumers.

    `configs`: of all topics of the fleet. Topics outside the upgrade stay with the old consumers until they leave.
    """

    upgrade: Upgrade
    fleet: Fleet
    owned: dict[str, dict[int, str]]
    configs: dict[str, tuple[TopicConfig, int]]

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the text for a person: new consumers, the moves of each step, and the rules for judging a step."""
        one, rule = self.upgrade, self.upgrade.rule
        beside = f"with {one.new_name} beside {shown(one.old_consumers)} ({one.old_name})"
        said = [f"{shown(one.new_consumers)} would start {beside}"]
        topics = {topic: TopicSeen(owners) for topic, owners in self.owned.items()}
        seen = UpgradeObservation(0.0, {}, frozenset(), topics)
        for number, percent in enumerate(one.steps, start=1):
            chosen = more(one, seen, percent)
            each = shown(f"{named(which)} of {topic}" for topic, which in chosen.items())
            said.append(f"step {number} ({percent} %) would move {each}, and would be held for {one.hold_s:g} s")
        said += self._pinned()
        if others := sorted(self.configs.keys() - self.owned.keys()):
            leave = agreed(len(one.old_consumers), "leaves", "leave")
            said.append(f"{shown(others)} would move when {shown(one.old_consumers)} {leave}, in no step")
        errors = counted(rule.max_errors, "error")
        judged = [f"a lag of more than {rule.max_lag_s:g} s", f"more than {errors}"]
        judged += [f"less than {rule.min_rate:.0%} of the records per second before"] if rule.min_rate else []
        judged += [f"the rule {rule.call!r}"] if rule.call else []
        return (*said, f"everything would go back at {', '.join(judged[:-1])} or {judged[-1]}")

    def _pinned(self) -> Iterator[str]:
        """Yield the partitions that stay with old consumers through all steps, because they are pinned."""
        for topic, owners in self.owned.items():
            pins = self.configs[topic][0].pins
            held = by_consumer((who, p) for p, who in pins.items() if p in owners and who in self.upgrade.old_consumers)
            for who, which in held.items():
                are = agreed(len(which), "is", "are")
                yield f"{named(which)} of {topic} {are} pinned to {who}, and would stay there until {who} leaves"


def would_begin(c: Coordinator, wish: WantedUpgrade, *, by: str = "", why: str = "") -> Beginning:
    """Return the upgrade that `begin` would write, or raise the same errors."""
    _check_wish(c, wish)
    fleet = fleets.fleet_of(c, wish.app)
    record = upgrade_store.find(c, wish.app)
    fleets.check_no_upgrade(fleet)
    if record is not None and not record.over:
        raise BadUpgrade(
            f"the {record.said} is {record.phase.value}; wait for it, or roll it back with `roll-back-upgrade {wish.app}`"
        )
    if left := pending(c, fleet):
        raise BadUpgrade(f"the fleet {wish.app!r} is being redeployed: {still_run(left)}; wait for it")
    new = _version(fleet, wish)
    fleets.check_texts(fleets.in_version(fleet, new))
    old_name = fleet.name or fleet.code or FIRST
    owned, configs = _owned(c, fleet, wish)
    consumers = _new_ids(c, fleet, wish)
    now = c.clock.now()
    starts = f"{shown(consumers)} {agreed(len(consumers), 'starts', 'start')}"
    event = UpgradeEvent(now, f"{starts} with {wish.name} beside {shown(fleet.consumers)}")
    name = old_name if old_name != wish.name else old_name[: MAX_ID_BYTES - len(_BEFORE)] + _BEFORE
    upgrade = Upgrade(
        app=wish.app,
        old=fleets.version_of(fleet),
        new=new,
        old_name=name,
        new_name=wish.name,
        old_consumers=fleet.consumers,
        new_consumers=consumers,
        topics=tuple(owned),
        steps=wish.steps,
        hold_s=wish.hold_s,
        patience_s=wish.patience_s,
        rule=wish.rule,
        by=by,
        why=why,
        began_at=now,
        since_at=now,
        events=(event,),
        version=record.version if record is not None else -1,
    )
    known = list(fleet.versions.items())
    if wish.name not in fleet.versions:
        # the last entry is the version before the present one, until this upgrade is Done
        known.insert(-1, (wish.name, new))
    versions, runs = {**dict(known), wish.name: new}, dict.fromkeys(consumers, wish.name)
    wanted = replace(fleet, consumers=(*fleet.consumers, *consumers), replaced={}, versions=versions, runs=runs)
    if problem := fleets.why_not_launched(c, wanted):
        raise BadFleet(problem)
    return Beginning(upgrade, wanted, owned, configs)


def begin(c: Coordinator, wish: WantedUpgrade, *, by: str, why: str) -> Beginning:
    """Begin an upgrade in one transaction: record, new consumers, and splits of the topics.

    `upgrades.advance` does the further steps. Raises `NotManaged` for an unknown fleet or topic, `BadUpgrade`,
    `BadRule`, `BadFleet` for a version that this host may not launch, and `LookAgain`.
    """
    by, why = check_words(by, "name"), check_words(why, "reason")

    def attempt() -> tuple[list[Operation], Beginning]:
        found = would_begin(c, wish, by=by, why=why)
        others = [one for one in fleets.fleets(c) if one.app != wish.app]
        operations: list[Operation] = [VersionCheck(c.paths.fleet(one.app), one.version) for one in others]
        operations += [fleets.put_fleet(c, found.fleet)]
        operations += [upgrade_store.write(c, found.upgrade)]
        for topic, (config, version) in found.configs.items():
            split = Split(wish.app, found.upgrade.new_consumers)
            operations += [SetData(c.paths.config(topic), encode_config(replace(config, split=split)), version)]
        for consumer in found.upgrade.new_consumers:
            old = read_directive(c, consumer)
            if old.draining is not None:
                operations += put_request(c, replace(old, draining=None))
        size = sum(len(getattr(one, "data", b"")) for one in operations)
        if size > c.policy.max_write_bytes:
            raise BadUpgrade(
                f"the begin of this upgrade takes {size} bytes, more than the {c.policy.max_write_bytes} that a write may have; "
                "upgrade with fewer topics at a time"
            )
        return operations, found

    c.zk.ensure(c.paths.upgrades)
    return compare_and_set(c.zk, c.paths.upgrade(wish.app), attempt)


def _check_wish(c: Coordinator, wish: WantedUpgrade) -> None:
    check_app(wish.app)
    check_version(wish.name)
    steps = wish.steps
    if wrong := [one for one in steps if not 1 <= one <= 100]:
        raise BadUpgrade(f"a step of {wrong[0]} % cannot be; give percentages from 1 to 100, such as 5, 50, 100")
    if not steps or list(steps) != sorted(set(steps)) or steps[-1] != 100 or len(steps) > MOST_STEPS:
        raise BadUpgrade(
            f"the steps {', '.join(map(str, steps)) or 'are none and'} cannot be: each has to be larger than the one before, "
            f"the last one 100, and there are at most {MOST_STEPS}; give steps such as 5, 50, 100"
        )
    rule = wish.rule
    times = {"hold": wish.hold_s, "patience": wish.patience_s, "largest lag": rule.max_lag_s}
    for what, value in times.items():
        if not 0 <= value <= MAX_TIME_S:
            raise BadUpgrade(f"a {what} of {value:g} s cannot be; give 0 to {MAX_TIME_S:.0f}")
    if not 0 <= rule.min_rate <= 1:
        raise BadUpgrade(f"a least rate of {rule.min_rate:g} cannot be; give a share from 0 (not judged) to 1")
    if not 0 <= rule.max_errors <= MAX_ERRORS:
        raise BadUpgrade(f"{rule.max_errors} errors cannot be; give 0 to {MAX_ERRORS}")
    if not 0 <= wish.count <= MAX_CONSUMERS:
        raise BadUpgrade(f"{wish.count} new consumers cannot be; give 1 to {MAX_CONSUMERS}, or 0 for as many as now")
    if rule.call:
        site_rule(c, rule.call)


def _version(fleet: Fleet, wish: WantedUpgrade) -> FleetVersion:
    if wish.version is not None:
        known = fleet.versions.get(wish.name)
        if known is not None and known != wish.version:
            raise BadUpgrade(
                f"the fleet {fleet.app!r} has another version {wish.name!r} already; give the new one another name, or no "
                "definition to run the one that is there"
            )
        return wish.version
    if wish.name == (fleet.name or fleet.code or FIRST):
        return fleets.version_of(fleet)  # equal on all hosts
    if wish.name in fleet.versions:
        return fleet.versions[wish.name]
    listed = shown(sorted({*fleet.versions, fleet.name or fleet.code or FIRST}))
    raise BadUpgrade(
        f"the fleet {fleet.app!r} has no version {wish.name!r} (it has: {listed}); say what it runs, with --code, "
        "--application, --argument, --conf or --env"
    )


def _new_ids(c: Coordinator, fleet: Fleet, wish: WantedUpgrade) -> tuple[str, ...]:
    taken = {one for other in fleets.fleets(c) for one in other.consumers} | c.discovery.members().keys()
    return tuple(free_ids(c, wish.pattern or pattern_of(fleet), taken, wish.count or len(fleet.consumers)))


def _owned(
    c: Coordinator, fleet: Fleet, wish: WantedUpgrade
) -> tuple[dict[str, dict[int, str]], dict[str, tuple[TopicConfig, int]]]:
    """Return topic → owner of each of the fleet's partitions in the upgrade, and the fleet's topic configurations."""
    unknown = sorted(set(wish.topics) - set(transitions.topics(c)))
    if unknown:
        raise store.not_managed(c.zk, c.paths, unknown[0])
    nodes = store.load_nodes(c.zk, c.paths, transitions.topics(c))
    every = {
        topic: which
        for topic, node in sorted(nodes.items())
        if (which := {p: who for p, who in sorted(node.assignments.items()) if who in fleet.consumers})
    }
    owned = {topic: which for topic, which in every.items() if not wish.topics or topic in wish.topics}
    if lacking := sorted(set(wish.topics) - owned.keys()):
        raise BadUpgrade(
            f"nobody of the fleet {fleet.app!r} owns a partition of {shown(lacking)}; leave that topic out"
        )
    if not owned:
        raise BadUpgrade(
            f"nobody of the fleet {fleet.app!r} owns a partition, so there is nothing to move in steps; use `set-fleet` and "
            "`redeploy`"
        )
    count = sum(map(len, owned.values()))
    if count > MAX_PARTITIONS:
        raise BadUpgrade(f"{count} partitions are more than {MAX_PARTITIONS}; upgrade with fewer topics at a time")
    configs: dict[str, tuple[TopicConfig, int]] = {}
    for topic in every:
        try:
            config, version = topics.managed(c, topic)
        except NotManaged:
            owned.pop(topic, None)
            continue
        if config.removed and topic not in owned:
            continue
        _check_topic(config, moves=topic in owned)
        # At the end the old consumers give all partitions away, also partitions of topics outside the upgrade.
        if problem := frozen_topics.why_frozen(config, fleet.consumers):
            raise BadUpgrade(problem)
        configs[topic] = config, version
    return owned, configs


def _check_topic(config: TopicConfig, *, moves: bool) -> None:
    topic = config.topic
    if config.split is not None:
        raise BadUpgrade(f"topic {topic!r} is part of the upgrade of {config.split.app!r}; wait for that one")
    if config.removed:
        raise BadUpgrade(f"topic {topic!r} is being removed, so nothing of it can move; leave it out")
    if moves and config.rollback is not None:
        raise BadUpgrade(f"a roll back of topic {topic!r} is in force and says who has what; `unpin {topic}` first")
