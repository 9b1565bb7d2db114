"""Bad input at the start of a consumer: one line that says what, why and what to do next, and nothing was done."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps import main, plain
from spark_apps.launch import launcher
from tests.integration.agent_site import Site
from tests.integration.real_site import Consumer, Ledger
from tests.integration.test_embedded_java import fake_java

pytestmark = pytest.mark.integration
NOWHERE = "127.0.0.1:1"


def as_plain(cluster: str, consumer: str) -> int:
    return plain.main(["--consumer", consumer, "--cluster", cluster, "--zookeeper", NOWHERE, "--kafka", NOWHERE])


def as_spark(cluster: str, consumer: str) -> int:
    where = ["--cluster", cluster, "--zookeeper", NOWHERE, "--kafka", NOWHERE]
    return main.main(["--consumer", consumer, *where, "--default", "spark_apps.pipelines.audit:build"])


def as_launcher(cluster: str, consumer: str) -> int:
    base = os.environ["LAUNCHER_BASE"]
    return launcher.main(["--consumer", consumer, "--cluster", cluster, "--base", base, "--", "spark-submit", "app.py"])


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing of the environment is left, and nobody answers."""
    for name in [name for name in os.environ if name.startswith("COORDINATOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COORDINATOR_ZOOKEEPER", NOWHERE)
    monkeypatch.setenv("COORDINATOR_KAFKA_BOOTSTRAP_SERVERS", NOWHERE)
    base = tmp_path / "runs"
    monkeypatch.setenv("LAUNCHER_BASE", str(base))
    return base


def one_line(captured: pytest.CaptureFixture[str]) -> str:
    """What was said: one printable line, beside the log of consumers and of earlier tests' clients in this process."""
    out, err = captured.readouterr()
    others = (" INFO spark_apps.agent.", " kazoo.client ")
    err = "".join(line for line in err.splitlines(keepends=True) if not any(one in line for one in others))
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.rstrip("\n").isprintable(), repr(err)
    return err


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (as_plain, "the setting cluster has a byte that is not UTF-8, or a NUL"),
        (as_spark, "the setting cluster has a byte that is not UTF-8, or a NUL"),
        (as_launcher, "cannot be a cluster name: it begins with a letter or digit and continues with letters, digits"),
    ],
)
def test_an_impossible_cluster_name(
    start: Callable[[str, str], int], why: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("a\0b", "a") == 2
    assert why in one_line(capsys)
    assert not nowhere.exists()


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=1, session_timeout_s=1.0)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def test_a_second_consumer_with_a_live_id_ends_and_the_first_goes_on(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = Ledger()
    first = Consumer(site, "a", rows)
    site.assign({0: "a"})
    assert plain.main(["--consumer", "a"]) == 2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    live = site.incarnation("a")
    assert f"the consumer id 'a' is in use: incarnation {live} is registered at http://127.0.0.1" in said[0]
    assert "stop that process or choose another id" in said[0]
    site.produce(5)
    assert site.status("a").incarnation == live
    assert first.close() == 0
    assert f"plain-{site.topic}" not in {thread.name for thread in threading.enumerate()}
    site.close()


def test_a_consumer_without_zookeeper_says_where_it_looked(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("COORDINATOR_ZOOKEEPER", address)
    monkeypatch.setenv("COORDINATOR_ANSWER_TIMEOUT_S", "0.5")
    assert plain.main(["--consumer", "a", "--cluster", "shop", "--start-timeout", "0"]) == 2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert f"ZooKeeper at {address} does not answer" in said[0]
    assert "check that it runs and that this address is right" in said[0]


@pytest.mark.parametrize("start", [as_spark, as_launcher])
def test_a_spark_consumer_without_a_usable_java(
    start: Callable[[str, str], int],
    nowhere: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", 'java version "1.8.0_292"')))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("coordinator_tasks.java.INSTALLED", tmp_path / "jvm")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert start("shop", "a") == 2
    said = one_line(capsys)
    assert "Java 17 to 24 is needed" in said
    assert "install Java 17" in said
    assert "or set JAVA_HOME" in said
    assert not nowhere.exists()
