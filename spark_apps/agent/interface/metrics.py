"""A consumer's figures as metrics.

Names follow Kafka Lag Exporter for lag, OpenTelemetry for messaging; the rest are ours.

At most `MAX_PARTITIONS` partitions of `MAX_TOPICS` topics have a series: the first topics by name, and their first
partitions by number. A topic's sums count all partitions.
"""

from coordinator_tasks.core.measure.lag import furthest_s
from coordinator_tasks.core.model import Condition
from coordinator_tasks.exposition import Families
from spark_apps.agent.ownership.figures import ConsumerFigures, OwnedFigures

MAX_PARTITIONS = 2_000
MAX_TOPICS = 300
_HEALTHY = (Condition.OK, Condition.DETACHED, Condition.STARTING)


def exposed(figures: ConsumerFigures, limit: int = MAX_PARTITIONS) -> bytes:
    """Return the answer to `/metrics`."""
    found, left = Families(), limit
    mine = {"cluster_name": figures.cluster, "consumer_id": figures.consumer}
    works = "1 = works; 0 = fails at something, is stuck, leaves, or has failed"
    registered = "1 = registered by a session with ZooKeeper"
    for name, text, value in (
        ("coordinator_consumer_healthy", works, float(figures.condition in _HEALTHY)),
        ("coordinator_consumer_registered", registered, float(figures.registered)),
        ("coordinator_consumer_incarnation", "The number of this process", figures.incarnation),
        ("coordinator_consumer_reports", "Problems reported by the status", figures.reports),
    ):
        found.gauge(name, text, mine, value)
    for topic, one in sorted(figures.topics.items())[:MAX_TOPICS]:
        _add_topic(found, mine, topic, one)
        shown = sorted(one.partitions)[:left]
        left -= len(shown)
        for partition in shown:
            _add_partition(found, mine, topic, one, partition)
    counted = sum(len(one.partitions) for one in figures.topics.values())
    found.gauge(
        "coordinator_consumer_partitions_left_out",
        f"Partitions beyond {limit}, or of topics beyond {MAX_TOPICS}, without own series",
        mine,
        counted - (limit - left),
    )
    return found.text()


def _add_topic(found: Families, mine: dict[str, str], topic: str, one: OwnedFigures) -> None:
    labels = {**mine, "group": one.group, "topic": topic}
    lags = [partition.lag for partition in one.partitions.values() if partition.lag is not None]
    late_s = furthest_s((p.lag, p.lag_s) for p in one.partitions.values() if p.lag is not None)
    known = sum(lags) if lags or not one.partitions else None
    for name, text, value in (
        ("coordinator_consumer_partitions", "Owned partitions", one.held),
        ("coordinator_consumer_failing_partitions", "Partitions waiting for a failing sink or pipeline", one.failing),
        ("coordinator_consumer_acted_epoch", "The acted epoch", one.acted_epoch),
        ("coordinator_consumer_sum_lag", "Offsets to the log's end, of all partitions", known),
        ("coordinator_consumer_max_lag_seconds", "The largest lag in seconds", late_s),
    ):
        found.gauge(name, text, labels, value)
    fences = "Ownerships ended by a newer owner; the commits are fenced"
    found.counter("coordinator_consumer_fences_total", fences, labels, one.fences)
    letters = "Records that the pipeline could not process, which became dead letters or were skipped"
    found.counter("coordinator_consumer_dead_letters_total", letters, labels, one.dead_letters)
    messaging = {
        "messaging_system": "kafka",
        "messaging_destination_name": topic,
        "messaging_consumer_group_name": one.group,
        "messaging_client_id": mine["consumer_id"],
    }
    found.counter(
        "messaging_client_consumed_messages_total",
        "Records that passed the sink, counted in offsets",
        {**messaging, "messaging_operation_name": "poll"},
        one.offsets,
    )
    found.histogram(
        "messaging_process_duration_seconds",
        "Time of a batch, from the plan until the sink has returned",
        {**messaging, "messaging_operation_name": "process"},
        one.batch_buckets,
        one.batch_s,
    )


def _add_partition(found: Families, mine: dict[str, str], topic: str, one: OwnedFigures, partition: int) -> None:
    figures = one.partitions[partition]
    place = {"cluster_name": mine["cluster_name"], "topic": topic, "partition": str(partition)}
    labels = {**place, "group": one.group, "consumer_id": mine["consumer_id"]}
    passed = "The next offset: everything before has passed the sink"
    late = "For how long the next record has been in the log, estimated"
    found.gauge("kafka_consumergroup_group_offset", passed, labels, figures.position)
    found.gauge("kafka_consumergroup_group_lag", "Offsets from the position to the log's end", labels, figures.lag)
    found.gauge("kafka_consumergroup_group_lag_seconds", late, labels, figures.lag_s)
    found.gauge("kafka_partition_latest_offset", "The log's end as last read", place, figures.end)
    if figures.state is not None:
        state, first_ms = figures.state, figures.state.first_timer_ms
        first_s = None if first_ms is None else first_ms / 1_000
        found.gauge("coordinator_consumer_state_rows", "Rows of the partition's state", labels, state.rows)
        found.gauge("coordinator_consumer_state_bytes", "Bytes of the state's values", labels, state.value_bytes)
        timer = "coordinator_consumer_state_first_timer_timestamp_seconds"
        found.gauge(timer, "The earliest timer, in seconds since 1970", labels, first_s)
