"""What can go wrong on the data side, by who handles it. Wrong options are `Refused`, as everywhere."""

from coordinator_tasks.core.errors import CoordinatorError


class OffsetMalformed(CoordinatorError):
    """An offset of the checkpoint or the socket that is not one of ours; nothing is guessed, the query ends."""


class LinkFailed(CoordinatorError):
    """The reader and the agent cannot talk, or the agent refused; the query ends with the agent's sentence."""


class DataLost(CoordinatorError):
    """Records of a planned range are no longer in the log (retention, truncation, a topic created anew)."""


class ReadFailed(CoordinatorError):
    """A range could not be read now; Spark runs the task again."""
