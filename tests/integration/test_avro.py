"""Avro records from a broker by Spark's own functions, with the schemas of a registry and bare, in a Spark of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.errors import EmbeddedError
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.java import JavaUnavailable, find_java
from tests.integration import avro_application
from tests.integration.avro_application import PASSWORD, RECORDS, USER
from tests.integration.kafka_topics import new_topic
from tests.integration.schema_registry import serving
from tests.spark_jars import AVRO

pytestmark = pytest.mark.integration
LIMIT_S = 200


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with serving(avro_application.ANSWERS, USER, PASSWORD) as address:
        yield address


@pytest.fixture
def topic(kafka: EmbeddedKafka) -> str:
    name = new_topic(kafka.bootstrap_servers, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in RECORDS.items():
        producer.produce(name, value, key.encode())
    producer.flush(20)
    return name


def test_each_record_is_decoded_by_its_own_schema_and_to_its_last_byte(
    registry: str, kafka: EmbeddedKafka, topic: str
) -> None:
    try:
        find_java()
        folder = jars.ensure_jars(AVRO)
    except (EmbeddedError, JavaUnavailable) as error:
        pytest.skip(str(error))
    listed = ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))
    command = [sys.executable, "-m", avro_application.__name__, listed, registry, kafka.bootstrap_servers, topic]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    cut, unframed = "the record is cut short, or bytes stand behind it", "no Avro record with the id of a schema"
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "of the first version": {"id": "ab", "quantity": 7, "city": None},
        "of the second version": {"id": "cd", "quantity": 5, "city": None},
        "of the third version": {"id": "cd", "quantity": 5, "city": {"name": "ef"}},
        "of another subject": "schema 99 is none of the subject, or newer than this consumer",
        "foreign": unframed,
        "cut short": cut,
        "one byte short": cut,
        "with a byte behind it": cut,
        "with another behind it": cut,
        "of 2 GB, as it says": cut,
        "short": unframed,
        "short, with a number": unframed,
        "null": "no value",
        "bare": {"id": "ab"},
        "a null field": {"text": None},
        "a cut field": None,
    }
