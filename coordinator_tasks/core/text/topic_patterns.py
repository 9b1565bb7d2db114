"""Regular expressions for topic names, in RE2's syntax. The time of a match grows only linearly with the name.

The patterns come from registrations, and the planner evaluates them. A backtracking engine could block it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from coordinator_tasks.core.errors import Refused

MAX_CHARS = 256
MAX_PATTERNS = 32  # evaluated patterns of a registration; names do not count
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True
_OPTIONS.max_mem = 64 * 1024  # a pattern of this size matches a name in less than 10 ms
_NO_REPETITION = re.compile(r"\{(?!\d+(,\d*)?\})")
"""RE2 would read these braces as characters, so the pattern would match no topic."""
_SYNTAX = "\\[]{}()|*+?^$"


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any | Refused:
    """Return RE2's expression, or the error that refuses the pattern."""
    problem = ""
    if len(pattern) > MAX_CHARS:
        problem = f"it has more than {MAX_CHARS} characters"
    elif _NO_REPETITION.search(pattern):
        problem = "write a repetition as {2}, {2,} or {2,4}"
    else:
        try:
            return re2.compile(pattern, _OPTIONS)
        except re2.error as error:
            problem = error.args[0].decode()
        except UnicodeError:
            problem = "it is no text"
    return Refused(f"{pattern[:MAX_CHARS]!r} is no pattern of topics: {problem}")


@lru_cache(maxsize=16_384)
def _found(pattern: str, name: str) -> bool:
    made = _compiled(pattern)
    return name.isascii() and not isinstance(made, Refused) and made.fullmatch(name) is not None


def literal(text: str) -> str | None:
    """Return the topic's name if the text has no syntax except escaped dots; `None` for a pattern."""
    rest = text.replace("\\.", "")
    return None if "." in rest or any(letter in _SYNTAX for letter in rest) else text.replace("\\.", ".")


def exactly(name: str) -> str:
    """Return the pattern that matches only this name."""
    return name.replace(".", "\\.")


def check(pattern: str) -> None:
    """Raise `Refused` for an unsupported pattern."""
    made = _compiled(pattern)
    if literal(pattern) is None and isinstance(made, Refused):
        raise made


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern or a name matches this topic. A pattern that is not supported matches no topic."""
    named = literal(pattern)
    if named is not None or pattern == name:
        return name in (pattern, named)
    return len(pattern) <= MAX_CHARS and _found(pattern, name)


def any_matches(patterns: Sequence[str], name: str) -> bool:
    """Return whether any of a registration's names and patterns matches this topic."""
    given = tuple(patterns)
    return name in given or exactly(name) in given or any(matches(one, name) for one in _evaluated(given))


def problem(patterns: Sequence[str]) -> str:
    """Return a sentence about the registration's patterns that are not evaluated; empty if all are."""
    if sum(literal(one) is None for one in patterns) > MAX_PATTERNS:
        return f"only the first {MAX_PATTERNS} patterns of a registration count"
    return next((str(made) for one in _evaluated(tuple(patterns)) if isinstance(made := _compiled(one), Refused)), "")


@lru_cache(maxsize=1024)
def _evaluated(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of a registration's texts are patterns. Cached, because each topic asks each registration again."""
    return tuple(islice((one for one in patterns if literal(one) is None), MAX_PATTERNS))
