"""Into a table of a lakehouse; the driver dies right before or after a commit when it is told to.

Settings: `kind` and `tables`, the folder of the table; `die`, a file that tells the driver where in its next commit with
rows to die: `before` or `after`.
"""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from spark_apps.lakehouse.table_sink import TableSink
from spark_apps.pipelines import ExactlyOnce
from tests.sink_bench import table_sink


def dying_sink(settings: Mapping[str, str]) -> TableSink:
    """A sink that obeys the file `die`."""
    sink, die = table_sink(settings["kind"], Path(settings["tables"])), Path(settings["die"])
    commit = sink._written.commit

    def acted(*arguments: Any) -> None:
        point = die.read_text() if die.exists() and arguments[-1].num_rows else ""
        if point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(*arguments)
        if point == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    sink._written.commit = acted  # type: ignore[assignment, method-assign]
    return sink


def build(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    """Executors write the rows."""
    rows, sink = (
        stream.selectExpr("topic", "partition", "offset", "CAST(value AS STRING) AS text"),
        dying_sink(settings),
    )
    return ExactlyOnce(rows, sink, each_batch=sink.files)
