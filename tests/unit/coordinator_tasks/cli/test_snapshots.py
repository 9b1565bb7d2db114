"""The way back, what would happen, and a cluster in a file, at a terminal: texts, JSON and exit codes."""

import errno
import io
import json
import os
from pathlib import Path

import pytest

from coordinator_tasks.cli.base import user
from coordinator_tasks.service.nodes.history import rebalances
from tests.unit.coordinator_tasks.cli.conftest import Run
from tests.world.site import Site, stable_site


@pytest.fixture
def shop() -> Site:
    site = stable_site("a")
    site.starts("b")
    site.settles()
    return site


@pytest.fixture
def file(run: Run, tmp_path: Path) -> str:
    path = tmp_path / "shop.json"
    code, said, _ = run("snapshot", str(path))
    assert (code, said) == (0, f"1 topic in {path}, {path.stat().st_size} bytes\n")
    return str(path)


def test_a_roll_back_is_shown_first_then_done_and_then_in_force(run: Run, shop: Site) -> None:
    rebalance = rebalances(shop.coordinator, ["orders"], 1)[0].rebalance
    asked = ("roll-back", "orders", rebalance, "--why", "slow")
    code, shown, _ = run(*asked, "--dry-run")
    assert (code, shown.splitlines()[0]) == (0, "orders: 2 partitions would move; then a 4")
    code, done, _ = run(*asked, "--by", "kim")
    assert (code, done.splitlines()[-1]) == (0, "orders: the next plan moves them")
    shop.settles()
    assert shop.counts() == {"a": 4}
    said = f"rolled back to before rebalance {rebalance} (by kim, as user {user()}: slow)"
    assert f"  why: {said}\n" in run("history", "orders")[1]
    assert f"{said}, until the next change of membership" in run("topics")[1]
    assert run(*asked)[1].splitlines()[-1] == "orders: this roll back is in force already, nothing was changed"
    assert run("unpin", "orders")[1] == f"the roll back to before rebalance {rebalance} will end\n"
    assert run("unpin", "orders")[1] == "no pin will change\n"


def test_a_roll_back_of_what_is_not_there_is_one_line_and_exit_code_2(run: Run) -> None:
    code, out, error = run("roll-back", "orders", "9-0", "--why", "x")
    assert (code, out) == (2, "")
    assert (
        error
        == "error: KPC-012: the history of topic 'orders' has no rebalance '9-0'; `history orders` lists those there are\n"
    )
    assert (
        run("roll-back", "orders", "9-0", "--why", " ")[2]
        == "error: KPC-010: --why is empty; give the reason in a few words\n"
    )
    assert run("roll-back", "orders", "9-0")[0] == 2
    assert run("roll-back", "orders", "9-0", "--why", "x", "--minutes", "-1")[0] == 2


def test_a_preview_combines_what_is_different(run: Run) -> None:
    code, out, _ = run("preview", "--join", "2", "--leave", "b", "--partitions", "6", "--json")
    assert code == 0
    (found,) = json.loads(out)
    assert found["counts"] == {"a": 2, "new-1": 2, "new-2": 2}
    assert {one["kind"] for one in found["moves"]} == {"handoff", "start"}
    assert run("preview", "orders", "--strategy", "weighted", "--parameter", "measure=records")[0] == 0
    assert run("preview", "orders", "--parameter", "measure=lag")[0] == 2
    assert run("preview", "nothing")[0] == 2


class FullDisk(io.FileIO):
    """Takes a part of what is written, and then nothing."""

    def write(self, data: object) -> int:
        super().write(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_snapshot_leaves_no_part_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "shop.json"
    with monkeypatch.context() as full:
        full.setattr(os, "fdopen", FullDisk)
        code, _, error = run("snapshot", str(file))
    assert (code, error) == (
        2,
        f"error: KPC-010: {file} cannot be written: No space left on device; name a file that can\n",
    )
    assert list(tmp_path.iterdir()) == []
    assert run("snapshot", str(file))[0] == 0


def test_steps_are_replayed_one_after_the_other_without_a_cluster(run: Run, file: str, shop: Site) -> None:
    shop.server.stop()
    code, out, error = run(
        "simulate", "--from", file, "join=1", "crash=a", "strategy=weighted,measure=records", "partitions=6"
    )
    assert (code, error) == (0, "")
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert heads == ["join=1:", "crash=a:", "strategy=weighted,measure=records:", "partitions=6:"]
    assert "  orders: 1 partition would move; then a 1, b 2, new-1 1" in out or "then a 2, b 1, new-1 1" in out
    assert "then b 3, new-1 3" in out
    (now,) = json.loads(run("simulate", "--from", file, "--json")[1])
    assert (now["step"], now["topics"][0]["moves"]) == ("now", [])


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (["join"], "'join' is no step; give join=N, leave=ID"),
        (["join=0"], "'join=0' has no number from 1 to 999999999; give one, such as join=2"),
        (["strategy=weighted,lag"], "'strategy=weighted,lag' with 'lag' is not name=value"),
        (["strategy=weighted,measure=lag,measure=bytes"], "gives 'measure' twice; give it once"),
        (["growth="], "'growth=' is no step"),
        (
            ["growth=load=2"],
            "does not say what one consumer reads; give growth=capacity=1000 and any of load, minutes, min",
        ),
        (["growth=capacity=9,speed=2"], "has an unknown 'speed'; give growth=capacity=1000"),
        (["growth=capacity=nan"], "capacity in 'growth=capacity=nan' is no number; give one, such as capacity=2"),
        (
            ["growth=capacity=9,max=2.7"],
            "max in 'growth=capacity=9,max=2.7' is no whole number; give one, such as max=2",
        ),
        (["growth=capacity=9,catch_up=60,max=4"], "the snapshot has no rates of records"),
        (["--topic", "nothing"], "(it has: orders); name one of these"),
        (["join=1"] * 1_001, "1001 steps are too many; give at most 1000"),
    ],
)
def test_a_wrong_step_is_one_line_and_exit_code_2(run: Run, file: str, steps: list[str], said: str) -> None:
    code, out, error = run("simulate", "--from", file, *steps)
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert said in error


def test_a_file_that_is_no_snapshot_is_one_line_and_exit_code_2(run: Run, tmp_path: Path) -> None:
    wrong, huge, pipe = tmp_path / "wrong.json", tmp_path / "huge.json", tmp_path / "pipe"
    wrong.write_text("{}")
    with huge.open("wb") as sparse:
        sparse.truncate(10**12)
    os.mkfifo(pipe)
    for path, said in (
        (wrong, "field 'kind' is not 'partition coordinator snapshot'; this is no snapshot, take one with"),
        (huge, "has more than 67108864 bytes, which is too large; name a file that `coordinator snapshot` has written"),
        (pipe, "is no file, but a folder, a pipe or a device; name a file that `coordinator snapshot` has written"),
        (tmp_path / "none", "cannot be read: No such file or directory; name a file that"),
    ):
        code, out, error = run("simulate", "--from", str(path), "join=1")
        assert (code, out, error.count("\n")) == (2, "", 1)
        assert said in error
