"""Bad input at every entry point: one line that says what, why and what to do next, and nothing was done."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from coordinator_tasks import cli
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.ports import free_port
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps import main, plain
from spark_apps.launch import launcher
from tests.integration.agent_site import Rows, Running, Site

pytestmark = pytest.mark.integration
NOWHERE = "127.0.0.1:1"
TOO_LONG = "x" * 65
NAMES = {
    "empty": ("", "is empty; give one"),
    "a slash": ("a/b", "letters, digits"),
    "the folder above": ("..", "letters, digits"),
    "a line break": ("a\nb", "letters, digits"),
    "a NUL": ("a\0b", "letters, digits"),
    "an escape": ("a\x1b[2Jb", "letters, digits"),
    "too long": (TOO_LONG, "has 65 characters, more than 64; give a shorter one"),
}


def _cli(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return int(str(ended.value.code))


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
    """What was said: one printable line."""
    out, err = captured.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.rstrip("\n").isprintable(), repr(err)
    return err


@pytest.mark.parametrize(("name", "why"), NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("start", [as_plain, as_spark, as_launcher])
def test_an_impossible_consumer_id(
    start: Callable[[str, str], int],
    name: str,
    why: str,
    nowhere: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert start("shop", name) == 2
    said = one_line(capsys)
    assert "consumer id" in said
    assert why in said
    assert not nowhere.exists()


@pytest.mark.parametrize(("name", "why"), NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("start", [as_plain, as_spark, as_launcher])
def test_an_impossible_cluster_name(
    start: Callable[[str, str], int],
    name: str,
    why: str,
    nowhere: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert start(name, "a") == 2
    said = one_line(capsys)
    assert "cluster name" in said
    assert why in said
    assert not nowhere.exists()


@pytest.mark.parametrize(
    ("name", "why"), [pair for what, pair in NAMES.items() if what != "a NUL"], ids=[w for w in NAMES if w != "a NUL"]
)
def test_an_impossible_cluster_name_at_the_command_line(
    name: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTER", name)
    assert _cli("topics") == 2
    said = one_line(capsys)
    assert "cluster name" in said
    assert why in said


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=1, session_timeout_s=1.0)
    monkeypatch.setenv("COORDINATOR_CLUSTER", made.cluster)
    monkeypatch.setenv("COORDINATOR_ZOOKEEPER", made.zookeeper)
    monkeypatch.setenv("COORDINATOR_KAFKA_BOOTSTRAP_SERVERS", made.kafka)
    monkeypatch.setenv("COORDINATOR_SESSION_TIMEOUT_S", "1")
    return made


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("add-topic", "a/b", "--group", "g"), "'a/b' cannot be a topic name"),
        (("add-topic", "..", "--group", "g"), "'..' cannot be a topic name"),
        (("add-topic", "a\nb", "--group", "g"), "cannot be a topic name"),
        (("add-topic", "x" * 250, "--group", "g"), "has 250 characters, more than 249; give a shorter one"),
        (("add-topic", "", "--group", "g"), "the topic name is empty"),
        (
            ("add-topic", "t", "--group", "g", "--property", "sasl.password=x"),
            "'sasl.password' is no property of a topic",
        ),
        (("history", "a/b"), "'a/b' cannot be a topic name"),
        (("isolate", "..", "--why", "x"), "'..' cannot be a consumer id"),
        (("readmit", "a/../b"), "cannot be a consumer id"),
        (("drain", TOO_LONG, "--why", "x"), "has 65 characters"),
        (("undrain", "a\tb"), "cannot be a consumer id"),
        (("set-fleet", "app", "--application", "a.py", "--consumer", "a b"), "cannot be a consumer id"),
        (("set-fleet", "../app", "--application", "a.py", "--consumer", "a"), "cannot be an application name"),
    ],
)
def test_at_the_command_line_on_real_servers(
    site: Site, arguments: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: site.zk.children(path) for path in site.paths.folders()}
    assert _cli(*arguments) == 2
    assert says in one_line(capsys)
    assert {path: site.zk.children(path) for path in site.paths.folders()} == before
    site.close()


def test_a_second_consumer_with_a_live_id_ends_and_the_first_goes_on(
    site: Site, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = Rows()
    first = Running(site, "a", rows)
    site.assign({0: "a"})
    assert plain.main(["--consumer", "a"]) == 2
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    live = site.incarnation("a")
    assert f"the consumer id 'a' is in use: incarnation {live} is registered at http://127.0.0.1" in said[0]
    assert "stop that process or choose another id" in said[0]
    site.produce(5)
    assert site.status("a").incarnation == live
    assert first.leave(0.0) == 0
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


def java(folder: Path, version: str) -> Path:
    """A home with a `java` that tells this version and can do nothing else."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'java version "{version}"\' >&2\n[ "$1" = -version ]\n')
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["", "1.8.0_292", "25"], ids=["missing", "too old", "too new"])
@pytest.mark.parametrize("start", [as_spark, as_launcher])
def test_a_spark_consumer_without_a_usable_java(
    start: Callable[[str, str], int],
    version: str,
    nowhere: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "home", version) if version else tmp_path / "nothing"))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert start("shop", "a") == 2
    said = one_line(capsys)
    assert "Java 17 to 24 is needed" in said
    assert "install Java 17" in said
    assert "or set JAVA_HOME" in said
    assert not nowhere.exists()
