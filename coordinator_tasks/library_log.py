"""The logger of Kafka's client library. The same line is logged at most once a minute, with the number of repeats.

While no broker answers, each client logs every attempt to connect.
"""

import logging
import re
import threading
import time
from collections.abc import Callable

EVERY_S = 60.0
MAX_LINES = 200
_PASSING = re.compile(r"[\w.-]+#(?:consumer|producer)-\d+|\d+ ?ms\b|,? \d+ identical error\(s\) suppressed")
"""Parts that may differ between lines of the same meaning: the client, times, and the library's own counts."""


class Repeats(logging.Filter):
    """Lets each line pass once in `EVERY_S`, and counts the repeats."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[int, str], tuple[float, int]] = {}  # line -> last pass, repeats since

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line passes. A line that passes gets the number of suppressed repeats."""
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
