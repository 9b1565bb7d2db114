"""A plain Airflow of each version, with its own constraints, our wheel beside it, and careful servers: the whole story of a site."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from coordinator_plugin.forms import FORMS
from selenium.webdriver.common.by import By

from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.devstack.embedded.processes import ManagedProcess
from coordinator_tasks.wiring import open_coordinator
from tests.clusters.environments import AIRFLOW, ROOT, Environment, airflow_constraints, build_wheel, new_environment
from tests.clusters.secure_site import SecureSite, owners, secure_site
from tests.clusters.standalone_airflow import BUNDLES, StandaloneAirflow
from tests.integration.airflow_site import eventually
from tests.integration.browser import CHROMIUM, DRIVER, signed_in

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(2_400)]
OLDEST = "3.2.2"
"""With it, consumers run in an environment of the oldest packages that we allow."""
REFUSED = "3.1.8"
WORKS = [version for version in AIRFLOW if version != REFUSED]
PREFIX = "kafka_"
DAGS = {
    PREFIX + name
    for name in {*FORMS, "rebalance", "reconcile", "consumers", "stuck_topic", "approve_plan", "autoscale"}
}
TOPIC, GROUP, PARTITIONS = "orders", "orders-billing", 4
MOVING = ("rebalance", "reconcile", "add_topic", "drain")
LEAVE_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that one version of Airflow is tried with."""

    version: str
    site: SecureSite
    airflow: StandaloneAirflow
    consumers: Environment

    def consumer(self, name: str) -> ManagedProcess:
        """A plain consumer in an environment without Airflow and Spark; its rows are in `NAME.jsonl`."""
        folder = self.site.folder
        options = ("--settings", str(self.site.settings_file(Side.CONSUMER)), "--sink", str(folder / f"{name}.jsonl"))
        command = (str(self.consumers.python), "-m", "spark_apps.plain", "--consumer", name, *options)
        return self.site.process(name, *command, env=self.consumers.environ())

    def rows(self, name: str) -> set[tuple[int, int]]:
        """Partition and offset of what a consumer has written."""
        file = self.site.folder / f"{name}.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return {(row["partition"], row["offset"]) for row in map(json.loads, lines)}


def lowest_bounds() -> Iterator[str]:
    """Each of our own requirements in the oldest version that it allows."""
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]:
        name, _, rest = one.partition(">=")
        yield f"{name}=={rest.partition(',')[0]}"


@contextmanager
def story_of(version: str, folder: Path) -> Iterator[Story]:
    wheel = build_wheel(folder / "dist")
    constraints = airflow_constraints(version, folder)
    installed = new_environment(folder / "airflow-environment")
    installed.install(f"apache-airflow=={version}", constraints=constraints)
    before = installed.packages()
    installed.install(f"apache-airflow=={version}", f"{wheel}[airflow]", constraints=constraints)
    installed.check()
    after = installed.packages()
    assert {name: after[name] for name in before} == before, "nothing that was there is another version now"
    consumers = new_environment(folder / "consumers-environment")
    consumers.install(str(wheel), *(lowest_bounds() if version == OLDEST else ()))
    assert "librdkafka" in consumers.run("coordinator", "version", env={})
    assert not {"apache-airflow", "pyspark", "pyspark-client"} & consumers.packages().keys()
    with secure_site(folder / "site") as site, ExitStack() as ending:
        options = {
            "dag_processor.dag_bundle_config_list": json.dumps(BUNDLES),
            "kafka_coordinator.clusters": site.cluster,
            "kafka_coordinator.dag_prefix": PREFIX,
            "kafka_coordinator.dags_paused": "true",
        }
        airflow = StandaloneAirflow(installed, folder / "home", options=options)
        ending.callback(airflow.kill)
        airflow.start()
        yield Story(version, site, airflow, consumers)


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed")
@pytest.mark.parametrize("version", WORKS)
def test_a_plain_airflow_of_this_version_runs_a_whole_rebalance(version: str, tmp_path: Path) -> None:
    with story_of(version, tmp_path) as story:
        story.site.make_topic(TOPIC, GROUP, PARTITIONS)
        what_airflow_lists(story)
        what_the_buttons_say(story)
        make_connections(story)
        dags_are_there_and_paused(story)
        with rebalanced(story):
            pages(story, tmp_path)


def test_an_older_airflow_is_refused_by_the_installer(tmp_path: Path) -> None:
    """It has no way to ask for the events of an asset since a time, which keeps runs from starting one another without end."""
    constraints = airflow_constraints(REFUSED, tmp_path)
    installed = new_environment(tmp_path / "environment")
    installed.install(f"apache-airflow=={REFUSED}", constraints=constraints)
    with pytest.raises(AssertionError, match=r"apache-airflow>=3\.2\.2"):
        installed.install(f"apache-airflow=={REFUSED}", f"{build_wheel(tmp_path / 'dist')}[airflow]")


