"""Whether an application on a cluster has executors left.

A standalone master that dies and comes back within seconds removes an application's executors and gives it none again; its
query only hangs. Spark reports that nowhere but in its list of executors.
"""

import time
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark_apps.spark.session import is_local

ASK_S = 2.0
WITHOUT_S = 10.0
"""For so long an application may be without executors: a master starts one again within a few seconds."""
DYNAMIC = "spark.dynamicAllocation.enabled"


class Executors:
    """Asks Spark for its executors now and then, in the agent's thread."""

    def __init__(self, spark: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._spark = spark
        self._clock = clock
        self._asked = not is_local(spark)
        self._come_and_go = spark.sparkContext.getConf().get(DYNAMIC, "false") == "true"
        self._ask_at = 0.0
        self._without_since: float | None = None

    def missing(self, *, busy: bool) -> str:
        """Why nothing can be read, in a sentence; empty while there are executors. `busy`: a batch is under way.

        With dynamic allocation, an idle application needs none.
        """
        now = self._clock()
        if self._asked and now >= self._ask_at:
            self._ask_at = now + ASK_S
            with suppress(Py4JError, OSError):  # Spark's own end is noticed by the queries
                if count(self._spark) or (self._come_and_go and not busy):
                    self._without_since = None
                elif self._without_since is None:
                    self._without_since = now
        if self._without_since is None or now - self._without_since < WITHOUT_S:
            return ""
        return (
            f"the application has had no executor for {now - self._without_since:.0f} s: "
            f"check {self._spark.sparkContext.master}, and start the consumer again if it gets none"
        )


def count(spark: SparkSession) -> int:
    """How many executors the application has now; Spark's list has the driver as well."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - Python's tracker has no executors
    return max(0, len(tracker.getExecutorInfos()) - 1)
