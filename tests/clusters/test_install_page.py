"""`docs/install.md`, typed in as it stands: from pip install to records in a table, beside an Airflow that is there already.

Twice: on servers with passwords and certificates, and by the page's variant for an evaluation on servers without.
"""

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.processes import marked_environment, reap_all
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.clusters.environments import ROOT, airflow_constraints, new_environment
from tests.clusters.secure_site import SecureSite, secure_site
from tests.clusters.server_versions import kafka_image_jars
from tests.clusters.standalone_airflow import StandaloneAirflow
from tests.integration.airflow_site import eventually
from tests.integration.secure_kafka import ADMIN, password
from tests.terminal import Terminal

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(2_400)]
AIRFLOW, SPARK = "3.3.2", "4.3.0"
PAGE = ROOT / "docs" / "install.md"
MOST_STEPS = 15
COMMANDS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
}
"""Kafka's own classes, by the scripts of its installation."""


@dataclass(frozen=True, slots=True)
class Step:
    """A numbered heading of the page with its block, empty if there is none."""

    title: str
    block: str


def section(page: str, heading: str) -> dict[int, Step]:
    """Number → step of a section of the page."""
    text = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### (\d+)\. (.+)$", text, flags=re.MULTILINE)[1:]
    return {
        int(number): Step(title, "".join(re.findall(r"^```bash\n(.*?)^```$", body, flags=re.MULTILINE | re.DOTALL)))
        for number, title, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def steps(page: str) -> dict[int, Step]:
    """Those of a site with passwords."""
    found = section(page, "From pip install to records in a table")
    assert list(found) == list(range(1, len(found) + 1))
    return found


def steps_without_passwords(page: str) -> dict[int, Step]:
    """Those of an evaluation: without the step that draws passwords."""
    found, other = steps(page), section(page, "The same without passwords")
    assert list(other) == [1, 5, 7, 9]
    return {number: other.get(number, step) for number, step in found.items() if number != 6}


def filled_in(block: str, values: Mapping[str, str]) -> str:
    """The first step with the values of a site; it may not name another one, nor fewer."""
    names = re.findall(r"^export (\w+)=", block, flags=re.MULTILINE)
    assert set(names) == values.keys()
    return "".join(f"export {name}='{values[name]}'\n" for name in names)


def kafka_commands(folder: Path) -> Path:
    """A folder with the scripts of a Kafka installation."""
    found = [*jars.ensure_jars(kafka_image_jars()).glob("*.jar"), *jars.kafka_class_path().split(os.pathsep)]
    folder.mkdir()
    for name, main in COMMANDS.items():
        script = folder / name
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        script.write_text(
            f'#!/bin/sh\nexec java -Xmx256m {quiet} -cp "{os.pathsep.join(map(str, found))}" {main} "$@"\n'
        )
        script.chmod(0o700)
    return folder


def administrator(site: SecureSite) -> Path:
    """The client settings of Kafka's administrator."""
    path = site.folder / "kafka-admin.properties"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{ADMIN}" password="{password(ADMIN)}";'
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": site.authority.ca,
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


def values_of(site: SecureSite) -> dict[str, str]:
    """What somebody with this site writes into the first step of its servers."""
    ca = str(site.authority.ca)
    return {
        "KAFKA": site.kafka.broker.sasl_bootstrap_servers,
        "KAFKA_CA": ca,
        "KAFKA_ADMIN": str(administrator(site)),
        "KAFKA_COORDINATOR_PASSWORD": password(Side.COORDINATOR),
        "KAFKA_CONSUMER_PASSWORD": password(Side.CONSUMER),
        "ZOOKEEPER": site.zookeeper,
        "ZOOKEEPER_CA": ca,
    }


def test_the_page_is_typed_in_and_the_records_are_in_the_table(tmp_path: Path) -> None:
    with secure_site(tmp_path / "site") as site:
        type_in(steps(PAGE.read_text()), values_of(site), tmp_path)


def test_the_variant_without_passwords_is_typed_in_and_the_records_are_in_the_table(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    site = {"KAFKA": kafka.bootstrap_servers, "KAFKA_ADMIN": "/dev/null", "ZOOKEEPER": zookeeper.connect_string}
    type_in(steps_without_passwords(PAGE.read_text()), site, tmp_path)


def type_in(every: Mapping[int, Step], site: Mapping[str, str], tmp_path: Path) -> None:
    """All steps in one terminal; `site`: where the servers are, for the first step."""
    assert len(every) <= MOST_STEPS
    look = every[max(every)].block
    constraints = airflow_constraints(AIRFLOW, tmp_path)
    installed = new_environment(tmp_path / "airflow-environment", pip=True)
    installed.install(f"apache-airflow=={AIRFLOW}", constraints=constraints)
    spark = new_environment(tmp_path / "spark-environment", pip=True)
    spark.install(f"pyspark=={SPARK}")
    with ExitStack() as ending:
        ending.callback(reap_all)
        airflow = StandaloneAirflow(installed, tmp_path / "home")
        ending.callback(airflow.kill)
        airflow.start()
        shell = {**airflow.spec.env, "PATH": f"{kafka_commands(tmp_path / 'kafka')}:/usr/local/bin:/usr/bin:/bin"}
        terminal = Terminal(tmp_path / "terminal", marked_environment({**shell, "PYTHONPATH": ""}))
        own = {
            "CLONE": str(ROOT),
            "AIRFLOW_ENV": str(airflow.environment.folder),
            "AIRFLOW_HOME": str(airflow.home),
            "AIRFLOW_CONSTRAINTS": str(constraints),
            "SPARK_ENV": str(spark.folder),
            "SPARK_MASTER": "local[2]",
        }
        for number, step in every.items():
            if number == 1:
                terminal.type_in(filled_in(step.block, {**own, **site}))
            elif step.block == look:
                eventually(lambda: "'tea'" in (said := shown(terminal, look)) and said, 420.0)
            elif step.block:
                said = terminal.type_in(step.block)
                if " doctor " in step.block:
                    assert re.search(r"ZooKeeper versions +ok +3\.9\.5\b", said), said
                    assert re.search(r"Kafka versions +ok +4\.3\b", said), said
            else:
                assert step.title.startswith("Restart Airflow"), "every other step has a block"
                airflow = restarted(airflow, terminal)
                ending.callback(airflow.kill)
        said = eventually(lambda: (said := shown(terminal, look)).count("('orders', ") == 3 and said)
        assert "Stable" in said


def shown(terminal: Terminal, block: str) -> str:
    """What the last step prints; nothing while nobody reads a partition, or no table is there yet."""
    try:
        return terminal.type_in(block)
    except AssertionError as failed:
        if not any(one in str(failed) for one in ("nobody reads", "unable to open database file")):
            raise
        return ""


def restarted(airflow: StandaloneAirflow, terminal: Terminal) -> StandaloneAirflow:
    """The same Airflow, in the environment of the terminal; it has what the page promises."""
    airflow.stop()
    again = StandaloneAirflow(airflow.environment, airflow.home, shell=terminal.environ, port=airflow.port)
    again.start()
    try:
        assert "kafka-partition-coordinator" in again.command("providers", "list")
        eventually(lambda: "kafka_rebalance" in again.client.dag_ids())
    except BaseException:
        again.kill()
        raise
    return again
