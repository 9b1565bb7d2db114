"""Bad input at every entry point: one line that says what, why and what to do next, and nothing was done."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks import cli
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.wiring import open_coordinator
from spark_apps import main, plain
from spark_apps.launch import launcher
from tests.integration.agent_site import Rows, Running, Site, wait_for
from tests.integration.real_site import LIMIT_S, Managed
from tests.integration.test_embedded_java import fake_java

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
WITHOUT_NUL = {what: pair for what, pair in NAMES.items() if what != "a NUL"}


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
    """What was said: one printable line, beside the log of consumers and of earlier tests' clients in this process."""
    out, err = captured.readouterr()
    others = (" INFO spark_apps.agent.", " kazoo.client ")
    err = "".join(line for line in err.splitlines(keepends=True) if not any(one in line for one in others))
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.rstrip("\n").isprintable(), repr(err)
    return err


@pytest.mark.parametrize(("name", "why"), WITHOUT_NUL.values(), ids=WITHOUT_NUL)
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
    ("start", "why"),
    [
        (as_plain, "the setting cluster has a byte that is not UTF-8, or a NUL"),
        (as_spark, "the setting cluster has a byte that is not UTF-8, or a NUL"),
        (as_launcher, "cannot be a cluster name: it begins with a letter or digit and continues with letters, digits"),
    ],
)
def test_a_cluster_name_with_a_nul(
    start: Callable[[str, str], int], why: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start("a\0b", "a") == 2
    assert why in one_line(capsys)
    assert not nowhere.exists()


@pytest.fixture
def site(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=1, session_timeout_s=1.0)
    monkeypatch.setenv("COORDINATOR_CLUSTER", made.cluster)
    monkeypatch.setenv("COORDINATOR_ZOOKEEPER", made.zookeeper)
    monkeypatch.setenv("COORDINATOR_KAFKA_BOOTSTRAP_SERVERS", made.kafka)
    monkeypatch.setenv("COORDINATOR_SESSION_TIMEOUT_S", "1")
    return made


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


# A site that runs: what is refused changes nothing --------------------------------------------------------------------

APPLICATION = OWN_APPLICATIONS[0]
ALL_RECORDS = 20


@pytest.fixture(scope="module")
def standing(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    """Four partitions, two consumers of the fleet `billing` that have committed everything, and nobody who plans."""
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=4))
    with open_coordinator(made.site.settings) as c:
        fleet.set_fleet(c, Fleet("billing", APPLICATION, ("billing-1", "billing-2"), code="v1"))
    made.join("billing-1")
    made.join("billing-2")
    with made.looping():
        made.stable(["billing-1", "billing-2"])
        made.site.produce(ALL_RECORDS)
        made.consumed(ALL_RECORDS)
        wait_for(lambda: offsets(made.site) == dict.fromkeys(range(4), ALL_RECORDS), "everything is committed", LIMIT_S)
    yield made
    made.close()


