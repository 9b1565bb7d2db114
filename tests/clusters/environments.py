"""Clean virtual environments, as a site has them: packages by uv, under Airflow's own constraints where there is an Airflow.

Airflow publishes a file of constraints with every release. Where its host cannot be reached, they are resolved in the way in
which Airflow makes them: the newest packages of the day of the release.
"""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = ROOT / ".venv" / "bin" / "uv"
AIRFLOW = {"3.1.8": "2026-03-12", "3.2.2": "2026-05-30", "3.3.2": "2026-09-18"}
"""Releases of Airflow, each with the day after it came out."""
PUBLISHED = "https://raw.githubusercontent.com/apache/airflow/constraints-{version}/constraints-{python}.txt"
PROVIDERS = ("apache-spark", "apache-kafka", "fab", "postgres", "standard")
OURS = ("kazoo", "pure-sasl")
"""What is resolved besides Airflow: its published constraints have everything that any of its providers needs."""
FETCH_LIMIT_S = 15.0
INSTALL_LIMIT_S = 1_200.0
RUN_LIMIT_S = 180.0


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in `folder`."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def program(self, name: str) -> str:
        """The path of a command that a package has brought."""
        return str(self.folder / "bin" / name)

    def install(self, *requirements: str, constraints: Path | None = None) -> None:
        """Install under these constraints; what cannot be had together fails the test with uv's own words."""
        limits = ["--constraint", str(constraints)] if constraints else []
        _uv("pip", "install", "--quiet", "--python", str(self.python), *limits, *requirements)

    def packages(self) -> dict[str, str]:
        """Name → version of everything that is installed."""
        listed = json.loads(_uv("pip", "list", "--format", "json", "--python", str(self.python)))
        return {one["name"]: one["version"] for one in listed}

    def check(self) -> None:
        """Every package has what it requires."""
        _uv("pip", "check", "--python", str(self.python))

    def environ(self, **more: str) -> dict[str, str]:
        """Of a process in it: nothing of the tests' own environment but what a shell has."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "JAVA_HOME", "TMPDIR") if name in os.environ}
        return {**kept, "PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin", **more}

    def run(self, *command: str, env: Mapping[str, str], limit_s: float = RUN_LIMIT_S) -> str:
        """Standard output of a command of the environment, which has to succeed."""
        first, *rest = command
        done = subprocess.run(
            [self.program(first), *rest],
            env=self.environ(**env),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
        return done.stdout


def new_environment(folder: Path, *, pip: bool = False) -> Environment:
    """An empty one, of the Python that runs the tests."""
    if pip:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=RUN_LIMIT_S)
    else:
        _uv("venv", "--quiet", "--python", str(Path(sys.executable).resolve()), str(folder))
    return Environment(folder)


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=RUN_LIMIT_S)
    (found,) = folder.glob("*.whl")
    return found


def airflow_constraints(version: str, folder: Path) -> Path:
    """The constraints of a release of Airflow: those published, or resolved for its day."""
    target = folder / f"constraints-{version}.txt"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        url = PUBLISHED.format(version=version, python=python)
        with urllib.request.urlopen(url, timeout=FETCH_LIMIT_S) as answer:
            target.write_bytes(answer.read())
    except OSError:  # no such host is there, or it does not answer
        wanted = [f"apache-airflow=={version}", *(f"apache-airflow-providers-{one}" for one in PROVIDERS), *OURS]
        source = target.with_suffix(".in")
        source.write_text("\n".join(wanted) + "\n")
        day = ("--exclude-newer", AIRFLOW[version])
        form = ("--no-header", "--no-annotate", "--python-version", python)
        _uv("pip", "compile", "--quiet", *day, *form, "--output-file", str(target), str(source))

    return target


def _uv(*arguments: str) -> str:
    done = subprocess.run(
        [str(UV), *arguments],
        env={**os.environ, "UV_SYSTEM_CERTS": "1"},
        capture_output=True,
        text=True,
        timeout=INSTALL_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
