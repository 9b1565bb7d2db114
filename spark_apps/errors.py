"""Errors of reading, by who handles them. A wrong option is `Refused`, as everywhere."""

import re

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.names import partition_of


class OffsetMalformed(CoordinatorError):
    """An offset of the checkpoint or the socket has a wrong format; the query ends."""

    code = "KPC-060"


class AgentCallFailed(CoordinatorError):
    """The reader cannot reach the agent, or the agent refuses; the query ends with the agent's sentence."""

    code = "KPC-061"


class DataLost(CoordinatorError):
    """Records of a planned range are missing in the log (retention, truncation, a recreated topic).

    An executor raises it, and the driver gets only its text: `lost_records` parses that.
    """

    code = "KPC-062"

    def __init__(self, topic: str, partition: int, planned: range, problem: str) -> None:
        where = f"topic {topic}, partition {partition}, planned {planned.start} to {planned.stop - 1}"
        self.what = f"{where}: {problem}"
        super().__init__(f"{self.what}; set failOnDataLoss=false to go on without them")


def lost_records(error: str) -> tuple[int, str] | None:
    """The partition and the problem of a `DataLost`, from the last line of its traceback; `None` for other errors."""
    found = re.fullmatch(
        r"DataLost: topic \S+, partition (\d+), planned [^:]+: (.+); set failOnDataLoss=false.*", error
    )
    partition = partition_of(found[1]) if found is not None else None
    return None if found is None or partition is None else (partition, found[2])


class ReadFailed(CoordinatorError):
    """A range cannot be read at the moment; Spark runs the task again."""

    code = "KPC-063"
