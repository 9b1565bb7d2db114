"""Prepares an Airflow home: configuration, secrets and database, so that the services can start at once.

Everything secret (keys, the password) is drawn on first use and kept in the home, readable by its owner only.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from coordinator_tasks.embedded.cache import cache_folder, exclusive
from coordinator_tasks.embedded.errors import AirflowUnavailable
from coordinator_tasks.embedded.ports import HOST

USERNAME = "admin"
PASSWORD_BYTES = 12
JWT_SECRET_BYTES = 64
MIGRATE_TIMEOUT_S = 180.0
LAUNCH_POOL = "consumers"
LAUNCH_SLOTS = 2
SQLITE_BUSY_TIMEOUT_S = 30

# Fast reactions on a small machine. The last group decides how soon the work of a killed service is taken up again.
SETTINGS: Mapping[str, str] = {
    "core.executor": "LocalExecutor",
    "core.parallelism": "8",
    "core.load_examples": "False",
    "core.dags_are_paused_at_creation": "False",
    # The default asks a name server for the full name, which takes seconds where there is none.
    "core.hostname_callable": "socket.gethostname",
    "api.workers": "1",
    "dag_processor.refresh_interval": "300",
    "dag_processor.min_file_process_interval": "300",
    "database.load_default_connections": "False",
    "logging.colored_console_log": "False",
    "scheduler.scheduler_idle_sleep_time": "0.1",
    "scheduler.scheduler_heartbeat_sec": "1",
    "workers.execution_api_timeout": "30",
    # A worker that misses a wake-up from its task, or its end, looks again after this time; the default is 5 s.
    "workers.min_heartbeat_interval": "1",
    "scheduler.job_heartbeat_sec": "2",
    "scheduler.scheduler_health_check_threshold": "15",
    "scheduler.orphaned_tasks_check_interval": "10",
    "scheduler.task_instance_heartbeat_timeout": "60",
    "triggerer.job_heartbeat_sec": "2",
    "triggerer.triggerer_health_check_threshold": "15",
}


@dataclass(frozen=True, slots=True)
class AirflowHome:
    """A prepared home: its folder, the API's port and the password of ``USERNAME``."""

    path: Path
    port: int
    password: str

    @property
    def base_url(self) -> str:
        """Address of the UI and the API."""
        return f"http://{HOST}:{self.port}"


def prepare(
    path: Path, port: int, *, dags_folder: Path, plugins_folder: Path | None, settings: Mapping[str, str]
) -> AirflowHome:
    """Writes what is missing in the home and returns it; ``settings`` (``section.option``) win over ``SETTINGS``."""
    path.mkdir(parents=True, exist_ok=True)
    kept = _secrets(path / "secrets.json")
    _write_private(path / "passwords.json", json.dumps({USERNAME: kept["password"]}))
    home = AirflowHome(path, port, kept["password"])
    plugins = plugins_folder or path / "plugins"
    plugins.mkdir(exist_ok=True)
    own = {
        "core.dags_folder": str(dags_folder.absolute()),
        "core.plugins_folder": str(plugins.absolute()),
        "core.fernet_key": kept["fernet_key"],
        "core.simple_auth_manager_users": f"{USERNAME}:admin",
        "core.simple_auth_manager_passwords_file": str(path / "passwords.json"),
        "core.execution_api_server_url": f"{home.base_url}/execution/",
        "api.host": HOST,
        "api.port": str(port),
        "api.base_url": home.base_url,
        "api.secret_key": kept["secret_key"],
        "api_auth.jwt_secret": kept["jwt_secret"],
        "database.sql_alchemy_conn": f"sqlite:///{path / 'airflow.db'}?timeout={SQLITE_BUSY_TIMEOUT_S}",
        "logging.base_log_folder": str(path / "logs"),
    }
    _write_configuration(path / "airflow.cfg", {**SETTINGS, **own, **settings})
    if not (path / "airflow.db").exists():
        shutil.copyfile(_migrated_database(), path / "airflow.db")
    return home


def connection_variables(connections: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Airflow's environment variables for connections, each given by its fields (``conn_type``, ``host``, ``extra``, ...)."""
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(fields) for name, fields in connections.items()}


def _secrets(path: Path) -> dict[str, str]:
    if not path.exists():
        drawn = {
            "password": secrets.token_urlsafe(PASSWORD_BYTES),
            "jwt_secret": secrets.token_urlsafe(JWT_SECRET_BYTES),
            "secret_key": secrets.token_urlsafe(JWT_SECRET_BYTES),
            "fernet_key": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }
        _write_private(path, json.dumps(drawn))
    kept: dict[str, str] = json.loads(path.read_text())
    return kept


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _write_configuration(path: Path, settings: Mapping[str, str]) -> None:
    parser = configparser.RawConfigParser()
    for key, value in settings.items():
        section, option = key.split(".", 1)
        if not parser.has_section(section):
            parser.add_section(section)
        # Airflow reads the file with interpolation.
        parser.set(section, option, value.replace("%", "%%"))
    path.touch(mode=0o600)
    with path.open("w") as file:
        parser.write(file)


def _migrated_database() -> Path:
    """A migrated SQLite database with the launches' pool; made once per set of Airflow packages, since it takes seconds."""
    name = f"airflow-{_fingerprint([*_airflow_packages(), f'{LAUNCH_POOL}={LAUNCH_SLOTS}'])}"
    database = cache_folder() / f"{name}.db"
    if database.exists():
        return database
    with exclusive(name) as folder:
        if not database.exists():
            with tempfile.TemporaryDirectory(prefix="migrate-", dir=folder) as scratch:
                _migrate(Path(scratch)).rename(database)
    return database


def _migrate(home: Path) -> Path:
    database = home / "airflow.db"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    environment["AIRFLOW_HOME"] = str(home)
    environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{database}"
    environment["AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS"] = "False"
    try:
        for arguments in (("db", "migrate"), ("pools", "set", LAUNCH_POOL, str(LAUNCH_SLOTS), "Launches of consumers")):
            subprocess.run(
                [sys.executable, "-m", "airflow", *arguments],
                check=True,
                capture_output=True,
                text=True,
                env=environment,
                cwd=home,
                timeout=MIGRATE_TIMEOUT_S,
            )
    except subprocess.TimeoutExpired as error:
        raise AirflowUnavailable(
            f"Airflow's database was not made within {MIGRATE_TIMEOUT_S:g} s: the machine is too busy; start again"
        ) from error
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:]
        raise AirflowUnavailable(
            f"Airflow's database could not be made: {' '.join(last)!r}; run make install and start again"
        ) from error
    # Readers and the writer of four services do not wait for each other in this mode; it is kept in the file.
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return database


def _airflow_packages() -> Iterable[str]:
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name.startswith("apache-airflow") or name == "sqlalchemy":
            yield f"{name}={distribution.version}"


def _fingerprint(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(set(parts))).encode()).hexdigest()[:16]
