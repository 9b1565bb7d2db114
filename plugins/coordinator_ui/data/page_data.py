"""Reads the pages' data from ZooKeeper and the consumers' interfaces. Writes nothing and decides nothing.

An unreadable part becomes a sentence, and all other parts are still shown. These functions raise only
`StoreUnavailable`, if ZooKeeper does not answer.
"""

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_tasks.core.errors import UNREADABLE, DiscoveryUnavailable, Malformed, NodeMissing, NotManaged
from coordinator_tasks.core.machine.failures import by_cause, cause_key, failures_of
from coordinator_tasks.core.model import Condition, Record, State, StateSize
from coordinator_tasks.core.text.partition_text import joined
from coordinator_tasks.service.actions.fleet_actions import kept_until
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.directives import registered
from coordinator_tasks.service.nodes.history import Rebalance
from coordinator_tasks.service.watch import overview
from coordinator_tasks.service.watch.consumer_pages import ConsumerPages, pages_now
from coordinator_tasks.service.watch.overview import ConsumerOverview, RunningTopic
from coordinator_ui.data import live, rebalance_search
from coordinator_ui.data.topic_summary import TopicSummary, summaries

RECENT = 6
MOST_ROWS = 100
"""Maximum topics and consumers in the overview. Those that need a person come first; the others are counted."""
CLOCK_SLACK_S = 5.0
RUN_RECORDS = 2_000
MOST_LINKED = 50


@dataclass(frozen=True, slots=True)
class Consumers:
    """The consumers of this cluster. `problem`: why they could not be read.

    `lags`: topic → records behind the log's end, as far as reported. `partly`: topics with an owner that does not
    report its lag.
    """

    listed: tuple[ConsumerOverview, ...] = ()
    problem: str = ""
    lags: Mapping[str, int] = field(default_factory=dict)
    partly: Collection[str] = ()

    def of_topic(self, topic: str) -> dict[str, overview.RunningTopic]:
        """Return consumer → status of the topic, for the consumers that answer."""
        answering = (one for one in self.listed if one.health)
        return {one.consumer: said for one in answering for said in one.topics if said.topic == topic}

    def states(self, summary: TopicSummary) -> list[tuple[int, str, StateSize]]:
        """Return partition, owner and size of each state that a topic's owners keep, the largest first."""
        found = [
            (partition, who, running.states[partition])
            for who, running in self.of_topic(summary.topic).items()
            for partition in summary.owners.get(who, ())
            if partition in running.states
        ]
        return sorted(found, key=lambda one: (-one[2].value_bytes, one[0]))

    def silent(self, owners: Collection[str]) -> tuple[ConsumerOverview, ...]:
        """Return the owners that are absent or do not answer."""
        return tuple(one for one in self.listed if one.consumer in owners and one.problem)

    def kept(self, summary: TopicSummary) -> dict[str, tuple[int, ...]]:
        """Return draining consumer → partitions that it still owns of a Stable topic."""
        drain = {one.consumer for one in self.listed if one.presence == overview.DRAINING}
        settled = summary.state is State.STABLE
        return {who: numbers for who, numbers in summary.owners.items() if settled and who in drain}

    def unwell(self, owners: Collection[str], topic: str) -> list[str]:
        """Return the problems that a topic's answering owners report about themselves and the topic, each cause once.

        Failures of several owners, and failures of a sink, come first.
        """
        answering = {one.consumer: one for one in self.listed if one.consumer in owners and one.health}
        said = {who: running for who, running in self.of_topic(topic).items() if who in answering}
        failures = by_cause(
            failure
            for who, running in said.items()
            for failure in failures_of(who, topic, running.assigned, running.failures)
        )
        shared = [one for one in failures if one.away or len(one.consumers) > 1]
        keys = {None, *map(cause_key, shared)}
        found = [one.told for one in shared]
        for who, one in answering.items():
            here = said.get(who, RunningTopic(topic))
            told = [failure.why for failure in here.failures if cause_key(failure) in keys]
            fails_here = one.condition is Condition.FAILING and here.failures
            health = "" if fails_here or one.condition is Condition.OK else one.health
            found += [f"{who}: {text}" for text in (health, *here.reports_without(told)) if text]
        return found


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """The overview. `find`: names only the topics and consumers with this text in their name."""

    now: float
    topics: tuple[TopicSummary, ...]
    consumers: Consumers
    recent: tuple[Rebalance, ...]
    problem: str = ""
    find: str = ""

    @property
    def topic_rows(self) -> Sequence[TopicSummary]:
        found = [one for one in self.topics if self.find in one.topic.casefold()]
        return live.first(found, MOST_ROWS, lambda one: bool(one.problem or one.unowned or one.late))

    @property
    def consumer_rows(self) -> Sequence[ConsumerOverview]:
        found = [one for one in self.consumers.listed if self.find in one.consumer.casefold()]
        return live.first(
            found, MOST_ROWS, lambda one: bool(one.problem or one.unwell or one.asked or one.reports or one.ended)
        )


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A topic with history. `more`: the history has older records.

    `kept`: draining owner → when its wait ends; empty if the next plan gives its partitions away. `budget`: whether a
    plan may wait for a person's approval.
    """

    now: float
    summary: TopicSummary
    consumers: Consumers
    rebalances: tuple[Rebalance, ...]
    more: bool = False
    problem: str = ""
    kept: Mapping[str, str] = field(default_factory=dict)
    budget: bool = False


@dataclass(frozen=True, slots=True)
class RunPage:
    """The rebalances of an Airflow run, newest first. `problems`: why rebalances may be missing."""

    rebalances: tuple[Rebalance, ...] = ()
    problems: tuple[str, ...] = ()


def cluster_page(c: Coordinator, find: str = "") -> ClusterPage:
    """Return the overview of a cluster."""
    seen = live.now(c)
    found = seen.topics
    began = [(one.last.at - one.last.rebalance_s, one.topic) for one in found if one.last is not None]
    moved_last = [topic for _, topic in heapq.nlargest(RECENT, began)]  # they have the newest rebalances
    recent = rebalance_search.rebalances(c, rebalance_search.RebalanceFilter(), RECENT, of=moved_last)
    consumers = _consumers(seen.consumers, seen.problem)
    return ClusterPage(c.clock.now(), found, consumers, recent.found, joined(recent.problems), find.strip().casefold())


def topic_page(c: Coordinator, topic: str, limit: int) -> TopicPage:
    """Return a topic and its newest rebalances. For an unmanaged topic, the history is still shown."""
    (summary,) = summaries(c, [topic])
    found, problem = tuple[Rebalance, ...](), ""
    try:
        found = history.rebalances(c, [topic], limit + 1)
    except UNREADABLE as error:
        problem = error.told
    consumers = _owners(c, topic)
    kept = _kept(c, topic, consumers.kept(summary))
    more, budget = len(found) > limit, c.budget.is_set
    return TopicPage(c.clock.now(), summary, consumers, found[:limit], more, problem, kept, budget)


def _kept(c: Coordinator, topic: str, drain: Collection[str]) -> dict[str, str]:
    try:
        return dict.fromkeys(drain, kept_until(c, registered(c), topic, drain) if drain else "")
    except (DiscoveryUnavailable, Malformed):
        return {}


def consumer_pages(c: Coordinator, one: Rebalance) -> dict[str, ConsumerPages]:
    """Return Spark UI and driver's log of each giver and taker, for at most `MOST_LINKED` consumers."""
    names = sorted({name for move in one.moves for name in (move.giver, move.taker) if name})
    try:
        return pages_now(c, names[:MOST_LINKED])
    except (DiscoveryUnavailable, Malformed):
        return {}


