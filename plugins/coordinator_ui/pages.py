"""What the pages show, read from ZooKeeper and the consumers' own interfaces. Writes nothing and decides nothing.

What cannot be read stands as a sentence in place of its part, and hides none of the others; only a ZooKeeper that does
not answer at all (`StoreUnavailable`) leaves these functions.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.errors import (
    CoordinatorError,
    DiscoveryUnavailable,
    Malformed,
    NodeMissing,
    NotManaged,
    Refused,
)
from coordinator_tasks.core.machine.confirm import blockers
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import Member, Record, State
from coordinator_tasks.service import history, overview, store, transitions, wishes
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.history import Rebalance
from coordinator_tasks.service.observe import load_claims, load_directives, load_members
from coordinator_tasks.service.overview import ConsumerOverview

_MOVING = (State.CLOSING, State.STARTING)
RECENT_TOPICS = 4  # of the overview's newest rebalances: a history is read by the 200
RECENT = 6
SEARCHED = (20, 200, 2_000, history.KEEP)
CLOCK_SLACK_S = 5.0
RUN_RECORDS = 2_000


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic now. `owners`: consumer → partitions; `since`: partition → the epoch at which its holding began.

    `closing`, `starting`: consumer → partitions not confirmed yet; `blockers`: consumer → what is missing from it;
    `overrides`: what a person has frozen, paused or pinned; `last` is the newest record; `problem` is why the topic cannot be read (then the figures are empty).
    """

    topic: str
    state: State = State.INITIAL
    since_at: float = 0.0
    epoch: int = 0
    group: str = ""
    strategy: str = ""
    partitions: tuple[int, ...] = ()
    owners: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    since: Mapping[int, int] = field(default_factory=dict)
    closing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    starting: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    blockers: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    last: Record | None = None
    removed: bool = False
    problem: str = ""

    @property
    def unowned(self) -> tuple[int, ...]:
        """The partitions that nobody has and nobody is to get; none of a topic that was removed."""
        if self.removed:
            return ()
        listed = (*self.owners.values(), *self.closing.values(), *self.starting.values())
        taken = {p for numbers in listed for p in numbers}
        return tuple(p for p in self.partitions if p not in taken)

    @property
    def moving(self) -> tuple[int, ...]:
        """The partitions whose close or start is not confirmed yet."""
        listed = (*self.closing.values(), *self.starting.values())
        return tuple(sorted({p for numbers in listed for p in numbers}))


