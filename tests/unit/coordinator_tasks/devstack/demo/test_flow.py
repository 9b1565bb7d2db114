"""How the demonstration fails: at once, and with what it failed of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_tasks.devstack.demo.display import Display
from coordinator_tasks.devstack.demo.flow import Demo
from coordinator_tasks.devstack.demo.stack import DemoFailed, Folders


def test_a_producer_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    stack: Any = SimpleNamespace(folders=Folders(tmp_path), producer=SimpleNamespace(running=False))
    nobody: Any = None
    with pytest.raises(DemoFailed, match=r"the producer has ended by itself; its log is \S+/run/producer.log"):
        Demo(stack, nobody, Display()).caught_up()
