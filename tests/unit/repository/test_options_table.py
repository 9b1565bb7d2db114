"""The page on options says what the code does, for every option of Spark's Kafka source and every column."""

import re
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fleet import fetch_properties
from coordinator_tasks.core.fleet.fetch_properties import CHOICES, NUMBERS
from spark_apps.records.columns import spark_schema
from spark_apps.records.options import _ACCEPTED, _JAVA_ONLY, _REFUSED, _SECRET_WORDS, JAVA_NAMES, parse_options

PAGE = Path(__file__).resolve().parents[3] / "docs" / "options.md"
# From the integration guide and `KafkaSourceProvider` of Apache Spark 4.
SPARK = {
    "assign": "–",
    "subscribe": "–",
    "subscribePattern": "–",
    "kafka.bootstrap.servers": "–",
    "startingTimestamp": "–",
    "startingOffsetsByTimestamp": "–",
    "startingOffsets": "`latest`",
    "endingTimestamp": "–",
    "endingOffsetsByTimestamp": "–",
    "endingOffsets": "`latest`",
    "failOnDataLoss": "`true`",
    "kafkaConsumer.pollTimeoutMs": "`spark.network.timeout`, 120 s",
    "fetchOffset.numRetries": "`3`",
    "fetchOffset.retryIntervalMs": "`10`",
    "maxOffsetsPerTrigger": "–",
    "minOffsetsPerTrigger": "–",
    "maxTriggerDelay": "`15m`",
    "minPartitions": "–",
    "maxRecordsPerPartition": "–",
    "groupIdPrefix": "`spark-kafka-source`",
    "kafka.group.id": "–",
    "includeHeaders": "`false`",
    "startingOffsetsByTimestampStrategy": "`error`",
}
SPARK_REFUSES = {
    "kafka.auto.offset.reset",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
    "kafka.enable.auto.commit",
    "kafka.interceptor.classes",
}
STATUS = ("same", "different", "refused")
Rows = list[list[str]]


def table(heading: str) -> Rows:
    """The cells of the table under a heading, without its own head."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1].split("\n##")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(rows: Rows) -> list[str]:
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]


def test_every_option_of_sparks_source_stands_there_once_with_its_default() -> None:
    assert {name: row[1] for row in table("Those of Spark's Kafka source") for name in names([row])} == SPARK
    assert len(names(table("Those of Spark's Kafka source"))) == len(SPARK)


@pytest.mark.parametrize("row", table("Those of Spark's Kafka source"), ids=lambda row: str(row[0]))
def test_the_status_is_what_the_code_does(row: list[str]) -> None:
    name, status = names([row])[0], row[2]
    assert status in STATUS
    assert (name.lower() in _REFUSED) == (status == "refused")
    if status == "refused":
        with pytest.raises(Refused):
            parse_options({"subscribe": "orders", name: "1"})
    else:
        assert name.lower() in _ACCEPTED or name.startswith("kafka.")


def test_every_option_that_is_taken_or_refused_stands_in_a_table() -> None:
    listed = {*names(table("Those of Spark's Kafka source")), *names(table("Our own"))}
    refused = set(names(table("Settings of the Kafka client")))
    assert set(_ACCEPTED.values()) <= listed
    assert {name.lower() for name in listed | refused} >= _REFUSED.keys()


def test_the_banned_settings_are_those_of_the_code_and_of_spark() -> None:
    rows = table("Settings of the Kafka client")
    *settings, java_only, secret = rows
    assert set(names(settings)) == {name for name in _REFUSED if name.startswith("kafka.")}
    assert {names([row])[0] for row in settings if row[1] == "refused"} == SPARK_REFUSES
    assert {name.removeprefix("kafka.").rstrip("*") for name in names([java_only])} == set(_JAVA_ONLY)
    assert set(names([secret])) == set(_SECRET_WORDS)


def test_the_properties_of_a_topic_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8").split("`add-topic --property`", 1)[1].split("\n\n")[0]
    assert set(re.findall(r"`([^`]+)`", text)) == {*NUMBERS, *CHOICES, *fetch_properties.JAVA_NAMES}


def test_the_translated_names_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in JAVA_NAMES)


def test_the_columns_are_those_of_the_code() -> None:
    found = {names([row])[0]: row[1].strip("`") for row in table("Columns")}
    assert list(found.items()) == [(field.name, field.dataType.simpleString()) for field in spark_schema(True, True)]
