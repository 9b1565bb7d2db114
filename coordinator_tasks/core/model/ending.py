"""The end of a consumer's process."""

from enum import StrEnum


class Ending(StrEnum):
    """How the end of an incarnation is known."""

    LEFT = "left"  # left cleanly and reported its incarnation
    REAPED = "reaped"  # the launcher saw all processes end, or the successor on the same host found none of them left
    REFUSED = "refused"  # the consumer's own address refused for a session time-out
