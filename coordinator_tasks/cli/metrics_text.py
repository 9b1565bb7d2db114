"""An observation of a cluster as metrics: the coordinator's facts under our names, the groups under Burrow's names.

The number of series is limited: only the first `MAX_TOPICS` topics, `MAX_CONSUMERS` consumers, `MAX_FLEETS` fleets,
`MAX_GROUPS` groups and `partitions` partitions by name have series. `coordinator_series_left_out` counts the others.
"""

from collections import Counter

from coordinator_tasks.core.measure.buckets import Buckets
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.model import MoveKind, State
from coordinator_tasks.exposition import Families
from coordinator_tasks.service.watch.overview import by_presence
from coordinator_tasks.service.watch.survey import PartitionLag, Survey, TopicEvents
from coordinator_tasks.service.watch.topic_metrics import MAX_CONSUMERS, MAX_FLEETS, MAX_TOPICS, TopicFigures

PARTITIONS = 10_000
MAX_GROUPS = 1_000
_STATUSES = ", ".join(f"{one.value} = {one.name}" for one in LagStatus)


def exposed(found: Survey | None, cluster: str, looked_at: float, took_s: float, partitions: int = PARTITIONS) -> bytes:
    """Return the answer to `/metrics`, with series of at most `partitions` partitions. `found`: `None` if the last
    observation failed.

    `looked_at`: end of the last successful observation, in seconds since 1970; 0 without one. `took_s`: its duration.
    """
    families, mine = Families(), {"cluster_name": cluster}
    up = float(found is not None)
    families.gauge("coordinator_survey_up", "1 = the last look at the cluster worked", mine, up)
    families.gauge("coordinator_survey_timestamp_seconds", "End of the last successful look", mine, looked_at)
    families.gauge("coordinator_survey_duration_seconds", "Duration of the last successful look", mine, took_s)
    if found is not None:
        _add_topics(families, mine, found)
        _add_consumers(families, mine, found)
        _add_fleets(families, mine, found)
        _add_groups(families, mine, found, partitions)
        _add_audit(families, mine, found)
    return families.text()


def _add_topics(families: Families, mine: dict[str, str], found: Survey) -> None:
    _left_out(families, mine, "topic", len(found.topics) - MAX_TOPICS)
    for one in found.topics[:MAX_TOPICS]:
        labels, oldest_s = {**mine, "topic": one.topic}, found.oldest_unowned_s.get(one.topic, 0.0)
        said = "1 = the nodes cannot be read; then the topic has no other gauge"
        families.gauge("coordinator_topic_unreadable", said, labels, float(bool(one.problem)))
        if not one.problem:
            _add_topic(families, labels, one)
            said = "Longest time without an owner, of all partitions"
            families.gauge("coordinator_topic_unowned_oldest_seconds", said, labels, oldest_s)
        _add_happened(families, labels, found.happened.get(one.topic, TopicEvents()))


def _add_topic(families: Families, labels: dict[str, str], one: TopicFigures) -> None:
    for state in State:
        value = float(one.state is state)
        families.gauge("coordinator_topic_state", "1 = the topic is in this state", {**labels, "state": state}, value)
    gauges = {
        "coordinator_topic_not_stable_seconds": ("Duration of the rebalance; 0 = Stable", one.not_stable_s),
        "coordinator_topic_epoch": ("The epoch of the node", one.epoch),
        "coordinator_topic_partitions": ("Partitions of the topic", len(one.partitions)),
        "coordinator_topic_unowned_partitions": ("Partitions without a reader", len(one.unowned)),
        "coordinator_topic_moving_partitions": ("Partitions with an awaited close or start", one.moving),
        "coordinator_topic_handoffs": ("Partitions in a hand-off", one.handoffs),
    }
    for name, (text, value) in gauges.items():
        families.gauge(name, text, labels, value)


def _add_happened(families: Families, labels: dict[str, str], happened: TopicEvents) -> None:
    families.counter("coordinator_rebalances_total", "Finished rebalances", labels, happened.rebalances)
    said = "Unrequested rebalances: a consumer was lost, or came back"
    families.counter("coordinator_unasked_rebalances_total", said, labels, happened.unasked)
    said = f"Planned moves by kind: {', '.join(MoveKind)}"
    for kind in MoveKind:
        families.counter("coordinator_moves_total", said, {**labels, "kind": kind}, happened.moves[str(kind)])
    said = "Seconds without an owner, of all partitions together"
    families.counter("coordinator_unowned_partition_seconds_total", said, labels, happened.unowned_s)
    said = "Total pauses of moved partitions with waiting records: from the giver's last record to the taker's first"
    _add_buckets(families, "coordinator_pause_seconds", said, labels, happened.pauses)
    said = "Total pauses minus the usual pause (the longest undisturbed stall of the partition just before)"
    _add_buckets(families, "coordinator_pause_extra_seconds", said, labels, happened.extras)
    said = "Moved partitions without a measured pause: only bounds are known (at_least), or no record waited (nothing_waited)"
    for result, count in (("at_least", happened.at_least), ("nothing_waited", happened.idle)):
        families.counter("coordinator_pauses_other_total", said, {**labels, "result": result}, count)
    families.counter("coordinator_pause_records_total", "Waiting records of a moved partition", labels, happened.waited)
    said = "The longest stall of a partition that did not move, of each rebalance"
    _add_buckets(families, "coordinator_unmoved_stall_seconds", said, labels, happened.stalls)


