"""The options of the data source."""

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.records.options import EARLIEST, LATEST, Starting, parse_options

TOPIC = {"subscribe": "orders"}


def test_names_are_case_insensitive() -> None:
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
    assert options.kafka == {"fetch.max.wait.ms": "7", "isolation.level": "read_committed"}


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
        ({"kafka.sasl.password": "hunter2"}, "is a secret"),
        ({"kafka.sasl.jaas.config": "hunter2"}, "is a secret"),
        ({"maxOffsets": "1"}, "unknown option 'maxoffsets'"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number above 0"),
        ({"maxOffsetsPerTrigger": "many"}, "whole number above 0"),
        ({"failOnDataLoss": "perhaps"}, "give true or false"),
        ({"startingOffsets": "middle"}, "not of the form"),
        ({"startingOffsets": '{"other":{"0":1}}'}, "not of the form"),
        ({"startingOffsets": '{"orders":{"0":1,"0":2}}'}, "not of the form"),
        ({"startingOffsets": '{"orders":{"1_0":1}}'}, "names something else than a partition"),
        ({"startingOffsets": "[" * 100_000}, "not of the form"),
        ({"startingOffsets": '{"orders":{"0":1},"b":{}}'}, "names topics other than"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "-3 for partition 0"),
        ({"startingOffsets": f'{{"orders":{{"0":{2**63}}}}}'}, f"{2**63} for partition 0"),
        ({"startingOffsetsByTimestamp": f'{{"orders":{{"0":{2**63}}}}}'}, f"{2**63} for partition 0"),
        ({"startingTimestamp": str(2**63)}, "whole number above 0"),
        ({"maxTriggerDelay": "9" * 400 + "d"}, "give a time above 0 with its unit"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "give error or latest"),
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


def test_settings_of_the_java_client_are_taken() -> None:
    given = {"max.poll.records": "5", "ssl.truststore.location": "/x", "sasl.login.connect.timeout.ms": "5"}
    assert parse_options({**TOPIC, **{f"kafka.{name}": value for name, value in given.items()}}).kafka == given


@pytest.mark.parametrize(("text", "seconds"), [("250", 0.25), ("30s", 30), ("15m", 900), ("2 h", 7200), ("5MIN", 300)])
def test_a_delay_is_written_as_in_spark(text: str, seconds: float) -> None:
    assert parse_options({**TOPIC, "maxTriggerDelay": text}).max_trigger_delay_s == seconds
