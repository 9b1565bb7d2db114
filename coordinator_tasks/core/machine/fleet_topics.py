"""The topics that fleets name in their arguments, and fleets that would share one. Pure."""

from collections.abc import Collection, Sequence

from coordinator_tasks.core.machine.presence import wants
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.text import topic_patterns

REMEDY = "give its topics as an argument, such as --topics=orders,clicks-.*"


def named(arguments: Sequence[str]) -> tuple[str, ...]:
    """Names and patterns in the arguments of our applications; empty = none, so it takes any topic unless its code names some."""
    given: dict[str, list[str]] = {"--topics": [], "--pipeline": [], "--pattern": [], "--default": []}
    for place, argument in enumerate(arguments):
        name, joined, value = argument.partition("=")
        if name in given:
            given[name].append(value if joined else "".join(arguments[place + 1 : place + 2]))
    limits = [one.strip() for text in given["--topics"] for one in text.split(",") if one.strip()]
    if limits or given["--default"]:
        return tuple(limits)
    names = [topic_patterns.exactly(one.partition("=")[0]) for one in given["--pipeline"]]
    return (*names, *(one.rpartition("=")[0] for one in given["--pattern"]))


def unnamed(fleet: Fleet) -> str:
    """A sentence about a fleet that names no topics; empty = it names some, or has no consumer."""
    if not fleet.consumers or named(fleet.arguments):
        return ""
    return f"fleet {fleet.app!r} names no topics, so its consumers take every topic, unless their code names some; {REMEDY}"


def conflicts(fleets: Collection[Fleet], managed: Collection[str]) -> dict[str, str]:
    """Fleet → why it takes topics of another one, of those that are managed or that a fleet names."""
    lists = {one.app: named(one.arguments) for one in fleets if one.consumers}
    if len(lists) < 2:
        return {}
    found = {one.app: unnamed(one) for one in fleets if one.app in lists and not lists[one.app]}
    literal = filter(None, (topic_patterns.literal(one) for topics in lists.values() for one in topics))
    readers: dict[str, str] = {}
    for topic in sorted({*managed, *literal}):
        for app, topics in lists.items():
            if not topics or not wants(topics, topic):
                continue
            other = readers.setdefault(topic, app)
            if other != app:
                found.setdefault(app, _shared(app, topic, other))
                found.setdefault(other, _shared(other, topic, app))
    return found


def _shared(app: str, topic: str, other: str) -> str:
    return f"fleet {app!r} takes topic {topic!r}, which fleet {other!r} takes too; give them different topics"
