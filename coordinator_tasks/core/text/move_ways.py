"""Texts for the moves of a plan, in logs, on pages and by commands. Pure."""

from collections.abc import Iterable, Mapping

from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.model import Move, MoveKind
from coordinator_tasks.core.text.partition_text import agreed

HOW: Mapping[MoveKind, tuple[str, str]] = {
    MoveKind.START: ("start", "nobody else may run it, so its new owner starts at once"),
    MoveKind.HANDOFF: ("hand-off", "its one possible owner releases it, and the new one continues from that offset"),
    MoveKind.BARRIER: ("barrier", "several may run it, so each of them confirms first that it has stopped"),
    MoveKind.STOP: ("stop", "it is closed and committed, and nobody gets it"),
    MoveKind.ADOPT: ("adopt", "it runs there already, and stays"),
    MoveKind.RESTART: ("restart", "its owner does not run it, and starts it again from the committed offset"),
}
"""Kind of move → its name and meaning for display."""


def by_way(moves: Iterable[Move]) -> dict[tuple[str, str, MoveKind], list[int]]:
    """Return (giver, taker, kind) → the partitions, sorted, without repeats. An empty name means no consumer."""
    pairs = {((move.giver, move.taker, move.kind), move.partition) for move in moves}
    return grouped(sorted(pairs))


def way(giver: str, taker: str, kind: MoveKind, count: int = 2) -> str:
    """Return `from a to b by hand-off` or `start on a`. In a sentence, the text follows partitions or their number."""
    verb = agreed(count, "starts", "start")
    match kind:
        case MoveKind.START:
            return f"{verb} on {taker}" + (f", last owner {giver}" if giver else "")
        case MoveKind.STOP:
            return f"{agreed(count, 'stops', 'stop')} on {giver or 'nobody'}"
        case MoveKind.ADOPT:
            return f"{agreed(count, 'stays', 'stay')} on {taker}, which runs {agreed(count, 'it', 'them')} already"
        case MoveKind.RESTART:
            return f"{verb} again on {taker}"
    return f"from {giver or 'nobody'} to {taker or 'nobody'} by {HOW[kind][0]}"
