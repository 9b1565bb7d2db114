"""Airflow on Celery, Redis and PostgreSQL, with two schedulers, triggerers and workers.

Celery's packages are fetched into a cache folder of their own, by `celery.txt`; the installation of the tests stays as it is.
Redis is the system's, or Debian's package unpacked beside them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow, Service
from coordinator_tasks.devstack.embedded.airflow_home import LAUNCH_POOL, LAUNCH_SLOTS
from coordinator_tasks.devstack.embedded.ports import HOST, free_port, listening
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from tests.clusters.cached import once
from tests.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
PACKAGES = Path(__file__).with_name("celery.txt")
DEBIAN_PACKAGES = ("redis-server", "redis-tools", "libatomic1", "libjemalloc2", "liblzf1")
FETCH_LIMIT_S = 300.0
MIGRATE_LIMIT_S = 180.0
START_LIMIT_S = 400.0  # nine processes that import Airflow at once, on a busy machine
CONNECTIONS = 120
SETTINGS: Mapping[str, str] = {
    "core.executor": "CeleryExecutor",
    "celery.worker_concurrency": "4",
    # A task that a dead worker had taken from the queue and not begun is given to another one.
    "scheduler.task_queued_timeout": "30",
    "scheduler.task_queued_timeout_check_interval": "5",
    "scheduler.task_instance_heartbeat_timeout": "30",
    "scheduler.task_instance_heartbeat_timeout_detection_interval": "5",
}


@dataclass(frozen=True)
class CeleryAirflow:
    """Two of everything: the first scheduler and triggerer are Airflow's own `services`, the second ones are `second`."""

    airflow: EmbeddedAirflow
    second: Mapping[Service, ManagedProcess]
    workers: tuple[ManagedProcess, ...]

    def of(self, service: Service) -> tuple[ManagedProcess, ManagedProcess]:
        """Both schedulers, or both triggerers."""
        return self.airflow.services[service], self.second[service]


@contextmanager
def celery_airflow(
    home: Path, *, env: Mapping[str, str], dags: Collection[str], **options: Any
) -> Iterator[CeleryAirflow]:
    """Runs all of it; `options` are those of `EmbeddedAirflow`. Raises `PostgresMissing`."""
    packages, redis = _packages(), _redis()
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ending:
        postgres = ending.enter_context(PostgresServer(connections=CONNECTIONS))
        port = free_port()
        arguments = ("--port", str(port), "--bind", HOST, "--save", "", "--dir", str(home))
        library = {"LD_LIBRARY_PATH": str(redis.parents[1] / "lib" / "x86_64-linux-gnu")}
        spec = ProcessSpec("Redis", (str(redis), *arguments), home / "redis.log", env=library)
        ending.enter_context(ManagedProcess(spec, ready=lambda: listening(port)))
        database = f"tests@/postgres?host={postgres.folder}"
        places = {
            "database.sql_alchemy_conn": f"postgresql+psycopg2://{database}",
            "database.sql_alchemy_conn_async": f"postgresql+asyncpg://{database}",
            "celery.broker_url": f"redis://{HOST}:{port}/0",
            "celery.result_backend": f"db+postgresql://{database}",
        }
        path = os.pathsep.join(map(str, (ROOT, ROOT / "plugins", packages)))
        airflow = EmbeddedAirflow(
            home,
            ROOT / "dags",
            ROOT / "plugins",
            env={"PYTHONPATH": path, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **env},
            settings={**SETTINGS, **places},
            expected_dags=dags,
            **options,
        )
        _migrate(airflow)
        site = CeleryAirflow(
            airflow,
            {
                one: _process(airflow, f"{one}-2", one, "--skip-serve-logs")
                for one in (Service.SCHEDULER, Service.TRIGGERER)
            },
            tuple(
                _process(airflow, name, "celery", "worker", "--celery-hostname", f"{name}@local", "--skip-serve-logs")
                for name in ("worker-1", "worker-2")
            ),
        )
        for process in (*site.workers, *site.second.values()):
            ending.callback(process.kill)
            process.spawn()
        ending.callback(airflow.kill)
        airflow.start(timeout_s=START_LIMIT_S)
        for process in (*site.workers, *site.second.values()):
            process.wait_ready(START_LIMIT_S)
        yield site


def _process(airflow: EmbeddedAirflow, name: str, *arguments: str) -> ManagedProcess:
    log = airflow.home / f"{name}.log"
    ready = {"worker": "ready.", "schedu": "Starting the scheduler", "trigge": "Starting the triggerer"}[name[:6]]
    spec = ProcessSpec(
        name, (sys.executable, "-m", "airflow", *arguments), log, env=airflow.environment, cwd=airflow.home
    )
    return ManagedProcess(spec, ready=lambda: log.exists() and ready in log.read_text())


def _migrate(airflow: EmbeddedAirflow) -> None:
    commands = (("db", "migrate"), ("pools", "set", LAUNCH_POOL, str(LAUNCH_SLOTS), "Launches of consumers"))
    for arguments in commands:
        subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env={**os.environ, **airflow.environment},
            cwd=airflow.home,
            check=True,
            capture_output=True,
            timeout=MIGRATE_LIMIT_S,
        )


def _packages() -> Path:
    """The folder of Celery's packages, for PYTHONPATH."""
    name = f"celery-{hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:12]}"
    install = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
    return once(name, lambda folder: _run(*install, "--target", str(folder), "-r", str(PACKAGES)))


def _redis() -> Path:
    """The program `redis-server`."""
    found = shutil.which("redis-server")
    if found is not None:
        return Path(found)

    def unpack(folder: Path) -> None:
        _run("apt-get", "download", "--quiet", *DEBIAN_PACKAGES, cwd=folder)
        for package in folder.glob("*.deb"):
            _run("dpkg-deb", "--extract", str(package), str(folder))

    return once("redis", unpack) / "usr" / "bin" / "redis-server"


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
