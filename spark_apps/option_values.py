"""Values of a command line that several programs check in the same way."""

import argparse
import math
import threading
from collections.abc import Iterable

from coordinator_tasks.core.errors import Refused


def once(argument: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pairs of an option that may be given several times, by name; raises `Refused` for a name that comes twice."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Refused(f"{argument} {name} is given twice; give it once")
        found[name] = value
    return found


def seconds(text: str) -> float:
    """The type of an option that is a time a thread can wait for."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give a number of seconds from 0 on, such as 30")
    return value
