"""One topic for the pages: owners and blockers.

A sentence replaces an unreadable part. These functions raise only `StoreUnavailable`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median

from coordinator_tasks.core.errors import UNREADABLE, DiscoveryUnavailable, LookAgain, Malformed, Refused
from coordinator_tasks.core.machine.confirm import blockers
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.machine.life import interfaces
from coordinator_tasks.core.machine.unread import unowned_in, unread
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import Record, State, TopicState
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, store
from coordinator_tasks.service.nodes.observe import load_claims, load_directives, load_members
from coordinator_tasks.service.plan import overrides
from coordinator_tasks.service.watch.fleet_starts import fleet_starts, starts_of

_MOVING = (State.CLOSING, State.STARTING)
LATE_S = 10.0
"""Seconds for which no rebalance counts as late. Then a rebalance is late at twice the topic's recent durations."""
USUAL_OF = 8
MOST_LATE = 50
"""Maximum topics whose history is read to judge lateness. In all other topics, a rebalance is late after `LATE_S`."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic now.

    - `owners`: consumer → partitions. `since`: partition → first epoch of its holding.
    - `unowned`: partitions without an owner now and in the plan.
    - `closing`, `starting`: consumer → partitions with an unconfirmed close or start.
    - `blockers`: consumer → missing confirmation.
    - `overrides`: a person's freezes, pauses and pins. `frozen`: owned partitions stay. `paused`: partitions not to
      read.
    - `last`: the newest record; `last_problem`: why that record cannot be read.
    - `late`: the rebalance takes longer than usual.
    - `starts`: consumers that start, for a topic without owners.
    - `problem`: why the topic cannot be read; all figures are then empty.
    """

    topic: str
    state: State = State.INITIAL
    since_at: float = 0.0
    epoch: int = 0
    group: str = ""
    strategy: str = ""
    partitions: tuple[int, ...] = ()
    unowned: tuple[int, ...] = ()
    owners: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    since: Mapping[int, int] = field(default_factory=dict)
    closing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    starting: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    blockers: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    frozen: bool = False
    paused: Collection[int] = ()
    last: Record | None = None
    last_problem: str = ""
    removed: bool = False
    late: bool = False
    starts: str = ""
    problem: str = ""

    @property
    def moving(self) -> tuple[int, ...]:
        listed = (*self.closing.values(), *self.starting.values())
        return tuple(sorted({p for numbers in listed for p in numbers}))


def summaries(
    c: Coordinator, topics: Iterable[str], world: Callable[[], World] | None = None
) -> tuple[TopicSummary, ...]:
    """Return the summaries of these topics, in order. After the topics are read, `world` asks all consumers."""
    views: dict[str, TopicView | str] = {}
    for topic in topics:
        try:
            views[topic] = store.load(c.zk, c.paths, topic).view
        except (Malformed, Refused, LookAgain) as error:
            views[topic] = error.told
    found = [view for view in views.values() if isinstance(view, TopicView)]
    missing, seen = _blockers(c, found, world)
    late = _late(c, found)
    made = [
        replace(_summary(c, topic, view, missing.get(topic, {}), seen), late=topic in late)
        for topic, view in views.items()
    ]
    starts = fleet_starts(c) if any(_is_idle(one) for one in made) else ()
    return tuple(replace(one, starts=starts_of(one.topic, starts)) if _is_idle(one) else one for one in made)


def _is_idle(one: TopicSummary) -> bool:
    return bool(one.unowned) and not one.owners


def _summary(
    c: Coordinator, topic: str, view: TopicView | str, missing: Mapping[str, str], world: World | None
) -> TopicSummary:
    last, problem = _newest(c, topic)
    if isinstance(view, str):
        return TopicSummary(topic, last=last, problem=view)
    node, state = view.node, view.state or TopicState(State.INITIAL)
    return TopicSummary(
        topic=topic,
        state=state.state,
        since_at=state.since_at,
        epoch=node.epoch if node is not None else 0,
        group=view.config.group_id,
        strategy=c.policy.strategies.effective(view.config).strategy,
        partitions=view.partitions,
        unowned=unowned_in(view) if world is None else tuple(unread(view, world, c.policy)),
        owners=by_consumer((who, p) for p, who in node.assignments.items()) if node is not None else {},
        since=node.since if node is not None else {},
        closing=state.to_close,
        starting=state.to_start,
        blockers=missing,
        overrides=overrides.told(view.config),
        frozen=view.config.frozen,
        paused=view.config.paused,
        last=last,
        last_problem=problem,
        removed=view.config.removed,
    )


def _late(c: Coordinator, views: Iterable[TopicView]) -> set[str]:
    now = c.clock.now()
    lasted = {
        view.topic: now - view.state.since_at
        for view in views
        if view.state is not None and view.state.state in _MOVING and now - view.state.since_at > LATE_S
    }
    usual = {topic: _usual_s(c, topic) for topic in islice(lasted, MOST_LATE)}
    return {topic for topic, lasted_s in lasted.items() if lasted_s > 2 * usual.get(topic, 0.0)}


def _usual_s(c: Coordinator, topic: str) -> float:
    """Return the seconds that a rebalance of the topic usually takes; 0 if unknown."""
    try:
        found = history.rebalances(c, [topic], USUAL_OF)
    except UNREADABLE:
        return 0.0
    ended = [one.lasted_s for one in found if one.ended_at and not one.given_up]
    return median(ended) if ended else 0.0


def _newest(c: Coordinator, topic: str) -> tuple[Record | None, str]:
    try:
        return next(iter(history.records(c, topic, 1)), None), ""
    except (Malformed, Refused) as error:
        return None, error.told


def _blockers(
    c: Coordinator, views: Iterable[TopicView], look: Callable[[], World] | None
) -> tuple[dict[str, dict[str, str]], World | None]:
    """Return the world, and topic → consumer → missing confirmation for moving topics.

    Without `look`, or without moving topics, no consumer is asked.
    """
    moving = {view.topic: view for view in views if view.state is not None and view.state.state in _MOVING}
    if not moving and look is None:
        return {}, None
    try:
        world = look() if look is not None else _world(c, moving.values())
    except (DiscoveryUnavailable, Malformed) as error:
        return {topic: {"the registry of consumers": error.told} for topic in moving}, None
    return {topic: blockers(view, world) for topic, view in moving.items()}, world


def _world(c: Coordinator, views: Iterable[TopicView]) -> World:
    states = [view.state for view in views if view.state is not None]
    waited_for = sorted({consumer for state in states for consumer in (*state.to_close, *state.to_start)})
    unclear: dict[str, str] = {}
    members, claims = load_members(c, unclear), load_claims(c, waited_for, unclear)
    answers = c.statuses.ask(interfaces(waited_for, members, claims))
    return World(c.clock.now(), members, claims, load_directives(c, unclear), answers, unclear=unclear)
