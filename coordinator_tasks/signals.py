"""What a signal asks for, done in a thread of its own.

Python runs a handler in the main thread, in the middle of whatever that does. `threading.Event.set` there waits for ever if
the main thread is just inside `wait` or `clear` of the same event, and so does everything else that takes a lock. A handler
here only puts a number into a queue whose `put` may be interrupted by itself.
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
    """Within the block, call `act` with the number of each of these signals that comes, in order; main thread only.

    What comes before the end of the block has been acted on after it.
    """
    came: SimpleQueue[int | None] = SimpleQueue()

    def work() -> None:
        for number in iter(came.get, None):
            try:
                act(number)
            except Exception:  # an edge: the next signal is to be heard
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
    """An event for the block, which the first of these signals sets; main thread only."""
    stop = threading.Event()
    with on_signals(lambda _: stop.set(), *numbers):
        yield stop
