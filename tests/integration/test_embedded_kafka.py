"""The embedded Kafka is a real one: records outlive a crash, and the SASL listener asks for a password."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from tests.sasl_kafka import SaslKafka

pytestmark = pytest.mark.integration

ANSWER_TIMEOUT_S = 20.0
RECORDS = 10


def test_records_and_ports_outlive_a_crash(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path) as broker:
        address = broker.bootstrap_servers
        ConfluentKafkaAdmin({"bootstrap.servers": address}).create_topic("kept", 1)
        producer = Producer({"bootstrap.servers": address})
        for number in range(RECORDS):
            producer.produce("kept", str(number))
        assert producer.flush(ANSWER_TIMEOUT_S) == 0

        broker.kill()
        broker.start()

        assert broker.bootstrap_servers == address
        consumer = Consumer({"bootstrap.servers": address, "group.id": "reader"})
        consumer.assign([TopicPartition("kept", 0, 0)])
        values = [record.value() for record in consumer.consume(RECORDS, ANSWER_TIMEOUT_S)]
        consumer.close()
        assert values == [str(number).encode() for number in range(RECORDS)]


def test_it_starts_whatever_options_of_java_the_shell_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    with EmbeddedKafka(tmp_path) as broker:
        assert broker.running


def test_its_data_are_in_its_folder_whatever_the_folder_is_called(tmp_path: Path) -> None:
    with EmbeddedKafka(tmp_path / "Jürgen's #1 folder") as broker:
        assert (broker.data_dir / "data" / "meta.properties").exists()


def sasl_admin(broker: SaslKafka, password: str) -> AdminClient:
    return AdminClient({**broker.login(password), "log_level": 0})


def test_the_sasl_listener_lets_a_known_user_in(kafka: SaslKafka) -> None:
    assert sasl_admin(kafka, "alice-secret").list_topics(timeout=ANSWER_TIMEOUT_S).brokers


def test_the_sasl_listener_refuses_a_wrong_password(kafka: SaslKafka) -> None:
    with pytest.raises(KafkaException):
        sasl_admin(kafka, "wrong").list_topics(timeout=2)
