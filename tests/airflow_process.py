"""A program in a process of its own with Airflow, which knows nothing of the environment of the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def said_by_airflow(program: str, *arguments: str, home: Path, path: str, **site: str) -> dict[str, Any]:
    """The JSON object in the last line that the program writes; `path` is its PYTHONPATH, `site` its environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "COORDINATOR"))}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        cwd=home,
        env={**clean, **site, "AIRFLOW_HOME": str(home), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
