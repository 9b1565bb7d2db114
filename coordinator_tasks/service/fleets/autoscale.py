"""Measure a fleet, ask the growth policy (`core.fleet.growth`), and act on the decision if the limits allow acting.

Each fleet has one node for its measurements and decisions. One transaction writes a step and its record, so a crash
leaves both or neither. A move of a partition is a pin. The next change of the fleet's size removes these pins.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from coordinator_tasks.core.codecs.codec import decode_config
from coordinator_tasks.core.codecs.growth_codec import Growth, encode_growth
from coordinator_tasks.core.errors import UNREADABLE, BadGrowth, LookAgain, Malformed, NotManaged, Refused
from coordinator_tasks.core.fleet.growth import (
    GrowthDecision,
    GrowthKind,
    GrowthObservation,
    Limits,
    Load,
    decide,
    own_pins,
)
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.model import Actor, ConsumerStatus, DrainKind, Fleet, Member, TopicConfig
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import Delete, Operation, VersionCheck
from coordinator_tasks.core.protocol.znodes import children, compare_and_set, find_many, put
from coordinator_tasks.core.text.partition_text import counted
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import redeployment, scaling
from coordinator_tasks.service.fleets.redeployment import all_stable
from coordinator_tasks.service.nodes import fleet as fleets
from coordinator_tasks.service.nodes import growth_store, store
from coordinator_tasks.service.nodes.action_log import recording
from coordinator_tasks.service.nodes.observe import load_directives
from coordinator_tasks.service.nodes.topics import changeable
from coordinator_tasks.service.plan import overrides

MEASURE_S = 15.0
"""Seconds between the two answers from which rates are computed; enough for several batches."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The decision about a fleet. `act`: act on the decision; False in shadow mode and in a dry run."""

    app: str
    decision: GrowthDecision
    act: bool

    @property
    def text(self) -> str:
        return f"{self.app}: {self.decision.text}" if self.act else self.would

    @property
    def would(self) -> str:
        """Return the action taken, or the action proposed in shadow mode and in a dry run."""
        holds = self.decision.kind in (GrowthKind.HOLD, GrowthKind.CANNOT_HELP)
        return f"{self.app}: {'' if holds else 'would '}{self.decision.text}"


def last_decisions(c: Coordinator) -> dict[str, GrowthDecision]:
    """Return fleet → its last decision, also in shadow mode. Metrics and other scalers use `desired` and `at`.

    A fleet without a decision, or with an unreadable node, is left out.
    """
    latest = {growth.app: growth.memory.latest for growth in growth_store.readable(c)}
    return {app: one for app, one in latest.items() if one is not None and one.desired}


def would_set(c: Coordinator, app: str, limits: Limits) -> Growth:
    """Return the growth that `set_growth` would write, or raise the same errors."""
    limits.check()
    found = _fleet_or_pods(c, app)
    if limits.act and not found.application:
        raise BadGrowth(
            f"{found.consumers[0]} and the others of {app!r} are in no fleet, so `autoscale` cannot set their number; leave --act out, "
            "and let Kubernetes set it"
        )
    return replace(growth_store.find(c, app) or Growth(app), limits=limits)


def set_growth(c: Coordinator, app: str, limits: Limits) -> Growth:
    """Set the limits of growth of a fleet or a StatefulSet's pods. Measurements stay. Repeating changes nothing.

    Raises `NotManaged` if no such fleet or pods exist, and `BadGrowth` for impossible limits.
    """
    if would_set(c, app, limits).version < 0:
        c.zk.ensure(c.paths.growths)

    def attempt() -> tuple[list[Operation], Growth]:
        wanted = would_set(c, app, limits)
        same = wanted.version >= 0 and growth_store.find(c, app) == wanted
        return [] if same else [_put(c, wanted)], wanted

    return compare_and_set(c.zk, c.paths.growth(app), attempt)


