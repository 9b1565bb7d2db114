"""Calls of the application's listener, one at a time, and the effect of the answers.

The listener is called before a partition begins, and when a partition ends: after the last batch has passed the sink,
and before the last commit, the close and the release.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.core.text.json_fields import MAX_NUMBER
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.owned_partition import Listened, OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.reports import Reports


class Happening(StrEnum):
    """The listener's calls, named after Kafka's `ConsumerRebalanceListener`."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Telling:
    """A due call, with partition → offset. The partitions neither begin nor end before the answer."""

    happening: Happening
    offsets: Mapping[int, int]


class Listening:
    """The due calls of a topic's listener, and the answers."""

    def __init__(self, holdings: Holdings, grants: Grants, reports: Reports) -> None:
        self._holdings = holdings
        self._grants = grants
        self._reports = reports

    def telling(self) -> Telling | None:
        """Return the due call. Answer the call with `told` before asking for the next."""
        telling = next_telling(self._holdings.held, self._grants.isolated)
        for partition in telling.offsets if telling is not None else ():
            self._holdings.held[partition].listened = Listened.ASSIGNED
        return telling

    def told(self, telling: Telling, wanted: Mapping[int, int]) -> None:
        """Take the answer of a call. `wanted`: partition → the offset that the application wants as its start."""
        held = self._holdings.held
        starts, left_out = starts_after(held, telling, wanted, adjustable=not self._holdings.terms.claims)
        for partition, start in starts.items():
            held[partition].told(start)
        if telling.happening is not Happening.ASSIGNED:
            for partition in telling.offsets:
                held[partition].listened = Listened.ALL
        for sentence in left_out:
            self._reports.add("listener", sentence)
        self._grants.apply()


def next_telling(held: Mapping[int, OwnedPartition], isolated: bool) -> Telling | None:
    """Return the next due call, if any. Ends come before beginnings, as in Kafka."""
    parting = {p: h for p, h in held.items() if h.parting and not h.pending}
    lost = {p: h for p, h in parting.items() if h.fenced or isolated}
    revoked = {p: h for p, h in parting.items() if p not in lost}
    coming = {p: h for p, h in held.items() if h.phase is Phase.ASSIGNING and not h.closing}
    for happening, found in ((Happening.LOST, lost), (Happening.REVOKED, revoked), (Happening.ASSIGNED, coming)):
        if found:
            return Telling(happening, {p: h.passed for p, h in sorted(found.items())})
    return None


def starts_after(
    held: Mapping[int, OwnedPartition], telling: Telling, wanted: Mapping[int, int], adjustable: bool
) -> tuple[dict[int, int | None], list[str]]:
    """Return the partitions that may begin after the answer `wanted`, and a sentence for each ignored offset.

    Partition → offset at which the application wants the partition to begin; `None` = the current position.
    """
    begins = {p: held[p] for p in telling.offsets if telling.happening is Happening.ASSIGNED}
    begins = {p: h for p, h in begins.items() if h.phase is Phase.ASSIGNING and not h.closing}
    moved = {p: wanted[p] for p, h in begins.items() if wanted.get(p, h.position) != h.position}
    starts = {p: moved[p] if p in moved and adjustable and _is_offset(moved[p]) else None for p in begins}
    left_out = [_left_out(p, offset, adjustable) for p, offset in moved.items() if starts[p] is None]
    left_out += [
        f"the listener gave an offset for partition {partition!r}, of which it was not told: left out"
        for partition in sorted(wanted.keys() - telling.offsets.keys(), key=str)
    ]
    return starts, left_out


def _is_offset(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_NUMBER


def _left_out(partition: int, offset: object, adjustable: bool) -> str:
    why = "is no offset" if adjustable else "would leave out or double rows: the sink's position counts"
    return f"partition {partition}: the listener's start {offset!r} {why}; left out"
