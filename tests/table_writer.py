"""A process that writes batch after batch into a table until it is killed: `contract/test_table_sinks.py`.

`python -m tests.table_writer KIND FOLDER EPOCH [before|after]`: with a point, the process kills itself before or after its
third commit. The process prints a line when it begins to write.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkStep, Writer
from tests.sink_bench import patient_claim, rows_of, table_sink

WRITER = Writer("c", "orders", "id-1", "a")
PARTITIONS = range(2)
BATCH = 7


def dying(commit: Any, point: str) -> Any:
    """The commit of a table, which kills the process at its third call."""
    calls = iter(range(3))

    def acted(*arguments: Any) -> None:
        last = next(calls) == 2
        if last and point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(*arguments)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    return acted


def main(kind: str, folder: str, epoch: str, point: str = "") -> None:
    sink, token = table_sink(kind, Path(folder)), Token(int(epoch), 1, "g1")
    found = patient_claim(sink, WRITER, dict.fromkeys(PARTITIONS, token))
    reached = {partition: entry.offset or 0 for partition, entry in found.items()}
    if point:
        sink._written.commit = dying(sink._written.commit, point)  # type: ignore[method-assign]
    print("writes", flush=True)
    while True:
        steps = {p: SinkStep(token, offset, offset + BATCH) for p, offset in reached.items()}
        assert sink.write(WRITER, steps, rows_of(WRITER, steps)) == {}
        reached = {partition: step.end for partition, step in steps.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
