"""`docs/tutorial.md`, its second part, typed in as it stands: from an empty folder to records in a table."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from coordinator_tasks.devstack.demo import kept
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.java import find_java
from coordinator_tasks.settings import Settings
from tests.integration.airflow_site import eventually
from tests.sasl_kafka import SaslKafka
from tests.terminal import Terminal

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(1_400)]
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
LIMIT_S = 360.0


def blocks() -> list[str]:
    """Those of the second part."""
    part = PAGE.read_text().partition("\n## A pipeline of your own\n")[2].partition("\n## ")[0]
    return re.findall(r"^```bash\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


@pytest.fixture
def clone(zookeeper: EmbeddedZooKeeper, kafka: SaslKafka, tmp_path: Path) -> Iterator[Path]:
    """A repository with the settings of a first run; the plain loop stands in for Airflow."""
    folder = tmp_path / "clone"
    settings = folder / "build" / "demo" / "run" / "settings.json"
    settings.parent.mkdir(parents=True)
    for one in ROOT.iterdir():
        if one.name != "build":
            (folder / one.name).symlink_to(one)
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    kept.write_settings(settings, Settings("tutorial", zookeeper.connect_string, servers, status_token="a-token"))
    with (tmp_path / "loop.log").open("w") as log:
        loop = subprocess.Popen(
            [sys.executable, "-m", "coordinator_tasks", "run"],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "COORDINATOR_SETTINGS": str(settings)},
            stdout=log,
            stderr=log,
        )
    try:
        yield folder
    finally:
        loop.terminate()
        loop.wait(30)


def said_when(terminal: Terminal, block: str, *wanted: str) -> str:
    """What the block prints as soon as it has all of this; before that it may fail."""

    def there() -> str:
        try:
            said = terminal.type_in(block)
        except AssertionError:  # no table yet, or no owner
            return ""
        return said if all(one in said for one in wanted) else ""

    return str(eventually(there, LIMIT_S))


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def end(pid_file: Path) -> None:
    """Let a consumer that is left over end."""
    if pid_file.exists() and not has_ended(int(pid_file.read_text())):
        psutil.Process(int(pid_file.read_text())).kill()


def test_the_tutorial_is_typed_in_and_the_records_are_in_the_table(clone: Path, tmp_path: Path) -> None:
    first, topic, pipeline, add, consumer, produce, look, second, more, leave, leave_too = blocks()
    shell = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "JAVA_HOME": str(find_java().home)}
    terminal = Terminal(tmp_path / "empty", {**shell, "SPARK_LOCAL_IP": "127.0.0.1"})
    terminal.type_in(re.sub(r"(?m)^export CLONE=.*$", f"export CLONE={clone}", first))
    shop = terminal.folder
    assert (shop.name, list(shop.iterdir())) == ("shop", [])
    try:
        for block in (topic, pipeline, add, consumer, produce):
            terminal.type_in(block)
        said_when(terminal, look, "Stable", "clicks-1:6", "('clicks-1', 300)")
        terminal.type_in(second)
        said_when(terminal, "python -m coordinator_tasks topics", "Stable", "clicks-1:3 clicks-2:3")
        said = said_when(terminal, more, "joined: clicks-2", "3 partitions moved;")
        assert re.search(r"total .*usual .* records waited", said), "it joined while records flowed"
        said_when(terminal, look, "'clicks-1'", "'clicks-2'")
        terminal.type_in(leave)
        said_when(terminal, "python -m coordinator_tasks topics", "Stable", "clicks-2:6")
        terminal.type_in(leave_too)
        pid = int((shop / "clicks-2.pid").read_text())
        eventually(lambda: has_ended(pid), LIMIT_S)
    finally:
        for name in ("clicks-1", "clicks-2"):
            end(shop / f"{name}.pid")
        subprocess.run(["pkill", "--full", "^[^ ]*python[^ ]* produce.py "], check=False)
