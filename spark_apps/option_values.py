"""Values of command lines, which several programs check in the same way."""

import argparse
import sys
import threading
from contextlib import suppress


def seconds(text: str) -> float:
    """Parse a time in seconds, short enough for a thread to wait."""
    return _number(text, threading.TIMEOUT_MAX, "is no time; give a number of seconds from 0 on, such as 30")


def capacity(text: str) -> float:
    """Parse a consumer's capacity."""
    return _number(text, sys.float_info.max, "is no capacity; give a number from 0 on, such as 2")


def _number(text: str, most: float, problem: str) -> float:
    with suppress(ValueError):
        if 0 <= (value := float(text)) <= most:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} {problem}")
