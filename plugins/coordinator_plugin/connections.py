"""The two types of connection, each with Airflow's button *Test*."""

from abc import abstractmethod
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from coordinator_plugin.clusters import clusters
from coordinator_plugin.hook import kafka_settings, zookeeper_settings
from coordinator_plugin.provider import KAFKA, KAFKA_NAME, ZOOKEEPER, ZOOKEEPER_NAME
from coordinator_tasks.core.errors import CoordinatorError

if TYPE_CHECKING:
    from airflow.sdk import Connection


class TestableHook(BaseHook):
    """A connection that Airflow can test. Tasks use `CoordinatorHook` instead."""

    conn_name_attr = "conn_id"

    def __init__(self, conn_id: str) -> None:
        super().__init__()
        self.conn_id = conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Return whether the server accepts the connection, and a sentence."""
        try:
            return True, self.connect(self.get_connection(self.conn_id))
        except CoordinatorError as error:
            return False, error.told

    @abstractmethod
    def connect(self, connection: "Connection") -> str:
        """Return the result as a sentence. Raises a `CoordinatorError` with the problem."""


class ZooKeeperConnectionHook(TestableHook):
    """Opens a session, and checks that the cluster's nodes are closed to other accounts."""

    default_conn_name = "zookeeper_default"
    conn_type = ZOOKEEPER
    hook_name = ZOOKEEPER_NAME

    def connect(self, connection: "Connection") -> str:
        from coordinator_tasks.settings import settings_of  # noqa: PLC0415 - costs time to import
        from coordinator_tasks.wiring import open_zookeeper  # noqa: PLC0415 - the same

        known = clusters()
        cluster = next((one for one in known if one.zookeeper_conn_id == self.conn_id), known[0]).name
        given = {**zookeeper_settings(connection), "cluster": cluster, "kafka": {"bootstrap.servers": "-"}}
        open_zookeeper(settings_of(given)).close()
        return f"ZooKeeper grants a session, and cluster {cluster} may be used by this account"


class KafkaConnectionHook(TestableHook):
    """Logs in, and asks the brokers for a topic."""

    default_conn_name = "kafka_default"
    conn_type = KAFKA
    hook_name = KAFKA_NAME

    def connect(self, connection: "Connection") -> str:
        from coordinator_tasks.wiring import ask_brokers  # noqa: PLC0415 - costs time to import

        ask_brokers(kafka_settings(connection))
        return "the brokers answer"
