"""The transitions without Airflow, beside what is measured: the plain loop in a thread of this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from coordinator_tasks.service import loop
from coordinator_tasks.service.coordinator import Coordinator


@contextmanager
def looping(c: Coordinator) -> Iterator[None]:
    """Run the loop until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(c, stop, "benchmark"), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
