"""The coordinator's figures in Airflow's own metrics: StatsD, Datadog or OpenTelemetry, as enabled by the site.

If the site's metrics have tags, cluster and topic are tags. Plain StatsD has no tags, so the values follow the name:
`coordinator.topic.epoch.main.orders`. As in Airflow, `__` stands for a dot, and `_` for characters that StatsD refuses.
InfluxDB's tags in StatsD allow the same characters, and dots too.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial

from airflow.configuration import conf
from airflow.sdk.observability.stats import Stats

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.measure.lag_moments import group_statuses
from coordinator_tasks.core.model import Pauses, State
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets.autoscale import last_decisions
from coordinator_tasks.service.nodes.cluster import ClusterObservation
from coordinator_tasks.service.plan.pauses import Told
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.watch import lag_moments, overview
from coordinator_tasks.service.watch.audit import Audit
from coordinator_tasks.service.watch.topic_metrics import (
    MAX_CONSUMERS,
    MAX_FLEETS,
    MAX_TOPICS,
    TopicFigures,
    TopicLag,
    figures,
    figures_of,
    lags,
)

PREFIX = "coordinator."
_NO_LAG = TopicLag(records=0, seconds=0.0)
_NOT_IN_A_NAME = re.compile("[^A-Za-z0-9_/.-]")
_SWITCHES = ("statsd_on", "statsd_datadog_enabled", "otel_on")


def are_on() -> bool:
    """Return whether this Airflow sends metrics anywhere."""
    return any(conf.getboolean("metrics", switch, fallback=False) for switch in _SWITCHES)


def tell_reports(cluster: str, reports: Iterable[TopicReport]) -> None:
    """Count the moves of a transition by kind, and the rebalances that have ended."""
    for report in reports:
        if report.outcome is not TopicOutcome.WRITTEN:
            continue
        for kind, count in Counter(str(move.kind) for move in report.moves).items():
            _count("moves", count, cluster, topic=report.topic, kind=kind)
        if report.after is State.STABLE:
            _count("rebalances", 1, cluster, topic=report.topic)


def pauses_told(cluster: str) -> Told:
    """Return a function that sends the pauses of moves.

    Timings: total and extra pause of each moved partition, and longest stall of kept partitions. Counter: records that
    waited.
    """
    return partial(_tell_pauses, cluster)


def _tell_pauses(cluster: str, topic: str, found: Pauses) -> None:
    for one in found.measured:
        if one.wait_s is not None and not one.least:
            _timing("pause", one.wait_s, cluster, topic=topic)
            if one.extra is not None:
                _timing("pause_extra", one.extra.least_s, cluster, topic=topic)
    _count("pause_records", sum(one.records for one in found.measured), cluster, topic=topic)
    if found.unmoved is not None:
        _timing("unmoved_stall", found.unmoved.longest_s, cluster, topic=topic)


def tell_figures(c: Coordinator, passed_s: Callable[[], float], observed: ClusterObservation | None = None) -> None:
    """Send the cluster's figures: topics, groups, consumers, and growth. Raises the `Unavailable` kinds.

    `passed_s`: returns the seconds since the last report; called only if a partition has no owner. `observed`: an
    existing observation, used instead of a new one; the topics then lack Kafka's descriptions.
    """
    if not are_on():
        return
    cluster, seen = c.paths.cluster, overview.look(c, observed)
    every = figures(c, look=lambda: seen.world) if observed is None else figures_of(c, observed.topics, seen.world)
    behind, told = lags(seen), every[:MAX_TOPICS]
    since_s = passed_s() if any(one.unowned for one in told) else 0.0
    for one in told:
        nobody_reads = one.removed and not one.owners  # 0, because a gauge that is not sent keeps its last value
        _tell_topic(cluster, one, _NO_LAG if nobody_reads else behind.get(one.topic, TopicLag()))
        _count("unowned_partition_seconds", round(len(one.unowned) * since_s), cluster, topic=one.topic)
    # 0 means unknown now: a gauge that is not sent would keep its last value.
    groups = {one.group: 0 for one in told if one.group} | group_statuses(lag_moments.newest(c))
    for group, status in sorted(groups.items())[:MAX_TOPICS]:
        _gauge("group.status", status, cluster, group=group)
    consumers = overview.consumers(c, seen)
    for presence, count in overview.by_presence(consumers).items():
        _gauge("consumers", count, cluster, presence=presence)
    for who in consumers[:MAX_CONSUMERS]:
        _gauge("consumer.incarnation", who.incarnation, cluster, consumer=who.consumer)
    for app, decision in sorted(last_decisions(c).items())[:MAX_FLEETS]:
        _gauge("fleet.consumers_desired", decision.desired, cluster, fleet=app)


def tell_audit(cluster: str, found: Audit) -> None:
    """Send the ownership audit's findings by kind, and the number of unreadable parts."""
    for kind, count in found.counts.items():
        _gauge("audit.findings", count, cluster, kind=kind)
    _gauge("audit.left_out", len(found.problems), cluster)


def _tell_topic(cluster: str, one: TopicFigures, behind: TopicLag) -> None:
    _gauge("topic.unreadable", int(bool(one.problem)), cluster, topic=one.topic)
    if one.problem:
        return
    for state in State:
        _gauge("topic.state", int(one.state is state), cluster, topic=one.topic, state=str(state))
    values = {
        "not_stable_seconds": one.not_stable_s,
        "epoch": one.epoch,
        "partitions": len(one.partitions),
        "unowned_partitions": len(one.unowned),
        "moving_partitions": one.moving,
        "handoffs": one.handoffs,
        "lag": behind.records,
        "lag_seconds": behind.seconds,
        "lag_unknown_partitions": behind.unknown,
    }
    for name, value in values.items():
        if value is not None:
            _gauge(f"topic.{name}", value, cluster, topic=one.topic)


def _gauge(name: str, value: float, cluster: str, **tags: str) -> None:
    _send(lambda stat, has: Stats.gauge(stat, value, tags=has), name, cluster, tags)


def _count(name: str, count: int, cluster: str, **tags: str) -> None:
    if count:
        _send(lambda stat, has: Stats.incr(stat, count, tags=has), name, cluster, tags)


def _timing(name: str, seconds: float, cluster: str, **tags: str) -> None:
    _send(lambda stat, has: Stats.timing(stat, timedelta(seconds=seconds), tags=has), name, cluster, tags)


def _send(send: Callable[[str, dict[str, str]], None], name: str, cluster: str, tags: dict[str, str]) -> None:
    every = {"cluster": cluster, **tags}
    if not _have_tags():
        send(PREFIX + ".".join([name, *(_in_a_name(value.replace(".", "__")) for value in every.values())]), {})
    elif conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False):  # Airflow writes the tags into the name
        send(PREFIX + name, {tag: _in_a_name(value) for tag, value in every.items()})
    else:
        send(PREFIX + name, every)


def _in_a_name(value: str) -> str:
    """Return a tag as part of a name. Airflow would drop a metric whose name has certain letters of a group's name."""
    return _NOT_IN_A_NAME.sub("_", value)


def _have_tags() -> bool:
    """Return whether a metric's tags reach the site. Datadog comes first, as in Airflow."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return conf.getboolean("metrics", "statsd_datadog_metrics_tags", fallback=True)
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False)
    return True
