"""What Prometheus reads at a consumer: names that dashboards know, and a bounded number of series."""

from prometheus_client.parser import text_string_to_metric_families

from coordinator_tasks.core.model import Condition, StateSize
from spark_apps.agent.interface.metrics import MAX_TOPICS, exposed
from spark_apps.agent.ownership.figures import ConsumerFigures, OwnedFigures, PartitionFigures

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(raw: bytes) -> Series:
    """Name and labels → value."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(raw.decode())
        for sample in family.samples
    }


def values(raw: bytes, name: str, **labels: str) -> list[float]:
    return [
        value for (found, has), value in series(raw).items() if found == name and labels.items() <= dict(has).items()
    ]


def consumer(
    topics: dict[str, OwnedFigures], condition: Condition = Condition.OK, registered: bool = True
) -> ConsumerFigures:
    return ConsumerFigures("a", "shop", 7, condition, registered, 2, topics)


ORDERS = OwnedFigures(
    "g",
    acted_epoch=9,
    held=3,
    partitions={0: PartitionFigures(90, 100, 10, 2.5), 4: PartitionFigures(5, 5, 0, 0.0), 2: PartitionFigures(1)},
    fences=1,
    dead_letters=3,
    offsets=1234,
    batch_s=0.3,
    batch_buckets=(("0.1", 1), ("+Inf", 2)),
)


def test_lag_has_the_names_and_labels_of_known_dashboards() -> None:
    found = series(exposed(consumer({"orders": ORDERS})))
    labels = {"cluster_name": "shop", "group": "g", "topic": "orders", "partition": "0", "consumer_id": "a"}
    of_partition = {name: value for (name, has), value in found.items() if dict(has) == labels}
    assert of_partition == {
        "kafka_consumergroup_group_offset": 90.0,
        "kafka_consumergroup_group_lag": 10.0,
        "kafka_consumergroup_group_lag_seconds": 2.5,
    }
    latest = frozenset({"cluster_name": "shop", "topic": "orders", "partition": "0"}.items())
    assert found["kafka_partition_latest_offset", latest] == 100.0


def test_a_stateful_partition_shows_rows_bytes_and_the_earliest_timer_of_its_state() -> None:
    figures = {0: PartitionFigures(9, state=StateSize(3, 120, 5_500)), 1: PartitionFigures(9, state=StateSize(1, 8))}
    raw = exposed(consumer({"orders": OwnedFigures("g", 1, 2, figures)}))
    assert values(raw, "coordinator_consumer_state_rows") == [3, 1]
    assert values(raw, "coordinator_consumer_state_bytes") == [120, 8]
    assert values(raw, "coordinator_consumer_state_first_timer_timestamp_seconds") == [5.5]


def test_what_is_unknown_has_no_series() -> None:
    raw = exposed(consumer({"orders": ORDERS}))
    assert values(raw, "kafka_consumergroup_group_offset", partition="2") == [1.0]
    assert values(raw, "kafka_consumergroup_group_lag", partition="2") == []
    assert values(raw, "coordinator_consumer_max_lag_seconds") == [2.5]
    behind = {0: PartitionFigures(90, 100, 10), 4: PartitionFigures(5, 5, 0, 0.0)}
    unsaid = exposed(consumer({"orders": OwnedFigures("g", 1, 1, behind)}))
    assert values(unsaid, "coordinator_consumer_max_lag_seconds") == [], "who is at the end says nothing of the other"
    unknown = exposed(consumer({"orders": OwnedFigures("g", 1, 1, {2: PartitionFigures(1)})}))
    assert values(unknown, "coordinator_consumer_sum_lag") == []
    nothing = exposed(consumer({"orders": OwnedFigures("g", 1, 0)}))
    assert values(nothing, "coordinator_consumer_sum_lag") == [0]
    assert values(nothing, "coordinator_consumer_max_lag_seconds") == []


def test_the_consumer_and_its_topics_are_counted() -> None:
    raw = exposed(consumer({"orders": ORDERS}))
    wanted = {
        "coordinator_consumer_incarnation": 7,
        "coordinator_consumer_healthy": 1,
        "coordinator_consumer_registered": 1,
        "coordinator_consumer_reports": 2,
        "coordinator_consumer_partitions": 3,
        "coordinator_consumer_acted_epoch": 9,
        "coordinator_consumer_sum_lag": 10,
        "coordinator_consumer_fences_total": 1,
        "coordinator_consumer_dead_letters_total": 3,
        "messaging_client_consumed_messages_total": 1234,
        "messaging_process_duration_seconds_count": 2,
        "messaging_process_duration_seconds_sum": 0.3,
    }
    assert {name: values(raw, name) for name in wanted} == {name: [value] for name, value in wanted.items()}
    assert values(raw, "messaging_process_duration_seconds_bucket", messaging_destination_name="orders") == [1, 2]


def test_a_consumer_without_zookeeper_works_and_one_that_is_stuck_does_not() -> None:
    for condition, healthy, registered in (
        (Condition.STARTING, 1, 0),
        (Condition.DETACHED, 1, 0),
        (Condition.STUCK, 0, 1),
        (Condition.LEAVING, 0, 1),
    ):
        raw = exposed(consumer({}, condition, bool(registered)))
        assert values(raw, "coordinator_consumer_healthy") == [healthy], condition
        assert values(raw, "coordinator_consumer_registered") == [registered], condition


def test_the_number_of_series_is_bounded_and_what_is_left_out_is_counted() -> None:
    many = OwnedFigures("g", 1, 50, {p: PartitionFigures(p, p + 1, 1, 0.1) for p in range(50)})
    raw = exposed(consumer({"a": many, "b": many}), limit=60)
    assert len(values(raw, "kafka_consumergroup_group_lag", topic="a")) == 50
    assert sorted(values(raw, "kafka_consumergroup_group_offset", topic="b")) == [float(p) for p in range(10)]
    assert values(raw, "coordinator_consumer_partitions_left_out") == [40]
    assert values(raw, "coordinator_consumer_sum_lag") == [50, 50], "the sums count all of them"
    topics = {f"t{number:04}": OwnedFigures("g", 1, 1, {0: PartitionFigures(1)}) for number in range(MAX_TOPICS + 5)}
    raw = exposed(consumer(topics))
    assert len(values(raw, "coordinator_consumer_acted_epoch")) == MAX_TOPICS
    assert values(raw, "coordinator_consumer_partitions_left_out") == [5]


def test_names_of_any_kind_are_labels_and_no_text_of_their_own() -> None:
    hostile = 'g"} 1\n# HELP x'
    raw = exposed(consumer({"t": OwnedFigures(hostile, 1, 1, {0: PartitionFigures(1)})}))
    assert values(raw, "kafka_consumergroup_group_offset", group=hostile) == [1.0]
