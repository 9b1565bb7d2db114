"""Ends a session of ZooKeeper from elsewhere, as an expiry does."""

import time
from contextlib import suppress

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

ANSWER_S = 10.0
LIMIT_S = 60.0
SESSION_S = 4.0


def end_session(hosts: str, known: tuple[int, bytes]) -> bool:
    """Take the session over and close it, and say whether there was one: whoever knows its number and password may.

    Its client takes it back as soon as it is cut off, sometimes before it is closed; so it is taken over again until there
    is none, which shows as a new number.
    """
    ended, began = False, time.monotonic()
    while time.monotonic() - began < LIMIT_S:
        twin = KazooClient(hosts, client_id=known, timeout=SESSION_S)
        with suppress(KazooTimeoutError):  # also if it is cut off at once
            twin.start(ANSWER_S)
        number = (twin.client_id or known)[0]
        twin.stop()
        twin.close()
        if number not in (0, known[0]):
            return ended
        ended = True
    raise AssertionError(f"the session {known[0]:#x} is not over after {LIMIT_S:g} s")
