"""Partition numbers in a few characters, such as `0-3,7`, and other parts of sentences. Pure."""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

from coordinator_tasks.core.grouped import grouped

_SHOWN = 10  # maximum names in a sentence
MAX_PARTITIONS = 1_000_000  # a larger range, given by mistake, would fill the memory


def ranges(partitions: Iterable[int]) -> str:
    """Return `0-3,7` for 0, 1, 2, 3, 7."""
    found: list[list[int]] = []
    for one in sorted(partitions):
        if found and one == found[-1][1] + 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def named(partitions: Collection[int]) -> str:
    """Return `partition 7` or `partitions 0-3,7`."""
    return f"{noun(partitions)} {ranges(partitions)}"


def leaderless(topic: str, partitions: Collection[int]) -> str:
    """Return why the offsets of these partitions are unknown, and the remedy. The caller may append another remedy."""
    has = agreed(len(partitions), "has", "have")
    return f"{named(partitions)} of topic {topic!r} {has} no leader; check Kafka's brokers"


def by_reason(partitions: Mapping[int, str]) -> list[tuple[str, str]]:
    """Return pairs of a reason and the partitions with this reason, such as `partitions 0-3,7`."""
    found = grouped((reason, partition) for partition, reason in partitions.items())
    return [(reason, named(which)) for reason, which in found.items()]


def noun(partitions: Collection[int]) -> str:
    """Return `partition` for a single partition, else `partitions`."""
    return "partition" if len(partitions) == 1 else "partitions"


def counted(number: int, what: str) -> str:
    """Return `1 partition` or `4 partitions`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def agreed(number: int, one: str, several: str) -> str:
    """Return the form of a word for this number: `agreed(1, "starts", "start")`."""
    return one if number == 1 else several


def shown(names: Iterable[object]) -> str:
    """Return names for a sentence, cut after ten: `a, b and 9,950 more`; empty without names."""
    listed = list(names)
    text = ", ".join(str(name) for name in listed[:_SHOWN])
    return text if len(listed) <= _SHOWN else f"{text} and {len(listed) - _SHOWN:,} more"


def first(sentences: Iterable[str]) -> tuple[str, ...]:
    """Return the first ten sentences. If there are more, the last text has their number."""
    listed = tuple(sentences)
    return listed if len(listed) <= _SHOWN else (*listed[:_SHOWN], f"and {len(listed) - _SHOWN:,} more")


def joined(sentences: Iterable[str]) -> str:
    """Join sentences, cut after ten. Empty sentences are left out."""
    return "; ".join(first(filter(None, sentences)))


def because(why: str) -> str:
    """Return a reason as the end of a sentence."""
    return f": {why}" if why else ""


def duration(seconds: float) -> str:
    """Return a duration such as `90 s` or `30 min`."""
    return f"{seconds / 60:g} min" if seconds % 60 == 0 else f"{seconds:g} s"


def moment(at: float) -> str:
    """Return a time such as `2026-11-21 08:15:30 UTC`."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def numbers(text: str, most: int | None = None) -> tuple[int, ...]:
    """Return the partitions in a text written by `ranges`, ascending. Raises `ValueError`, also beyond `most`."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        begin = int(first)
        end = int(last) if dash else begin
        if not (found[-1] if found else -1) < begin <= end <= begin + MAX_PARTITIONS:
            raise ValueError(f"{part!r} is no range of partitions")
        if most is not None and len(found) + end - begin >= most:
            raise ValueError(f"it names more than {most} partitions")
        found += range(begin, end + 1)
    return tuple(found)


def cut(text: str, most: int) -> str:
    """Return the text in at most `most` characters. A longer text is cut and ends in three dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."
