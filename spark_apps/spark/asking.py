"""Asks Spark in a separate thread, so that no caller waits for a hanging JVM."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar, cast

WAIT_S = 0.2
"""Seconds to wait. Spark answers within milliseconds, unless its JVM collects garbage, is stopped or hangs."""
V = TypeVar("V")


class Asking:
    """Asks one question at a time, for one caller.

    A `ThreadPoolExecutor` would wait for its thread, and so for a hanging JVM, when the process ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._questions: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._late: tuple[Future[Any], object] | None = None

    def ask(self, question: Callable[[], V], wait_s: float = WAIT_S, about: object = None) -> V | None:
        """Return the answer, or raise the question's error. Return `None` if the answer is late or still awaited.

        A later call with the same `about` returns the late answer, because on a busy host every answer may be late.
        """
        if self._late is not None:
            late, thing = self._late
            if not late.done():
                return None
            self._late = None
            if thing is about:
                return cast(V, late.result())
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        asked: Future[V] = Future()
        self._questions.put((question, asked))
        wait([asked], wait_s)
        if asked.done():
            return asked.result()
        self._late = asked, about
        return None

    def close(self) -> None:
        """End the thread after the current question."""
        self._questions.put(None)

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, answer = asked
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - the edge of a thread: the caller gets it
                answer.set_exception(error)
