"""The button *Test* of both types of connection, at real servers."""

import json
from typing import TYPE_CHECKING

import pytest
from coordinator_plugin.connections import KafkaConnectionHook, ZooKeeperConnectionHook
from coordinator_plugin.provider import KAFKA, ZOOKEEPER

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper

if TYPE_CHECKING:
    from airflow.sdk import BaseHook

pytestmark = pytest.mark.integration


def answer_of(monkeypatch: pytest.MonkeyPatch, hook: "type[BaseHook]", host: str, **extra: object) -> tuple[bool, str]:
    conn_type = ZOOKEEPER if hook is ZooKeeperConnectionHook else KAFKA
    connection = {"conn_type": conn_type, "host": host, "extra": json.dumps(extra)}
    monkeypatch.setenv("AIRFLOW_CONN_TRIED", json.dumps(connection))
    answer: tuple[bool, str] = hook("tried").test_connection()  # type: ignore[call-arg, attr-defined]
    return answer


def test_a_zookeeper_that_is_there_grants_a_session(
    monkeypatch: pytest.MonkeyPatch, zookeeper: EmbeddedZooKeeper
) -> None:
    assert answer_of(monkeypatch, ZooKeeperConnectionHook, zookeeper.connect_string) == (
        True,
        "ZooKeeper grants a session, and cluster main may be used by this account",
    )


def test_a_kafka_that_is_there_answers(monkeypatch: pytest.MonkeyPatch, kafka: EmbeddedKafka) -> None:
    assert answer_of(monkeypatch, KafkaConnectionHook, kafka.bootstrap_servers) == (True, "the brokers answer")


def test_what_is_wrong_is_said_and_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    passed, said = answer_of(monkeypatch, ZooKeeperConnectionHook, nobody, answer_timeout_s=1)
    assert (passed, nobody in said) == (False, True)
    passed, said = answer_of(monkeypatch, ZooKeeperConnectionHook, nobody, chrot="/x")
    assert (passed, "chrot" in said) == (False, True)
    passed, said = answer_of(monkeypatch, KafkaConnectionHook, nobody)
    assert (passed, nobody in said) == (False, True)
