"""The transitions without Airflow, beside what is measured or tested: the plain loop in a thread of this process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run import loop

JOIN_TIMEOUT_S = 30.0


@contextmanager
def looping(
    c: Coordinator, who: str = "benchmark", show: Callable[[TopicReport], None] | None = None
) -> Iterator[None]:
    """Run the loop until the block ends, and notice if it has ended before; `who` and `show` as in `loop.run`."""
    stop = threading.Event()
    thread = threading.Thread(target=loop.run, args=(c, stop, who, show), daemon=True)
    thread.start()
    try:
        yield
        if not thread.is_alive():
            raise AssertionError(f"the loop of {who} has died")
    finally:
        stop.set()
        thread.join(JOIN_TIMEOUT_S)
