"""`docs/install.md`, typed in as it stands: from pip install to records in a table, beside an Airflow that is there already."""

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator_tasks.core.kafka_rights import Side
from coordinator_tasks.embedded import jars
from coordinator_tasks.embedded.processes import marked_environment, reap_all
from tests.clusters.environments import ROOT, Environment, airflow_constraints, new_environment
from tests.clusters.secure_site import SecureSite, secure_site
from tests.clusters.server_versions import kafka_image_jars
from tests.clusters.standalone_airflow import StandaloneAirflow
from tests.integration.airflow_site import eventually
from tests.integration.secure_kafka import ADMIN, password
from tests.terminal import Terminal

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(2_400)]
Record = Callable[[str, object], None]
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


def steps(page: str) -> list[Step]:
    """Those of the page's first section."""
    section = page.partition("## From pip install to records in a table")[2].partition("\n## ")[0]
    parts = re.split(r"^### (\d+)\. (.+)$", section, flags=re.MULTILINE)[1:]
    numbers, titles, texts = parts[::3], parts[1::3], parts[2::3]
    assert [int(one) for one in numbers] == list(range(1, len(numbers) + 1))
    return [
        Step(title, "".join(re.findall(r"^```bash\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)))
        for title, text in zip(titles, texts, strict=True)
    ]


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


def values_of(site: SecureSite, airflow: StandaloneAirflow, spark: Environment, constraints: Path) -> dict[str, str]:
    """What somebody with this site writes into the first step."""
    ca = str(site.authority.ca)
    return {
        "CLONE": str(ROOT),
        "AIRFLOW_ENV": str(airflow.environment.folder),
        "AIRFLOW_HOME": str(airflow.home),
        "AIRFLOW_CONSTRAINTS": str(constraints),
        "SPARK_ENV": str(spark.folder),
        "SPARK_MASTER": "local[2]",
        "KAFKA": site.kafka.broker.sasl_bootstrap_servers,
        "KAFKA_CA": ca,
        "KAFKA_ADMIN": str(administrator(site)),
        "KAFKA_COORDINATOR_PASSWORD": password(Side.COORDINATOR),
        "KAFKA_CONSUMER_PASSWORD": password(Side.CONSUMER),
        "ZOOKEEPER": site.zookeeper,
        "ZOOKEEPER_CA": ca,
    }


def test_the_page_is_typed_in_and_the_records_are_in_the_table(tmp_path: Path, record_property: Record) -> None:
    every = steps(PAGE.read_text())
    assert len(every) <= MOST_STEPS
    constraints, _ = airflow_constraints(AIRFLOW, tmp_path)
    installed = new_environment(tmp_path / "airflow-environment", pip=True)
    installed.install(f"apache-airflow=={AIRFLOW}", constraints=constraints)
    spark = new_environment(tmp_path / "spark-environment", pip=True)
    spark.install(f"pyspark=={SPARK}")
    with secure_site(tmp_path / "site") as site, ExitStack() as ending:
        ending.callback(reap_all)
        airflow = StandaloneAirflow(installed, tmp_path / "home")
        ending.callback(airflow.kill)
        airflow.start()
        began_s = time.monotonic()
        shell = {**airflow.spec.env, "PATH": f"{kafka_commands(tmp_path / 'kafka')}:/usr/local/bin:/usr/bin:/bin"}
        terminal = Terminal(tmp_path / "terminal", marked_environment({**shell, "PYTHONPATH": ""}))
        for number, step in enumerate(every, 1):
            stepped_s = time.monotonic()
            if number == 1:
                terminal.type_in(filled_in(step.block, values_of(site, airflow, spark, constraints)))
            elif number == len(every):
                eventually(lambda: "'tea'" in (said := shown(terminal, every[-1].block)) and said, 420.0)
            elif step.block:
                said = terminal.type_in(step.block)
                if " doctor " in step.block:
                    assert re.search(r"ZooKeeper versions +ok +3\.9\.5\b", said), said
                    assert re.search(r"Kafka versions +ok +4\.3\b", said), said
            else:
                assert step.title.startswith("Restart Airflow"), "every other step has a block"
                airflow = restarted(airflow, terminal)
                ending.callback(airflow.kill)
            print(f"{number}. {step.title}: {time.monotonic() - stepped_s:.0f} s", flush=True)
        said = eventually(lambda: (said := shown(terminal, every[-1].block)).count("('orders', ") == 3 and said)
        assert "Stable" in said
        record_property("steps", len(every))
        record_property("minutes", round((time.monotonic() - began_s) / 60, 1))


def shown(terminal: Terminal, block: str) -> str:
    """What the last step prints; nothing while there is no owner or no table yet."""
    try:
        return terminal.type_in(block)
    except AssertionError as failed:
        if not any(one in str(failed) for one in ("nobody owns", "no such table")):
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
