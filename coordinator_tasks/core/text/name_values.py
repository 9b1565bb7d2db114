"""The values of options that are written name=value."""

from collections.abc import Callable, Iterable

from coordinator_tasks.core.errors import Refused


def name_value(text: str, option: str, example: str = "") -> tuple[str, str]:
    """Return name and value in an option's text; raises `Refused`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Refused(f"{option} {text[:80]!r} is not name=value; write it like {example or f'{option} name=value'}")
    return name, value


def once(pairs: Iterable[tuple[str, str]], option: str, same: Callable[[str], str] = str) -> dict[str, str]:
    """Return name → value of a repeatable option; raises `Refused` for a repeated name.

    `same`: name → a key that is equal for names that mean the same, such as `str.lower`.
    """
    found: dict[str, str] = {}
    names: set[str] = set()
    for name, value in pairs:
        if same(name) in names:
            raise Refused(f"{option} gives {name[:80]!r} twice; give it once")
        names.add(same(name))
        found[name] = value
    return found


def name_values(
    texts: Iterable[str], option: str, example: str = "", same: Callable[[str], str] = str
) -> dict[str, str]:
    """Return name → value of a repeatable option, from its texts; see `name_value` and `once`."""
    return once((name_value(text, option, example) for text in texts), option, same)
