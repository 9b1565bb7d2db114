"""A line on a terminal that shows, after a second, that a command works and for how long."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

AFTER_S = 1.0
EACH_S = 0.5
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """One line on standard error. It is removed before the result is printed. Without a terminal, nothing is shown."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._text = ""
        self._stop: threading.Event | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def shown(self, text: str) -> Iterator[None]:
        """Show the text after `AFTER_S`, until the block or `stop` ends."""
        self.start(text)
        try:
            yield
        finally:
            self.stop()

    def start(self, text: str) -> None:
        """Show the text after `AFTER_S`, until `stop`."""
        stream = self._stream or sys.stderr
        if not stream.isatty():
            return
        self._text, self._stop = text, threading.Event()
        self._thread = threading.Thread(target=self._run, args=(stream, self._stop), daemon=True)
        self._thread.start()

    def says(self, text: str) -> None:
        self._text = text

    def stop(self) -> None:
        """Remove the line, before any other output."""
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join()
        self._stop = self._thread = None

    def _run(self, stream: TextIO, stop: threading.Event) -> None:
        began_s = time.monotonic()
        ended = stop.wait(AFTER_S)
        while not ended:
            stream.write(f"{_CLEAR}{self._text}: {time.monotonic() - began_s:.0f} s")
            stream.flush()
            ended = stop.wait(EACH_S)
            if ended:
                stream.write(_CLEAR)
                stream.flush()


waiting = ProgressLine()
"""The line of this process, which runs one command."""
