"""An upgrade of a fleet: its record, and the next step by the observations. Pure.

Consumers of the new version start beside the old consumers, without partitions. Then partitions move to the new
consumers in steps. Each step is held for a time and judged. After the last step the old consumers leave. If a step
fails, everything moves back.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil
from typing import TypeAlias

from coordinator_tasks.core.model import DrainKind, DrainOwner, FleetVersion
from coordinator_tasks.core.text.partition_text import agreed, because, counted, cut, joined, named, shown

BASELINE_S = 10.0
"""Seconds before the first move in which each partition's records are counted."""
CONFIRM_S = 10.0
"""Seconds that a failure must last. If a shared dependency fails, both versions report it, but not at the same second.
"""
MAX_EVENTS = 100
_END_CHARS = 300  # characters of the reason why one consumer ended
_RATE_DIGITS = 3  # digits of a partition's rate; the record with all rates must fit into one write
ByPartition: TypeAlias = Mapping[str, Mapping[int, float]]
"""Topic → partition → number."""


class UpgradePhase(StrEnum):
    """Phases of an upgrade."""

    STARTING = "Starting"  # consumers of the new version start
    MOVING = "Moving"  # the partitions of this step move to the new consumers
    HOLDING = "Holding"  # all partitions of the step have moved, and the step is judged
    DRAINING = "Draining"  # all steps have passed; the old consumers leave
    RESTORING = "Restoring"  # back: the old consumers that have left start again
    RETURNING = "Returning"  # back: the new consumers give all partitions away and leave
    FINISHING = "Finishing"  # the splits of the topics are removed
    DONE = "Done"
    ROLLED_BACK = "RolledBack"


FOLLOWING: Mapping[UpgradePhase, frozenset[UpgradePhase]] = {
    UpgradePhase.STARTING: frozenset({UpgradePhase.MOVING, UpgradePhase.RETURNING}),
    UpgradePhase.MOVING: frozenset({UpgradePhase.HOLDING, UpgradePhase.RETURNING}),
    UpgradePhase.HOLDING: frozenset({UpgradePhase.MOVING, UpgradePhase.DRAINING, UpgradePhase.RETURNING}),
    UpgradePhase.DRAINING: frozenset({UpgradePhase.FINISHING, UpgradePhase.RESTORING}),
    UpgradePhase.RESTORING: frozenset({UpgradePhase.RETURNING}),
    UpgradePhase.RETURNING: frozenset({UpgradePhase.FINISHING}),
    UpgradePhase.FINISHING: frozenset({UpgradePhase.DONE, UpgradePhase.ROLLED_BACK}),
    UpgradePhase.DONE: frozenset(),
    UpgradePhase.ROLLED_BACK: frozenset(),
}
OVER = frozenset({UpgradePhase.DONE, UpgradePhase.ROLLED_BACK})
FORWARD = frozenset({UpgradePhase.STARTING, UpgradePhase.MOVING, UpgradePhase.HOLDING, UpgradePhase.DRAINING})
"""Phases that still allow a roll back."""
ENDURES = frozenset({UpgradePhase.STARTING, UpgradePhase.MOVING, UpgradePhase.HOLDING})
"""Phases that wait until an outage is over. Afterwards all waiting times begin again."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a step fails, judged by the moved partitions.

    `max_lag_s`: largest lag in seconds. `max_errors`: largest number of errors of new consumers. `min_rate`: least
    share of a partition's former records per second while records wait; 0 means not judged. `call`: a site's own rule.
    """

    max_lag_s: float = 60.0
    max_errors: int = 0
    min_rate: float = 0.0
    call: str = ""


@dataclass(frozen=True, slots=True)
class UpgradeEvent:
    """An event of the upgrade, as a sentence."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class UpgradeMark:
    """The positions at one time: topic → partition → the next offset to process."""

    at: float
    positions: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage of a shared dependency since `at`, described by `text`.

    `over_at`: time of the recovery; 0 while the outage lasts.
    """

    at: float
    text: str
    over_at: float = 0.0

    @property
    def waits(self) -> str:
        return f"{self.text}; that is over, and what was behind is caught up first" if self.over_at else self.text