@pytest.fixture
def typed(
    standing: Managed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Types a command; the exit code, and what was said: for a refusal one line."""
    monkeypatch.setenv("COORDINATOR_CLUSTER", standing.site.cluster)
    monkeypatch.setenv("COORDINATOR_ZOOKEEPER", standing.site.zookeeper)
    monkeypatch.setenv("COORDINATOR_KAFKA_BOOTSTRAP_SERVERS", standing.site.kafka)

    def command(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()  # a test of another file may have left the log at INFO, and a test looks into ZooKeeper before
        code = _cli(*arguments)
        return code, one_line(capsys) if code else capsys.readouterr().out

    return command


def offsets(site: Site) -> dict[int, int]:
    return {partition: one.offset for partition, one in sorted(site.committed().items())}


def stored(site: Site) -> dict[str, Any]:
    """Every znode of the cluster with its data and its version, and what is committed."""
    found, tree = dict[str, Any](), [site.paths.base]
    for path in tree:
        node = site.zk.get(path)
        found[path] = node.data, node.stat.version
        tree += [f"{path}/{child}" for child in site.zk.children(path)]
    return found | {"committed": offsets(site)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, standing: Managed) -> dict[str, str]:
    """Files that a person gives by mistake, or to harm; by their names in braces."""
    folder, topic = tmp_path_factory.mktemp("files"), standing.site.topic
    texts = {
        "{escape}": b"\x1b[2J,0,1\n",
        "{huge number}": f"{topic},0,{'9' * 5_000}\n".encode(),
        "{latin}": f"{topic},0,1\n".encode() + b"\xe9\n",
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    return {name: str(folder / name) for name in texts}


IMPORT = ("offsets", "reset", "--execute", "--from-file")
RESET = ("offsets", "reset", "--execute", "--topic", "{topic}")
UPGRADE = ("upgrade", "billing", "v2", "--code", "v2")
GROWTH = ("set-growth", "billing", "--max")
REFUSED: Sequence[tuple[tuple[str, ...], str]] = (
    # What is not known
    (("upgrade", "billing", "../v", "--code", "x"), "KPC-011: '../v' cannot be a version name"),
    (("upgrade", "nobody", "v2", "--code", "v2"), "KPC-012: cluster"),
    ((*UPGRADE, "--topic", "nothing"), "KPC-012: topic 'nothing' is not managed"),
    (("scale", "nobody", "3"), "has no fleet 'nobody' (it has: billing); correct the name, or set it first"),
    (("redeploy", "a/b"), "KPC-011: 'a/b' cannot be an application name"),
    (("set-fleet", "../app", "--application", "a.py", "--consumer", "a"), "'../app' cannot be an application name"),
    (("set-fleet", "app", "--application", "a.py", "--consumer", "a b"), "'a b' cannot be a consumer id"),
    (("history", "a/b"), "KPC-011: 'a/b' cannot be a topic name"),
    (("isolate", "..", "--why", "x"), "KPC-011: '..' cannot be a consumer id"),
    (("readmit", "a/../b"), "KPC-011: 'a/../b' cannot be a consumer id"),
    (("undrain", "a\tb"), "cannot be a consumer id"),
    (("roll-back", "{topic}", "../x", "--why", "x"), "has no rebalance '../x'"),
    (("offsets", "undo", "{topic}", "--rebalance", "9-0", "--execute"), "KPC-017: rebalance '9-0'"),
    (("history", "nothing"), "KPC-012: topic 'nothing' is not managed"),
    (("explain", "{topic}", "--partition", "4"), "has no partition 4; it has partitions 0 to 3"),
    (("plan", "nothing"), "KPC-012: topic 'nothing' is not managed"),
    (("preview", "--leave", "zoe"), "KPC-012: consumer 'zoe' is not registered (registered: billing-1, billing-2)"),
    (("pin", "{topic}", "zoe", "--partition", "0"), "has never seen a consumer 'zoe'"),
    # Steps and limits
    ((*UPGRADE, "--step", "2.5"), "KPC-002: Invalid value for '--step'"),
    ((*UPGRADE, "--hold-minutes", "nan"), "KPC-0"),
    ((*UPGRADE, "--hold-minutes", "1e400"), "KPC-024: a hold of inf s cannot be"),
    ((*UPGRADE, "--max-errors", "-1"), "KPC-002: Invalid value for '--max-errors'"),
    ((*UPGRADE, "--min-rate", "1.5"), "KPC-024: a least rate of 1.5 cannot be"),
    ((*UPGRADE, "--consumers", "9999999999999999999999"), "KPC-024: 9999999999999999999999 new consumers cannot be"),
    ((*UPGRADE, "--env", "A=1", "--env", "A=2"), "KPC-010: --env gives 'A' twice"),
    ((*GROWTH, "3", "--min", "5"), "KPC-028: a fleet cannot grow from 5 to 3 consumers; give a least and a most"),
    ((*GROWTH, "2.7"), "KPC-002: Invalid value for '--max'"),
    ((*GROWTH, "-1"), "KPC-028: a fleet cannot grow from 1 to -1 consumers"),
    ((*GROWTH, "9" * 20), "KPC-028: a fleet cannot grow from 1 to 99999999999999999999 consumers"),
    ((*GROWTH, "3", "--utilisation", "nan"), "KPC-028: a utilisation of nan cannot be"),
    ((*GROWTH, "3", "--window", "inf"), "KPC-028: a window of inf s cannot be; give 1 to 86400 seconds"),
    (("scale", "billing", "-1"), "KPC-002: No such option: -1"),
    (("scale", "billing", "10001"), "KPC-019: a fleet has 0 to 10000 consumers, and not 10001"),
    (("isolate", "billing-1", "--why", "x", "--for-s", "1e9"), "and not 1e+09 s: give fewer, or 0"),
    (("isolate", "billing-1", "--why", "x", "--for-s", "nan"), "KPC-0"),
    (("expect-restart", "billing-1", "--within", "1e9"), "KPC-010: a restart takes 0 to 1440 min"),
    (("roll-back", "{topic}", "{rebalance}", "--why", "x", "--minutes", "nan"), "KPC-0"),
    # Texts
    (("isolate", "billing-1", "--why", "a\x1b[2Jb"), "KPC-010: the reason"),
    (("isolate", "billing-1", "--why", "  "), "KPC-010: --why is empty"),
    (("drain", "billing-1", "--why", "x", "--by", "a\nb"), "KPC-010: the name"),
    (("drain", "a/../b", "--why", "x"), "KPC-011: 'a/../b' cannot be a consumer id"),
    (("set-fleet", "x", "--application", APPLICATION, "--consumer", "billing-1"), "in the fleet of 'billing' already"),
    (("set-strategy", "{topic}", "--strategy", "a\x1b[2J"), "KPC-018: there is no strategy"),
    # Positions
    ((*RESET, "--to-offset", "nan"), "KPC-017: 'nan' is no position"),
    ((*RESET, "--to-offset", "2.7"), "KPC-017: '2.7' is no position"),
    ((*RESET, "--to-offset", "9" * 20), "is no position: an offset is a whole number from 0 to"),
    ((*RESET, "--shift-by", "1e3"), "KPC-017: '1e3' is no position: a shift is a whole number"),
    ((*RESET, "--by-duration", "PT-1H"), "KPC-017: 'PT-1H' is no position: a duration is written as"),
    ((*RESET, "--to-datetime", "1969-12-31T00:00:00Z"), "lies before 1970"),
    (("reset-offsets", "{topic}", "--to", "2026-11-21T08:15:00", "--why", "x"), "has no zone; give earliest"),
    (("offsets", "reset", "--execute", "--topic", "{topic}:4", "--to-latest"), "KPC-017: topic"),
    # Files
    ((*IMPORT, "{escape}"), r"KPC-017: line 1 of the offsets: topic '\x1b[2J' is not managed here"),
    ((*IMPORT, "{huge number}"), "KPC-017: line 1 of the offsets: '9999"),
    (("simulate", "--from", "{latin}"), "is not JSON in UTF-8"),
)


@pytest.mark.parametrize(("arguments", "says"), REFUSED, ids=[" ".join(one)[:60] for one, _ in REFUSED])
def test_what_is_refused_is_one_line_and_changes_nothing(
    standing: Managed,
    typed: Callable[..., tuple[int, str]],
    files: Mapping[str, str],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    words = {**files, "{topic}": standing.site.topic, "{rebalance}": standing.history()[0].rebalance}
    before = stored(standing.site)
    given = [words.get(one, one.replace("{topic}", standing.site.topic)) for one in arguments]
    code, said = typed(*given, *{"isolate": ["--yes"], "reset-offsets": ["--execute"]}.get(arguments[0], []))
    assert (code, says in said) == (2, True), said
    assert said.startswith("error: KPC-")
    assert len(said) < 1_100
    assert stored(standing.site) == before


def test_an_approval_by_who_is_not_entitled_is_refused(
    standing: Managed, typed: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_BUDGET_APPROVERS", "ada;kim")
    before = stored(standing.site)
    code, said = typed("approve", standing.site.topic, "0" * 16)
    assert (code, "may not approve plans of cluster" in said, "ask one of ada, kim" in said) == (2, True, True)
    assert stored(standing.site) == before
