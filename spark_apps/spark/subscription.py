"""The topics of an application's registration: only topics for which a pipeline exists. Pure."""

from collections.abc import Sequence

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text import topic_patterns


def registered(
    given: Sequence[str], names: Sequence[str], patterns: Sequence[str], *, default: bool
) -> tuple[str, ...]:
    """Return the names and patterns for the registration; empty = any topic.

    `given`: topics to which the application is limited (`--topics`); empty = no limit. `names`, `patterns`, `default`:
    the topics of its pipelines. The common topics of two patterns cannot be computed, so `given` is then registered
    unchanged, and a topic without a pipeline is reported. Raises `Refused`.
    """
    if default:
        return tuple(given)
    if not names and not patterns:
        raise Refused(
            "no pipeline is given, so there is nothing to read; give one for a topic, a pattern, or as the default"
        )
    everything = [*map(topic_patterns.exactly, names), *patterns]
    found = _within(given, names, patterns) if given else everything
    problem = topic_patterns.problem(found)
    if problem:
        raise Refused(f"{problem}; correct it, or take one pipeline as the default and limit it by --topics")
    return tuple(dict.fromkeys(found))


def _within(given: Sequence[str], names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    found: list[str] = []
    for one in given:
        kept = [topic_patterns.exactly(name) for name in names if topic_patterns.matches(one, name)]
        named = topic_patterns.literal(one)
        if patterns and (named is None or topic_patterns.any_matches(patterns, named)):
            kept.append(one)
        if not kept:
            raise Refused(
                f"--topics has {one!r}, but no pipeline of this application is for it; add one, or leave it out"
            )
        found += kept
    return found
