"""Asks Spark in a separate thread, so that no caller waits for a hanging JVM."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

WAIT_S = 0.2
"""Spark answers within milliseconds, unless its JVM collects garbage, is stopped or hangs."""
V = TypeVar("V")


class Asking:
    """One question at a time, for one caller.

    A `ThreadPoolExecutor` would wait for its thread, and so for the JVM, when the process ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._questions: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._last: Future[Any] | None = None

    def ask(self, question: Callable[[], V], wait_s: float = WAIT_S) -> V | None:
        """Return the answer, or raise its error; `None` if late, and at once while the last answer is awaited."""
        if self._last is not None and not self._last.done():
            return None
        if self._last is None:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._last = Future()
        self._questions.put((question, self._last))
        wait([self._last], wait_s)
        answer: V | None = self._last.result() if self._last.done() else None
        return answer

    def close(self) -> None:
        """End the thread after its question."""
        self._questions.put(None)

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, answer = asked
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - the edge of a thread: the caller gets it
                answer.set_exception(error)
