"""Airflow's own settings of OpenLineage reach the consumers that it launches; the transport's key only in a private file."""

import json
import stat
from pathlib import Path

import pytest
from coordinator_plugin import openlineage

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.run_folder import RunFolder
from spark_apps.delivery.lineage import is_on

TRANSPORT = '{"type": "http", "url": "http://marquez:5000", "auth": {"type": "api_key", "apiKey": "planted-key"}}'


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "shop" / "a")
    made.make()
    return made


def test_the_transport_is_in_a_private_file_not_a_variable(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", TRANSPORT)
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "prod")
    found = openlineage.variables(folder)
    assert found == {"OPENLINEAGE_CONFIG": str(folder.openlineage), "OPENLINEAGE_NAMESPACE": "prod"}
    assert is_on(found)
    assert json.loads(folder.openlineage.read_text()) == {"transport": json.loads(TRANSPORT)}
    assert stat.S_IMODE(folder.openlineage.stat().st_mode) == 0o600


def test_a_file_of_the_site_is_named(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__CONFIG_PATH", "/etc/openlineage.yml")
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", TRANSPORT)
    assert openlineage.variables(folder) == {"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}


def test_without_a_transport_a_former_file_is_removed(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", TRANSPORT)
    openlineage.variables(folder)
    monkeypatch.delenv("AIRFLOW__OPENLINEAGE__TRANSPORT")
    assert openlineage.variables(folder) == {}
    assert not folder.openlineage.exists()


@pytest.mark.parametrize("text", ["{", "[]", '"http"'])
def test_a_transport_is_an_object_or_refused(text: str, folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", text)
    with pytest.raises(BadSettings, match="transport in \\[openlineage\\]"):
        openlineage.variables(folder)
