"""Airflow's clusters, and the connections named there."""

import pytest
from coordinator_plugin import clusters

from coordinator_tasks.core.errors import Refused


def test_without_a_setting_there_is_one_cluster_with_the_default_connections() -> None:
    (only,) = clusters.clusters({})
    assert (only.name, only.zookeeper_conn_id, only.kafka_conn_id) == ("main", "zookeeper_default", "kafka_default")
    assert only.dag_id("rebalance") == "rebalance"


@pytest.mark.parametrize("text", ["", "a,a", "a/b", "../etc"])
def test_odd_cluster_lists_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        clusters.clusters({"COORDINATOR_CLUSTERS": text})


@pytest.mark.parametrize(
    ("set_to", "paused"),
    [({}, True), ({"COORDINATOR_DAGS_PAUSED": "True"}, True), ({"COORDINATOR_DAGS_PAUSED": "false"}, False)],
)
def test_a_new_dag_is_paused_unless_the_site_says_otherwise(set_to: dict[str, str], paused: bool) -> None:
    assert clusters.begin_paused(set_to) is paused


def test_a_word_for_paused_dags_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(
        Refused,
        match=r"COORDINATOR_DAGS_PAUSED or dags_paused in \[kafka_coordinator\] is 'yes'; set it to true or false",
    ):
        clusters.begin_paused({"COORDINATOR_DAGS_PAUSED": "yes"})
