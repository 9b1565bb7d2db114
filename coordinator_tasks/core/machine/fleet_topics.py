"""The topics in the fleets' arguments, and fleets that would share a topic. Pure."""

from collections.abc import Collection, Sequence

from coordinator_tasks.core.machine.presence import wants
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.text import topic_patterns

REMEDY = "give its topics as an argument, such as --topics=orders,clicks-.*"


def named(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the topic names and patterns in an application's arguments.

    An application without topics in its arguments takes every topic, unless its code names topics.
    """
    given: dict[str, list[str]] = {"--topics": [], "--pipeline": [], "--pattern": [], "--default": []}
    for place, argument in enumerate(arguments):
        name, joined, value = argument.partition("=")
        if name in given:
            given[name].append(value if joined else "".join(arguments[place + 1 : place + 2]))
    limits = [name.strip() for names in given["--topics"] for name in names.split(",") if name.strip()]
    if limits or given["--default"]:
        return tuple(limits)
    names = [topic_patterns.exactly(value.partition("=")[0]) for value in given["--pipeline"]]
    return (*names, *(value.rpartition("=")[0] for value in given["--pattern"]))


def unnamed(fleet: Fleet) -> str:
    """Return a warning if the fleet names no topics; empty if it names topics or has no consumer."""
    if not fleet.consumers or named(fleet.arguments):
        return ""
    return f"{_unnamed(fleet)}; {REMEDY}"


def _unnamed(fleet: Fleet) -> str:
    return f"fleet {fleet.app!r} names no topics, so its consumers take every topic, unless their code names some"


def conflicts(fleets: Collection[Fleet], managed: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return fleet → problem and remedy, for each fleet that may share a managed or named topic with another fleet."""
    lists = {fleet.app: named(fleet.arguments) for fleet in fleets if fleet.consumers}
    if len(lists) < 2:
        return {}
    conflict_of = {one.app: (_unnamed(one), REMEDY) for one in fleets if one.app in lists and not lists[one.app]}
    literal = filter(None, (topic_patterns.literal(fleet) for topics in lists.values() for fleet in topics))
    readers: dict[str, str] = {}
    for topic in sorted({*managed, *literal}):
        for app, topics in lists.items():
            if not topics or not wants(topics, topic):
                continue
            other = readers.setdefault(topic, app)
            if other != app:
                conflict_of.setdefault(app, _shared(app, topic, other))
                conflict_of.setdefault(other, _shared(other, topic, app))
    return conflict_of


def _shared(app: str, topic: str, other: str) -> tuple[str, str]:
    return f"fleet {app!r} takes topic {topic!r}, which fleet {other!r} takes too", "give them different topics"
