"""Weights of partitions and loads of consumers, from the answers of the consumers' interfaces."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from coordinator_tasks.core.model import Answer, ConsumerStatus, RunningPartition, running_in

PARAMETER = "measure"
"""The parameter that names the measure of weights, for built-in strategies and strategies of a site."""
_DIGITS = 6  # more digits would depend on the order of a sum


class Measure(StrEnum):
    """Measures of a partition's weight."""

    PARTITIONS = "partitions"  # every partition weighs the same
    LAG = "lag"  # records from the processed offset to the log's end
    RECORDS = "records"  # records written per second
    BYTES = "bytes"  # bytes of keys, values and headers written per second

    @property
    def unit(self) -> str:
        return _UNITS[self]


_UNITS = {
    Measure.PARTITIONS: "partitions",
    Measure.LAG: "records of lag",
    Measure.RECORDS: "records/s",
    Measure.BYTES: "bytes/s",
}


@dataclass(frozen=True, slots=True)
class Totals:
    """A consumer's totals over all topics in each measure; partitions with an unknown value do not count."""

    lag: float = 0.0
    records: float = 0.0
    bytes: float = 0.0

    def of(self, measure: Measure) -> float:
        return {Measure.LAG: self.lag, Measure.BYTES: self.bytes}.get(measure, self.records)


@dataclass(frozen=True, slots=True)
class Weights:
    """Partition → weight, and consumer → the weight of its partitions of other topics."""

    partitions: Mapping[int, float]
    carried: Mapping[str, float]


def totals(answers: Mapping[str, Answer], paused: Mapping[str, Collection[int]]) -> dict[str, Totals]:
    """Return consumer → totals, for consumers that answer. `paused`: topic → partitions whose lag does not count."""
    found = {}
    for consumer, answer in answers.items():
        if isinstance(answer, ConsumerStatus):
            running = [one for said in answer.topics.values() for one in said.running.values()]
            read = [
                one
                for topic, said in answer.topics.items()
                for partition, one in said.running.items()
                if partition not in paused.get(topic, ())
            ]
            found[consumer] = Totals(
                fsum(one.lag_records or 0 for one in read),
                fsum(one.rate or 0 for one in running),
                fsum(one.rate * one.record_bytes for one in running if one.rate and one.record_bytes),
            )
    return found


def measured(
    topic: str,
    measure: Measure,
    partitions: Collection[int],
    owned: Mapping[int, str],
    answers: Mapping[str, Answer],
    totals: Mapping[str, Totals],
    loads: Mapping[str, int],
    *,
    paused: Collection[int] = (),
) -> Weights:
    """Return the weights of a topic's partitions. If several consumers run a partition, the owner's answer counts.

    The lag of `paused` partitions has no weight.

    If no weight is known, each partition weighs as much as the average partition of other topics. Otherwise the
    partitions would weigh nothing beside real loads, and all would go to the same consumer.
    """
    if measure is Measure.PARTITIONS:
        return Weights({}, {consumer: float(count) for consumer, count in loads.items()})
    weights: dict[int, float] = {}
    carried = {consumer: one.of(measure) for consumer, one in totals.items()}
    for consumer, answer in sorted(answers.items()):
        for partition, one in running_in(answer, topic).items():
            value = _value(one, measure, read=partition not in paused)
            if value is not None:
                carried[consumer] = carried.get(consumer, 0.0) - value
                if partition not in weights or owned.get(partition) == consumer:
                    weights[partition] = value
    carried = {consumer: max(0.0, round(one, _DIGITS)) for consumer, one in carried.items()}
    others = sum(loads.values())
    if not weights and others:
        weights = dict.fromkeys(partitions, sum(carried.values()) / others)
    return Weights(weights, carried)


def _value(one: RunningPartition, measure: Measure, *, read: bool) -> float | None:
    """Return the weight; `None` if unknown, or if the measure is lag and the partition is not read."""
    if measure is Measure.LAG:
        return one.lag_records if read else None
    if measure is Measure.RECORDS or one.rate == 0:  # nothing is written, so the size of records does not matter
        return one.rate
    return one.rate * one.record_bytes if one.rate is not None and one.record_bytes is not None else None
