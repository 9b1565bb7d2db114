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
        self._asked: Future[Any] | None = None
        self._about: object = None

    def ask(self, question: Callable[[], V], wait_s: float = WAIT_S, about: object = None) -> V | None:
        """Return the answer, or raise its error; `None` if late, and at once while the last answer is awaited.

        The next call about the same thing returns a late answer: on a busy host every answer may be late.
        """
        if self._asked is None:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        elif not self._asked.done():
            return None
        if self._asked is None or self._about is None or self._about is not about:
            self._asked, self._about = Future(), about
            self._questions.put((question, self._asked))
            wait([self._asked], wait_s)
        asked, self._about = self._asked, None if self._asked.done() else about
        answer: V | None = asked.result() if asked.done() else None
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
