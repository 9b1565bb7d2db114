"""Options of a command line that may be given several times, each time with another name."""

from collections.abc import Iterable

from coordinator_tasks.core.errors import Refused


def once(argument: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The pairs by name; raises `Refused` for a name that comes twice."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Refused(f"{argument} {name} is given twice; give it once")
        found[name] = value
    return found
