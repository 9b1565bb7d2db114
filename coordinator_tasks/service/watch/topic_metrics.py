"""Figures of managed topics for metrics, from ZooKeeper and the consumers' answers. Writes nothing."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.machine.unread import moving_in, unowned_in, unread
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.measure.lag import furthest_s
from coordinator_tasks.core.model import RunningPartition, State, topic_status
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import store
from coordinator_tasks.service.nodes.store import StoredTopics
from coordinator_tasks.service.watch.overview import ClusterLook

MAX_TOPICS = 1_000
MAX_CONSUMERS = 10_000
MAX_FLEETS = 1_000
"""Maximum fleets of each kind that have metrics: the first by name."""


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A managed topic. `not_stable_s`: seconds of the rebalance under way; 0 while Stable or never planned.

    - `owners`: partition → owner. `unowned`: partitions that are not read (`core.machine.unread`).
    - `moving`: partitions with an unconfirmed close or start. `handoffs`: partitions in a hand-off.
    - `removed`: the topic is removed. `problem`: why the topic is unreadable; the figures are then empty.
    """

    topic: str
    group: str = ""
    state: State = State.INITIAL
    epoch: int = 0
    not_stable_s: float = 0.0
    partitions: tuple[int, ...] = ()
    owners: Mapping[int, str] = field(default_factory=dict)
    unowned: tuple[int, ...] = ()
    moving: int = 0
    handoffs: int = 0
    removed: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TopicLag:
    """A topic's lag as its owners report it; `None` if not reported."""

    unknown: int = 0
    """Number of owned partitions without a reported lag."""
    records: int | None = None
    """Offsets to the log's end, summed over partitions with a reported lag."""
    seconds: float | None = None
    """Age in seconds of the oldest unread record, assuming that records arrived evenly; the maximum over partitions."""


def lags(seen: ClusterLook) -> dict[str, TopicLag]:
    """Return topic → lag."""
    found: dict[str, TopicLag] = {}
    for topic, node in seen.nodes.items():
        said = [one for one in _owned(seen, topic) if one.lag_records is not None]
        known = [(one.lag_records or 0, one.rate or 0.0) for one in said]
        late_s = furthest_s((lag, lag / rate if rate > 0 else None) for lag, rate in known)
        records = sum(lag for lag, _ in known) if known else None
        found[topic] = TopicLag(len(node.assignments) - len(known), records, late_s)
    return found


def _owned(seen: ClusterLook, topic: str) -> Iterator[RunningPartition]:
    """Yield the owners' reports of their own partitions."""
    for partition, owner in seen.nodes[topic].assignments.items():
        said = topic_status(seen.world.answers.get(owner), topic)
        if said is not None and partition in said.running:
            yield said.running[partition]


def figures(c: Coordinator, names: Collection[str] = (), look: Callable[[], World] | None = None) -> list[TopicFigures]:
    """Return the figures of the named managed topics (all if empty), sorted. Raises `StoreUnavailable`.

    `look` observes the consumers, after the topics are read.
    """
    found = store.load_topics(c.zk, c.paths, names, others=not names)
    return figures_of(c, found, look() if look is not None else None)


def figures_of(c: Coordinator, topics: StoredTopics, world: World | None = None) -> list[TopicFigures]:
    """Return the figures of topics that are already read. `world`: observed after reading them."""
    found = [TopicFigures(name, problem=error.told) for name, error in topics.unread.items()]
    found += [_of_topic(c, view, world) for view in topics.views]
    return sorted(found, key=lambda one: one.topic)


def _of_topic(c: Coordinator, view: TopicView, world: World | None) -> TopicFigures:
    return TopicFigures(
        topic=view.topic,
        group=view.config.group_id,
        state=view.state.state if view.state is not None else State.INITIAL,
        epoch=view.node.epoch if view.node is not None else 0,
        not_stable_s=_not_stable_s(view, c.clock.now()),
        partitions=view.partitions,
        owners=view.owners,
        unowned=unowned_in(view) if world is None else tuple(unread(view, world, c.policy)),
        moving=len(moving_in(view)),
        handoffs=len(view.node.handoff) if view.node is not None else 0,
        removed=view.config.removed,
    )


def _not_stable_s(view: TopicView, now: float) -> float:
    state = view.state
    if state is None or state.state is State.STABLE:
        return 0.0
    return max(0.0, now - (state.began_at or state.since_at or now))
