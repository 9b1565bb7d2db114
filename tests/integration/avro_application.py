"""An application that decodes Avro records, framed by a registry's serialiser and bare, and prints what came as JSON.

Its argument: the jars of Spark's Avro functions, separated by commas.
"""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.avro.functions import from_avro

from spark_apps import session
from spark_apps.registry import Subject, decoded
from tests.integration.spark_submit import JAVA_OPTIONS

FIRST = json.dumps({"type": "record", "name": "order", "fields": [{"name": "id", "type": "string"}]})
SECOND = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [{"name": "id", "type": "string"}, {"name": "quantity", "type": "int", "default": 7}],
    }
)
SUBJECT = Subject({300: FIRST, 4: SECOND}, SECOND)
AB, CD_5 = b"\x04ab", b"\x04cd\x0a"


def framed(number: int, body: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + body


RECORDS: dict[str, bytes | None] = {
    "of the first version": framed(300, AB),
    "of the second version": framed(4, CD_5),
    "of another subject": framed(99, AB),
    "foreign": b"nothing of ours",
    "cut short": framed(300, b"\xff"),
    "short": b"\0",
    "null": None,
}


def main(jars: str) -> None:
    builder = SparkSession.builder.master("local[1]").appName("avro").config("spark.ui.enabled", "false")
    builder = builder.config("spark.jars", jars).config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
    spark = session.configure(builder).getOrCreate()
    rows = spark.createDataFrame(list(RECORDS.items()), "name string, value binary")
    found = {
        row.name: row.order for row in rows.select("name", decoded(F.col("value"), SUBJECT).alias("order")).collect()
    }
    bare = spark.createDataFrame([(AB,)], "value binary").select(from_avro("value", FIRST).alias("order")).collect()
    print(json.dumps({name: order and order.asDict() for name, order in {**found, "bare": bare[0].order}.items()}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
