"""A Spark consumer of the hand-off benchmark: started and warmed up at once, a consumer only once it is told to.

    python -m benchmarks.handoff_spark --journal FILE --ready FILE --go FILE --consumer a --cluster c ...

A JVM that starts takes both cores of a small machine for ten seconds: on a cluster others would not notice.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.handoff_clients import Journal
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java
from spark_apps.arguments import add_consumer_arguments, consumer_settings
from spark_apps.consumer import Consumer, SparkSettings
from spark_apps.pipelines.outputs import rows_before_sink
from spark_apps.spark import session
from spark_apps.spark.warm_up import Rehearsal, newest_record, rehearse, warm_up

LOOK_S = 0.02
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": " ".join(QUICK_START_OPTIONS),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_consumer_arguments(parser)
    parser.add_argument("--topic", required=True, help="of the rehearsal")
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--ready", type=Path, required=True, help="made when it could begin")
    parser.add_argument("--go", type=Path, required=True, help="it begins when this is there")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    os.environ["JAVA_HOME"] = str(find_java().home)
    settings = consumer_settings(given)
    builder = SparkSession.builder.master("local[2]").appName(settings.consumer)
    for name, value in CONF.items():
        builder = builder.config(name, value)
    spark = session.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    journal = Journal(given.journal)

    def build(stream: DataFrame, _: Mapping[str, str]) -> DataStreamWriter:
        def write(batch: DataFrame, _: int) -> None:
            rows = batch.select("partition", "offset").toArrow()
            journal.note(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))

        return stream.writeStream.foreachBatch(write)

    try:
        brokers = settings.site.kafka["bootstrap.servers"]
        warm_up(spark, brokers)
        newest = newest_record(ConfluentGroupOffsets({"bootstrap.servers": brokers}, given.topic), given.topic)
        rehearse(spark, [Rehearsal(lambda stream: rows_before_sink(build(stream, {})), given.topic, newest)], brokers)
        given.ready.touch()
        while not given.go.exists():
            time.sleep(LOOK_S)
        with Consumer(spark, settings, SparkSettings(warm_up=False)) as consumer:
            consumer.pipeline(default=True, build=build)
            return consumer.run()
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