def would_end(c: Coordinator, app: str) -> Growth | None:
    """Return the growth that `end_growth` would remove, or raise the same errors."""
    found = growth_store.find(c, app)
    if found is None:
        _fleet_or_pods(c, app)
    return found


def end_growth(c: Coordinator, app: str) -> None:
    """Remove the limits of a fleet's growth, with measurements and decisions. Without limits, change nothing.

    Raises `NotManaged` if there is neither growth nor a fleet nor pods of this name.
    """

    def attempt() -> tuple[list[Operation], None]:
        found = would_end(c, app)
        return [] if found is None else [Delete(c.paths.growth(app), found.version)], None

    compare_and_set(c.zk, c.paths.growth(app), attempt)


def may_shrink(c: Coordinator, app: str, count: int) -> Iterator[str]:
    """Warn that growth may drain a consumer of a fleet with `count` consumers. Skip unreadable limits."""
    with suppress(*UNREADABLE):
        growth = growth_store.find(c, app)
        if growth is not None and growth.limits.act and growth.limits.least < count:
            yield (
                f"{app} shrinks by its load: `autoscale` may drain one of its {counted(count, 'consumer')} again; limits of growth with "
                f"a --min of {count} keep them"
            )


def pinned_by_growth(c: Coordinator, growth: Growth) -> dict[str, list[int]]:
    """Return topic → partitions that moves of this growth still pin. Unreadable topics are left out."""
    found: dict[str, list[int]] = {}
    for (topic, partition), taker in sorted(own_pins(growth.memory.decisions).items()):
        with suppress(Refused, *UNREADABLE):
            if changeable(c, topic).pins.get(partition) == taker:
                found.setdefault(topic, []).append(partition)
    return found


def _put(c: Coordinator, growth: Growth) -> Operation:
    return put(c.paths.growth(growth.app), encode_growth(growth), growth.version)


def look(
    c: Coordinator, apps: Collection[str], actor: Actor, problems: list[str] | None = None, *, write: bool = True
) -> Iterator[Looked]:
    """Decide about these fleets (if empty, all with limits) and act. Without `write`, store nothing.

    If `apps` is empty, the error of a fleet goes to `problems`. Otherwise the error is raised, also `NotManaged` for a
    fleet without limits. The `Unavailable` errors are always raised.
    """
    problems = problems if problems is not None else []
    for app in apps or growth_store.growing(c):
        try:
            yield _looked(c, growth_store.read(c, app), actor, write=write)
        except NotManaged:
            if apps:
                raise
        except (Malformed, Refused, LookAgain) as error:
            if apps:
                raise
            problems.append(f"the fleet {app} is left as it is: {error}")


def _fleet_or_pods(c: Coordinator, app: str) -> Fleet:
    """Return the fleet, or the pods of the StatefulSet `app`: `app`-0 and so on, which Kubernetes launches.

    Pods that are registered, or still own partitions, count. They have no application. Raises as `fleet_of`.
    """
    try:
        return fleets.fleet_of(c, app)
    except NotManaged as error:
        nodes = store.load_nodes(c.zk, c.paths, children(c.zk, c.paths.configs))
        known = {*c.discovery.members(), *(owner for node in nodes.values() for owner in node.assignments.values())}
        of_fleets = {consumer for fleet in fleets.fleets(c) for consumer in fleet.consumers}
        found = {one: re.fullmatch(rf"{re.escape(app)}-(0|[1-9]\d*)", one) for one in known - of_fleets}
        numbers = sorted(int(pod[1]) for pod in found.values() if pod)
        if not numbers:
            raise NotManaged(f"{error}; and no consumer {app}-0 of a StatefulSet is registered") from error
        return Fleet(app, "", tuple(f"{app}-{number}" for number in numbers))