@dataclass(frozen=True, slots=True)
class Upgrade:
    """`/upgrades/[APP]`: one upgrade of a fleet.

    - `old`, `new`: the versions. `old_consumers`, `new_consumers`: the consumers of each version.
    - `steps`: for each step, percent of each topic's partitions. `step`: the index of the present step.
    - `chosen`: topic → partitions reserved for the new consumers.
    - `hold_s`: how long a step is held. `patience_s`: time for consumers to start, and for partitions to move.
    - `mark`: positions at the start of the measurement. `baseline`: records per second before the first move.
    - `incarnations`: the new consumers' incarnations after their start, or when a person continued the upgrade.
    - `outage`: why no step begins or is judged; `None` without an outage. `suspected_at`: since when the step fails.
    - `away_at`: when, in this step, only new consumers first reported a silent sink; 0 without a report.
    - `reason`: why the upgrade moves back; empty if it does not. `paused`: why it is paused; empty if it is not.
    """

    app: str
    old: FleetVersion
    new: FleetVersion
    old_name: str
    new_name: str
    old_consumers: tuple[str, ...]
    new_consumers: tuple[str, ...]
    topics: tuple[str, ...]
    steps: tuple[int, ...]
    hold_s: float
    patience_s: float
    rule: Rule
    by: str
    why: str
    began_at: float
    since_at: float
    phase: UpgradePhase = UpgradePhase.STARTING
    step: int = 0
    chosen: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    mark: UpgradeMark | None = None
    baseline: ByPartition = field(default_factory=dict)
    incarnations: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    paused: str = ""
    events: tuple[UpgradeEvent, ...] = ()
    version: int = -1
    outage: Outage | None = None
    suspected_at: float = 0.0
    away_at: float = 0.0

    @property
    def over(self) -> bool:
        return self.phase in OVER

    @property
    def said(self) -> str:
        """Return the upgrade in words, such as `upgrade of billing to v2`."""
        return f"upgrade of {self.app} to {self.new_name}"

    @property
    def owner(self) -> DrainOwner:
        return DrainOwner(DrainKind.UPGRADE, self.app, self.new_name)

    @property
    def step_said(self) -> str:
        """Return the present step in words, such as `step 2 of 3 (50 %)`."""
        return f"step {self.step + 1} of {len(self.steps)} ({self.steps[self.step]} %)"


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """A topic now. `owners`: partition → consumer. `apart`: partitions that a person has pinned to other consumers.

    `paused`: partitions that a person has paused. `split`: the topic's configuration has this upgrade's split. `waits`:
    why the topic does not move, if known.
    """

    owners: Mapping[int, str] = field(default_factory=dict)
    stable: bool = True
    apart: frozenset[int] = frozenset()
    paused: frozenset[int] = frozenset()
    split: bool = False
    waits: str = ""


@dataclass(frozen=True, slots=True)
class UpgradeObservation:
    """What is observed now. `registered`: consumer → incarnation. `wanted`: consumers in the fleet.

    `topics`: the upgrade's topics that are managed. `positions`: as reported by the owners. `ended`: unregistered new
    consumer → why its last process ended.
    """

    now: float
    registered: Mapping[str, int]
    wanted: frozenset[str]
    topics: Mapping[str, TopicSeen]
    positions: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    ended: Mapping[str, str] = field(default_factory=dict)


def advanced(
    upgrade: Upgrade, seen: UpgradeObservation, failures: Collection[str] = (), outage: str = "", *, away: str = ""
) -> Upgrade:
    """Return the upgrade after the next step; unchanged if it has to wait.

    `failures`: how a held step breaks the rule. `outage`: a shared dependency that does not answer. `away`: a
    dependency that, by the reports of new consumers alone, does not answer. An `away` counts as an outage for
    `patience_s` of each step. Then a person decides.
    """
    if upgrade.paused or upgrade.over:
        return upgrade
    if upgrade.phase in ENDURES and away and not outage:
        began_at = upgrade.away_at if 0 < upgrade.away_at <= seen.now else seen.now
        if seen.now - began_at >= upgrade.patience_s:
            remedy = f"`continue-upgrade {upgrade.app}` waits once more, `roll-back-upgrade {upgrade.app}` goes back"
            return paused(upgrade, seen.now, f"{away}; first reported {seen.now - began_at:.0f} s ago; {remedy}")
        upgrade, outage = replace(upgrade, away_at=began_at), away
    if upgrade.phase in ENDURES and (outage or _endures(upgrade)):
        return _endured(upgrade, seen, failures, outage)
    return _STEPS[upgrade.phase](upgrade, seen, failures)