def _add_buckets(families: Families, name: str, text: str, labels: dict[str, str], found: Buckets) -> None:
    families.histogram(name, text, labels, found.cumulative(), found.total)


def _add_consumers(families: Families, mine: dict[str, str], found: Survey) -> None:
    for presence, count in by_presence(found.consumers).items():
        labels = {**mine, "presence": presence}
        families.gauge("coordinator_consumers", "Consumers by presence", labels, count)
    families.gauge("coordinator_consumers_wanted", "Consumers wanted by the fleets", mine, found.wanted)
    _left_out(families, mine, "consumer", len(found.consumers) - MAX_CONSUMERS)
    for one in found.consumers[:MAX_CONSUMERS]:
        labels = {**mine, "consumer_id": one.consumer}
        families.gauge("coordinator_incarnation", "The number of the present or last process", labels, one.incarnation)
        families.gauge("coordinator_consumer_answers", "1 = the interface answers", labels, float(bool(one.health)))
        owned = sum(len(topic.assigned) for topic in one.topics)
        families.gauge("coordinator_assigned_partitions", "Partitions assigned to the consumer", labels, owned)


def _add_fleets(families: Families, mine: dict[str, str], found: Survey) -> None:
    _left_out(families, mine, "fleet", len(found.desired) - MAX_FLEETS)
    for app, decision in sorted(found.desired.items())[:MAX_FLEETS]:
        labels = {**mine, "fleet": app}
        text = "Consumers wanted by the growth policy at its last look, in shadow mode too; missing for a fleet or StatefulSet without limits"
        families.gauge("coordinator_fleet_consumers_desired", text, labels, decision.desired)
        text = "Time of the growth policy's last look, in seconds since 1970"
        families.gauge("coordinator_fleet_desired_timestamp_seconds", text, labels, decision.at)


def _add_audit(families: Families, mine: dict[str, str], found: Survey) -> None:
    for kind, count in found.audited.counts.items():
        text = "Findings of the last ownership audit, by kind"
        families.gauge("coordinator_audit_findings", text, {**mine, "kind": kind}, count)
    text = "Topics, groups and consumers left out by the last ownership audit; above 0, the audit is incomplete"
    families.gauge("coordinator_audit_left_out", text, mine, len(found.audited.problems))
    text = "End of the last ownership audit, in seconds since 1970"
    families.gauge("coordinator_audit_timestamp_seconds", text, mine, found.audited_at)


def _add_groups(families: Families, mine: dict[str, str], found: Survey, partitions: int) -> None:
    cluster = mine["cluster_name"]
    said = f"Burrow's status of the group: 0 = unknown, {_STATUSES}"
    totals = Counter[str]()
    for one in found.lags:
        totals[one.group] += one.lag
    every = sorted({*found.groups, *found.unknown})
    _left_out(families, mine, "group", len(every) - MAX_GROUPS)
    for group in every[:MAX_GROUPS]:
        labels = {"cluster": cluster, "consumer_group": group}
        # A status that is a minute old does not describe the present.
        status, lag = (None, None) if group in found.unknown else (found.groups[group], totals[group])
        families.gauge("burrow_kafka_consumer_status", said, labels, status or 0)
        families.gauge("burrow_kafka_consumer_lag_total", "Lag of all partitions, in offsets", labels, lag)
    _left_out(families, mine, "partition", len(found.lags) - partitions)
    for one in found.lags[:partitions]:
        _add_partition(families, cluster, one)


def _add_partition(families: Families, cluster: str, one: PartitionLag) -> None:
    place = {"topic": one.topic, "partition": str(one.partition)}
    labels = {"cluster": cluster, "consumer_group": one.group, **place}
    text = f"Burrow's status of the partition: {_STATUSES}"
    families.gauge("burrow_kafka_topic_partition_status", text, labels, one.status)
    families.gauge("burrow_kafka_consumer_partition_lag", "Offsets from the commit to the log's end", labels, one.lag)
    families.gauge("burrow_kafka_consumer_current_offset", "The committed offset", labels, one.offset)
    if one.told:
        return
    # The owner does not report the lag. Otherwise the owner's interface exposes these series, and no other source may.
    labels = {"cluster_name": cluster, "group": one.group, **place, "consumer_id": one.owner}
    text = "The committed offset, only of partitions without an owner or with a silent owner"
    families.gauge("kafka_consumergroup_group_offset", text, labels, one.offset)
    families.gauge("kafka_consumergroup_group_lag", "Offsets from the commit to the log's end", labels, one.lag)
    text = "For how long the next record has been in the log, estimated"
    families.gauge("kafka_consumergroup_group_lag_seconds", text, labels, one.lag_s)


def _left_out(families: Families, mine: dict[str, str], kind: str, count: int) -> None:
    text = "Topics, consumers, fleets, groups or partitions without own series"
    families.gauge("coordinator_series_left_out", text, {**mine, "kind": kind}, max(0, count))