def _looked(c: Coordinator, growth: Growth, actor: Actor, *, write: bool) -> Looked:
    fleet = _fleet_or_pods(c, growth.app)
    seen = measure(c, fleet)
    decision, memory = decide(growth.limits, seen, growth.memory)
    kept = replace(growth, memory=memory)
    if not write:
        return Looked(growth.app, decision, act=False)
    if decision.acted:
        _do(recording(c, "autoscale", growth.app, actor, decision.said), kept, fleet, decision, actor)
    elif fleet.application or not seen.unsure:  # the number of pods now is not the wanted number
        c.zk.transact([_put(c, kept)])
    return Looked(growth.app, decision, growth.limits.act)


def _do(c: Coordinator, kept: Growth, fleet: Fleet, decision: GrowthDecision, actor: Actor) -> None:
    """Write the step and the growth's memory in one transaction. Moves are written separately, after the memory.

    Raises `LookAgain` if the fleet has changed since the measurement.
    """
    who, version = actor.named or "autoscale", fleet.version
    if decision.kind is GrowthKind.MOVE:
        c.zk.transact([VersionCheck(c.paths.fleet(kept.app), version), _put(c, kept)])
        for move in decision.moves:
            overrides.set_pins(c, move.topic, move.taker, [move.partition], actor=actor)
        return
    left_out = _drained_by_persons(c, kept)
    # Raise a refusal before any pins are removed.
    scaling.would_scale(c, kept.app, decision.desired, version=version, left_out=left_out)
    _end_pins(c, kept, actor)
    how: dict[str, Any] = {"by": who, "why": decision.said, "beside": lambda: [_put(c, kept)], "version": version}
    if decision.desired > len(fleet.consumers):
        scaling.scale(c, kept.app, decision.desired, left_out=left_out, **how)
    else:
        scaling.drain_of(c, kept.app, decision.leaves, **how)


def _drained_by_persons(c: Coordinator, growth: Growth) -> set[str]:
    """Return the consumers that a person has drained. Only a person may end such a draining."""
    apps = {one.app for one in fleets.fleets(c)}
    ours = {DrainKind.UPGRADE: apps, DrainKind.REDEPLOYMENT: apps, DrainKind.GROWTH: {growth.app, ""}}
    asked = {consumer: one.draining for consumer, one in load_directives(c, {}).items()}
    return {
        consumer
        for consumer, one in asked.items()
        if one is not None and not one.incarnation and one.owner.fleet not in ours.get(one.owner.kind, ())
    }


def _end_pins(c: Coordinator, kept: Growth, actor: Actor) -> None:
    """Remove the pins of earlier moves if unchanged, so that the strategy distributes the partitions again.

    The last decision is left out: it is the change of size that ends the pins.
    """
    for (topic, partition), taker in own_pins(kept.memory.decisions[:-1]).items():
        try:
            config = changeable(c, topic)
        except Refused:
            continue
        if config.pins.get(partition) == taker:
            overrides.set_pins(c, topic, "", [partition], actor=actor)


# Measurements --------------------------------------------------------------------------------------------------------


def measure(c: Coordinator, fleet: Fleet, measure_s: float = MEASURE_S) -> GrowthObservation:
    """Return rates, lag and busy consumers of a fleet, computed from two answers of each consumer.

    `unsure` in the result says why the measurement does not count.
    """
    if unsure := _unsure(c, fleet):
        return _not_sure(c, fleet, unsure)
    first = _answers(c, fleet)
    began = c.clock.monotonic()
    c.clock.sleep(measure_s)
    second = _answers(c, fleet)
    seconds = c.clock.monotonic() - began
    silent = [one for one in fleet.consumers if one not in first or one not in second]
    if silent:
        return _not_sure(c, fleet, f"{silent[0]} does not answer, so its measurements are old")
    if unsure := _unsure(c, fleet):
        return _not_sure(c, fleet, unsure)
    paths = {topic: c.paths.config(topic) for one in second.values() for topic in one.topics if is_topic(topic)}
    configs = {topic: decode_config(paths[topic], node.data) for topic, node in find_many(c.zk, paths).items()}
    loads, busy = list[Load](), dict[str, float]()
    for consumer in fleet.consumers:
        mine = _loads(consumer, first[consumer], second[consumer], seconds, configs)
        if mine is None:
            return _not_sure(c, fleet, f"{consumer} does not know the lag of its partitions, or they move")
        loads += mine
        read = sum(one.read for one in mine)
        if read > 0 and sum(one.lag for one in mine) >= read * seconds:
            busy[consumer] = read
    return GrowthObservation(c.clock.now(), fleet.consumers, tuple(loads), busy)


