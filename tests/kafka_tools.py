"""Kafka's own `kafka-consumer-groups`, fetched as the broker's jars are: what our commands for offsets are compared with."""

import os
import subprocess
from pathlib import Path

from coordinator_tasks.devstack.embedded.jars import KAFKA_VERSION, JarSet, Resolution, ensure_jars, kafka_class_path
from coordinator_tasks.java import find_java

_PROVIDED = (  # the broker's own, and what only Kafka Connect needs
    "org.apache.kafka:kafka-clients,org.apache.kafka:kafka-metadata,org.apache.kafka:kafka-raft,"
    "org.apache.kafka:kafka-server,org.apache.kafka:kafka-storage,org.apache.kafka:kafka-*-*,"
    "org.apache.kafka:connect-*,org.apache.logging*:*,org.apache.maven*:*,org.bitbucket*:*,org.codehaus*:*,"
    "org.eclipse*:*,org.glassfish*:*,org.hdrhistogram:*,org.javassist:*,org.jspecify:*,org.pcollections:*,org.slf4j:*,"
    "org.xerial*:*,com.*:*,commons-*:*,io.*:*,jakarta*:*,javax*:*,net.*:*,at.*:*,tools.*:*"
)
TOOLS = JarSet(
    f"Kafka's tools {KAFKA_VERSION}",
    Path(__file__).with_name(f"kafka-tools-{KAFKA_VERSION}.sha256"),
    (Resolution(f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}", _PROVIDED),),
)
MAIN = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def consumer_groups(bootstrap_servers: str, *arguments: str) -> str:
    """What `kafka-consumer-groups` prints; raises `CalledProcessError`, and `JarsUnavailable`."""
    jars = [str(jar) for jar in sorted(ensure_jars(TOOLS).glob("*.jar"))]
    command = [
        *(str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([*jars, kafka_class_path()])),
        *(MAIN, "--bootstrap-server", bootstrap_servers, *arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
