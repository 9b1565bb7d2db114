"""A person's shell, into which a page's blocks are typed one after the other."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

STEP_LIMIT_S = 900.0


class Terminal:
    """What a block exports, and the folder that it changes to, are there in the next one. `folder` is made."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self._kept = folder.with_name(f"{folder.name}.environment")
        self.environ = {**environ, "PWD": str(folder)}

    @property
    def folder(self) -> Path:
        """Where the terminal is."""
        return Path(self.environ["PWD"])

    def type_in(self, block: str) -> str:
        """What it prints; a command that fails fails the test with its own words."""
        script = f"set -euo pipefail\n{block}\nenv -0 > {self._kept}\n"
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=STEP_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        pairs = (one.partition("=") for one in self._kept.read_text().split("\0") if one)
        self.environ = {name: value for name, _, value in pairs}
        return done.stdout
