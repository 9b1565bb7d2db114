"""When the application is told of its partitions, and what its answer changes. Pure; one telling at a time.

A holding is told before it begins, and told its end once its last batch has passed the sink: its last commit, its close
and its release come after that.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_apps.agent.ownership.held import Held, Listened
from spark_apps.agent.ownership.phases import Event, Phase


class Happening(StrEnum):
    """By the names of Kafka's `ConsumerRebalanceListener`."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Telling:
    """What is to be told now: partition → offset. None of these holdings ends before it has been answered."""

    happening: Happening
    offsets: Mapping[int, int]


def next_telling(held: Mapping[int, Held], isolated: bool) -> Telling | None:
    """The next thing to tell, if any. Ends go before beginnings, as in Kafka."""
    parting = {p: h for p, h in held.items() if h.parting and not h.pending}
    lost = {p: h for p, h in parting.items() if h.fenced or isolated}
    revoked = {p: h for p, h in parting.items() if p not in lost}
    coming = {p: h for p, h in held.items() if h.phase is Phase.ASSIGNING and not h.closing}
    for happening, found in ((Happening.LOST, lost), (Happening.REVOKED, revoked), (Happening.ASSIGNED, coming)):
        if found:
            for one in found.values():
                one.listened = Listened.ASSIGNED
            return Telling(happening, {p: h.passed for p, h in sorted(found.items())})
    return None


def take_answer(
    held: Mapping[int, Held], telling: Telling, wanted: Mapping[int, int], adjustable: bool
) -> Iterable[str]:
    """The application has been told; `wanted` are the offsets at which it wants partitions to begin instead.

    Returns a sentence for each that is left out.
    """
    for partition in telling.offsets:
        one = held[partition]
        if telling.happening is not Happening.ASSIGNED:
            one.listened = Listened.ALL
        elif one.phase is Phase.ASSIGNING and not one.closing:
            one.advance(Event.TOLD)
            offset = wanted.get(partition, one.position)
            if offset != one.position and _is_offset(offset) and adjustable:
                one.position = one.passed = offset
                one.settled = True
            elif offset != one.position:
                yield _left_out(partition, offset, adjustable)
    for partition in sorted(wanted.keys() - telling.offsets.keys(), key=str):
        yield f"the listener gave an offset for partition {partition!r}, of which it was not told: left out"


def _is_offset(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def _left_out(partition: int, offset: object, adjustable: bool) -> str:
    why = "is no offset" if adjustable else "would leave out or double rows: the sink's position counts"
    return f"partition {partition}: the listener's start {offset!r} {why}; left out"