def entered(upgrade: Upgrade, phase: UpgradePhase, now: float, text: str, **changes: object) -> Upgrade:
    """Return the upgrade in another phase. Raises `ValueError` if this phase may not follow."""
    if phase not in FOLLOWING[upgrade.phase]:
        raise ValueError(f"an upgrade does not go from {upgrade.phase} to {phase}")
    outage = upgrade.outage if phase in ENDURES else None
    fresh = replace(upgrade, phase=phase, since_at=now, mark=None, outage=outage, suspected_at=0.0)
    return noted(replace(fresh, **changes), now, text)  # type: ignore[arg-type]


def noted(upgrade: Upgrade, now: float, text: str) -> Upgrade:
    """Return the upgrade with one more event."""
    return replace(upgrade, events=(*upgrade.events, UpgradeEvent(now, text))[-MAX_EVENTS:])


def back(upgrade: Upgrade, now: float, reason: str) -> Upgrade:
    """Return the upgrade on its way back, for this reason. Old consumers that are drained have to start again first."""
    text = f"everything goes back: {reason}"
    if upgrade.phase is UpgradePhase.DRAINING:
        return entered(upgrade, UpgradePhase.RESTORING, now, text, reason=reason)
    return entered(upgrade, UpgradePhase.RETURNING, now, text, reason=reason, chosen={})


def paused(upgrade: Upgrade, now: float, why: str) -> Upgrade:
    """Return the upgrade, paused until a person continues it."""
    return noted(replace(upgrade, paused=why), now, f"paused: {why}")


def continued(upgrade: Upgrade, now: float, by: str, why: str = "") -> Upgrade:
    """Return the upgrade, continued. Measurements and waiting times begin again."""
    again = replace(upgrade, paused="", since_at=now, mark=None, incarnations={})
    resumed = replace(again, outage=None, suspected_at=0.0, away_at=0.0)
    return noted(resumed, now, f"continued by {by}{because(why)}")


def more(upgrade: Upgrade, seen: UpgradeObservation, percent: int) -> dict[str, tuple[int, ...]]:
    """Return topic → partitions of the next step: of the present step, and more of the old consumers' partitions."""
    chosen = {}
    for topic, topic_seen in seen.topics.items():
        before = upgrade.chosen.get(topic, ())
        old = {p: owner for p, owner in topic_seen.owners.items() if owner in upgrade.old_consumers and p not in before}
        wanted = ceil((len(before) + len(old)) * percent / 100) - len(before)
        chosen[topic] = tuple(sorted((*before, *_evenly(topic, old, wanted))))
    return chosen


def _evenly(topic: str, owners: Mapping[int, str], count: int) -> list[int]:
    """Return `count` of these partitions, each taken from the owner that has the most partitions left."""
    left: dict[str, list[int]] = {}
    # The order depends on neither the owners nor the numbers.
    for partition in sorted(owners, key=lambda p: hashlib.sha256(f"{topic}/{p}".encode()).digest()):
        left.setdefault(owners[partition], []).append(partition)
    chosen: list[int] = []
    while len(chosen) < count and left:
        owner = max(sorted(left), key=lambda name: len(left[name]))
        chosen.append(left[owner].pop())
        if not left[owner]:
            del left[owner]
    return chosen


def rates(mark: UpgradeMark, positions: Mapping[str, Mapping[int, int]], now: float) -> dict[str, dict[int, float]]:
    """Return records per second since the mark, for partitions whose position is known then and now."""
    spent = now - mark.at
    if spent <= 0:
        return {}
    return {
        topic: {
            p: round(max(0.0, (after[p] - at) / spent), _RATE_DIGITS)
            for p, at in mark.positions.get(topic, {}).items()
            if p in after
        }
        for topic, after in positions.items()
    }


def _starting(upgrade: Upgrade, seen: UpgradeObservation, _: Collection[str]) -> Upgrade:
    if upgrade.mark is None or seen.now < upgrade.mark.at:  # measure anew if the clock has jumped back
        return replace(upgrade, mark=UpgradeMark(seen.now, seen.positions), since_at=min(upgrade.since_at, seen.now))
    missing = _missing(upgrade.new_consumers, seen)
    if missing and _late(upgrade, seen):
        ends = joined(f"{one}: {cut(seen.ended[one], _END_CHARS)}" for one in missing if one in seen.ended)
        late = f"{shown(missing)} did not start within {upgrade.patience_s:g} s"
        return back(upgrade, seen.now, f"{late}{because(ends)}")
    if missing or seen.now - upgrade.mark.at < BASELINE_S:
        return upgrade
    measured = rates(upgrade.mark, seen.positions, seen.now)
    return _moving_on(replace(upgrade, baseline=measured), seen, 0)


