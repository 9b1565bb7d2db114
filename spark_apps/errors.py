"""Errors of reading records. A wrong option is `Refused`, as everywhere."""

import re

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.names import partition_of


class OffsetMalformed(CoordinatorError, code="KPC-060"):
    """An offset in a checkpoint or from the agent has an unknown format. The query ends.

    Remedy: give the query an empty checkpoint folder; Kafka has the positions.
    """


class AgentCallFailed(CoordinatorError, code="KPC-061"):
    """A query's reader cannot reach its agent, or the agent refused. The query ends, and is started again with pauses.

    Remedy: read the agent's sentence. Executors on other hosts have to reach the driver's host.
    """


class DataLost(CoordinatorError, code="KPC-062"):
    """Records of a planned range are no longer in the log (retention, truncation, a recreated topic). The partition
    stops; the others continue.

    Remedy: `offsets reset --to-earliest` for the partition, or `failOnDataLoss=false`.

    An executor raises this error. The driver gets only its text, which `lost_records` parses.
    """

    def __init__(self, topic: str, partition: int, planned: range, problem: str) -> None:
        where = f"topic {topic}, partition {partition}, planned {planned.start} to {planned.stop - 1}"
        self.what = f"{where}: {problem}"
        super().__init__(f"{self.what}; set failOnDataLoss=false to go on without them")


def lost_records(error: str) -> tuple[int, str] | None:
    """Return partition and problem of a `DataLost`, from the last line of its traceback; `None` for other errors."""
    found = re.fullmatch(
        r"DataLost: topic \S+, partition (\d+), planned [^:]+: (.+); set failOnDataLoss=false.*", error
    )
    partition = partition_of(found[1]) if found is not None else None
    return None if found is None or partition is None else (partition, found[2])


class ReadFailed(CoordinatorError, code="KPC-063"):
    """A range of records could not be read. Spark runs the task again, and nothing is lost.

    Remedy: if the error repeats, look at the brokers and the executors' network.
    """


class ReaderJarsBroken(CoordinatorError, code="KPC-065"):
    """The jars of Spark's source are missing, or have other checksums than the package. No query starts.

    Remedy: in a checkout, run `make install`; elsewhere, install the wheel again.
    """