def _not_sure(c: Coordinator, fleet: Fleet, why: str) -> GrowthObservation:
    return GrowthObservation(c.clock.now(), fleet.consumers, unsure=why)


def _unsure(c: Coordinator, fleet: Fleet) -> str:
    members = c.discovery.members()
    try:
        fleets.check_no_upgrade(fleet)
    except Refused as error:
        return str(error)
    if pending := redeployment.pending(c, fleet):
        return f"the fleet is being redeployed: {redeployment.still_run(pending)}"
    absent = [one for one in fleet.consumers if one not in members]
    if absent:
        return f"{absent[0]} is wanted and not there yet"
    if not fleet.consumers:
        return "the fleet has no consumers"
    if away := _away(c, fleet, members):
        return away
    return "" if all_stable(c) else "a rebalance is not finished"


def _away(c: Coordinator, fleet: Fleet, members: Mapping[str, Member]) -> str:
    """Return, in words, a consumer that is isolated, draining or about to restart; empty if there is none."""
    unclear: dict[str, str] = {}
    directives = load_directives(c, unclear)
    for one in fleet.consumers:
        life = Life(one, members[one].incarnation, directive=directives.get(one), now=c.clock.now())
        if one in unclear:
            return unclear[one]
        if life.isolation is not None:
            return f"{one} is isolated; readmit it, or take it out of the fleet"
        if life.restart is not None:
            return f"{one} is to restart"
        if life.draining is not None:
            return f"{one} gives its partitions away"
    return ""


def _answers(c: Coordinator, fleet: Fleet) -> dict[str, ConsumerStatus]:
    members = c.discovery.members()
    asked = [members[one] for one in fleet.consumers if one in members]
    found = c.statuses.ask(asked)
    return {
        one.consumer: answer
        for one in asked
        if isinstance(answer := found.get(one.consumer), ConsumerStatus) and answer.incarnation == one.incarnation
    }


def _loads(
    consumer: str, first: ConsumerStatus, second: ConsumerStatus, seconds: float, configs: Mapping[str, TopicConfig]
) -> list[Load] | None:
    """Return the loads of the consumer's partitions; `None` if a load is unknown, or if the partitions have changed.

    A paused partition has no load. In a frozen topic it has a load of zero, because its owner stays.
    """
    took = second.answered_s - first.answered_s if first.answered_s and second.answered_s else seconds
    if took <= 0 or first.incarnation != second.incarnation:
        return None
    found = []
    for topic, status in second.topics.items():
        before = first.topics[topic].running if topic in first.topics else {}
        if before.keys() != status.running.keys():
            return None
        config = configs.get(topic)
        for partition, now in status.running.items():
            if config is None or config.removed:
                continue
            if partition in config.paused:
                if config.frozen:
                    found.append(Load(topic, partition, consumer, 0.0, 0.0, 0.0, frozen=True))
                continue
            past = before[partition]
            if now.lag_records is None or past.lag_records is None or now.token != past.token:
                return None
            read = max(0, now.position - past.position)
            written = max(0, read + now.lag_records - past.lag_records)
            pin, lag = config.pins.get(partition, ""), float(now.lag_records)
            found.append(Load(topic, partition, consumer, written / took, lag, read / took, pin, config.frozen))
    return found


def limits_of(given: Mapping[str, Any]) -> Limits:
    """Return the limits in the parameters of a form or a command."""
    known = {name: given[name] for name in Limits.__dataclass_fields__ if given.get(name) is not None}
    return Limits(**known)
