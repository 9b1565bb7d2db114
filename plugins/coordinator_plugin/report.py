"""An operator's reports as log lines for the UI, and as plain data for XCom."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from coordinator_tasks.core.model import Explanation, Move
from coordinator_tasks.core.text.move_ways import by_way, way
from coordinator_tasks.core.text.partition_text import counted, shown

if TYPE_CHECKING:
    from coordinator_tasks.service.plan.transitions import TopicReport

SHOWN_REASONS = 50


def lines(reports: "Iterable[TopicReport]") -> Iterator[str]:
    """Yield a line for each topic, and a line for each kind of move."""
    for report in reports:
        states = str(report.before) if report.before == report.after else f"{report.before} -> {report.after}"
        yield f"{report.topic}: {states}, {report.outcome} at epoch {report.epoch}: {report.reason}"
        yield from (f"{report.topic}:   {line}" for line in moves(report.moves))
        if report.explanation is not None:
            yield from (f"{report.topic}:   {line}" for line in reasons(report.explanation))
        if report.blockers:
            yield f"{report.topic}:   waits for {shown(report.blockers)}"


def moves(planned: Iterable[Move]) -> Iterator[str]:
    """Yield a text for each kind of move between two consumers: `3 partitions from a to b by hand-off: 1, 4, 7`."""
    for (giver, taker, kind), partitions in by_way(planned).items():
        yield f"{counted(len(partitions), 'partition')} {way(giver, taker, kind, len(partitions))}: {shown(partitions)}"


def reasons(found: Explanation) -> Iterator[str]:
    """Yield why partitions move or stay. The reasons of most partitions come first."""
    yield found.summary
    for verb, listed in (("move", found.moves), ("stay", found.stays)):
        for one in sorted(listed, key=lambda one: -len(one.partitions))[:SHOWN_REASONS]:
            yield f"why {shown(list(one.partitions))} {verb}: {one.text}"
        if len(listed) > SHOWN_REASONS:
            yield f"and {counted(len(listed) - SHOWN_REASONS, 'more reason')} why partitions {verb}"


def plain(report: "TopicReport") -> dict[str, Any]:
    """Return the report for XCom."""
    return {
        "topic": report.topic,
        "before": str(report.before),
        "after": str(report.after),
        "outcome": str(report.outcome),
        "reason": report.reason,
        "summary": report.explanation.summary if report.explanation is not None else "",
        "epoch": report.epoch,
        "rebalance": report.rebalance,
        "blockers": list(report.blockers),
        "moves": [[move.partition, move.giver, move.taker, str(move.kind)] for move in report.moves],
    }


def waiting_lines(sentences: Mapping[str, str], blockers: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return topic → line about the topic's wait."""
    found: dict[str, str] = {}
    for topic, sentence in sorted(sentences.items()):
        named = shown(blockers.get(topic, ()))
        found[topic] = f"{topic}: {sentence}" + (f" (waits for {named})" if named else "")
    return found
