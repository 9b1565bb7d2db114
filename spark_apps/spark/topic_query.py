"""The query of one topic, from its start in a thread to its end. A failed query is started again.

An error concerns only its topic, and `agent.ownership.failing` decides the retries. The consumer ends only if Spark
itself has ended.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.logs import within
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.errors import lost_records
from spark_apps.spark.asking import Asking
from spark_apps.topic_readers import TopicReader
from spark_apps.tracebacks import reason

STOP_TIMEOUT_S = 15.0
CHECK_S = 0.5
START_ATTEMPTS = 6
"""Attempts after which a process in which no query ever read cannot work, and leaves."""
STARTS_S = 30.0
"""Seconds until a start is reported as slow. Spark gives its Python process ten seconds; a busy host needs more."""
DYING_S = 15.0
"""Seconds from a query's error until the query counts as ended although Spark calls it active: its thread is dead.

Such a query is not restarted, because Spark starts no second query beside an active query.
"""
STOPPED = "stopped SparkContext"
"""Part of Spark's error after its context has ended: `Cannot call methods on a stopped SparkContext`."""
SPARK_ERRORS = (Py4JError, PySparkException, OSError)

log = logging.getLogger(__name__)


class _Look(NamedTuple):
    """Spark's view of a query. `text`: the error that ended the query; `why`: its reason; empty without an error."""

    active: bool
    text: str = ""
    why: str = ""


class TopicQuery(TopicReader):
    """Ownership and query of one topic. The query starts in a thread of its own.

    `start` gets the number of the attempt. `active_tasks` returns the number of running tasks of a query's run.
    """

    def __init__(
        self, runner: TopicRunner, start: Callable[[int], StreamingQuery], active_tasks: Callable[[str], int]
    ) -> None:
        super().__init__(runner)
        self.over = False
        self._start = start
        self._active_tasks = active_tasks
        self._spark = Asking(f"spark-{runner.topic}")
        self._query: StreamingQuery | None = None
        self._ended: StreamingQuery | None = None  # a query that has ended, whose tasks may still write
        self._why = ""
        self._checked_at = 0.0
        self._dying_since: float | None = None
        self._attempts = 0
        self._ending = threading.Event()
        self._thread = self._begin()

    def _begin(self) -> threading.Thread:
        self._ended, self._query, self._dying_since = self._query, None, None
        self._readers, self._began_at = self.runner.readers, time.monotonic()
        thread = threading.Thread(
            target=within(self._run, topic=self.runner.topic), name=f"query-{self.runner.topic}", daemon=True
        )
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            if self._ended is not None:
                self._wait_for_tasks(self._ended)
            while self._query is None and not (self._ending.is_set() or self.problem):
                self._attempts += 1
                self._try()
        except BaseException as error:  # at a thread's end, no caller could handle the error
            log.exception("the query of topic %s is not started again", self.runner.topic)
            self.problem = f"topic {self.runner.topic}: the query is not started again: {reason(error)}"

    def _try(self) -> None:
        try:
            self._query = self._start(self._attempts)
        except BaseException as error:  # user code: only this topic is not read
            log.exception("the query of topic %s could not be started", self.runner.topic)
            why = self._why = f"the query could not be started: {reason(error)}"
            if _is_over(error):
                self.problem = f"topic {self.runner.topic}: {why}"
            else:
                self._ending.wait(self.runner.edit(lambda ownership: ownership.query_failed(why)))

    def _wait_for_tasks(self, ended: StreamingQuery) -> None:
        """Wait for the tasks of an ended query, which may still write.

        Afterwards the query's batch counts as failed, and the next query may start.
        """
        said = "the query has ended and its tasks have not: another one starts after them"
        while not self._idle(ended, time.monotonic() + STOP_TIMEOUT_S):
            if self._ending.is_set():
                return
            self.runner.edit(lambda ownership: ownership.reports.add("tasks", said))
        self._ended = None
        self.runner.edit(lambda ownership: ownership.reports.clear("tasks"))
        lost = lost_records(self._why)
        if lost is not None:
            self.runner.edit(lambda ownership: ownership.query_lost(*lost))
        self._ending.wait(self.runner.edit(lambda ownership: ownership.query_failed(self._why)))

    @property
    def gave_up(self) -> str:
        """Return why no query has ever read in this process; empty while further attempts may succeed."""
        hopeless = self._attempts > START_ATTEMPTS and not self.runner.readers
        return f"topic {self.runner.topic}: {self._why}" if hopeless and self._why else ""

    def trouble(self) -> str:
        """Return a sentence if the query's start takes long; empty while the query reads."""
        took_s = time.monotonic() - self._began_at
        if self.runner.readers > self._readers or took_s < STARTS_S or self.over:
            return ""
        return f"topic {self.runner.topic}: its query has been starting for {took_s:.0f} s and reads nothing yet"

    def check(self) -> str:
        """Return why the query has ended; empty while it runs or Spark is silent. Asks at most twice a second."""
        query, now = self._query, time.monotonic()
        if self.problem or self.over or query is None or now - self._checked_at < CHECK_S:
            return self.problem
        self._checked_at = now
        try:
            found = self._spark.ask(lambda: _look_at(query), about=query)
        except SPARK_ERRORS:
            self.problem = f"topic {self.runner.topic}: Spark no longer answers"
            return self.problem
        if found is None or (found.active and not self._dies(found, now)):
            return ""
        if not found.why and self.runner.edit(lambda _: self.runner.over):
            self.over = True
            return ""
        why = f"the query has ended: {found.why or 'it was stopped'}"
        if found.active or STOPPED in found.text:
            self.problem = f"topic {self.runner.topic}: {why}"
        else:
            log.warning("topic %s: %s; starting the query again", self.runner.topic, why)
            self._why = found.why or why
            self._thread = self._begin()
        return self.problem

    def _dies(self, found: _Look, now: float) -> bool:
        """Return whether an active query has had an error for so long that its thread must be dead.

        Spark then reports the query as active for ever.
        """
        if not found.why:
            self._dying_since = None
        elif self._dying_since is None:
            self._dying_since = now
        return self._dying_since is not None and now - self._dying_since >= DYING_S

    def _idle(self, query: StreamingQuery, deadline: float) -> bool:
        """Wait for the tasks of an ended query; False if late. If Spark does not answer, no tasks run."""
        with suppress(*SPARK_ERRORS):
            run = str(query.runId)
            while self._active_tasks(run) > 0:
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.05)
        return True

    def close(self) -> None:
        """End the runner, and ask Spark nothing more."""
        self._spark.close()
        super().close()

    def end(self) -> bool:
        """Stop the query and wait for its tasks."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        self._ending.set()
        self._thread.join(STOP_TIMEOUT_S)
        query = self._query or self._ended
        if query is None:
            return not self._thread.is_alive()
        stopper = threading.Thread(target=_quietly, args=(query.stop,), daemon=True)
        stopper.start()
        stopper.join(max(0.1, deadline - time.monotonic()))
        return not stopper.is_alive() and self._idle(query, deadline)


def _is_over(error: BaseException) -> bool:
    """Return whether Spark itself has ended, so that no query can start in this process."""
    return isinstance(error, Py4JNetworkError) or STOPPED in str(error)


def _look_at(query: StreamingQuery) -> _Look:
    active, error = query.isActive, query.exception()
    return _Look(active) if error is None else _Look(active, str(error), reason(error))


def _quietly(stop: Callable[[], None]) -> None:
    try:
        stop()
    except SPARK_ERRORS:
        log.warning("Spark did not stop a query by itself", exc_info=True)
