import json

import pytest

from coordinator_tasks.core.errors import (
    GroupInUse,
    LookAgain,
    Malformed,
    Refused,
    StoreUnavailable,
    TopicConflict,
)
from coordinator_tasks.core.machine.causes import recreated
from coordinator_tasks.core.model import StartRule, TopicConfig
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.nodes.topics import (
    add_topic,
    list_topics,
    refresh_partitions,
    remove_topic,
)
from tests.fakes.cluster import PERSON, Cluster


@pytest.fixture
def shop() -> Cluster:
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 3)
    return cluster


def partitions(cluster: Cluster, topic: str) -> list[str]:
    return sorted(cluster.zk.children(cluster.paths.topic(topic)), key=int)


def test_an_added_topic_has_its_config_its_partitions_and_an_empty_topic_node(shop: Cluster) -> None:
    config = add_topic(shop.coordinator, "orders", "g", start=StartRule.LATEST, actor=PERSON)
    assert (config.topic_id, config.initial_partitions, config.bootstrap_servers) == ("id-1", 3, "broker:9092")
    assert partitions(shop, "orders") == ["0", "1", "2"]
    assert shop.zk.get(shop.paths.topic("orders")).data == b""
    assert list_topics(shop.coordinator) == (config,)


def test_adding_it_with_other_arguments_is_refused_and_says_which(shop: Cluster) -> None:
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    with pytest.raises(Refused, match=r"managed by cluster 'shop' already, with group_id 'g'; remove the topic first"):
        add_topic(shop.coordinator, "orders", "h", actor=PERSON)
    with pytest.raises(Refused, match=r"already, with start 'earliest'; remove the topic first"):
        add_topic(shop.coordinator, "orders", "g", start=StartRule.LATEST, actor=PERSON)


def test_a_property_that_is_not_allowed_is_refused_before_anything_is_written(shop: Cluster) -> None:
    before = shop.server.zxid
    with pytest.raises(Refused, match=r"'sasl\.password' is no property of a topic"):
        add_topic(shop.coordinator, "orders", "g", properties={"sasl.password": "hunter2"}, actor=PERSON)
    assert shop.server.zxid == before


def test_properties_that_a_registered_consumer_could_not_read_are_refused_and_the_consumer_named(shop: Cluster) -> None:
    shop.join("a")
    path = shop.paths.member(shop.join("old").consumer)
    body = {name: value for name, value in json.loads(shop.zk.get(path).data).items() if name != "formats"}
    shop.zk.transact([SetData(path, json.dumps(body).encode())])
    before = shop.server.zxid
    with pytest.raises(Refused, match=r"consumer old runs 0\.1\.0, which cannot read the properties of a topic; start"):
        add_topic(shop.coordinator, "orders", "g", properties={"fetch.wait.max.ms": "7"}, actor=PERSON)
    assert shop.server.zxid == before
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    shop.kafka.create_topic("clicks", 1)
    shop.zk.transact([SetData(path, json.dumps({**body, "topics": ["orders"]}).encode())])
    add_topic(shop.coordinator, "clicks", "g", properties={"fetch.wait.max.ms": "7"}, actor=PERSON)


def test_a_topic_that_kafka_does_not_have_is_refused(shop: Cluster) -> None:
    with pytest.raises(
        TopicConflict, match=r"no topic 'order' in Kafka at broker:9092; create it, or correct the name"
    ):
        add_topic(shop.coordinator, "order", "g", actor=PERSON)
    assert list_topics(shop.coordinator) == ()
    assert shop.zk.find(shop.paths.topic("order")) is None


def test_a_group_with_subscribers_is_refused_and_names_them(shop: Cluster) -> None:
    shop.kafka.members["g"] = ("console at 10.0.0.7",)
    with pytest.raises(GroupInUse, match=r"console at 10\.0\.0\.7.*stop them, or choose another group\.id"):
        add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    assert list_topics(shop.coordinator) == ()


def test_an_internal_topic_is_added_only_by_force(shop: Cluster) -> None:
    name = "__consumer_offsets"
    shop.kafka.create_topic(name, 1)
    with pytest.raises(Refused, match=f"'{name}' is an internal topic of Kafka.*or --force"):
        add_topic(shop.coordinator, name, "g", actor=PERSON)
    assert list_topics(shop.coordinator) == ()
    add_topic(shop.coordinator, name, "g", force=True, actor=PERSON)
    assert add_topic(shop.coordinator, name, "g", actor=PERSON).topic == name  # as it is


def test_an_unknown_strategy_and_an_empty_group_are_refused(shop: Cluster) -> None:
    with pytest.raises(Refused, match="no strategy 'best'; choose one of"):
        add_topic(shop.coordinator, "orders", "g", strategy="best", actor=PERSON)
    with pytest.raises(Refused, match=r"the consumer group is empty; give the group\.id"):
        add_topic(shop.coordinator, "orders", "", actor=PERSON)


def test_two_clusters_cannot_manage_the_same_topic_for_one_group(shop: Cluster) -> None:
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    other = Cluster("mall", server=shop.server, kafka=shop.kafka)
    with pytest.raises(TopicConflict, match="cluster 'shop' manages topic 'orders' for group 'g' already"):
        add_topic(other.coordinator, "orders", "g", actor=PERSON)
    add_topic(other.coordinator, "orders", "h", actor=PERSON)


