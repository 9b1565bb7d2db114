"""The options of the data source. Names, defaults and refusals follow Spark's Kafka source where possible.

Pure. A wrong option raises `Refused`. Secret settings are in a file (see `SettingsFile.java`) and never in options,
because options are part of the query plan.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_tasks.core.errors import BadOption
from coordinator_tasks.core.fleet import fetch_properties
from coordinator_tasks.core.names import SECRET_WORDS, check_topic, partition_of
from coordinator_tasks.core.text.json_fields import MAX_NUMBER, read_json

EARLIEST = -2
LATEST = -1

_ACCEPTED = {
    "subscribe": "subscribe",
    "startingoffsets": "startingOffsets",
    "startingtimestamp": "startingTimestamp",
    "startingoffsetsbytimestamp": "startingOffsetsByTimestamp",
    "startingoffsetsbytimestampstrategy": "startingOffsetsByTimestampStrategy",
    "failondataloss": "failOnDataLoss",
    "maxoffsetspertrigger": "maxOffsetsPerTrigger",
    "minoffsetspertrigger": "minOffsetsPerTrigger",
    "maxtriggerdelay": "maxTriggerDelay",
    "minpartitions": "minPartitions",
    "maxrecordsperpartition": "maxRecordsPerPartition",
    "includeheaders": "includeHeaders",
    "includeassignment": "includeAssignment",
    "kafkaconsumer.polltimeoutms": "kafkaConsumer.pollTimeoutMs",
    "kafkasettingsfile": "kafkaSettingsFile",
}

_OFFSETS_MANAGED = "the agent decides where a partition begins (committed position, release or start rule)"
_REFUSED = {
    "subscribepattern": "one query reads one topic; start one query for each topic, each with 'subscribe'",
    "assign": "the coordinator assigns the partitions; name the topic with 'subscribe'",
    "endingoffsets": "ending offsets are not valid in streaming queries",
    "endingtimestamp": "ending offsets are not valid in streaming queries",
    "endingoffsetsbytimestamp": "ending offsets are not valid in streaming queries",
    "groupidprefix": "the group is the one that the topic was added with",
    "fetchoffset.numretries": "the agent looks up offsets and tries again by itself",
    "fetchoffset.retryintervalms": "the agent looks up offsets and tries again by itself",
    "kafka.group.id": "the group is the one that the topic was added with",
    "kafka.auto.offset.reset": f"set 'startingOffsets' instead: {_OFFSETS_MANAGED}",
    "kafka.key.deserializer": "keys are byte arrays; use DataFrame operations to deserialize them",
    "kafka.value.deserializer": "values are byte arrays; use DataFrame operations to deserialize them",
    "kafka.enable.auto.commit": "offsets are committed after the sink, by the agent",
    "kafka.enable.auto.offset.store": "offsets are committed after the sink, by the agent",
    "kafka.interceptor.classes": "interceptors could break the offsets",
    "kafka.partition.assignment.strategy": "the coordinator assigns the partitions",
    "kafka.group.protocol": "the coordinator assigns the partitions; the group has no members",
    "kafka.group.instance.id": "the coordinator assigns the partitions; the group has no members",
    "kafka.enable.partition.eof": "the reader finds the end of a log by itself",
}

ISOLATION = "isolation.level"
_ISOLATIONS = fetch_properties.CHOICES[ISOLATION]


@dataclass(frozen=True, slots=True)
class Starting:
    """The start of a partition without a committed offset; by default, the topic's start rule.

    `offsets`: partition → offset, `EARLIEST` or `LATEST`. `timestamps_ms`: partition → milliseconds since 1970. `every`
    and `every_ms`: offset and time for all other partitions. If a partition has no record at or after its time, it
    begins at the log's end with `else_latest`; otherwise it cannot begin.
    """

    every: int | None = None
    every_ms: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    timestamps_ms: Mapping[int, int] = field(default_factory=dict)
    else_latest: bool = False


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The checked options of one stream. `kafka`: settings under librdkafka's or Java's names, without secrets."""

    topic: str
    starting: Starting = Starting()
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 900.0
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    include_assignment: bool = False
    progress_timeout_s: float = 120.0
    settings_file: str = ""
    kafka: Mapping[str, str] = field(default_factory=dict)


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Check the options of `spark.readStream`. Case does not matter in names. Raises `BadOption`."""
    given = {name.lower(): str(value) for name, value in options.items()}
    for name in given:
        _check_name(name)
    most, least = _positive(given, "maxoffsetspertrigger"), _positive(given, "minoffsetspertrigger")
    if most is not None and least is not None and least > most:
        raise BadOption(f"option 'minOffsetsPerTrigger' ({least}) is above 'maxOffsetsPerTrigger' ({most}); lower it")
    return SourceOptions(
        topic=_topic(given),
        starting=_starting(given),
        fail_on_data_loss=_flag(given, "failondataloss", True),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_s=_seconds(given, "maxtriggerdelay", 900.0),
        min_partitions=_positive(given, "minpartitions"),
        max_records_per_partition=_positive(given, "maxrecordsperpartition"),
        include_headers=_flag(given, "includeheaders", False),
        include_assignment=_flag(given, "includeassignment", False),
        progress_timeout_s=(_positive(given, "kafkaconsumer.polltimeoutms") or 120_000) / 1000,
        settings_file=given.get("kafkasettingsfile", ""),
        kafka=_kafka(given),
    )


def _check_name(name: str) -> None:
    bare = name.removeprefix("kafka.")
    reason = _REFUSED.get(name) or _REFUSED.get(f"kafka.{bare}")
    if reason is not None:
        raise BadOption(f"Kafka option '{bare if bare != name else name}' is not supported: {reason}")
    if any(word in name for word in SECRET_WORDS):
        raise BadOption(
            f"option '{name}' is a secret, and options are shown in query plans; "
            "put it into a file of mode 0600 and name that with 'kafkaSettingsFile'"
        )
    if name not in _ACCEPTED and bare == name:
        known = ", ".join(sorted(_ACCEPTED.values()))
        raise BadOption(f"unknown option '{name}'; known are {known} and Kafka settings with the prefix 'kafka.'")


def _topic(given: Mapping[str, str]) -> str:
    topic = given.get("subscribe", "").strip()
    if not topic:
        raise BadOption("option 'subscribe' is missing: name the topic to read")
    if "," in topic:
        raise BadOption(f"option 'subscribe' names several topics ({topic}); start one query for each topic")
    return check_topic(topic)


def _kafka(given: Mapping[str, str]) -> dict[str, str]:
    bare = {name.removeprefix("kafka."): value for name, value in given.items() if name.startswith("kafka.")}
    level = bare.get(ISOLATION, _ISOLATIONS[0])
    if level not in _ISOLATIONS:
        raise BadOption(f"option 'kafka.{ISOLATION}' is '{level}'; give {' or '.join(_ISOLATIONS)}")
    return dict(sorted(bare.items()))


def _flag(given: Mapping[str, str], name: str, default: bool) -> bool:
    text = given.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadOption(f"option '{_ACCEPTED[name]}' is '{text}'; give true or false")
    return text == "true"


def _positive(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 0 < value <= MAX_NUMBER:
        raise BadOption(f"option '{_ACCEPTED[name]}' is '{text}'; give a whole number above 0")
    return value


_UNITS_S = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    """Return the seconds of a time in Spark's notation: a whole number and a unit (without a unit, milliseconds)."""
    text = given.get(name, "").strip().lower()
    if name not in given:
        return default
    found = re.fullmatch(r"(\d{1,19})\s*([a-z]*)", text)
    if found is None or found[2] not in _UNITS_S or int(found[1]) == 0:
        raise BadOption(
            f"option '{_ACCEPTED[name]}' is '{text}'; give a time above 0 with its unit, such as 30s or 15m"
        )
    return int(found[1]) * _UNITS_S[found[2]]


