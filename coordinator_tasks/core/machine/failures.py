"""The failures that consumers report, merged by cause, with the waiting consumers and partitions. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from coordinator_tasks.core.model import Failure
from coordinator_tasks.core.text.partition_text import counted, cut, named, shown

_MOST_NAMED = 3  # consumers
_MOST_CHARS = 100


@dataclass(frozen=True, slots=True)
class CommonFailure:
    """A cause of failures, with the waiting consumers and partitions. `why`: the error; if the sink does not answer
    (`away`), the oldest error.

    `consumers`: sorted. `partitions`: topic → waiting partitions, sorted. `for_s`: seconds since the first failed try.
    """

    why: str
    away: bool
    for_s: float
    consumers: tuple[str, ...]
    partitions: Mapping[str, tuple[int, ...]]

    @property
    def told(self) -> str:
        (topic, numbers), *others = self.partitions.items()
        if others:
            number = sum(map(len, self.partitions.values()))
            which = f"{counted(number, 'partition')} of {len(self.partitions)} topics"
        else:
            which = f"{_named(numbers)} of topic {topic}"
        return f"{self._sentence(which)}: {self.why}"

    @property
    def in_topic(self) -> str:
        """Return the sentence for display beside the topic's name. Of a sink, only `told` gives the error, once for all
        topics.
        """
        sentence = self._sentence(", ".join(map(_named, self.partitions.values())))
        return sentence if self.away else f"{sentence}: {self.why}"

    def _sentence(self, which: str) -> str:
        several = len(self.consumers) > _MOST_NAMED
        who = counted(len(self.consumers), "consumer") if several else shown(self.consumers)
        if self.away:
            return f"the sink does not answer for {self.for_s:.0f} s ({who}, {which})"
        return f"{who} cannot process {which} for {self.for_s:.0f} s"


def failures_of(
    consumer: str, topic: str, owned: Collection[int], failures: Iterable[Failure]
) -> tuple[CommonFailure, ...]:
    """Return a consumer's failures at its `owned` partitions of a topic; empty if `owned` is empty."""
    return tuple(
        CommonFailure(one.why, one.away, one.for_s, (consumer,), {topic: waiting})
        for one in failures
        if (waiting := tuple(sorted(p for p in owned if one.concerns(p))))
    )


def cause_key(one: CommonFailure | Failure) -> str | None:
    """Return the key of a cause: the text of the user's error, or `None` for every sink that does not answer."""
    return None if one.away else one.why


def by_cause(found: Iterable[CommonFailure]) -> tuple[CommonFailure, ...]:
    """Return the failures in order, with equal errors merged. All sinks that do not answer count as one cause."""
    merged: dict[str | None, CommonFailure] = {}
    for one in found:
        key = cause_key(one)
        merged[key] = _merged(merged[key], one) if key in merged else one
    return tuple(merged.values())


def _merged(one: CommonFailure, other: CommonFailure) -> CommonFailure:
    longest = max(one, other, key=lambda failure: failure.for_s)
    topics = sorted(one.partitions.keys() | other.partitions.keys())
    waiting = {
        topic: tuple(sorted({*one.partitions.get(topic, ()), *other.partitions.get(topic, ())})) for topic in topics
    }
    consumers = tuple(sorted({*one.consumers, *other.consumers}))
    return CommonFailure(longest.why, one.away, longest.for_s, consumers, waiting)


def _named(partitions: Collection[int]) -> str:
    return cut(named(partitions), _MOST_CHARS)
