"""The options of the data source, and the file for the secret ones."""

import json
import os
import stat
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.records.columns import spark_schema
from spark_apps.records.options import EARLIEST, LATEST, Starting, parse_options
from spark_apps.records.settings_file import FILE_VARIABLE, SECRET_VARIABLE, load_settings

TOPIC = {"subscribe": "orders"}


def test_names_are_case_insensitive_and_java_names_are_translated() -> None:
    options = parse_options(
        {
            **TOPIC,
            "MAXOFFSETSPERTRIGGER": "100",
            "includeHeaders": "TRUE",
            "kafkaConsumer.pollTimeoutMs": "500",
            "kafka.fetch.max.wait.ms": "7",
            "kafka.isolation.level": "read_committed",
        }
    )
    assert options.max_offsets_per_trigger == 100
    assert options.include_headers
    assert options.progress_timeout_s == 0.5
    assert options.kafka == {"fetch.wait.max.ms": "7", "isolation.level": "read_committed"}


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        pytest.param({"startingOffsets": "Earliest"}, Starting(every=EARLIEST), id="earliest"),
        pytest.param({"startingOffsets": "latest"}, Starting(every=LATEST), id="latest"),
        pytest.param(
            {"startingOffsets": '{"orders":{"0":23,"1":-2}}'}, Starting(offsets={0: 23, 1: -2}), id="by partition"
        ),
        pytest.param(
            {"startingOffsetsByTimestamp": '{"orders":{"0":1000}}', "startingOffsetsByTimestampStrategy": "latest"},
            Starting(timestamps_ms={0: 1000}, else_latest=True),
            id="by time",
        ),
        pytest.param(
            {"startingTimestamp": "5", "startingOffsets": "latest"}, Starting(every_ms=5), id="one time goes first"
        ),
    ],
)
def test_where_a_partition_begins(extra: dict[str, str], expected: Starting) -> None:
    assert parse_options({**TOPIC, **extra}).starting == expected


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"subscribePattern": "o.*"}, "one query reads one topic"),
        ({"assign": "{}"}, "the coordinator assigns"),
        ({"subscribe": "a,b"}, "several topics"),
        ({"subscribe": " "}, "'subscribe' is missing"),
        ({"endingOffsets": "latest"}, "not valid in streaming"),
        ({"kafka.group.id": "g"}, "Kafka option 'group.id' is not supported"),
        ({"group.id": "g"}, "Kafka option 'group.id' is not supported"),
        ({"kafka.auto.offset.reset": "earliest"}, "set 'startingOffsets' instead"),
        ({"kafka.enable.auto.commit": "true"}, "committed after the sink"),
        ({"kafka.key.deserializer": "x"}, "keys are byte arrays"),
        ({"kafka.value.deserializer": "x"}, "values are byte arrays"),
        ({"kafka.interceptor.classes": "x"}, "interceptor"),
        ({"kafka.sasl.password": "hunter2"}, "is a secret"),
        ({"kafka.sasl.jaas.config": "hunter2"}, "is a secret"),
        ({"kafka.ssl.truststore.location": "x"}, "belongs to the Java client"),
        ({"maxOffsets": "1"}, "unknown option 'maxoffsets'"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number above 0"),
        ({"maxOffsetsPerTrigger": "many"}, "whole number above 0"),
        ({"failOnDataLoss": "perhaps"}, "give true or false"),
        ({"startingOffsets": "middle"}, "not of the form"),
        ({"startingOffsets": '{"other":{"0":1}}'}, "not of the form"),
        ({"startingOffsets": '{"orders":{"0":1,"0":2}}'}, "not of the form"),
        ({"startingOffsets": '{"orders":{"0":1,"00":2}}'}, "names something else than a partition"),
        ({"startingOffsets": '{"orders":{"1_0":1}}'}, "names something else than a partition"),
        ({"startingOffsets": "[" * 100_000}, "not of the form"),
        ({"startingOffsets": '{"orders":{"0":1},"b":{}}'}, "names topics other than"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "-3 for partition 0"),
        ({"startingOffsets": f'{{"orders":{{"0":{2**63}}}}}'}, f"{2**63} for partition 0"),
        ({"startingOffsetsByTimestamp": f'{{"orders":{{"0":{2**63}}}}}'}, f"{2**63} for partition 0"),
        ({"startingTimestamp": str(2**63)}, "whole number above 0"),
        ({"kafkaConsumer.pollTimeoutMs": "9" * 400}, "whole number above 0"),
        ({"maxTriggerDelay": "9" * 400 + "d"}, "give a time above 0 with its unit"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "give error or latest"),
        ({"minPartitions": "0"}, "whole number above 0"),
        ({"maxTriggerDelay": "soon"}, "give a time above 0 with its unit"),
        ({"maxTriggerDelay": "3 fortnights"}, "give a time above 0 with its unit"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, r"\(5\) is above 'maxOffsetsPerTrigger' \(4\)"),
        ({"kafka.isolation.level": "committed"}, "give read_uncommitted or read_committed"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(extra: dict[str, str], says: str) -> None:
    with pytest.raises(Refused, match=says) as caught:
        parse_options({**TOPIC, **extra})
    assert "\n" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("text", "seconds"), [("250", 0.25), ("30s", 30), ("15m", 900), ("2 h", 7200), ("5MIN", 300)])
def test_a_delay_is_written_as_in_spark(text: str, seconds: float) -> None:
    assert parse_options({**TOPIC, "maxTriggerDelay": text}).max_trigger_delay_s == seconds


def test_columns_are_those_of_sparks_kafka_source() -> None:
    plain = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    headers = "headers array<struct<key:string,value:binary>>"
    assert spark_schema(False, False).simpleString() == f"struct<{plain}>".replace(", ", ",").replace(" ", ":")
    assert spark_schema(True, False)["headers"].dataType.simpleString() == headers.split(" ")[1]
    assert spark_schema(True, True).names[-4:] == ["headers", "consumer", "incarnation", "epoch"]


@pytest.mark.parametrize(
    "text",
    ["# a comment\nsasl.username = alice\n\nsasl.password=a=b\n", '{"sasl.username": "alice", "sasl.password": "a=b"}'],
)
def test_secret_settings_come_from_a_private_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kafka.properties"
    path.touch(mode=0o600)
    path.write_text(text)
    expected = {"sasl.username": "alice", "sasl.password": "a=b"}
    assert load_settings(str(path), {}) == expected
    assert load_settings("", {FILE_VARIABLE: str(path)}) == expected
    assert load_settings("", {SECRET_VARIABLE: text}) == expected
    assert load_settings("", {}) == {}


def test_a_settings_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text("sasl.password=hunter2\n")
    path.chmod(0o640)
    with pytest.raises(Refused, match=r"mode 0640.*chmod 600") as caught:
        load_settings(str(path), {})
    assert "hunter2" not in str(caught.value)


def test_a_settings_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kafka.properties"
    path.write_text("sasl.password=hunter2\n")
    path.chmod(0o600)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(Refused, match=rf"belongs to the user with uid {own}, not to this one") as caught:
        load_settings(str(path), {})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        '{"sasl.password": hunter2}',
        json.dumps({"sasl.password": ["hunter2"]}),
        '{"sasl.password": "hunter2", "sasl.password": "x"}',
        '{"sasl.password": "hunter2\\ud800"}',
        '{"hunter2":' * 100_000,
        '{"sasl.password": "hunter2\\u0000"}',
        "sasl.password=hunter2\0",
    ],
    ids=["no line", "no JSON", "list", "twice", "half a character", "deep", "NUL in JSON", "NUL in a line"],
)
def test_an_unreadable_settings_file_does_not_show_what_is_in_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kafka.properties"
    path.touch(mode=0o600)
    path.write_text(text)
    with pytest.raises(Refused) as caught:
        load_settings(str(path), {})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["sasl.password=hunter2\udcff", "hunter2\udcff=x"])
def test_a_secret_of_the_environment_that_is_no_utf_8_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(Refused, match="SECRET has a byte that is not UTF-8, or a NUL; correct it") as caught:
        load_settings("", {SECRET_VARIABLE: text})
    assert "hunter2" not in str(caught.value)


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not there; put it on every host"):
        load_settings(str(tmp_path / "none"), {})


def test_a_shipped_settings_file_is_closed_to_others_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = tmp_path / "kafka.properties"
    copy.write_text("sasl.username=alice\n")
    copy.chmod(0o755)  # as Spark leaves it
    monkeypatch.setattr("pyspark.SparkFiles._root_directory", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert load_settings("kafka.properties", {}) == {"sasl.username": "alice"}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
