"""A site's own strategies: callables that the settings name, or entry points. Only this module imports them.

A strategy takes a read-only `Problem` (one topic; its members with their free attributes) and returns partition →
member. Every error in a strategy, or in its import, becomes a `Refused` of one line, and holds only the topics with
this strategy.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any

from coordinator_tasks.core.assignors import ASSIGNORS, Assignor, Problem, Strategies
from coordinator_tasks.core.errors import BadStrategy
from coordinator_tasks.core.text.partition_text import cut

GROUP = "kafka_partition_coordinator.strategies"
FAILURES = (Exception, SystemExit)
"""Errors of a site's code. An exit in the code, for example in an imported script, must not end the coordinator."""
_SHOWN = 200  # characters shown of another program's error


@dataclass(frozen=True, slots=True)
class SiteStrategy:
    """A site's strategy and its name. `source`: where it comes from.

    `partial`: partitions may stay without an owner. The callable declares this by an attribute `partial`.
    """

    name: str
    source: str
    call: Callable[[Problem], object]
    partial: bool = False

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return the callable's answer. Raises `BadStrategy` for an error or a wrong answer."""
        try:
            answer = self.call(_read_only(problem))
            answer = dict(answer.items()) if isinstance(answer, Mapping) else answer
        except FAILURES as error:
            raise BadStrategy(
                f"strategy {self.name!r} ({self.source}) failed on topic {problem.topic} with {one_line(error)}; "
                "correct it, or choose another strategy"
            ) from error
        return self._checked(problem, answer)

    def _checked(self, problem: Problem, answer: object) -> dict[int, str]:
        said = f"strategy {self.name!r} ({self.source}) answered for topic {problem.topic} with "
        if not isinstance(answer, dict):
            raise BadStrategy(f"{said}{type(answer).__name__}, not with a mapping of partition to member; correct it")
        for partition, member in answer.items():
            if type(partition) is not int or not isinstance(member, str):
                shown = f"{partition!r}: {member!r}"[:_SHOWN]
                raise BadStrategy(f"{said}{shown}, which is no partition number with a member's id; correct it")
        return answer


@dataclass(frozen=True, slots=True)
class Broken:
    """A strategy whose import has failed. Its topics are held, with the reason."""

    why: str

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Raise `Refused`."""
        raise BadStrategy(f"{self.why} (topic {problem.topic})")

    def check(self, parameters: Mapping[str, str]) -> None:  # noqa: ARG002 - none of them would help
        """Raise `Refused`."""
        raise BadStrategy(self.why)


def strategies_of(default: str, parameters: Mapping[str, str], named: Mapping[str, str]) -> Strategies:
    """Return built-in strategies, those in the settings, and entry points. Of equal names, the first counts.

    Raises `BadStrategy` if `default` is unknown, if a built-in `default` refuses the parameters, or if `named` has the
    name of a built-in strategy.
    """
    taken = sorted(named.keys() & ASSIGNORS.keys())
    if taken:
        raise BadStrategy(
            f"the setting strategies names {taken[0]!r}, which is a strategy already; choose another name"
        )
    known: dict[str, Assignor] = {entry.name: _loaded(entry) for entry in entry_points(group=GROUP)}
    known |= {name: _loaded(EntryPoint(name, source, GROUP)) for name, source in named.items()}
    known |= ASSIGNORS
    if default not in known:
        raise BadStrategy(f"the setting strategy is {default!r}; choose one of {', '.join(sorted(known))}")
    found = Strategies(known, default, parameters)
    if default in ASSIGNORS:
        found.check_parameters(default, parameters)
    return found


def _loaded(entry: EntryPoint) -> Assignor:
    named = f"strategy {entry.name!r} is to be {entry.value!r}"
    try:
        found = imported(entry.value)
        partial = getattr(found, "partial", False) is True
    except FAILURES as error:
        return Broken(f"{named}, which cannot be imported: {one_line(error)}; correct the name, or install it")
    if not callable(found):
        return Broken(f"{named}, which is no callable but {type(found).__name__}; name a function of a Problem")
    return SiteStrategy(entry.name, entry.value, found, partial)


def imported(source: str) -> Any:
    """Return the object at `package.module:name`; raises `FAILURES`."""
    match = EntryPoint.pattern.match(source)
    if match is None or not match["attr"]:
        raise ValueError("this is not package.module:name")
    return EntryPoint("", source, "").load()


def _read_only(problem: Problem) -> Problem:
    """Return a read-only copy for the strategy. The answer is validated against the original."""
    members = {
        name: replace(member, attributes=MappingProxyType(dict(member.attributes)))
        for name, member in problem.members.items()
    }
    values = {one.name: getattr(problem, one.name) for one in fields(problem)} | {"members": members}
    copies: dict[str, Any] = {
        name: MappingProxyType(dict(one)) for name, one in values.items() if isinstance(one, Mapping)
    }
    return replace(problem, **copies)


def one_line(error: BaseException) -> str:
    """Return a text such as `KeyError: 'rack' (mine.py, line 12)`."""
    kind = type(error).__name__
    try:
        text = " ".join(f"{kind}: {error}".split())
    except FAILURES:
        text = f"{kind}, whose own text fails"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return cut(text, _SHOWN) + where