def run_page(c: Coordinator, run: str, began_at: float, ended_at: float) -> RunPage:
    """Return the moves of an Airflow run. Searches only records within the run's time."""
    found: list[Rebalance] = []
    problems: list[str] = []
    for topic in history.recorded(c):
        try:
            records = _between(c, topic, began_at - CLOCK_SLACK_S, ended_at + CLOCK_SLACK_S)
            names = dict.fromkeys(record.rebalance for record in records if record.actor.run == run)
            found += [history.named(c, name, topic) for name in names]
        except (*UNREADABLE, NotManaged) as error:
            problems.append(error.told)
    return RunPage(tuple(sorted(found, key=history.key_of)), tuple(problems))


def _between(c: Coordinator, topic: str, begin_at: float, end_at: float) -> list[Record]:
    """Return the records of a time span, oldest first, at most `RUN_RECORDS`.

    Uses a binary search, so that not all records are read.
    """
    names = history.names(c, topic)

    def at(name: str) -> float:
        found = history.read(c, topic, [name])
        return found[name].at if found else 0.0

    first = bisect_left(names, begin_at, key=at)
    found = history.read(c, topic, names[first : first + RUN_RECORDS])
    return [record for record in found.values() if begin_at <= record.at <= end_at]


def _owners(c: Coordinator, topic: str) -> Consumers:
    """Return the consumers that own, give or take partitions of the topic."""
    try:
        return _consumers(overview.consumers(c, overview.of_topic(c, topic)))
    except (DiscoveryUnavailable, Malformed) as error:
        return Consumers(problem=error.told)
    except NodeMissing:
        return Consumers()


def _consumers(listed: Sequence[ConsumerOverview], problem: str = "") -> Consumers:
    partly = {t.topic for one in listed for t in one.topics if t.lag_unknown}
    return Consumers(tuple(listed), problem, _lags(listed), partly)


def _lags(listed: Iterable[ConsumerOverview]) -> dict[str, int]:
    """Return topic → lag, in one pass over the consumers, since there may be thousands of topics.

    A partition that a former owner still runs (a live owner that was isolated) counts for its new owner.
    """
    found: dict[str, int] = {}
    for said in (topic for one in listed if one.health for topic in one.topics):
        if said.lag_records is not None and (said.assigned or said.closing):
            found[said.topic] = found.get(said.topic, 0) + said.lag_records
    return found
