"""Prepare an Airflow home with configuration, secrets and database, so that the services can start at once.

All secrets (keys, the password) are drawn at the first use and stored in the home. Only its owner may read them.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.embedded.cache import cache_folder, exclusive
from coordinator_tasks.devstack.embedded.ports import HOST
from coordinator_tasks.devstack.embedded.processes import run_to_end

USERNAME = "admin"
PASSWORD_BYTES = 12
JWT_SECRET_BYTES = 64
MIGRATE_TIMEOUT_S = 180.0
LAUNCH_POOL = "consumers"
LAUNCH_SLOTS = 2
SQLITE_BUSY_TIMEOUT_S = 30

# Fast reactions on a small machine. The last group decides how soon a service takes over the work of a killed service.
SETTINGS: Mapping[str, str] = {
    "core.executor": "LocalExecutor",
    "core.parallelism": "8",
    "core.load_examples": "False",
    # Tasks are forks of a worker, so they need not import the plugin again.
    "core.lazy_load_plugins": "False",
    "core.dags_are_paused_at_creation": "False",
    # By default Airflow asks a name server for the full name. Without a name server this takes seconds.
    "core.hostname_callable": "socket.gethostname",
    "api.workers": "1",
    "dag_processor.refresh_interval": "300",
    "dag_processor.min_file_process_interval": "300",
    "database.load_default_connections": "False",
    "kafka_coordinator.dags_paused": "False",
    "logging.colored_console_log": "False",
    "scheduler.scheduler_idle_sleep_time": "0.1",
    "scheduler.scheduler_heartbeat_sec": "1",
    "workers.execution_api_timeout": "30",
    # Seconds after which a worker checks again if it misses a wake-up from its task, or the task's end; the default is
    # 5.
    "workers.min_heartbeat_interval": "1",
    "scheduler.job_heartbeat_sec": "2",
    "scheduler.scheduler_health_check_threshold": "15",
    "scheduler.orphaned_tasks_check_interval": "10",
    "scheduler.task_instance_heartbeat_timeout": "60",
    "triggerer.job_heartbeat_sec": "2",
    "triggerer.triggerer_health_check_threshold": "15",
}


def prepare(path: Path, port: int, dags_folder: Path, plugins_folder: Path | None, settings: Mapping[str, str]) -> str:
    """Write everything that the home needs. Return the password of ``USERNAME``.

    ``port``: of the API. ``settings`` (``section.option``) take precedence over ``SETTINGS``.
    """
    path.mkdir(parents=True, exist_ok=True)
    kept, base_url = _secrets(path / "secrets.json"), f"http://{HOST}:{port}"
    _write_private(path / "passwords.json", json.dumps({USERNAME: kept["password"]}))
    plugins = plugins_folder or path / "plugins"
    plugins.mkdir(exist_ok=True)
    own = {
        "core.dags_folder": str(dags_folder.absolute()),
        "core.plugins_folder": str(plugins.absolute()),
        "core.fernet_key": kept["fernet_key"],
        "core.simple_auth_manager_users": f"{USERNAME}:admin",
        "core.simple_auth_manager_passwords_file": str(path / "passwords.json"),
        "core.execution_api_server_url": f"{base_url}/execution/",
        "api.host": HOST,
        "api.port": str(port),
        "api.base_url": base_url,
        "api.secret_key": kept["secret_key"],
        "api_auth.jwt_secret": kept["jwt_secret"],
        "database.sql_alchemy_conn": f"sqlite:///{path / 'airflow.db'}?timeout={SQLITE_BUSY_TIMEOUT_S}",
        "logging.base_log_folder": str(path / "logs"),
    }
    _write_configuration(path / "airflow.cfg", {**SETTINGS, **own, **settings})
    if not (path / "airflow.db").exists():
        shutil.copyfile(_migrated_database(), path / "airflow.db")
    return kept["password"]


def connection_variables(connections: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return Airflow's environment variables for connections, given by their fields (``conn_type``, ``host``, ...)."""
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
        # Airflow interpolates `%` when it reads the file.
        parser.set(section, option, value.replace("%", "%%"))
    path.touch(mode=0o600)
    with path.open("w") as file:
        parser.write(file)


def _migrated_database() -> Path:
    """Return a migrated SQLite database that has the pool for launches.

    The migration takes seconds, so it is done once for each set of packages.
    """
    parts = "\n".join(sorted({*_airflow_packages(), f"{LAUNCH_POOL}={LAUNCH_SLOTS}"}))
    name = f"airflow-{hashlib.sha256(parts.encode()).hexdigest()[:16]}"
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
    for arguments in (("db", "migrate"), ("pools", "set", LAUNCH_POOL, str(LAUNCH_SLOTS), "Launches of consumers")):
        run_to_end(
            [sys.executable, "-m", "airflow", *arguments],
            MIGRATE_TIMEOUT_S,
            environment,
            failure="Airflow's database was not made",
            advice="run make install and start again",
            cwd=home,
        )
    # In this mode the readers and the writer of the four services do not wait for each other. The file keeps the mode.
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    return database


def _airflow_packages() -> Iterable[str]:
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name.startswith("apache-airflow") or name == "sqlalchemy":
            yield f"{name}={distribution.version}"
