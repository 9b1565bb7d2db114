"""What the demonstration prints."""

import io
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from coordinator_tasks.devstack.demo.display import _moves_table
from coordinator_tasks.devstack.demo.report import EventReport, MoveStall


@pytest.mark.parametrize("width", [110, 150])
def test_the_table_of_moves_cuts_no_name_and_no_figure_on_a_narrow_terminal(width: int) -> None:
    cause = "gone: it (reaped: killed by SIGKILL: BrokenPipeError: [Errno 32] Broken pipe)"
    move = MoveStall("kill", 10, "billing-1", "billing-3", "handoff", cause, 4232.0, 653.0, 3579.0, None)
    out, event = io.StringIO(), cast(EventReport, SimpleNamespace(moves=[move]))
    Console(file=out, width=width).print(_moves_table([event]))
    whole = ("partition", "billing-1", "billing-3", "handoff", "4232", "653", "3579", "usual ms")
    assert [word for word in whole if word not in out.getvalue()] == []
