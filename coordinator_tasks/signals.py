"""Signals, handled in a separate thread.

Python runs a handler in the main thread, between two instructions. If the main thread is inside `wait` or `clear` of an
event at this moment, a `set` of the same event in the handler waits for ever. The same is true of any call that takes a
lock. So a handler here only puts a number into a queue whose `put` is reentrant.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

log = logging.getLogger(__name__)


@contextmanager
def on_signals(act: Callable[[int], None], *numbers: int) -> Iterator[None]:
    """Within the block, call `act` with the number of each of these signals, in order. Only for the main thread.

    When the block ends, `act` has been called for all signals that arrived in it.
    """
    came: SimpleQueue[int | None] = SimpleQueue()

    def work() -> None:
        for number in iter(came.get, None):
            try:
                act(number)
            except Exception:  # a boundary: the next signal must still be handled
                log.exception("signal %d", number)

    worker = threading.Thread(target=work, name="signals", daemon=True)
    before = {number: signal.signal(number, lambda came_number, _: came.put(came_number)) for number in numbers}
    worker.start()
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
        came.put(None)
        worker.join()


@contextmanager
def stopped_by(*numbers: int) -> Iterator[threading.Event]:
    """Yield an event that the first of these signals sets. Only for the main thread."""
    stop = threading.Event()
    with on_signals(lambda _: stop.set(), *numbers):
        yield stop
