"""Values of command lines, checked in the same way by several programs."""

import argparse
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from coordinator_tasks.core.errors import Refused


def once(argument: str, pairs: Iterable[tuple[str, str]], same: Callable[[str], str] = str) -> dict[str, str]:
    """Return the pairs of a repeatable option by name; raises `Refused` for a repeated name.

    `same`: name → a key that is equal for equivalent names, such as `str.lower`.
    """
    found: dict[str, str] = {}
    names: set[str] = set()
    for name, value in pairs:
        if same(name) in names:
            raise Refused(f"{argument} {name} is given twice; give it once")
        names.add(same(name))
        found[name] = value
    return found


def seconds(text: str) -> float:
    """Parse an option's time, short enough for a thread to wait."""
    return _number(text, threading.TIMEOUT_MAX, "is no time; give a number of seconds from 0 on, such as 30")


def capacity(text: str) -> float:
    """Parse an option's capacity of a consumer."""
    return _number(text, sys.float_info.max, "is no capacity; give a number from 0 on, such as 2")


def _number(text: str, most: float, problem: str) -> float:
    with suppress(ValueError):
        if 0 <= (value := float(text)) <= most:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} {problem}")
