"""The end of a consumer's process."""

from enum import StrEnum


class Ending(StrEnum):
    """How an incarnation's end became known."""

    LEFT = "left"  # left cleanly and reported its incarnation
    REAPED = "reaped"  # the launcher saw all processes end, or the successor on the same host found none
    REFUSED = "refused"  # the consumer's own address refused connections for a session time-out
