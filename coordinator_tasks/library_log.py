"""Where Kafka's client library logs: the same line once a minute, with how often it came meanwhile.

While no broker answers, each of its clients logs every attempt to connect.
"""

import logging
import re
import threading
import time
from collections.abc import Callable

EVERY_S = 60.0
MAX_LINES = 200
_PASSING = re.compile(r"[\w.-]+#(?:consumer|producer)-\d+|\d+ ?ms\b|,? \d+ identical error\(s\) suppressed")
"""What is another one in each line though it says the same: the client, times, and the library's own counts."""


class Repeats(logging.Filter):
    """Lets a line pass once in `EVERY_S`, and counts the others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[int, str], tuple[float, int]] = {}  # a line -> when it passed last, and how many since

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line passes; if others did not since the last one, it says how many."""
        text, now = record.getMessage(), self._clock()
        line = record.levelno, _PASSING.sub("", text)
        with self._lock:
            passed_at, more = self._known.pop(line, (-EVERY_S, 0))
            passes = now - passed_at >= EVERY_S
            self._known[line] = (now, 0) if passes else (passed_at, more + 1)
            while len(self._known) > MAX_LINES:
                del self._known[next(iter(self._known))]
        if passes and more:
            vars(record).update(msg=f"{text} ({more} more such lines in {now - passed_at:.0f} s)", args=())
        return passes


LIBRARY_LOG = logging.getLogger("librdkafka")
LIBRARY_LOG.addFilter(Repeats())
