"""Acts on signals in a separate thread.

Python runs a handler in the main thread, between two instructions. If the main thread is just inside `wait` or `clear`
of an event, the handler's `set` of the same event waits for ever, as does every other call that takes a lock. A handler
here only puts a number into a queue whose `put` is reentrant.
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
    """Within the block, call `act` with the number of each of these signals, in order; main thread only.

    When the block ends, all signals that came within it have been acted on.
    """
    came: SimpleQueue[int | None] = SimpleQueue()

    def work() -> None:
        for number in iter(came.get, None):
            try:
                act(number)
            except Exception:  # an edge: the next signal must be acted on as well
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
    """Yield an event, set by the first of these signals; main thread only."""
    stop = threading.Event()
    with on_signals(lambda _: stop.set(), *numbers):
        yield stop
