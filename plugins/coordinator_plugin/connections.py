"""The two types of connection, with what their button *Test* does."""

from collections.abc import Callable
from typing import Any

from airflow.sdk import BaseHook

from coordinator_plugin.clusters import clusters
from coordinator_plugin.hook import kafka_settings, zookeeper_settings
from coordinator_plugin.provider import KAFKA, ZOOKEEPER
from coordinator_tasks.core.errors import CoordinatorError


class ZooKeeperConnectionHook(BaseHook):
    """A connection to ZooKeeper; `CoordinatorHook` is what tasks use."""

    conn_name_attr = "zookeeper_conn_id"
    default_conn_name = "zookeeper_default"
    conn_type = ZOOKEEPER
    hook_name = "Kafka coordinator: ZooKeeper"

    def __init__(self, zookeeper_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.zookeeper_conn_id = zookeeper_conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Open a session, and look whether the cluster's nodes are closed to others."""
        return _tested(self._open)

    def _open(self) -> str:
        from coordinator_tasks.settings import settings_of  # noqa: PLC0415 - costs time to import
        from coordinator_tasks.wiring import open_zookeeper  # noqa: PLC0415 - the same

        given: dict[str, Any] = zookeeper_settings(self.get_connection(self.zookeeper_conn_id))
        cluster = next((one for one in clusters() if one.zookeeper_conn_id == self.zookeeper_conn_id), clusters()[0])
        open_zookeeper(settings_of({**given, "cluster": cluster.name, "kafka": {"bootstrap.servers": "-"}})).close()
        return f"ZooKeeper grants a session, and cluster {cluster.name} may be used by this account"


class KafkaConnectionHook(BaseHook):
    """A connection to Kafka's brokers; `CoordinatorHook` is what tasks use."""

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_default"
    conn_type = KAFKA
    hook_name = "Kafka coordinator: Kafka"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Log in, and ask the brokers for a topic."""
        return _tested(self._ask)

    def _ask(self) -> str:
        from coordinator_tasks.wiring import ask_brokers  # noqa: PLC0415 - costs time to import

        ask_brokers(kafka_settings(self.get_connection(self.kafka_conn_id)))
        return "the brokers answer"


def _tested(test: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, test()
    except CoordinatorError as error:
        return False, str(error)
