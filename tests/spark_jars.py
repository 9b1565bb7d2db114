"""Spark's own Kafka source, which tests and benchmarks compare ours with, and its Avro functions, fetched as Kafka's jars are."""

from pathlib import Path

from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution

CONNECTOR_VERSION = "4.2.0"
AVRO_VERSION = "4.1.1"

_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
# All of these are in PySpark.
_PROVIDED = (
    "at.yawk.lz4:lz4-java,com.google.code.findbugs:jsr305,org.slf4j:slf4j-api,org.xerial.snappy:snappy-java,"
    "org.lz4:lz4-java,org.scala-lang.modules:scala-parallel-collections_2.13,"
    "org.apache.hadoop:hadoop-client-api,org.apache.hadoop:hadoop-client-runtime"
)
# The connector's own token provider is not in the registry: one of another version replaces it, alone.
CONNECTOR = JarSet(
    f"Spark's Kafka connector {CONNECTOR_VERSION}",
    Path(__file__).with_name(f"spark-kafka-{CONNECTOR_VERSION}.sha256"),
    (
        Resolution(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}", f"{_TOKENS},{_PROVIDED}"),
        Resolution(f"{_TOKENS}:4.1.0-preview1", f"org.apache.kafka:kafka-clients,{_PROVIDED}"),
    ),
)

AVRO = JarSet(
    f"Spark's Avro functions {AVRO_VERSION}",
    Path(__file__).with_name(f"spark-avro-{AVRO_VERSION}.sha256"),
    (Resolution(f"org.apache.spark:spark-avro_2.13:{AVRO_VERSION}", f"org.tukaani:xz,{_PROVIDED}"),),
)