@pytest.mark.parametrize("removed_before", [False, True])
def test_a_topic_that_another_cluster_takes_at_the_same_moment_is_not_added(
    shop: Cluster, removed_before: bool
) -> None:
    other, path = Cluster("mall", server=shop.server, kafka=shop.kafka), shop.paths.config("orders")
    kept: tuple[TopicConfig, ...] = ()
    if removed_before:
        add_topic(shop.coordinator, "orders", "g", actor=PERSON)
        kept = (remove_topic(shop.coordinator, "orders", PERSON),)
    shop.server.before_next(
        lambda: add_topic(other.coordinator, "orders", "g", actor=PERSON),
        lambda _, first: first[0].path == path and isinstance(first[0], SetData) is removed_before,
    )
    with pytest.raises(TopicConflict, match="cluster 'mall'"):
        add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    assert list_topics(shop.coordinator) == kept, "its consumers have not stopped yet"
    assert len(list_topics(other.coordinator)) == 1


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("number", range(4), ids=["partitions", "more partitions", "the last partitions", "config"])
def test_an_interrupted_addition_is_completed_by_the_next(shop: Cluster, number: int, applied: bool) -> None:
    shop.kafka.create_topic("large", 2_500)
    shop.server.lose_write(number, applied=applied)
    with pytest.raises(StoreUnavailable):
        add_topic(shop.coordinator, "large", "g", actor=PERSON)
    config = add_topic(shop.coordinator, "large", "g", actor=PERSON)
    assert config.initial_partitions == 2_500
    assert partitions(shop, "large") == [str(p) for p in range(2_500)]


def test_new_partitions_get_nodes_and_the_others_keep_theirs(shop: Cluster) -> None:
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    shop.zk.transact([SetData(shop.paths.partition("orders", 1), b"release")])
    shop.kafka.add_partitions("orders", 2)
    (refreshed,) = refresh_partitions(shop.coordinator)
    assert (refreshed.created, refreshed.problem) == ((3, 4), "")
    assert shop.zk.get(shop.paths.partition("orders", 1)).data == b"release"
    assert refresh_partitions(shop.coordinator)[0].created == ()
    assert list_topics(shop.coordinator)[0].initial_partitions == 3


def added_anew_in_between(shop: Cluster, partitions: int) -> None:
    """Before the next write goes out, the topic is recreated in Kafka, and removed and added again here."""

    def meanwhile() -> None:
        shop.kafka.create_topic("orders", partitions)
        if shop.zk.find(shop.paths.config("orders")) is not None:
            remove_topic(shop.coordinator, "orders", PERSON)
        add_topic(shop.coordinator, "orders", "h", actor=PERSON)

    shop.server.before_next(meanwhile, lambda *_: True)


def test_a_stale_refresh_creates_nothing_in_a_topic_that_was_added_anew(shop: Cluster) -> None:
    """Nobody could start these partitions, and the topic would wait for it for good."""
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    shop.kafka.add_partitions("orders", 2)
    added_anew_in_between(shop, 1)
    (refreshed,) = refresh_partitions(shop.coordinator)
    assert partitions(shop, "orders") == ["0"]
    assert refreshed.created == ()
    assert "/consumers/shop/config/orders was changed" in refreshed.problem
    assert refresh_partitions(shop.coordinator)[0].problem == ""


@pytest.mark.parametrize("managed_before", [False, True])
def test_a_stale_addition_changes_nothing_in_a_topic_added_anew(shop: Cluster, managed_before: bool) -> None:
    if managed_before:
        add_topic(shop.coordinator, "orders", "g", actor=PERSON)
        remove_topic(shop.coordinator, "orders", PERSON)
    shop.zk.ensure(shop.paths.partition("orders", 0))  # or an addition was interrupted
    shop.kafka.create_topic("orders", 4)
    added_anew_in_between(shop, 1)
    with pytest.raises(LookAgain, match="/consumers/shop/config/orders was changed"):
        add_topic(shop.coordinator, "orders", "i", actor=PERSON)
    assert partitions(shop, "orders") == ["0"]


def test_a_recreated_topic_is_reported_and_left_as_it_is(shop: Cluster) -> None:
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    shop.kafka.create_topic("payments", 1)
    add_topic(shop.coordinator, "payments", "g", actor=PERSON)
    shop.kafka.create_topic("orders", 9)
    shop.kafka.add_partitions("payments", 1)
    orders, payments = refresh_partitions(shop.coordinator)
    assert orders.problem == "; ".join(recreated("orders", "id-3", "id-1")), "as unread partitions say it"
    assert payments.created == (1,)
    assert partitions(shop, "orders") == ["0", "1", "2"]
    with pytest.raises(TopicConflict, match="recreated"):
        add_topic(shop.coordinator, "orders", "g", actor=PERSON)


def test_a_config_that_cannot_be_read_holds_up_no_other_topic(shop: Cluster) -> None:
    shop.kafka.create_topic("payments", 1)
    for topic in ("orders", "payments"):
        add_topic(shop.coordinator, topic, "g", actor=PERSON)
    path = shop.paths.config("orders")
    shop.zk.transact([SetData(path, b"{")])
    shop.kafka.add_partitions("payments", 1)
    orders, payments = refresh_partitions(shop.coordinator)
    assert orders.problem.startswith(f"{path}: is not JSON")
    assert payments.created == (1,)
    assert shop.zk.get(path).data == b"{"
    with pytest.raises(Malformed, match=path):
        list_topics(shop.coordinator)
