"""Calls the application's listener and interceptors, in a separate thread for each topic.

A slow call delays only the starts or releases of its own partitions, and neither fetches nor other commits.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from coordinator_tasks.logs import within
from spark_apps.agent.ownership.listening import Happening, Telling
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.delivery.hooks import ConsumerRebalanceListener, Hooks, committed

LONGEST_SLEEP_S = 0.5
MOST_COMMITS = 1_000
JOIN_TIMEOUT_S = 5.0
log = logging.getLogger(__name__)

Edit = Callable[[Callable[[TopicOwnership], Any]], Any]


class Callbacks:
    """The calls for one topic's ownership, one at a time.

    `turn`: the ownership's lock. `edit`: changes the ownership while holding the lock.
    """

    def __init__(self, ownership: TopicOwnership, hooks: Hooks, turn: threading.Condition, edit: Edit) -> None:
        self._ownership = ownership
        self._topic = ownership.topic
        self._hooks = hooks
        self._turn = turn
        self._edit = edit
        self._commits: deque[Mapping[int, int]] = deque(maxlen=MOST_COMMITS)
        self._closed = False
        self._thread = threading.Thread(
            target=within(self._run, topic=ownership.topic), name=f"callbacks-{ownership.topic}", daemon=True
        )
        self._thread.start()

    def committed(self, offsets: Mapping[int, int]) -> None:
        with self._turn:
            self._commits.append(offsets)
            self._turn.notify_all()

    def close(self) -> None:
        """Make the due calls, then end."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._turn:
                # Not by `edit`, which would wake all threads of the topic, this thread too.
                telling = self._ownership.listening.telling() if self._hooks.listener is not None else None
                offsets = self._commits.popleft() if telling is None and self._commits else None
                if telling is None and offsets is None:
                    if self._closed:
                        return
                    self._turn.wait(LONGEST_SLEEP_S)
                    continue
            if telling is not None and self._hooks.listener is not None:
                self._tell(self._hooks.listener, telling)
            if offsets is not None:
                committed(self._topic, offsets, self._hooks.interceptors)

    def _tell(self, listener: ConsumerRebalanceListener, telling: Telling) -> None:
        wanted: Mapping[int, int] = {}
        problem = ""
        try:
            match telling.happening:
                case Happening.ASSIGNED:
                    wanted = dict(listener.on_partitions_assigned(self._topic, telling.offsets) or {})
                case Happening.REVOKED:
                    listener.on_partitions_revoked(self._topic, telling.offsets)
                case Happening.LOST:
                    listener.on_partitions_lost(self._topic, telling.offsets)
        # user code: an error must not keep a partition from other consumers
        except BaseException as error:
            log.exception("on_partitions_%s of topic %s failed", telling.happening, self._topic)
            problem = f"on_partitions_{telling.happening} failed: {type(error).__name__}: {error}"
        self._edit(lambda ownership: self._answer(ownership, telling, wanted, problem))

    @staticmethod
    def _answer(ownership: TopicOwnership, telling: Telling, wanted: Mapping[int, int], problem: str) -> None:
        ownership.reports.clear("listener")
        if problem:
            ownership.reports.add("listener", problem)
        ownership.listening.told(telling, wanted)