@dataclass(frozen=True, slots=True)
class Consumers:
    """Everybody with a part in this cluster, or why that cannot be told."""

    listed: tuple[ConsumerOverview, ...] = ()
    problem: str = ""

    def of_topic(self, topic: str) -> dict[str, overview.RunningTopic]:
        """Consumer → what it says of the topic, of those whose interface answers."""
        answering = (one for one in self.listed if one.health)
        return {one.consumer: said for one in answering for said in one.topics if said.topic == topic}

    def silent(self, owners: Collection[str]) -> tuple[ConsumerOverview, ...]:
        """The owners that are absent or whose interface does not answer."""
        return tuple(one for one in self.listed if one.consumer in owners and one.problem)

    def kept(self, summary: TopicSummary) -> dict[str, tuple[int, ...]]:
        """Who drains and keeps which partitions of a topic that is Stable: nobody else may have them, or it is frozen."""
        drain = {one.consumer for one in self.listed if one.presence == overview.DRAINING}
        settled = summary.state is State.STABLE
        return {who: numbers for who, numbers in summary.owners.items() if settled and who in drain}

    def unwell(self, owners: Collection[str]) -> tuple[ConsumerOverview, ...]:
        """The owners that answer and say that they are not healthy."""
        return tuple(one for one in self.listed if one.consumer in owners and one.health not in ("", overview.HEALTHY))

    def lag(self, topic: str) -> int | None:
        """Records behind the log's end, as far as the consumers know them."""
        known = [one.lag_records for one in self.of_topic(topic).values() if one.lag_records is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """The overview."""

    now: float
    topics: tuple[TopicSummary, ...]
    consumers: Consumers
    recent: tuple[Rebalance, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TopicPage:
    """One topic with its history; `more` = there is older history than this."""

    now: float
    summary: TopicSummary
    consumers: Consumers
    rebalances: tuple[Rebalance, ...]
    more: bool = False
    problem: str = ""


def cluster_page(c: Coordinator) -> ClusterPage:
    """The overview of a cluster."""
    summaries = _summaries(c, transitions.topics(c))
    newest = sorted((one for one in summaries if one.last is not None), key=_last_at, reverse=True)[:RECENT_TOPICS]
    recent, problem = _rebalances(c, [one.topic for one in newest], RECENT) if newest else ((), "")
    return ClusterPage(c.clock.now(), summaries, _consumers(c), recent, problem)


def topic_page(c: Coordinator, topic: str, limit: int) -> TopicPage:
    """One topic and its newest rebalances. A topic that is not managed (any more) still shows its history."""
    (summary,) = _summaries(c, [topic])
    found, problem = _rebalances(c, [topic], limit + 1)
    return TopicPage(c.clock.now(), summary, _consumers(c), found[:limit], len(found) > limit, problem)


def rebalance(c: Coordinator, topic: str, name: str) -> Rebalance:
    """One rebalance, from as far back as the history goes. Raises `NotManaged` if it is not there, and `Malformed`."""
    known = -1
    for limit in SEARCHED:
        found = history.rebalances(c, [topic], limit)
        for one in found:
            if one.rebalance == name:
                return one
        if len(found) == known or len(found) < limit:
            break
        known = len(found)
    raise NotManaged(
        f"topic {topic!r} has no rebalance {name!r} in its history; it may be older than the {history.KEEP} records kept"
    )


def run_rebalances(c: Coordinator, run: str, began_at: float, ended_at: float) -> tuple[Rebalance, ...]:
    """The rebalances that an Airflow run had a part in, each as far as it went in the run's time, newest first."""
    found: list[Rebalance] = []
    for topic in history.recorded(c):
        records = _between(c, topic, began_at - CLOCK_SLACK_S, ended_at + CLOCK_SLACK_S)
        names = dict.fromkeys(record.rebalance for record in records if record.actor.run == run)
        found += [rebalance(c, topic, name) for name in names]
    return tuple(sorted(found, key=lambda one: (-one.began_at, one.topic)))


def _between(c: Coordinator, topic: str, begin_at: float, end_at: float) -> list[Record]:
    """The records of a time, oldest first, at most `RUN_RECORDS`; found by halving, not by reading all of them."""
    folder = c.paths.history(topic)
    names = [name for name in c.zk.children(folder) if name.isascii() and name.isdigit()]

    def at(name: str) -> float:
        node = c.zk.find(f"{folder}/{name}")
        return decode_record(f"{folder}/{name}", node.data, int(name)).at if node is not None else 0.0

    first = bisect_left(names, begin_at, key=at)
    chosen = names[first : first + RUN_RECORDS]
    nodes = zip(chosen, c.zk.get_many([f"{folder}/{name}" for name in chosen]), strict=True)
    records = [decode_record(f"{folder}/{name}", node.data, int(name)) for name, node in nodes if node is not None]
    return [record for record in records if begin_at <= record.at <= end_at]


def _rebalances(c: Coordinator, topics: Collection[str], limit: int) -> tuple[tuple[Rebalance, ...], str]:
    try:
        return history.rebalances(c, topics, limit), ""
    except Malformed as error:
        return (), str(error)


def _last_at(one: TopicSummary) -> float:
    return one.last.at if one.last is not None else 0.0


def _summaries(c: Coordinator, topics: Iterable[str]) -> tuple[TopicSummary, ...]:
    views: dict[str, TopicView | str] = {}
    for topic in topics:
        try:
            views[topic] = store.load(c.zk, c.paths, topic).view
        except (Malformed, Refused) as error:
            views[topic] = str(error)
    missing = _blockers(c, [view for view in views.values() if isinstance(view, TopicView)])
    return tuple(_summary(c, topic, view, missing.get(topic, {})) for topic, view in views.items())


def _summary(c: Coordinator, topic: str, view: TopicView | str, missing: Mapping[str, str]) -> TopicSummary:
    last, problem = _newest(c, topic)
    if isinstance(view, str):
        return TopicSummary(topic, last=last, problem=view)
    node, state = view.node, view.state
    return TopicSummary(
        topic=topic,
        state=state.state if state is not None else State.INITIAL,
        since_at=state.since_at if state is not None else 0.0,
        epoch=node.epoch if node is not None else 0,
        group=view.config.group_id,
        strategy=c.policy.strategies.effective(view.config).strategy,
        partitions=view.partitions,
        owners=_by_owner(node.assignments if node is not None else {}),
        since=dict(node.since) if node is not None else {},
        closing=dict(state.to_close) if state is not None else {},
        starting=dict(state.to_start) if state is not None else {},
        blockers=missing,
        overrides=wishes.told(view.config),
        last=last,
        removed=view.config.removed,
        problem=problem,
    )


def _newest(c: Coordinator, topic: str) -> tuple[Record | None, str]:
    try:
        return next(iter(history.records(c, topic, 1)), None), ""
    except (Malformed, Refused) as error:
        return None, str(error)


def _by_owner(assignments: Mapping[int, str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for partition, consumer in sorted(assignments.items()):
        found.setdefault(consumer, []).append(partition)
    return {consumer: tuple(numbers) for consumer, numbers in sorted(found.items())}


def _blockers(c: Coordinator, views: Iterable[TopicView]) -> dict[str, dict[str, str]]:
    """Topic → consumer → what is missing from it, for the topics on their way; nobody is asked while there are none."""
    moving = {view.topic: view for view in views if view.state is not None and view.state.state in _MOVING}
    if not moving:
        return {}
    try:
        world = _world(c, moving.values())
    except (DiscoveryUnavailable, Malformed) as error:
        return {topic: {"the registry of consumers": str(error)} for topic in moving}
    return {topic: blockers(view, world) for topic, view in moving.items()}


def _world(c: Coordinator, views: Iterable[TopicView]) -> World:
    states = [view.state for view in views if view.state is not None]
    waited_for = sorted({consumer for state in states for consumer in (*state.to_close, *state.to_start)})
    unclear: dict[str, str] = {}
    members, claims = load_members(c, unclear), load_claims(c, waited_for, unclear)
    asked = [
        members.get(consumer) or Member(consumer, claims[consumer].incarnation, claims[consumer].address, "")
        for consumer in waited_for
        if consumer in members or (consumer in claims and claims[consumer].address)
    ]
    directives = load_directives(c, unclear)
    return World(c.clock.now(), members, claims, directives, c.statuses.ask(asked), unclear=unclear)


def _consumers(c: Coordinator) -> Consumers:
    try:
        return Consumers(tuple(overview.consumers(c)))
    except (DiscoveryUnavailable, Malformed) as error:
        return Consumers(problem=str(error))
    except NodeMissing:
        return Consumers()


def problem_of(error: CoordinatorError) -> str:
    """The sentence that a page shows for an error."""
    text = str(error)
    return text[:1].upper() + text[1:]
