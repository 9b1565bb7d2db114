"""The query of one topic: starts it in its own thread, watches it, restarts it where that helps, and ends it."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.logs import within
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.errors import lost_records
from spark_apps.spark.asking import Asking
from spark_apps.spark.warm_up import SLOW_START
from spark_apps.topic_readers import TopicReader
from spark_apps.tracebacks import reason

STOP_TIMEOUT_S = 15.0
CHECK_S = 0.5
START_ATTEMPTS = 6
MOST_LOSSES, LOSSES_S = 5, 600.0
"""A query with lost records is restarted at most so often within so many seconds; then the consumer leaves."""
DYING_S = 15.0
"""So long after its error a query that Spark still calls active counts as ended: the end of its thread may have failed too.

It is not restarted: Spark starts none beside one that it calls active.
"""
SPARK_ERRORS = (Py4JError, PySparkException, OSError)

log = logging.getLogger(__name__)


class _Look(NamedTuple):
    """How Spark says that a query stands; `why`: the reason of the error in `text` that ended it, empty = it has ended without."""

    active: bool
    text: str = ""
    why: str = ""


class TopicQuery(TopicReader):
    """One topic: its ownership and its query, which starts in its own thread.

    `start` gets the number of the attempt; `active_tasks` returns how many tasks of a query's run are under way.
    """

    def __init__(
        self,
        runner: TopicRunner,
        start: Callable[[int], StreamingQuery],
        active_tasks: Callable[[str], int],
    ) -> None:
        super().__init__(runner)
        self.over = False
        self._start = start
        self._active_tasks = active_tasks
        self._spark = Asking(f"spark-{runner.topic}")
        self._query: StreamingQuery | None = None
        self._checked_at = 0.0
        self._dying_since: float | None = None
        self._attempts = 0
        self._losses: list[float] = []
        self._thread = self._begin()

    def _begin(self, lost: tuple[int, str] | None = None) -> threading.Thread:
        """Start the query in a thread; `lost`: the partition whose lost records ended the last query, and its problem."""
        self._attempts += 1
        self._dying_since = None
        ended, self._query = self._query, None
        thread = threading.Thread(
            target=within(self._run, topic=self.runner.topic),
            args=(ended, lost),
            name=f"query-{self.runner.topic}",
            daemon=True,
        )
        thread.start()
        return thread

    def _run(self, ended: StreamingQuery | None, lost: tuple[int, str] | None) -> None:
        try:
            if ended is not None and lost is not None:
                if not self._idle(ended, time.monotonic() + STOP_TIMEOUT_S):
                    self.problem = f"topic {self.runner.topic}: the tasks of a query that lost records do not end"
                    return
                self.runner.edit(lambda ownership: ownership.query_lost(*lost))
            self._query = self._start(self._attempts)
        except BaseException as error:  # the edge of a thread, and of a user's function: the consumer leaves
            log.exception("the query of topic %s could not be started", self.runner.topic)
            self.problem = f"topic {self.runner.topic}: the query could not be started: {reason(error)}"

    def check(self) -> str:
        """Why the query has ended; empty while it runs, or Spark does not say. Asks Spark at most twice a second."""
        query, now = self._query, time.monotonic()
        if self.problem or self.over or query is None or now - self._checked_at < CHECK_S:
            return self.problem
        self._checked_at = now
        try:
            found = self._spark.ask(lambda: _look_at(query))
        except SPARK_ERRORS:
            self.problem = f"topic {self.runner.topic}: Spark no longer answers"
            return self.problem
        if found is None or (found.active and not self._dies(found, now)):
            return ""
        if not found.why and self.runner.edit(lambda _: self.runner.over):
            self.over = True
            return ""
        why = found.why or "it was stopped"
        if found.active or not self._begins_again(found.text, why, now):
            self.problem = f"topic {self.runner.topic}: the query has ended: {why}"
        return self.problem

    def _dies(self, found: _Look, now: float) -> bool:
        """Whether an active query has had its error for so long that its thread is dead: Spark then calls it active for ever."""
        if not found.why:
            self._dying_since = None
        elif self._dying_since is None:
            self._dying_since = now
        return self._dying_since is not None and now - self._dying_since >= DYING_S

    def _begins_again(self, text: str, why: str, now: float) -> bool:
        """Whether the query restarts: after a slow start, or without the partition whose records are lost."""
        lost = lost_records(why)
        if lost is not None:
            self._losses = [at for at in self._losses if now - at < LOSSES_S]
            again = len(self._losses) < MOST_LOSSES
            self._losses.append(now)
        else:
            again = SLOW_START in text and self._attempts < START_ATTEMPTS and not self.runner.edit(_opened)
        if again:
            log.warning("topic %s: %s; starting the query again", self.runner.topic, why if lost else SLOW_START)
            self._thread = self._begin(lost)
        return again

    def _idle(self, query: StreamingQuery, deadline: float) -> bool:
        """Wait for the tasks of an ended query; False if they do not end in time. If Spark does not answer, there are none."""
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
        self._thread.join(STOP_TIMEOUT_S)
        query = self._query
        if query is None:
            return not self._thread.is_alive()
        stopper = threading.Thread(target=_quietly, args=(query.stop,), daemon=True)
        stopper.start()
        stopper.join(max(0.1, deadline - time.monotonic()))
        return not stopper.is_alive() and self._idle(query, deadline)


def _look_at(query: StreamingQuery) -> _Look:
    active, error = query.isActive, query.exception()
    return _Look(active) if error is None else _Look(active, str(error), reason(error))


def _opened(ownership: TopicOwnership) -> bool:
    return ownership.grants.opened


def _quietly(stop: Callable[[], None]) -> None:
    try:
        stop()
    except SPARK_ERRORS:
        log.warning("Spark did not stop a query by itself", exc_info=True)
