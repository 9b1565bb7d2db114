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


def sasl_admin(broker: SaslKafka, password: str) -> AdminClient:
    return AdminClient({**broker.login(password), "log_level": 0})


def test_the_sasl_listener_refuses_a_wrong_password(kafka: SaslKafka) -> None:
    with pytest.raises(KafkaException):
        sasl_admin(kafka, "wrong").list_topics(timeout=2)
