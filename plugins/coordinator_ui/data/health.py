"""A cluster's condition in a few lines, for the head of the live page, the tile, and the page of a run. Pure."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator_tasks.core.model import State
from coordinator_tasks.core.text.partition_text import agreed, counted, cut
from coordinator_tasks.service.watch import overview
from coordinator_ui.data.live import Now, says
from coordinator_ui.data.topic_summary import TopicSummary
from coordinator_ui.texts import words

MOST_NAMED = 5
MOST_NAME = 80
MOST_TOLD = 300


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence without its full stop. `bad`: a person has to act."""

    text: str
    bad: bool = False


def health(seen: Now) -> tuple[Line, ...]:
    """Return lines about topics, consumers and lag. A hand-off that takes no longer than usual counts as healthy."""
    problem = (Line(seen.problem, bad=True),) if seen.problem else ()
    return (*problem, *_topics(seen), *_consumers(seen), *_lag(seen))


def rows(seen: Now) -> list[dict[str, Any]]:
    """Return the lines as data for programs."""
    return [{"says": one.text, "bad": one.bad} for one in health(seen)]


def _needs(one: TopicSummary) -> bool:
    """Return whether a person has to act for a topic, or the topic waits for its first plan."""
    return bool(one.problem or one.unowned or one.late) or (one.state is State.INITIAL and not one.removed)


def _topics(seen: Now) -> Iterator[Line]:
    found = [one for one in seen.topics if _needs(one)]
    moving = sum(one.state is not State.STABLE for one in seen.topics if not _needs(one))
    total = len(seen.topics)
    if not total:
        yield Line("No topic is managed")
    elif found:
        yield Line(
            f"{len(found)} of {counted(total, 'topic')} {agreed(len(found), 'needs', 'need')} somebody", bad=True
        )
    elif moving:
        yield Line(f"{counted(moving, 'topic')} of {total} {agreed(moving, 'moves', 'move')} partitions, as usual")
    else:
        yield Line("The only topic is Stable" if total == 1 else f"All {total} topics are Stable")
    for one in found[:MOST_NAMED]:
        since = f" for {words.duration(max(0.0, seen.at - one.since_at))}" if one.since_at and not one.problem else ""
        yield Line(f"{cut(one.topic, MOST_NAME)}, {one.state}{since}: {says(one).rstrip('.')}", bad=True)
    if len(found) > MOST_NAMED:
        yield Line(f"and {counted(len(found) - MOST_NAMED, 'more topic')}", bad=True)


def _consumers(seen: Now) -> Iterator[Line]:
    running = {one.consumer for one in seen.consumers if one.health}
    extra, missing = len(running - seen.wanted), sorted(seen.wanted - running)
    runs = f"{counted(extra, 'consumer')} {agreed(extra, 'runs', 'run')} in no fleet"
    if not seen.wanted:
        yield Line(runs if extra else "No consumer runs", bad=not extra and bool(seen.topics))
    else:
        here = len(seen.wanted) - len(missing)
        whole = "The only consumer" if here == 1 else f"All {here} consumers"
        who = f"{here} of the {counted(len(seen.wanted), 'consumer')}" if missing else whole
        text = f"{who} that the fleets want {agreed(here, 'runs', 'run')}"
        named = f"; missing: {_named(missing)}" if missing else ""
        yield Line(f"{text}{named}{f'; {runs}' if extra else ''}", bad=bool(missing))
    silent = [one.consumer for one in seen.consumers if one.problem and one.consumer not in missing]
    if silent:
        yield _bad(silent, f"{agreed(len(silent), 'gives', 'give')} no answer")
    failures = overview.failures(seen.consumers)
    yield from (Line(cut(one.told, MOST_TOLD), bad=True) for one in failures[:MOST_NAMED])
    if len(failures) > MOST_NAMED:
        yield Line(f"and {counted(len(failures) - MOST_NAMED, 'more failure')}", bad=True)
    known = {consumer for failure in failures for consumer in failure.consumers}
    unwell = [one.consumer for one in seen.consumers if one.unwell and one.consumer not in known]
    if unwell:
        yield _bad(unwell, f"{agreed(len(unwell), 'is', 'are')} not well")


def _lag(seen: Now) -> Iterator[Line]:
    topics = (topic for one in seen.consumers if one.health for topic in one.topics if topic.assigned or topic.closing)
    known = [topic.lag_records for topic in topics if topic.lag_records is not None]
    if known:
        lag = math.fsum(known)
        yield Line(f"{counted(int(lag), 'record')} behind" if lag else "Nothing is behind")


def _bad(consumers: Sequence[str], what: str) -> Line:
    return Line(f"{counted(len(consumers), 'consumer')} {what}: {_named(consumers)}", bad=True)


def _named(names: Iterable[str]) -> str:
    listed = [cut(name, MOST_NAME) for name in names]
    more = len(listed) - MOST_NAMED
    return ", ".join(listed[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
