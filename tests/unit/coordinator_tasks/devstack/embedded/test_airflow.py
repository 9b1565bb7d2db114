"""The local Airflow shares no database, connection or setting with an Airflow of the user's shell."""

from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded import airflow_home
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.processes import ManagedProcess


def test_no_service_inherits_what_the_users_airflow_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_home, "prepare", lambda *_: "a password")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://production")
    monkeypatch.setenv("AIRFLOW_CONN_MINE", "{}")
    monkeypatch.setenv("COORDINATOR_DAG_PREFIX", "kafka_")
    monkeypatch.setenv("OPENLINEAGE_URL", "http://marquez:5000")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    monkeypatch.setenv("OTHERWISE", "kept")
    airflow = EmbeddedAirflow(tmp_path, tmp_path, env={"COORDINATOR_CLUSTERS": "demo"})
    for service in airflow.services.values():
        log = tmp_path / "environment"
        spec = replace(service.spec, argv=("sh", "-c", "env | sort; echo end; sleep 60"), log_path=log)
        with ManagedProcess(spec, lambda log=log: log.exists() and log.read_text().endswith("end\n")):  # type: ignore[misc]
            found = dict(line.split("=", 1) for line in log.read_text().splitlines() if "=" in line)
        log.unlink()
        assert found.keys().isdisjoint(
            {
                *("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONN_MINE", "COORDINATOR_DAG_PREFIX"),
                *("http_proxy", "ALL_PROXY", "OPENLINEAGE_URL", "JAVA_TOOL_OPTIONS"),
            }
        )
        assert found.keys() >= {"OTHERWISE", "AIRFLOW_HOME", "COORDINATOR_CLUSTERS", "COORDINATOR_EMBEDDED_MARK"}