def _moving_on(upgrade: Upgrade, seen: UpgradeObservation, step: int) -> Upgrade:
    chosen = more(upgrade, seen, upgrade.steps[step])
    count = counted(sum(map(len, chosen.values())), "partition")
    text = f"{replace(upgrade, step=step).step_said}: {count} for {upgrade.new_name}"
    known = upgrade.incarnations or _registered(upgrade, seen)
    return entered(
        upgrade, UpgradePhase.MOVING, seen.now, text, step=step, chosen=chosen, incarnations=known, away_at=0.0
    )


def _registered(upgrade: Upgrade, seen: UpgradeObservation) -> dict[str, int]:
    return {c: i for c, i in seen.registered.items() if c in upgrade.new_consumers}


def _moving(upgrade: Upgrade, seen: UpgradeObservation, _: Collection[str]) -> Upgrade:
    away = _not_arrived(upgrade, seen)
    if not away and all(one.stable for one in seen.topics.values()):
        text = f"{upgrade.step_said}: all of them have moved, it is held for {upgrade.hold_s:g} s"
        return entered(upgrade, UpgradePhase.HOLDING, seen.now, text)
    if not _late(upgrade, seen):
        return upgrade
    unstable = {topic: one.waits or "not Stable" for topic, one in seen.topics.items() if not one.stable}
    why = joined(f"{topic}: {which}" for topic, which in (away or unstable).items())
    reason = f"{upgrade.step_said} did not move within {upgrade.patience_s:g} s: {why}"
    return back(upgrade, seen.now, reason)


def _holding(upgrade: Upgrade, seen: UpgradeObservation, failures: Collection[str]) -> Upgrade:
    if upgrade.mark is None or seen.now < upgrade.mark.at:  # measure anew if the clock has jumped back
        known = upgrade.incarnations or _registered(upgrade, seen)
        return replace(upgrade, mark=UpgradeMark(seen.now, seen.positions), since_at=seen.now, incarnations=known)
    if failures or upgrade.suspected_at:
        return _suspected(upgrade, seen, failures)
    if not all(one.stable for one in seen.topics.values()):
        return upgrade
    if away := _not_arrived(upgrade, seen):
        why = joined(f"{topic}: {which}" for topic, which in away.items())
        return entered(upgrade, UpgradePhase.MOVING, seen.now, f"{upgrade.step_said} moves again: {why}")
    if seen.now - upgrade.since_at < upgrade.hold_s:
        return upgrade
    if upgrade.step + 1 < len(upgrade.steps):
        return _moving_on(upgrade, seen, upgrade.step + 1)
    leaving = upgrade.old_consumers
    give = agreed(len(leaving), "gives the rest away and leaves", "give the rest away and leave")
    text = f"all steps have passed: {shown(leaving)} {give}"
    return entered(upgrade, UpgradePhase.DRAINING, seen.now, text)


def _suspected(upgrade: Upgrade, seen: UpgradeObservation, failures: Collection[str]) -> Upgrade:
    """Return the upgrade after judging its step. A lasting failure moves everything back; a recovery clears it."""
    if not failures:
        return replace(upgrade, suspected_at=0.0)
    if not 0 < upgrade.suspected_at <= seen.now:
        return replace(upgrade, suspected_at=seen.now)
    if seen.now - upgrade.suspected_at < CONFIRM_S:
        return upgrade
    return back(upgrade, seen.now, f"{upgrade.step_said}: {joined(failures)}")


def _endures(upgrade: Upgrade) -> bool:
    """Return whether an outage lasts, or failures may still be its effects. Effects count only while a step is held."""
    before, judges = upgrade.outage, upgrade.phase is UpgradePhase.HOLDING and upgrade.mark is not None
    return before is not None and (judges or not before.over_at)


