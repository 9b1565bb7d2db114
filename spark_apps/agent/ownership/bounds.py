"""Whether the log still has a partition's position: retention, truncation, a wrong commit. Pure."""

from spark_apps.agent.ownership.owned_partition import OwnedPartition


def misplaced(held: OwnedPartition, beginning: int | None, now: float, ahead_s: float) -> str:
    """Return the reason why the log does not have the next offset, as a sentence without its full stop; empty if it
    does.

    During a batch, the executors detect a missing offset. A position behind the log's end counts as misplaced after
    `ahead_s`. `now`: the clock's monotonic time.
    """
    end = held.log.offset
    if held.pending or end is None:
        return ""
    if beginning is not None and held.position < beginning:
        return f"offsets {held.position} to {beginning - 1} are gone, the log begins at {beginning}"
    if held.log.ahead_since is None or now - held.log.ahead_since < ahead_s:
        return ""
    return f"its position {held.position} is behind the log's end {end} (truncated, or committed by somebody else)"


def overtaken(held: OwnedPartition, beginning: int) -> str:
    """Return a sentence about unread offsets that the log may have deleted; empty if none."""
    first = held.log.handed_from
    if first is None or beginning <= first:
        return ""
    last = min(beginning, held.position) - 1
    return f"offsets {first} to {last} may have been gone before they were read: retention has caught up with this consumer"
