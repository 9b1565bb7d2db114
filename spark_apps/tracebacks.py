"""Finds the error in a text or a log, without the stack around it."""

from collections.abc import Iterable

TRACEBACK = "Traceback (most recent call last):"
_SAID = ("error: ", "Error: ", 'Exception in thread "main" ')
"""How our commands, Spark and the JVM begin the line with the reason of their end."""
_LEFT = " has left: "
"""In the line in which a consumer says why it had to leave (`agent.process`)."""


def raised(lines: Iterable[str]) -> str:
    """The error at the end of the last Python traceback, its class without the module; empty if there is none."""
    return _last(lines, with_sentences=False)


def reason(error: BaseException) -> str:
    """The cause in Spark's text: the error at the end of its last Python traceback, or else its first line."""
    lines = str(error).splitlines()
    return raised(lines) or next((line.strip() for line in lines if line.strip()), type(error).__name__)


def last_error(log: str) -> str:
    """The last error in a log: the end of a traceback, or the line in which a program says why it ends."""
    return _last(log.splitlines(), with_sentences=True)


def _last(lines: Iterable[str], *, with_sentences: bool) -> str:
    found, inside = "", False
    for line in lines:
        if line.endswith(TRACEBACK):
            inside = True
        elif inside and line[:1].strip():
            kind, colon, text = line.partition(": ")
            found, inside = f"{kind.rpartition('.')[2]}{colon}{text}", False
        elif with_sentences and not inside:
            found = _sentence(line) or found
    return found


def _sentence(line: str) -> str:
    if _LEFT in line:
        return line.partition(_LEFT)[2]
    return next((line.removeprefix(start) for start in _SAID if line.startswith(start)), "")