def what_airflow_lists(story: Story) -> None:
    providers = {
        one["package_name"]: one for one in json.loads(story.airflow.command("providers", "list", "--output", "json"))
    }
    assert "kafka-partition-coordinator" in providers
    plugins = story.airflow.client.request("GET", "/plugins")["plugins"]
    assert "coordinator" in {one["name"] for one in plugins}
    assert story.airflow.client.request("GET", "/plugins/importErrors")["import_errors"] == []


def what_the_buttons_say(story: Story) -> None:
    """Good settings are green; a wrong password is red, in one line without a secret."""
    good = story.site.connections()
    for connection in good.values():
        green, said = story.airflow.test_connection(connection)
        assert green, said
    green, said = story.airflow.test_connection({**good["kafka_default"], "password": "wrong"})
    assert (green, "password" in said, "pw-one" in said, "\n" in said.strip()) == (False, True, False, False), said


def make_connections(story: Story) -> None:
    for name, connection in story.site.connections().items():
        story.airflow.client.request("POST", "/connections", json={"connection_id": name, **connection})


def dags_are_there_and_paused(story: Story) -> None:
    client = story.airflow.client
    eventually(lambda: {one["dag_id"] for one in our_dags(story)} == DAGS)
    assert all(one["is_paused"] for one in our_dags(story)), "nothing begins before somebody says so"
    assert client.import_errors() == {}


def our_dags(story: Story) -> list[dict[str, Any]]:
    return list(story.airflow.client.request("GET", "/dags", params={"limit": 100})["dags"])


@contextmanager
def rebalanced(story: Story) -> Iterator[None]:
    """Two consumers, records, a drain: Airflow does all of it. Within the block the second consumer owns the topic."""
    airflow, site = story.airflow, story.site
    for name in MOVING:
        airflow.client.set_paused(PREFIX + name, paused=False)
    airflow.run(PREFIX + "add_topic", topic=TOPIC, group_id=GROUP, dry_run=False)
    with ExitStack() as ending, open_coordinator(site.settings(Side.COORDINATOR)) as c:
        first, second = story.consumer("a"), story.consumer("b")
        for one in (first, second):
            ending.callback(one.kill)
        first.start()
        eventually(lambda: owners(c, TOPIC, PARTITIONS) == {"a"})
        site.produce(TOPIC, PARTITIONS, 50)
        eventually(lambda: len(story.rows("a")) == 50 * PARTITIONS)
        second.start()
        eventually(lambda: owners(c, TOPIC, PARTITIONS) == {"a", "b"})
        site.produce(TOPIC, PARTITIONS, 50)
        eventually(lambda: story.rows("b"))
        airflow.run(PREFIX + "drain", consumer="a", why="new host", dry_run=False)
        eventually(lambda: owners(c, TOPIC, PARTITIONS) == {"b"})
        eventually(lambda: not first.running, LEAVE_LIMIT_S)
        site.produce(TOPIC, PARTITIONS, 50)
        every = {(partition, offset) for partition in range(PARTITIONS) for offset in range(150)}
        eventually(lambda: story.rows("a") | story.rows("b") == every)
        assert not story.rows("a") & story.rows("b"), "no record twice"
        yield


def pages(story: Story, folder: Path) -> None:
    """Nothing without a log-in; with one, the pages and the forms as a person sees them."""
    base, cluster = story.airflow.base_url, story.site.cluster
    for path in ("/", f"/clusters/{cluster}/topics/{TOPIC}"):
        assert httpx.get(f"{base}/coordinator{path}").status_code == 401
    with signed_in(story.airflow, folder / "chromium") as browser:
        browser.open("/connections")
        browser.until(lambda: "kafka_coordinator_zookeeper" in browser.find("#root").text, "the connections")
        edit = "//tr[contains(., 'kafka_coordinator_zookeeper')]//button[contains(@aria-label, 'Edit')]"
        browser.until(lambda: browser.driver.find_element(By.XPATH, edit), "the button of a connection").click()
        own = "//*[@role='dialog']//button[normalize-space()='Extra Fields']"
        browser.until(lambda: browser.driver.find_element(By.XPATH, own), "the part of the form for its type").click()
        browser.until(
            lambda: "Status token" in browser.find("[role=dialog]").text, "the form with the fields of its type"
        )
        browser.open("/dags")
        browser.until(lambda: f"{PREFIX}rebalance" in browser.find("#root").text, "the DAGs")
        browser.open("/")
        browser.open_page("Topics")
        browser.enter()
        browser.until(lambda: TOPIC in browser.find("main").text, "the topics")
        browser.click(TOPIC)
        browser.until(lambda: browser.find("h1").text.startswith(f"Topic {TOPIC}"), "the topic's page")
        text = browser.find("main").text
        assert "Stable" in text
        assert "Why: a is draining" in text
        assert "Why: b joined" in text
