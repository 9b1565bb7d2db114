"""The parameters of `weighted`, read strictly from the texts of a topic's configuration.

A list is written `what: value; what: value`, a set of partitions `0-3,7` or `*`. Every error is a `Refused` of one line
with the parameter, the problem and the allowed values.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from coordinator_tasks.core.assignors.weights import Measure
from coordinator_tasks.core.errors import BadStrategy, Refused
from coordinator_tasks.core.text.partition_text import cut

MAX_PARTITION = 1_000_000  # a larger range, such as `0-99999999999`, would fill the memory
Reader: TypeAlias = Callable[[str, str], object]
"""Converts name and text of a parameter to its value. Raises `BadStrategy`."""


class Zones(StrEnum):
    """How the racks of members and replicas count."""

    OFF = "off"
    PREFER = "prefer"  # a partition goes to a member on a rack of its replicas, unless the member would be overloaded
    REQUIRE = "require"  # a partition goes to a member on a rack of its replicas, if there is any


@dataclass(frozen=True, slots=True)
class Rules:
    """The parameters as values. Shares are fractions of the level: the load per capacity if all were even.

    - `tolerance`: a member is relieved only if its load exceeds the level by more than this share.
    - `hysteresis`: no member is relieved until a load exceeds the tolerance by more than this share.
    - `min_gain`: relief must lower a member's load by at least this share. Each taker stays at least this share below
      the giver's former load.
    - `floor`: a member with less than this share gets partitions, if no other member is harmed.
    - `max_moves`: maximum moves of owned partitions in one plan; `None` means no limit.
    - `most`: member → maximum partitions of all topics; the key `None` means all other members.
    - `bans`: member → the partitions that it never gets; `None` means all partitions.
    - `weights`: partition → a person's weight, used in place of the measured weight.
    - `each`: a weight added to every partition's measured weight, so that idle partitions are spread too.
    - `interval_s`: how long the topic must be Stable before a changed load alone moves partitions.
    """

    measure: Measure = Measure.RECORDS
    tolerance: float = 0.05
    hysteresis: float = 0.05
    min_gain: float = 0.02
    floor: float = 0.5
    max_moves: int | None = None
    most: Mapping[str | None, int] = field(default_factory=dict)
    zones: Zones = Zones.PREFER
    bans: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    each: float = 1.0
    interval_s: float = 300.0

    def limit_of(self, member: str) -> float:
        return self.most.get(member, self.most.get(None, math.inf))

    def bars(self, member: str, partition: int) -> bool:
        banned = self.bans.get(member, frozenset())
        return banned is None or partition in banned


def rules_of(parameters: Mapping[str, str]) -> Rules:
    """Read the parameters; raises `BadStrategy`."""
    unknown = sorted(parameters.keys() - _READERS.keys())
    if unknown:
        raise BadStrategy(
            f"strategy 'weighted' has no parameter {unknown[0]!r}; the known ones are {', '.join(sorted(_READERS))}"
        )
    values: dict[str, object] = {}
    for name, text in sorted(parameters.items()):
        attribute, read = _READERS[name]
        values[attribute] = read(name, text)
    return Rules(**values)  # type: ignore[arg-type]


def _bad(name: str, text: str, rule: str) -> Refused:
    return BadStrategy(f"parameter {name!r} of strategy 'weighted' is {cut(text, 60)!r}: it has to be {rule}")


def _real(most: float, rule: str) -> Callable[[str, str], float]:
    def read(name: str, text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= most:
            raise _bad(name, text, rule)
        return value

    return read


def _choice(kind: type[Measure] | type[Zones]) -> Reader:
    def read(name: str, text: str) -> Measure | Zones:
        try:
            return kind(text.strip())
        except ValueError:
            raise _bad(name, text, f"one of {', '.join(kind)}") from None

    return read


def _count(name: str, text: str, given: str = "") -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise _bad(name, given or text, "a whole number from 0 on")
    return int(text)


def _most(name: str, text: str) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for one in _parts(text):
        member, colon, count = one.rpartition(":")
        found[member.strip() if colon else None] = _count(name, count.strip() if colon else one, text)
    return found


def _bans(name: str, text: str) -> dict[str, frozenset[int] | None]:
    found: dict[str, frozenset[int] | None] = {}
    for member, listed in _pairs(name, text, "consumer: partitions, such as 'consumer-a: 0-3,7; consumer-b: *'"):
        before = found.get(member, frozenset())
        more = None if listed == "*" else frozenset(_partitions(name, listed, text))
        found[member] = None if before is None or more is None else before | more
    return found


def _weights(name: str, text: str) -> dict[int, float]:
    found: dict[int, float] = {}
    read = _real(1e15, "partitions: weight from 0 on")
    for listed, weight in _pairs(name, text, "partitions: weight, such as '0-3,7: 500; 8: 20'"):
        found |= dict.fromkeys(_partitions(name, listed, text), read(name, weight))
    return found


def _parts(text: str) -> list[str]:
    return [one.strip() for one in text.split(";") if one.strip()]


def _pairs(name: str, text: str, rule: str) -> Iterator[tuple[str, str]]:
    for one in _parts(text):
        left, colon, right = one.rpartition(":")
        if not colon or not left.strip() or not right.strip():
            raise _bad(name, text, rule)
        yield left.strip(), right.strip()


def _partitions(name: str, listed: str, text: str) -> Iterator[int]:
    for one in listed.split(","):
        first, dash, last = one.strip().partition("-")
        begin = _count(name, first.strip(), text)
        end = _count(name, last.strip(), text) if dash else begin
        if end < begin or end > MAX_PARTITION:
            raise _bad(name, text, f"partitions such as 0-3,7, up to {MAX_PARTITION}")
        yield from range(begin, end + 1)


_SHARE = _real(1.0, "a share from 0 to 1, such as 0.05")
_READERS: Mapping[str, tuple[str, Reader]] = {
    "measure": ("measure", _choice(Measure)),
    "tolerance": ("tolerance", _SHARE),
    "hysteresis": ("hysteresis", _SHARE),
    "min.gain": ("min_gain", _SHARE),
    "floor": ("floor", _SHARE),
    "max.moves": ("max_moves", lambda name, text: _count(name, text.strip())),
    "max.partitions": ("most", _most),
    "zones": ("zones", _choice(Zones)),
    "bans": ("bans", _bans),
    "weights": ("weights", _weights),
    "partition.weight": ("each", _real(1e15, "a weight from 0 on")),
    "interval.s": ("interval_s", _real(1e9, "seconds from 0 on")),
}
"""Parameter → the attribute of `Rules`, and the reader."""
