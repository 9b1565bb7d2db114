"""Planned restarts: a consumer whose next process starts in time gets its former partitions back. Pure."""

from collections.abc import Iterator, Mapping

from coordinator_tasks.core.assignors.explain import RolledBack
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import PlannedRestart
from coordinator_tasks.core.text.partition_text import because, duration


def said(restart: PlannedRestart) -> str:
    """Return the planned restart in a few words for a person."""
    return f"back within {duration(round(restart.until_at - restart.at))}, asked by {restart.by}{because(restart.why)}"


def away(view: TopicView, world: World) -> dict[str, PlannedRestart]:
    """Return the owners and targets that are away for a planned restart. Plans count them as present."""
    restarts = {}
    targets = view.state.targets if view.state is not None else {}
    owners = view.node.incarnations if view.node is not None else {}
    for consumer, incarnation in {**targets, **owners}.items():
        life = world.life(consumer, incarnation)
        if life.restart is not None and life.kept_until:
            restarts[consumer] = life.restart
    return restarts


def back(able: Mapping[str, int], world: World) -> dict[str, PlannedRestart]:
    """Return the targets that are back from a planned restart in time. `able`: consumer → incarnation."""
    restarts = {}
    for consumer, incarnation in able.items():
        directive = world.directives.get(consumer)
        restart = directive.restart if directive is not None else None
        if restart is not None and restart.incarnation < incarnation and restart.holds(world.now):
            restarts[consumer] = restart
    return restarts


def returning(
    topic: str, able: Mapping[str, int], former: Mapping[int, str], listed: set[int], world: World
) -> Iterator[RolledBack]:
    """Yield the partitions that each returned consumer gets again.

    `former`: partition → lost former owner; `listed`: the topic's partitions.
    """
    latest_first = sorted(back(able, world).items(), key=lambda one: -one[1].at)  # later entries overwrite
    for consumer, restart in latest_first:
        lost = {p for p, owner in former.items() if owner == consumer}
        had = restart.partitions.get(topic, frozenset()) if restart.moves else lost
        owners = dict.fromkeys(sorted(had & listed), consumer)
        if owners:
            yield RolledBack(owners, f"its restart was planned ({said(restart)})")
