"""Checks whether an application on a cluster has executors.

If a standalone master dies and restarts within seconds, an application loses its executors and gets no new ones. Its
query then hangs, and only Spark's list of executors shows the cause.
"""

import time
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from spark_apps.spark.asking import Asking
from spark_apps.spark.session import is_local

ASK_S = 2.0
WITHOUT_S = 10.0
"""Seconds without executors that are tolerated: a master replaces a dead executor within a few seconds."""
LOST_S = 90.0
"""Seconds without executors after which an application that had executors gets no more.

A restarted standalone master does not know the application, unless its recovery mode stores applications.
"""
DYNAMIC = "spark.dynamicAllocation.enabled"


class Executors:
    """Asks Spark for the application's executors at intervals."""

    def __init__(self, spark: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        self._spark = spark
        self._clock = clock
        self._asking = Asking("spark-executors")
        self._asked = not is_local(spark)
        self._come_and_go = str(spark.sparkContext.getConf().get(DYNAMIC, "false")).strip().lower() == "true"
        self._ask_at = 0.0
        self._without_since: float | None = None
        self._had_some = False

    def missing(self, *, busy: bool) -> str:
        """Return why nothing can be read, as a sentence; empty while executors exist. `busy`: a batch is under way.

        With dynamic allocation, an idle application needs no executors.
        """
        now = self._clock()
        if self._asked and now >= self._ask_at:
            self._ask_at = now + ASK_S
            with suppress(Py4JError, OSError):  # the queries notice the end of Spark
                found = self._asking.ask(lambda: count(self._spark))
                self._had_some = self._had_some or bool(found)
                if found or (self._come_and_go and not busy):
                    self._without_since = None
                elif found == 0 and self._without_since is None:
                    self._without_since = now
        if self._without_since is None or now - self._without_since < WITHOUT_S:
            return ""
        return (
            f"the application has had no executor for {now - self._without_since:.0f} s: "
            f"check that {self._spark.sparkContext.master} has free cores (spark.cores.max limits those of each consumer), and start "
            "the consumer again if it gets none"
        )

    def lost(self) -> str:
        """Return why the application has to be started again; empty while Spark may still give executors."""
        since = self._without_since
        if since is None or not self._had_some or self._come_and_go or self._clock() - since < LOST_S:
            return ""
        return (
            f"the application has lost its executors {self._clock() - since:.0f} s ago, and "
            f"{self._spark.sparkContext.master} gives no new ones: a restarted master forgets its applications"
        )

    def close(self) -> None:
        self._asking.close()


def count(spark: SparkSession) -> int:
    """Return the number of executors. Spark's list contains the driver too."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()  # noqa: SLF001 - Python's tracker has no executors
    return max(0, len(tracker.getExecutorInfos()) - 1)
