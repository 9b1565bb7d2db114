"""The judgement of an upgrade's step: facts about its partitions, and the built-in rule. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from coordinator_tasks.core.fleet.upgrade import Upgrade, UpgradeObservation, rates
from coordinator_tasks.core.model import (
    Answer,
    Condition,
    ConsumerStatus,
    RunningPartition,
    TopicStatus,
    running_in,
    topic_status,
)
from coordinator_tasks.core.text.partition_text import counted, joined, shown

LEAST_RATE = 0.1
"""Records per second. If the former rate was lower, the rate is not judged."""
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A moved partition that is not paused. `None` means unknown.

    `rate`: records processed per second since the hold began. `before`: records per second before the first move.
    `lag_s`: seconds to read the waiting records at the largest of three rates: `rate`, `before` and the rate of writes.
    """

    consumer: str
    lag_records: int | None = None
    lag_s: float | None = None
    rate: float | None = None
    before: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of a rule. `partitions`: topic → partition → its facts. `errors`: sentences of new consumers.

    `held_s`: how long the step has been held. `ends`: the holding time is over.
    """

    app: str
    version: str
    percent: int
    held_s: float
    ends: bool
    partitions: Mapping[str, Mapping[int, PartitionFacts]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


SiteRule: TypeAlias = Callable[[Facts], str]
"""A site's own rule. Returns in one line why the step fails, or an empty text. Raises `BadRule` if it cannot decide."""


def facts_of(upgrade: Upgrade, seen: UpgradeObservation, answers: Mapping[str, Answer]) -> Facts:
    """Return the facts of the present step, from the consumers' own answers."""
    now = rates(upgrade.mark, seen.positions, seen.now) if upgrade.mark is not None else {}
    found: dict[str, dict[int, PartitionFacts]] = {}
    for topic, one in seen.topics.items():
        found[topic] = {}
        for partition in upgrade.chosen.get(topic, ()):
            owner = one.owners.get(partition, "")
            if owner in upgrade.new_consumers and partition not in one.paused:
                rate = now.get(topic, {}).get(partition)
                before = upgrade.baseline.get(topic, {}).get(partition)
                running = running_in(answers.get(owner), topic).get(partition)
                found[topic][partition] = _facts(owner, running, rate, before)
    held_s = max(0.0, seen.now - upgrade.since_at)
    errors = tuple(_errors(upgrade, seen, answers))
    ends = held_s >= upgrade.hold_s
    return Facts(upgrade.app, upgrade.new_name, upgrade.steps[upgrade.step], held_s, ends, found, errors)


def failures(upgrade: Upgrade, facts: Facts) -> tuple[str, ...]:
    """Return, in sentences, how the built-in rule is broken; empty if not. Rates are judged when the hold ends."""
    rule, reasons = upgrade.rule, []
    if len(facts.errors) > rule.max_errors:
        allowed = f", and {counted(rule.max_errors, 'error')} may be" if rule.max_errors else ""
        reasons.append(f"{counted(len(facts.errors), 'error')}{allowed}: {joined(facts.errors)}")
    every = [(topic, p, one) for topic, each in facts.partitions.items() for p, one in sorted(each.items())]
    late = [f"{topic}/{p} {one.lag_s:.0f} s" for topic, p, one in every if (one.lag_s or 0.0) > rule.max_lag_s]
    if late:
        reasons.append(f"a lag of more than {rule.max_lag_s:g} s: {shown(late)}")
    slow = [f"{topic}/{p} {fall}" for topic, p, one in every if facts.ends and (fall := _fall(one, rule.min_rate))]
    if slow:
        reasons.append(f"less than {rule.min_rate:.0%} of the records per second before: {shown(slow)}")
    return tuple(reasons)


def _fall(one: PartitionFacts, share: float) -> str:
    """Return both rates if the partition is slow. If no records wait, the producers set the rate, so it is not slow."""
    if one.rate is None or one.before is None or one.lag_records == 0 or one.before < LEAST_RATE:
        return ""
    return f"{one.rate:.1f} after {one.before:.1f} records/s" if one.rate < share * one.before else ""


def _facts(consumer: str, said: RunningPartition | None, rate: float | None, before: float | None) -> PartitionFacts:
    lag = said.lag_records if said is not None else None
    if said is None or lag is None:
        return PartitionFacts(consumer, lag, None, rate, before)
    speed = max(said.rate or 0.0, rate or 0.0, before or 0.0)  # a rate may be low when its measurement has just begun
    lag_s = 0.0 if not lag else lag / speed if speed > 0 else inf if rate is not None else None
    return PartitionFacts(consumer, lag, lag_s, rate, before)


def shared(upgrade: Upgrade, answers: Mapping[str, Answer]) -> tuple[str, ...]:
    """Return the errors that both new and old consumers report. Their cause is a shared dependency, not a version."""
    known = _of_old(upgrade, answers)
    reports = [(c, text) for c in upgrade.new_consumers for text in _told(answers.get(c), upgrade.topics)]
    return tuple(f"{c}: {text}" for c, text in reports if _alike(text) in known)


def sinks_away(upgrade: Upgrade, answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yield the new consumers' reports of sinks that do not answer."""
    for consumer in upgrade.new_consumers:
        for topic, status in _topics(answers.get(consumer), upgrade.topics):
            yield from (f"{consumer}: {topic}: {one.why}" for one in status.failures if one.away)


def runs_any(answer: Answer | None, topics: Sequence[str]) -> bool:
    """Return whether the consumer reports running partitions of these topics."""
    return any(status.running for _, status in _topics(answer, topics))


def _topics(answer: Answer | None, topics: Sequence[str]) -> Iterator[tuple[str, TopicStatus]]:
    """Yield the consumer's status of each of these topics."""
    yield from ((topic, status) for topic in topics if (status := topic_status(answer, topic)) is not None)


def _of_old(upgrade: Upgrade, answers: Mapping[str, Answer]) -> set[str]:
    return {_alike(text) for c in upgrade.old_consumers for text in _told(answers.get(c), upgrade.topics)}


def _alike(text: str) -> str:
    """Return the sentence without partitions, offsets and times, for comparison."""
    return _NUMBER.sub("#", text)


def _errors(upgrade: Upgrade, seen: UpgradeObservation, answers: Mapping[str, Answer]) -> Iterator[str]:
    """Yield the errors of the new consumers in the fleet. A new consumer outside the fleet was drained by a person.

    A restart since the hold began counts as an error. An error that an old consumer reports too does not count.
    """
    known = _of_old(upgrade, answers)
    for consumer in (one for one in upgrade.new_consumers if one in seen.wanted):
        answer = answers.get(consumer)
        if consumer not in seen.registered:
            yield f"{consumer} is not registered"
        elif seen.registered[consumer] != upgrade.incarnations.get(consumer, seen.registered[consumer]):
            yield f"{consumer} was started again"
        elif not isinstance(answer, ConsumerStatus):
            yield f"{consumer} does not answer"
        else:
            yield from (f"{consumer}: {text}" for text in _told(answer, upgrade.topics) if _alike(text) not in known)


def _told(answer: Answer | None, topics: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(answer, ConsumerStatus):
        return
    if answer.condition is not Condition.OK:
        yield f"its health is {answer.health}"
    yield from answer.reports
    for topic, said in _topics(answer, topics):
        if not said.query_alive:
            yield f"the query of {topic} does not run"
        yield from (f"{topic}: {text}" for text in said.reports)
