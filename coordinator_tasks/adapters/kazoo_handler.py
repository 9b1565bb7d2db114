"""kazoo's threads with a cheaper way to wait for sockets.

kazoo waits several times for every request, and creates an epoll object with its tables for each wait. This takes a
third of the client's cost of a read. `poll` needs no object, and takes large descriptors.
"""

import math
import select
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

_IN, _OUT = select.POLLIN, select.POLLOUT
_BROKEN = select.POLLHUP | select.POLLERR | select.POLLNVAL


class PollingHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler, but it waits with `poll`, and an attempt to connect takes at most `connect_limit_s()` seconds."""

    def __init__(self, connect_limit_s: Callable[[], float] = lambda: math.inf) -> None:
        super().__init__()
        self._connect_limit_s = connect_limit_s

    def create_connection(self, *args: Any, timeout: float, **options: Any) -> Any:
        return super().create_connection(*args, timeout=min(timeout, self._connect_limit_s()), **options)

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _exceptional: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait like `select.select`, with the time-out in seconds.

        A broken descriptor counts as ready, so that its next use raises.
        """
        if timeout is not None and timeout < 0:
            raise ValueError("the time-out must not be negative")  # `poll` would wait for ever
        asked = [(one, _number(one), event) for many, event in ((readers, _IN), (writers, _OUT)) for one in many]
        events = dict[int, int]()
        for _, number, event in asked:
            events[number] = events.get(number, 0) | event
        poll = select.poll()
        for number in events:
            poll.register(number, events[number])
        found = dict(poll.poll(None if timeout is None else math.ceil(timeout * 1000)))
        ready = [(one, event) for one, number, event in asked if found.get(number, 0) & (event | _BROKEN)]
        return [one for one, event in ready if event == _IN], [one for one, event in ready if event == _OUT], []


def _number(one: Any) -> int:
    """Return the descriptor of a socket, or the number itself."""
    number = one if isinstance(one, int) else int(one.fileno())
    if number < 0:
        raise ValueError("the socket is closed")  # as kazoo expects
    return number
