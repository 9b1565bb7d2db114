"""The whole state in a file, at a terminal: texts, JSON and exit codes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator_tasks.cli.base import user
from coordinator_tasks.core.model import Ending
from coordinator_tasks.service.nodes.action_log import asked
from tests.unit.coordinator_tasks.cli.conftest import command_of
from tests.world.site import Site, stable_site

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop() -> Site:
    site = stable_site("a")
    site.dies("a", Ending.LEFT)
    return site


@pytest.fixture
def new(shop: Site) -> Site:
    """An empty cluster of the same name in another ZooKeeper."""
    return Site("shop", shop.clock, shop.kafka, shop.statuses)


@pytest.fixture
def there(new: Site, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command with the settings of the new cluster."""
    return command_of(new, capsys)


@pytest.fixture
def file(run: Run, tmp_path: Path) -> Path:
    path = tmp_path / "main.state"
    code, said, error = run("export", str(path))
    size = path.stat().st_size
    assert (code, error) == (0, "")
    assert said == f"1 topic, 0 fleets and 3 other nodes of cluster shop in {path}, {size} bytes\n"
    return path


def test_only_the_user_may_read_the_file_and_no_file_is_replaced(run: Run, file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    code, _, error = run("export", str(file))
    assert (code, error) == (2, f"error: KPC-010: {file} is there already; name another file, or remove it first\n")
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_an_import_is_shown_first_then_done_and_then_there(there: Run, new: Site, file: Path) -> None:
    zxid = new.server.zxid
    code, said, error = there("import", str(file))
    assert (code, error) == (0, "nothing was changed; add --execute to do it\n")
    assert said == f"1 topic, 0 fleets and 3 other nodes of {file}: 4 nodes would be written\n"
    assert new.server.zxid == zxid
    code, said, error = there("import", str(file), "--execute", "--why", "new hosts", "--by", "kim")
    assert (code, said, error) == (0, f"1 topic, 0 fleets and 3 other nodes of {file}: 4 nodes were written\n", "")
    record = asked(new.coordinator)[0]
    assert (record.action, record.why, record.actor.who) == ("import", "new hosts", f"kim, as user {user()}")
    assert there("import", str(file), "--execute")[:2] == (0, f"all of {file} is in ZooKeeper already\n")


def test_a_node_that_is_left_out_has_its_own_exit_code(run: Run, shop: Site, tmp_path: Path) -> None:
    shop.server.overwrite(shop.paths.config("orders"), b"{")
    code, _, error = run("export", str(tmp_path / "part.state"))
    assert (code, error.startswith("left out: config/orders: is not JSON")) == (1, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--execute", "--dry-run"), "--dry-run and --execute contradict each other"),
        (("--why", "two\nlines"), "has characters that cannot be shown"),
        (("--from-cluster", "mall"), "the file is of cluster 'shop', not of 'mall'"),
    ],
)
def test_a_wrong_import_is_one_line_and_exit_code_2(there: Run, file: Path, more: tuple[str, ...], said: str) -> None:
    code, out, error = there("import", str(file), *more)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert said in error
