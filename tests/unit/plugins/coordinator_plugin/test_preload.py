"""Modules that a worker imports before forking tasks; each test in a separate process with Airflow."""

from pathlib import Path
from typing import Any

import pytest

from tests.airflow_process import said_by_airflow

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[4]
NEEDED = {"coordinator_plugin.operators", "coordinator_plugin.launch", "coordinator_tasks.wiring"}
SAY = """
import json, sys, threading
print(json.dumps({"modules": [n for n in sys.modules if n.startswith(("coordinator", "airflow.models."))],
                  "threads": threading.active_count()}))
"""


def said(home: Path, program: str, **site: str) -> Any:
    path = f"{ROOT}:{ROOT / 'plugins'}"
    return said_by_airflow(
        program + SAY, home=home, path=path, AIRFLOW__CORE__PLUGINS_FOLDER=f"{ROOT / 'plugins'}", **site
    )


@pytest.mark.parametrize("lazy", ["False", "True"])
def test_a_worker_imports_what_tasks_need_if_plugins_load_at_the_start(tmp_path: Path, lazy: str) -> None:
    found = said(tmp_path, "import airflow\n", AIRFLOW__CORE__LAZY_LOAD_PLUGINS=lazy)
    assert (set(found["modules"]) >= NEEDED) == (lazy == "False")
    assert found["threads"] == 1, "a fork has none of its parent's threads"


def test_our_operators_import_no_tables_of_airflow(tmp_path: Path) -> None:
    found = said(tmp_path, "import coordinator_plugin.operators\n")
    assert not {"airflow.models.dagrun", "airflow.models.taskinstance"} & set(found["modules"])
