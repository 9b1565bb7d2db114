"""Who runs which file of tests: with three workers or more, the last one stands aside from the tests that fill the processors.

Real servers are waited for, half of the time. In that time the worker aside runs the files from the end of the order, which
need no server or wait as well. Two Airflows fill two processors, and so do the tests of deaths: those are the others', and the
worker aside begins once the tests of deaths have been given out.
"""

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

PROJECT = Path(__file__).resolve().parent.parent
DEATHS = "tests/faults/"
AIRFLOW = re.compile(r"\bEmbeddedAirflow\b|\bairflow_of\b|\bairflow_factory\b")
FEWEST = 3


class SideBySide(LoadFileScheduling):
    """Files in their order to all workers but the one aside."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note it; the worker aside may begin now."""
        super().mark_test_complete(node, item_index, duration)
        for one in self.nodes:
            if one is not node and self._is_aside(one):
                self._reschedule(one)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if self._is_aside(node):
            if any(file.startswith(DEATHS) for file in self.workqueue):
                return
            fitting = next((file for file in reversed(self.workqueue) if not starts_airflow(file)), None)
            if fitting is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(fitting, last=False)
        super()._assign_work_unit(node)

    def _is_aside(self, node: WorkerController) -> bool:
        return self.numnodes >= FEWEST and bool(node.gateway.id == f"gw{self.numnodes - 1}")


@cache
def starts_airflow(file: str) -> bool:
    """Whether the file of tests starts an Airflow."""
    return AIRFLOW.search((PROJECT / file).read_text()) is not None
