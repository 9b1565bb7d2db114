"""The periodic work besides the transitions, for the plain loop and for Airflow's `reconcile`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from coordinator_tasks.core.errors import KafkaUnavailable, LookAgain, NoAccess, Refused
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import redeployment, upgrades
from coordinator_tasks.service.nodes import directives, history, topics
from coordinator_tasks.service.nodes.topics import Refreshed
from coordinator_tasks.service.plan import pauses


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The result of an upkeep: a line for each result or problem, and topic → new partitions."""

    lines: tuple[str, ...]
    created: Mapping[str, tuple[int, ...]]


def upkeep(
    c: Coordinator, managed: Sequence[str], *, prune: bool = True, told: pauses.Told = lambda *_: None
) -> Upkeep:
    """Do the regular upkeep: partition lists, readmissions, redeployments, upgrades, pauses, histories.

    `told` gets the measured pauses. An unreadable node does not stop the other work. `prune` False skips the histories,
    whose lists of records are long. Raises `StoreUnavailable` and `DiscoveryUnavailable`.
    """
    refreshed, problems = _refresh(c, managed)
    lines = [*problems, *_told(refreshed), *readmit(c)]
    pauses.complete(c, managed, told)
    lines += _continue_and_prune(c, managed, prune=prune)
    return Upkeep(tuple(lines), {one.topic: one.created for one in refreshed if one.created})


def _continue_and_prune(c: Coordinator, managed: Sequence[str], *, prune: bool) -> Iterator[str]:
    yield from redeploy(c)
    yield from upgrade(c)
    if prune:
        for topic in filter(is_topic, managed):
            yield from _pruned(topic, partial(history.prune, c, topic, history.kept(len(managed))))
            share = c.policy.history_bytes // len(managed)
            beyond = f", beyond {share:,} bytes (a share of policy.history_bytes); `export-history` keeps records"
            yield from _pruned(topic, partial(history.prune_bytes, c, topic, share), beyond)
        yield from _pruned("what was asked for", partial(history.prune_asked, c))


def _pruned(of: str, prune: Callable[[], int], why: str = "") -> Iterator[str]:
    try:
        count = prune()
    except NoAccess as error:
        yield f"{of}: old records stay: {error}"
        return
    if count:
        yield f"{of}: old records pruned: {count}{why}"


def _refresh(c: Coordinator, managed: Sequence[str]) -> tuple[Sequence[Refreshed], list[str]]:
    """Return the result of each topic, and the problems that concern all topics."""
    try:
        return topics.refresh_partitions(c, managed) if managed else (), []
    except (KafkaUnavailable, Refused) as error:
        return (), [f"the partition lists stay as they are: {error}"]


def _told(refreshed: Sequence[Refreshed]) -> Iterator[str]:
    for one in refreshed:
        if one.problem:
            yield one.problem
        elif one.created:
            yield f"{one.topic} has {len(one.created)} new partitions"


def readmit(c: Coordinator) -> Iterator[str]:
    """Complete the readmissions that are possible. Yield a line for each readmission and each problem."""
    problems: list[str] = []
    try:
        for consumer in directives.complete_readmissions(c, problems):
            yield f"{consumer} is readmitted"
    except (LookAgain, NoAccess) as error:
        problems.append(f"nobody is readmitted: {error}")
    yield from problems


def redeploy(c: Coordinator) -> Iterator[str]:
    """Do the next step of each redeployment. Yield a line for each step and each problem."""
    return _continued("redeployments", partial(redeployment.advance, c))


def upgrade(c: Coordinator) -> Iterator[str]:
    """Do the next steps of each upgrade. Yield a line for each step and each problem."""
    return _continued("upgrades", partial(upgrades.advance, c))


def _continued(what: str, advance: Callable[[list[str]], Iterator[str]]) -> Iterator[str]:
    problems: list[str] = []
    try:
        yield from advance(problems)
    except NoAccess as error:
        problems.append(f"the {what} wait: {error}")
    yield from problems
