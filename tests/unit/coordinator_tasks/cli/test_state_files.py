"""The whole state in a file, at a terminal: texts, JSON and exit codes."""

import json
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest

from coordinator_tasks.cli.base import user
from coordinator_tasks.core.model import Ending
from coordinator_tasks.core.ports import Delete
from coordinator_tasks.service.nodes.action_log import asked
from tests.unit.coordinator_tasks.cli.conftest import Run, command_of
from tests.world.site import Site, stable_site


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


def test_an_export_of_the_history_is_continued_and_doubles_nothing(run: Run, shop: Site, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    assert run("export-history", "--to", str(file)) == (0, f"{file}: 0 records added\n", ""), "pauses are measured yet"
    shop.clock.advance(601.0)
    stored = shop.zk.children(shop.paths.history("orders"))
    assert run("export-history", "--to", str(file)) == (0, f"{file}: {len(stored)} records added\n", "")
    whole = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["sequence"] for line in whole.splitlines()] == list(map(int, stored))
    assert run("export-history", "--to", str(file))[1] == f"{file}: 0 records added\n"
    file.write_bytes(whole[:-10])
    assert run("export-history", "orders", "--to", str(file))[1] == f"{file}: 1 record added\n"
    assert file.read_bytes() == whole, "a line that was cut off is written again"
    assert run("export-history")[1].encode() == whole
    assert json.loads(run("export-history", "--to", str(file), "--json")[1]) == {"file": str(file), "records": 0}
    shop.zk.transact([Delete(f"{shop.paths.history('orders')}/{name}") for name in stored])
    assert run("export-history", "--to", str(file))[1] == f"{file}: 0 records added\n"
    assert file.read_bytes() == whole


def test_an_export_of_the_history_refuses_what_it_did_not_write(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('{"version":2}\n')
    code, _, error = run("export-history", "--to", str(file))
    assert (code, "line 1: has format version 2; this release reads 1 to 1" in error) == (2, True), error
    assert file.read_text() == '{"version":2}\n'
    assert "topic 'order' is not managed by cluster 'shop'" in run("export-history", "order")[2]
    with file.open() as other:
        flock(other, LOCK_EX)
        assert f"another export writes {file}; wait for its end" in run("export-history", "--to", str(file))[2]


def test_a_history_whose_numbers_began_again_is_exported_anew(run: Run, shop: Site, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    shop.clock.advance(601.0)
    run("export-history", "--to", str(file))
    first = shop.paths.record("orders", 0)
    node, lines = shop.zk.get(first), file.read_bytes().splitlines(keepends=True)
    kept = [name for name in shop.zk.children(shop.paths.history("orders")) if int(name)]
    shop.zk.transact([Delete(f"{shop.paths.history('orders')}/{name}") for name in kept])
    assert run("export-history", "--to", str(file))[1] == f"{file}: 1 record added\n"
    assert file.read_bytes() == b"".join([*lines, lines[0]])
    assert node.data == shop.zk.get(first).data
