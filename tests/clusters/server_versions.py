"""Servers of other versions than the embedded ones, with jars by checksum. `python -m tests.clusters.server_versions NAME` pins a set.

A set is fetched like the embedded servers' own (`coordinator_tasks.devstack.embedded.jars`).
"""

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.cache import cache_folder
from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution

CHECKSUMS = Path(__file__).parent / "checksums"
KAFKA = ("3.9.1", "4.0.1", "4.1.1", "4.2.0", jars.KAFKA_VERSION)
OF_SPARK = ("slf4j", "log4j", "snappy")
ZOOKEEPER = ("3.8.4", "3.9.5")
"""The last of both is what the other tests run on."""


def _pinned(name: str, title: str, *resolutions: Resolution) -> JarSet:
    """Its checksums are beside this file."""
    return JarSet(title, CHECKSUMS / f"{name}.sha256", resolutions)


def kafka_jars(version: str) -> JarSet:
    """The broker's."""
    if version == jars.KAFKA_VERSION:
        return jars.KAFKA
    packages = f"org.apache.kafka:kafka_2.13:{version},org.slf4j:slf4j-simple:1.7.36"
    return _pinned(f"kafka-{version}", f"Kafka {version}", Resolution(packages))


def kafka_image_jars() -> JarSet:
    """The broker's and those of its command-line tools, as in Kafka's image."""
    packages = ",".join(f"org.apache.kafka:{name}:{jars.KAFKA_VERSION}" for name in ("kafka_2.13", "kafka-tools"))
    name = f"kafka-image-{jars.KAFKA_VERSION}"
    return _pinned(
        name, f"Kafka {jars.KAFKA_VERSION} and its tools", Resolution(f"{packages},org.slf4j:slf4j-simple:1.7.36")
    )


def zookeeper_jars(version: str) -> JarSet:
    """The server's, but for those that PySpark has."""
    packages = f"org.apache.zookeeper:zookeeper:{version},io.dropwizard.metrics:metrics-core:4.1.12.1"
    excluded = "ch.qos.logback:logback-classic,ch.qos.logback:logback-core,org.slf4j:slf4j-api"
    return _pinned(f"zookeeper-{version}", f"ZooKeeper {version}", Resolution(packages, excluded))


@contextmanager
def kafka_of(version: str) -> Iterator[None]:
    """Brokers that are made within the block are of this version."""
    before, jars.KAFKA = jars.KAFKA, kafka_jars(version)
    try:
        yield
    finally:
        jars.KAFKA = before


@contextmanager
def zookeeper_of(version: str) -> Iterator[None]:
    """The same for ZooKeeper's servers."""
    before = jars.zookeeper_class_path
    if version != ZOOKEEPER[-1]:
        shared = [path for path in before().split(os.pathsep) if any(one in path for one in OF_SPARK)]
        own = [str(path) for path in sorted(jars.ensure_jars(zookeeper_jars(version)).glob("*.jar"))]
        jars.zookeeper_class_path = lambda: os.pathsep.join([*own, *shared])
    try:
        yield
    finally:
        jars.zookeeper_class_path = before


def pin(name: str) -> None:
    """Fetch a set and write down its checksums: look at them before they are committed."""
    kind, _, version = name.partition("-")
    sets = {"kafka": kafka_jars, "zookeeper": zookeeper_jars}
    wanted = kafka_image_jars() if name == kafka_image_jars().name else sets[kind](version)
    with tempfile.TemporaryDirectory() as scratch:
        jars._resolve(wanted, wanted.resolutions[0], Path(scratch), cache_folder() / f"{wanted.name}-fetch.log")
        found = sorted((Path(scratch) / "jars").glob("*.jar"))
        lines = [f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}\n" for jar in found]
    wanted.checksums.write_text("".join(lines))


if __name__ == "__main__":
    for one in sys.argv[1:]:
        pin(one)
