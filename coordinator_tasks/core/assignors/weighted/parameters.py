"""The parameters of `weighted`: texts as they stand in a topic's configuration, read strictly.

Lists are written `what: value; what: value`, sets of partitions `0-3,7` or `*`. Every error is a `Refused` of one line that
names the parameter, what is wrong with it and what it may be.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.assignors.weights import Measure
from coordinator_tasks.core.errors import Refused

MAX_PARTITION = 1_000_000  # of a range that somebody writes: `0-99999999999` would fill the memory


class Zones(StrEnum):
    """How the racks of members and replicas count."""

    OFF = "off"
    PREFER = "prefer"  # a partition goes to a member in a rack of its replicas if that one is not overloaded by it
    REQUIRE = "require"  # it goes nowhere else while any member is in a rack of its replicas


@dataclass(frozen=True, slots=True)
class Rules:
    """The parameters as values. Shares are fractions of the level: the load per capacity if all were spread evenly.

    - `tolerance`: nobody is relieved who is not above the level by more than this.
    - `hysteresis`: nobody is relieved at all until somebody is above the tolerance by more than this.
    - `min_gain`: a member is relieved by at least this, and each move's taker stays this far below what its giver had.
    - `floor`: a member with less than this is given something, if that can be done without harm.
    - `max_moves`: of partitions that have an owner, in one plan; `None` = as many as needed.
    - `most`, `most_of`: partitions of all topics that a member may have, in general and by member.
    - `bans`: member → the partitions that it never gets; `None` = none at all.
    - `weights`: partition → its weight by a person, in place of what was measured.
    - `each`: weight that every partition has beside the measured one, so that idle ones are spread as well.
    - `interval_s`: how long the topic has to have been Stable before a changed load alone is a reason to move something.
    """

    measure: Measure = Measure.RECORDS
    tolerance: float = 0.05
    hysteresis: float = 0.05
    min_gain: float = 0.02
    floor: float = 0.5
    max_moves: int | None = None
    most: int | None = None
    most_of: Mapping[str, int] = field(default_factory=dict)
    zones: Zones = Zones.PREFER
    bans: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    each: float = 1.0
    interval_s: float = 300.0

    def limit_of(self, member: str) -> float:
        """How many partitions of all topics the member may have."""
        limit = self.most_of.get(member, self.most)
        return math.inf if limit is None else limit

    def bars(self, member: str, partition: int) -> bool:
        """Whether the member is banned from the partition."""
        banned = self.bans.get(member, frozenset())
        return banned is None or partition in banned


def rules_of(parameters: Mapping[str, str]) -> Rules:
    """Read the parameters; raises `Refused`."""
    unknown = sorted(parameters.keys() - _READERS.keys())
    if unknown:
        raise Refused(
            f"strategy 'weighted' has no parameter {unknown[0]!r}; the known ones are {', '.join(sorted(_READERS))}"
        )
    values: dict[str, object] = {}
    for name, text in sorted(parameters.items()):
        values |= _READERS[name](name, text)
    return Rules(**values)  # type: ignore[arg-type]


def _bad(name: str, text: str, rule: str) -> Refused:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return Refused(f"parameter {name!r} of strategy 'weighted' is {shown!r}: it has to be {rule}")


def _real(name: str, text: str, most: float, rule: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        raise _bad(name, text, rule)
    return value


def _share(name: str, text: str) -> dict[str, object]:
    return {name.replace(".", "_"): _real(name, text, 1.0, "a share from 0 to 1, such as 0.05")}


def _each(name: str, text: str) -> dict[str, object]:
    return {"each": _real(name, text, 1e15, "a weight from 0 on")}


def _interval(name: str, text: str) -> dict[str, object]:
    return {"interval_s": _real(name, text, 1e9, "seconds from 0 on")}


def _count(name: str, text: str, given: str = "") -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise _bad(name, given or text, "a whole number from 0 on")
    return int(text)


def _max_moves(name: str, text: str) -> dict[str, object]:
    return {"max_moves": _count(name, text.strip())}


def _most(name: str, text: str) -> dict[str, object]:
    general: int | None = None
    by_member: dict[str, int] = {}
    for one in _parts(text):
        member, colon, count = one.rpartition(":")
        if colon:
            by_member[member.strip()] = _count(name, count.strip(), text)
        else:
            general = _count(name, one, text)
    return {"most": general, "most_of": by_member}


def _measure(name: str, text: str) -> dict[str, object]:
    try:
        return {"measure": Measure(text.strip())}
    except ValueError:
        raise _bad(name, text, f"one of {', '.join(Measure)}") from None


def _zones(name: str, text: str) -> dict[str, object]:
    try:
        return {"zones": Zones(text.strip())}
    except ValueError:
        raise _bad(name, text, f"one of {', '.join(Zones)}") from None


def _bans(name: str, text: str) -> dict[str, object]:
    found: dict[str, frozenset[int] | None] = {}
    for member, listed in _pairs(name, text, "consumer: partitions, such as 'consumer-a: 0-3,7; consumer-b: *'"):
        before = found.get(member, frozenset())
        more = None if listed == "*" else frozenset(_partitions(name, listed, text))
        found[member] = None if before is None or more is None else before | more
    return {"bans": found}


def _weights(name: str, text: str) -> dict[str, object]:
    found: dict[int, float] = {}
    for listed, weight in _pairs(name, text, "partitions: weight, such as '0-3,7: 500; 8: 20'"):
        value = _real(name, weight, 1e15, "partitions: weight from 0 on")
        found |= dict.fromkeys(_partitions(name, listed, text), value)
    return {"weights": found}


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


_READERS = {
    "measure": _measure,
    "tolerance": _share,
    "hysteresis": _share,
    "min.gain": _share,
    "floor": _share,
    "max.moves": _max_moves,
    "max.partitions": _most,
    "zones": _zones,
    "bans": _bans,
    "weights": _weights,
    "partition.weight": _each,
    "interval.s": _interval,
}
