"""What is due now and then beside the transitions, for the plain loop and for Airflow's `reconcile` alike."""

from collections.abc import Iterator, Sequence

from coordinator_tasks.core.errors import KafkaUnavailable, LookAgain
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.service import directives, history, topics
from coordinator_tasks.service.coordinator import Coordinator


def upkeep(c: Coordinator, managed: Sequence[str], *, prune: bool = True) -> Iterator[str]:
    """Refresh the partition lists, complete readmissions, prune the histories; what was done or found, a line each.

    What one of these cannot read is said, and keeps no other waiting. `prune` False = the histories are left for another
    time: their lists are long. Raises `StoreUnavailable` and `DiscoveryUnavailable`.
    """
    yield from _refresh(c, managed)
    yield from readmit(c)
    for topic in filter(is_topic, managed) if prune else ():
        if count := history.prune(c, topic):
            yield f"{topic}: old records pruned: {count}"


def _refresh(c: Coordinator, managed: Sequence[str]) -> Iterator[str]:
    if not managed:
        return
    try:
        for refreshed in topics.refresh_partitions(c, managed):
            if refreshed.problem:
                yield refreshed.problem
            elif refreshed.created:
                yield f"{refreshed.topic} has {len(refreshed.created)} new partitions"
    except KafkaUnavailable as error:
        yield f"the partition lists stay as they are: {error}"


def readmit(c: Coordinator) -> Iterator[str]:
    """Complete the readmissions that can be; a line for each, and for what keeps one from being completed."""
    problems: list[str] = []
    try:
        for consumer in directives.complete_readmissions(c, problems):
            yield f"{consumer} is readmitted"
    except LookAgain as error:
        problems.append(f"nobody is readmitted: {error}")
    yield from problems