def _endured(upgrade: Upgrade, seen: UpgradeObservation, failures: Collection[str], outage: str) -> Upgrade:
    """Return the upgrade at the begin, during or after the end of an outage.

    For `patience_s` after the end, failures may be effects of the outage.
    """
    now = seen.now
    before = upgrade.outage or Outage(now, outage, over_at=now)
    if outage:
        if not before.over_at:
            return upgrade
        held = replace(upgrade, outage=Outage(before.at, outage), suspected_at=0.0)
        return noted(held, now, f"no step begins, and none is judged: {outage}")
    # The restart of a consumer during the outage is no error.
    known = _registered(upgrade, seen) if upgrade.incarnations else {}
    again = replace(upgrade, since_at=now, mark=UpgradeMark(now, seen.positions), incarnations=known)
    if not before.over_at:
        over = replace(again, outage=replace(before, over_at=now))
        return noted(
            over, now, f"goes on after {now - before.at:.0f} s, and all times begin again: what was away is back"
        )
    if failures and 0 <= now - before.over_at < upgrade.patience_s:
        return upgrade
    return noted(replace(again, outage=None), now, f"{upgrade.step_said}: it is held for {upgrade.hold_s:g} s")


def _leaving(upgrade: Upgrade, seen: UpgradeObservation, _: Collection[str]) -> Upgrade:
    """Return the upgrade once no leaving consumer is registered or owns partitions, and every topic is Stable."""
    leaving = upgrade.old_consumers if upgrade.phase is UpgradePhase.DRAINING else upgrade.new_consumers
    owning = {owner for topic in seen.topics.values() for owner in topic.owners.values()}
    still = (owning | seen.registered.keys()) & set(leaving)
    if still or not all(topic.stable for topic in seen.topics.values()):
        return upgrade
    text = f"{shown(leaving)} {agreed(len(leaving), 'has', 'have')} left"
    return entered(upgrade, UpgradePhase.FINISHING, seen.now, text)


def _restoring(upgrade: Upgrade, seen: UpgradeObservation, _: Collection[str]) -> Upgrade:
    missing = _missing(upgrade.old_consumers, seen)
    if missing and not _late(upgrade, seen):
        return upgrade
    lacking = f"; {shown(missing)} did not start" if missing else ""
    give = agreed(len(upgrade.new_consumers), "gives everything away and leaves", "give everything away and leave")
    text = f"{shown(upgrade.new_consumers)} {give}{lacking}"
    return entered(upgrade, UpgradePhase.RETURNING, seen.now, text, chosen={})


def _finishing(upgrade: Upgrade, seen: UpgradeObservation, _: Collection[str]) -> Upgrade:
    if any(one.split for one in seen.topics.values()):
        return upgrade
    if upgrade.reason:
        return entered(upgrade, UpgradePhase.ROLLED_BACK, seen.now, f"{upgrade.app} runs {upgrade.old_name} as before")
    return entered(upgrade, UpgradePhase.DONE, seen.now, f"{upgrade.app} runs {upgrade.new_name}")


_STEPS: Mapping[UpgradePhase, Callable[[Upgrade, UpgradeObservation, Collection[str]], Upgrade]] = {
    UpgradePhase.STARTING: _starting,
    UpgradePhase.MOVING: _moving,
    UpgradePhase.HOLDING: _holding,
    UpgradePhase.DRAINING: _leaving,
    UpgradePhase.RESTORING: _restoring,
    UpgradePhase.RETURNING: _leaving,
    UpgradePhase.FINISHING: _finishing,
}


def _missing(consumers: Collection[str], seen: UpgradeObservation) -> list[str]:
    """Return those of the consumers that are in the fleet but not registered. A person may have drained the others."""
    return [consumer for consumer in consumers if consumer in seen.wanted and consumer not in seen.registered]


def _late(upgrade: Upgrade, seen: UpgradeObservation) -> bool:
    return seen.now - upgrade.since_at >= upgrade.patience_s


def _not_arrived(upgrade: Upgrade, seen: UpgradeObservation) -> dict[str, str]:
    """Return, in words, topic → the chosen partitions that no new consumer owns."""
    waiting = {}
    for topic, topic_seen in seen.topics.items():
        away = [
            p
            for p in upgrade.chosen.get(topic, ())
            if topic_seen.owners.get(p) not in upgrade.new_consumers and p not in topic_seen.apart
        ]
        if away:
            waiting[topic] = f"{named(away)} {agreed(len(away), 'is', 'are')} with others{because(topic_seen.waits)}"
    return waiting
