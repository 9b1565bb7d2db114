"""Builds the jars of Spark's source for a wheel or an sdist. An sdist contains the jars, so a wheel of an sdist compiles nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAM = "coordinator_tasks.devstack.reader_jar"


class ReaderJars(BuildHookInterface[Any]):
    """Needs Java, and PySpark for jars that are not built yet."""

    def dependencies(self) -> list[str]:
        """Return the frozen PySpark if something has to be compiled: an isolated build installs what is returned."""
        if self._run("--check") == 0:
            return []
        frozen = (Path(self.root) / "requirements.txt").read_text(encoding="utf-8")
        return re.findall(r"^pyspark==[\w.]+", frozen, flags=re.MULTILINE)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's interface
        if self._run() != 0:
            raise RuntimeError("the jars of Spark's source were not built: the lines above say why")

    def _run(self, *arguments: str) -> int:
        path = os.pathsep.join(filter(None, (self.root, os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-m", PROGRAM, *arguments]
        return subprocess.run(command, check=False, cwd=self.root, env={**os.environ, "PYTHONPATH": path}).returncode
