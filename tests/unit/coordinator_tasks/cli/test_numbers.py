"""Numbers, partitions and pairs that a command cannot take: one line that says why."""

from pathlib import Path

import pytest

from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.fleet import set_fleet
from tests.unit.coordinator_tasks.cli.conftest import Run
from tests.world.shop import Shop

UPGRADE = ("upgrade", "billing", "v2", "--code", "v2")
ISOLATE = ("isolate", "a", "--why", "x", "--yes", "--for-s")
RESET = ("offsets", "reset", "--execute", "--topic")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*UPGRADE, "--step", "2.5"), "KPC-002: Invalid value for '--step'"),
        ((*UPGRADE, "--hold-minutes", "nan"), "KPC-0"),
        ((*UPGRADE, "--min-rate", "1.5"), "KPC-024: a least rate of 1.5 cannot be"),
        ((*UPGRADE, "--consumers", "9" * 22), f"KPC-024: {'9' * 22} new consumers cannot be"),
        ((*UPGRADE, "--env", "A=1", "--env", "A=2"), "KPC-010: --env gives 'A' twice"),
        (("set-growth", "billing", "--max", "-1"), "KPC-028: a fleet cannot grow from 1 to -1 consumers"),
        (("scale", "billing", "-1"), "KPC-002: No such option: -1"),
        ((*ISOLATE, "1e9"), "and not 1e+09 s: give fewer, or 0"),
        ((*ISOLATE, "nan"), "KPC-0"),
        (("roll-back", "orders", "{rebalance}", "--why", "x", "--minutes", "nan"), "KPC-0"),
        (("explain", "orders", "--partition", "3"), "has no partition 3; it has partitions 0 to 2"),
        ((*RESET, "orders", "--shift-by", "1e3"), "KPC-017: '1e3' is no position: a shift is a whole number"),
        ((*RESET, "orders", "--by-duration", "PT-1H"), "KPC-017: 'PT-1H' is no position"),
        ((*RESET, "orders:3", "--to-latest"), "KPC-017: topic"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run: Run, shop: Shop, arguments: tuple[str, ...], says: str) -> None:
    set_fleet(shop.coordinator, Fleet("billing", "/opt/main.py", ("a",), code="v1"))
    rebalance = history.rebalances(shop.coordinator, ["orders"], 1)[0].rebalance
    code, out, err = run(*(rebalance if one == "{rebalance}" else one for one in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("error: KPC-")
    assert says in err


def test_an_offset_of_five_thousand_digits_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"orders,0,{'9' * 5_000}\n")
    code, _, err = run("offsets", "reset", "--execute", "--from-file", str(file))
    assert (code, err.count("\n"), len(err) < 1_100) == (2, 1, True)
    assert "KPC-017: line 1 of the offsets: '9999" in err
