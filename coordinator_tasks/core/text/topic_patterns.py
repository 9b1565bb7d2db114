r"""Regular expressions for names of topics, matched in time linear in the name.

Patterns come from registrations and the planner evaluates them: a backtracking pattern, as Python's, could stop it.
They are the common part of Python's syntax, with the same meaning: letters, `.`, classes, `\d`, `\w`, groups, `|`, `*`,
`+`, `?`, `{m,n}`, and `^` and `$` at the ends; without look-around, references and flags. A pattern becomes an
automaton whose states are its positions (Glushkov 1961). The possible states of a name are the bits of a number.
"""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from coordinator_tasks.core.errors import Refused

MAX_CHARS = 256
MAX_STEPS = 300  # to build an automaton; it has no more positions than this
MAX_PATTERNS = 32  # of a registration's evaluated patterns; names do not count
_DEEPEST = 16  # groups in groups
_MOST = 100  # of a bounded repetition
_LETTERS = frozenset(string.ascii_letters + string.digits + "._-")  # of names that Kafka allows
_SYNTAX = "\\[]{}()|*+?^$"
_CLASSES = {"d": frozenset(string.digits), "w": frozenset(string.ascii_letters + string.digits + "_")}


@dataclass(frozen=True, slots=True)
class _Row:
    """A sequence of parts; without parts, the empty text."""

    parts: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Either:
    options: tuple["_Node", ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    """`most` `None` = any number of times."""

    part: "_Node"
    least: int
    most: int | None


_Node: TypeAlias = frozenset[str] | _Row | _Either | _Repeat


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        text = pattern.removeprefix("^")
        escapes = len(text) - 1 - len(text[:-1].rstrip("\\"))
        self._text = text[:-1] if text.endswith("$") and escapes % 2 == 0 else text
        self._at = 0

    def parse(self) -> _Node:
        if len(self._pattern) > MAX_CHARS:
            raise self._refused(f"it has more than {MAX_CHARS} characters")
        found = self._alternatives(0)
        if self._at < len(self._text):
            raise self._refused("it closes a group that it has not opened")
        return found

    def _refused(self, why: str) -> Refused:
        return Refused(f"{self._pattern[:MAX_CHARS]!r} is no pattern of topics: {why}")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        found = self._peek()
        if not found:
            raise self._refused("it ends too soon")
        self._at += 1
        return found

    def _take(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _alternatives(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise self._refused(f"its groups are nested more than {_DEEPEST} deep")
        options = [self._row(depth)]
        while self._take("|"):
            options.append(self._row(depth))
        return _Either(tuple(options))

    def _row(self, depth: int) -> _Node:
        parts = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(depth))
        return _Row(tuple(parts))

    def _repeated(self, depth: int) -> _Node:
        part = self._part(depth)
        bounds = self._bounds()
        if bounds is None:
            return part
        self._take("?")  # as few as possible: the same names
        if self._peek() in ("*", "+", "?", "{"):
            raise self._refused("it repeats a repetition")
        return _Repeat(part, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        if not self._take("{"):
            return None
        inside, closed, _ = self._text[self._at :].partition("}")
        low, comma, high = inside.partition(",")
        if not closed or not all(one.isascii() and one.isdigit() and len(one) <= 3 for one in (low, high or "0")):
            raise self._refused("write a repetition as {2}, {2,} or {2,4}")
        self._at += len(inside) + 1
        least = int(low)
        most = int(high) if high else None if comma else least
        if not least <= (least if most is None else most) <= _MOST:
            raise self._refused(f"a repetition goes from a number to a larger one, up to {_MOST}")
        return least, most

    def _part(self, depth: int) -> _Node:
        letter = self._next()
        match letter:
            case "(":
                return self._group(depth)
            case "[":
                return self._class()
            case ".":
                return _LETTERS
            case "\\":
                return self._escaped()
        if letter in "*+?{^$":
            raise self._refused(f"{letter!r} stands where a letter or a group should; write \\{letter} for the letter")
        return frozenset(letter)

    def _group(self, depth: int) -> _Node:
        if not self._take("?:") and self._peek() == "?":
            raise self._refused("groups that begin with (? are not supported, but for (?:...)")
        found = self._alternatives(depth + 1)
        if not self._take(")"):
            raise self._refused("it does not close a group")
        return found

    def _escaped(self) -> frozenset[str]:
        letter = self._next()
        if letter.lower() in _CLASSES:
            found = _CLASSES[letter.lower()]
            return found if letter.islower() else _LETTERS - found
        if letter.isalnum():
            raise self._refused(f"\\{letter} is not supported")
        return frozenset(letter)

    def _class(self) -> frozenset[str]:
        inverse, found = self._take("^"), frozenset[str]()
        first = True
        while first or self._peek() != "]":
            found |= self._range()
            first = False
        self._at += 1
        return _LETTERS - found if inverse else found & _LETTERS

    def _range(self) -> frozenset[str]:
        low = self._member()
        ahead = self._text[self._at : self._at + 2]
        if len(low) != 1 or not ahead.startswith("-") or ahead == "-]":
            return low
        self._at += 1
        high = self._member()
        (least,), most = low, max(high)
        if len(high) != 1 or most < least:
            raise self._refused("a range in a class goes from a letter to a later one")
        return frozenset(one for one in _LETTERS if least <= one <= most)

    def _member(self) -> frozenset[str]:
        letter = self._next()
        return self._escaped() if letter == "\\" else frozenset(letter)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an automaton: whether it may be empty, and its possible first and last positions, as bits."""

    empty: bool = True
    first: int = 0
    last: int = 0


class _Automaton:
    def __init__(self, pattern: str) -> None:
        self._steps = 0
        self._pattern = pattern
        self._next: list[int] = []  # position -> the positions that can follow it
        self._on: dict[str, int] = {}  # letter -> the positions that accept it
        self._whole = self._add(_Parser(pattern).parse())

    def matches(self, name: str) -> bool:
        """Return whether the pattern matches the whole name."""
        possible, here, whole = self._whole.first, 0, self._whole
        for letter in name:
            here = possible & self._on.get(letter, 0)
            possible = 0
            for position in _bits(here):
                possible |= self._next[position]
        return bool(here & whole.last) if name else whole.empty

    def _add(self, node: _Node) -> _Part:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Refused(f"{self._pattern!r} is no pattern of topics: it is too large; write several smaller ones")
        match node:
            case _Row(parts):
                return self._row(map(self._add, parts))
            case _Either(options):
                found = [self._add(one) for one in options]
                firsts, lasts = [one.first for one in found], [one.last for one in found]
                return _Part(any(one.empty for one in found), _union(firsts), _union(lasts))
            case _Repeat(part, least, most):
                return self._row(self._copies(part, least, most))
        bit = 1 << len(self._next)
        self._next.append(0)
        for letter in node:
            self._on[letter] = self._on.get(letter, 0) | bit
        return _Part(False, bit, bit)

    def _copies(self, part: _Node, least: int, most: int | None) -> Iterator[_Part]:
        for number in range(least if most is None else most):
            copy = self._add(part)
            yield copy if number < least else _Part(True, copy.first, copy.last)
        if most is None:
            copy = self._add(part)
            self._link(copy, copy)
            yield _Part(True, copy.first, copy.last)

    def _row(self, parts: Iterator[_Part]) -> _Part:
        found = _Part()
        for part in parts:
            self._link(found, part)
            first = found.first | part.first if found.empty else found.first
            last = found.last | part.last if part.empty else part.last
            found = _Part(found.empty and part.empty, first, last)
        return found

    def _link(self, before: _Part, after: _Part) -> None:
        for position in _bits(before.last):
            self._next[position] |= after.first


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _union(numbers: Sequence[int]) -> int:
    found = 0
    for number in numbers:
        found |= number
    return found


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> _Automaton | Refused:
    try:
        return _Automaton(pattern)
    except Refused as error:
        return error


@lru_cache(maxsize=16_384)
def _found(pattern: str, name: str) -> bool:
    made = _compiled(pattern)
    return isinstance(made, _Automaton) and made.matches(name)


def literal(text: str) -> str | None:
    """Return the topic of a text without syntax other than escaped dots; `None` = a pattern."""
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
    """Return whether a pattern or a name matches this topic; an unsupported pattern matches none."""
    named = literal(pattern)
    if named is not None or pattern == name:
        return name in (pattern, named)
    return len(pattern) <= MAX_CHARS and _found(pattern, name)


def any_matches(patterns: Sequence[str], name: str) -> bool:
    """Return whether any of a registration's names and patterns matches this topic."""
    given = tuple(patterns)
    return name in given or exactly(name) in given or any(matches(one, name) for one in _evaluated(given))


def problem(patterns: Sequence[str]) -> str:
    """Return a sentence about the registration's unevaluated patterns; empty if all are evaluated."""
    if sum(literal(one) is None for one in patterns) > MAX_PATTERNS:
        return f"only the first {MAX_PATTERNS} patterns of a registration count"
    return next((str(made) for one in _evaluated(tuple(patterns)) if isinstance(made := _compiled(one), Refused)), "")


@lru_cache(maxsize=1024)
def _evaluated(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns among a registration's texts, cached: every topic asks every registration again."""
    return tuple(islice((one for one in patterns if literal(one) is None), MAX_PATTERNS))
