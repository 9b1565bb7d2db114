"""An application that decodes Avro records, framed by a registry's serialiser and bare, and prints what came as JSON.

Its arguments: the jars of Spark's Avro functions, separated by commas; a schema registry's address; the brokers, and a topic
that has `RECORDS`.
"""

import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_apps.pipelines.schema_registry import Subject, decoded, subject_of, undecoded
from spark_apps.records.agent_socket import AgentServer, Reading
from spark_apps.spark import session, source
from tests.integration.schema_registry import versions
from tests.integration.sole_owner import begun, sole_owner
from tests.integration.spark_submit import JAVA_OPTIONS

LIMIT_S = 120.0
PAGE = Path(__file__).parents[2] / "docs" / "deserializers.md"
AVRO_LIMITS = re.findall(r"^-Dorg\.apache\.avro\.\S+$", PAGE.read_text(), re.MULTILINE)
SUBJECT, CITIES = "shop/orders-value", "shop/cities"
USER, PASSWORD = "reader", "registry-secret"
FIRST = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "string"}]})
SECOND = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [{"name": "id", "type": "string"}, {"name": "quantity", "type": "int", "default": 7}],
    }
)
CITY = json.dumps(
    {"type": "record", "name": "City", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
)
THIRD = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "quantity", "type": "int", "default": 7},
            {"name": "city", "type": ["null", "shop.City"], "default": None},
        ],
    }
)
VERSIONS = {300: FIRST, 4: SECOND, 9: THIRD}
"""The schemas by their ids; the first is soft-deleted, and the last has its city from the subject of cities."""
ANSWERS = {
    **versions(
        SUBJECT, VERSIONS, deleted=[300], references={9: [{"name": "shop.City", "subject": CITIES, "version": 1}]}
    ),
    **versions(CITIES, {8: CITY}),
}
MAY_BE_NULL = json.dumps(
    {"type": "record", "name": "note", "fields": [{"name": "text", "type": ["null", "string"], "default": None}]}
)
AB, CD_5 = b"\x04ab", b"\x04cd\x0a"


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


RECORDS: dict[str, bytes | None] = {
    "of the first version": framed(300, AB),
    "of the second version": framed(4, CD_5),
    "of the third version": framed(9, CD_5 + b"\x02\x04ef"),
    "of another subject": framed(99, AB),
    "foreign": b"nothing of ours",
    "cut short": framed(300, b"\xff"),
    "with a byte behind it": framed(300, AB + b"\0"),
    "with another behind it": framed(300, AB + AB),
    "one byte short": framed(4, CD_5[:-1]),
    "of 2 GB, as it says": framed(300, b"\xfe\xff\xff\xef\x0f"),
    "short": b"\0",
    "short, with a number": b"\0\x04",
    "null": None,
}
"""What is in the topic, by key."""

found: dict[str, Any] = {}


def build(stream: DataFrame, settings: Mapping[str, str]) -> DataStreamWriter:
    orders = subject_of(settings, SUBJECT)
    order = decoded(stream.value, orders)
    rows = stream.select("key", order.alias("order"), undecoded(stream.value, orders, order).alias("problem"))

    def write(batch: DataFrame, _: int) -> None:
        found.update(
            {bytes(row.key).decode(): row.problem or row.order.asDict(recursive=True) for row in batch.collect()}
        )

    return rows.writeStream.foreachBatch(write)


def read(spark: SparkSession, registry: str, servers: str, topic: str) -> None:
    """Everything that is in the topic."""
    server, runner = AgentServer(Reading("a", 1)), sole_owner(servers, topic, "avro")
    server.serve(topic, runner)
    source.register(spark, str(server.path))
    settings = {"schemaRegistry": registry, "schemaRegistryUser": USER, "schemaRegistryPassword": PASSWORD}
    with tempfile.TemporaryDirectory() as folder:

        def start() -> StreamingQuery:
            stream = spark.readStream.format(source.FORMAT).option("subscribe", topic).load()
            writer = build(stream, settings).trigger(availableNow=True)
            return writer.option("checkpointLocation", tempfile.mkdtemp(dir=folder)).start()

        query = begun(runner, start)
        assert query.awaitTermination(LIMIT_S), runner.status()
    runner.close()
    server.close()


def main(jars: str, registry: str, servers: str, topic: str) -> None:
    builder = SparkSession.builder.master("local[1]").appName("avro").config("spark.ui.enabled", "false")
    java_options = " ".join((JAVA_OPTIONS, *AVRO_LIMITS))
    builder = builder.config("spark.jars", jars).config("spark.driver.extraJavaOptions", java_options)
    spark = session.configure(builder).getOrCreate()
    read(spark, registry, servers, topic)
    bare = spark.createDataFrame([(AB,)], "value binary").select(from_avro("value", FIRST).alias("order")).collect()
    notes = spark.createDataFrame([(framed(1, b"\0"),), (framed(1, b"\x02\x04a"),)], "value binary")
    read_notes = notes.select(decoded(notes.value, Subject({1: MAY_BE_NULL}, MAY_BE_NULL)).alias("note")).collect()
    others = {"bare": bare[0].order, "a null field": read_notes[0].note, "a cut field": read_notes[1].note}
    print(json.dumps({**found, **{name: one and one.asDict() for name, one in others.items()}}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