def _starting(given: Mapping[str, str]) -> Starting:
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise BadOption(f"option 'startingOffsetsByTimestampStrategy' is '{strategy}'; give error or latest")
    # Spark's precedence: one time for all, then a time per partition, then offsets.
    latest = strategy == "latest"
    if "startingtimestamp" in given:
        return Starting(every_ms=_positive(given, "startingtimestamp"), else_latest=latest)
    if "startingoffsetsbytimestamp" in given:
        by_partition = _by_partition(given, "startingoffsetsbytimestamp", lowest=0)
        return Starting(timestamps_ms=by_partition, else_latest=latest)
    text = given.get("startingoffsets", "").strip()
    if not text:
        return Starting()
    if text.lower() in ("earliest", "latest"):
        return Starting(every=EARLIEST if text.lower() == "earliest" else LATEST)
    return Starting(offsets=_by_partition(given, "startingoffsets", lowest=EARLIEST))


def _by_partition(given: Mapping[str, str], name: str, lowest: int) -> dict[int, int]:
    shown = _ACCEPTED[name]
    example = f'{{"{given.get("subscribe", "topic")}":{{"0":23,"1":-2}}}}'
    try:
        data: Any = read_json(given[name], once=True)
        inner = data[given.get("subscribe", "").strip()]
        found = {int(partition): value for partition, value in inner.items() if partition_of(partition) is not None}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadOption(f"option '{shown}' is not of the form {example} with the subscribed topic") from error
    if len(found) != len(inner):
        raise BadOption(f"option '{shown}' names something else than a partition; give {example}")
    if len(data) != 1:
        raise BadOption(f"option '{shown}' names topics other than the subscribed one; give {example}")
    for partition, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= MAX_NUMBER:
            raise BadOption(f"option '{shown}' has {value!r} for partition {partition}; give {example}")
    return found
