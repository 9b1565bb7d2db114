"""The commands for examining and granting rights, without their findings."""

from collections.abc import Iterator

import pytest

from coordinator_tasks.cli import main, rights
from coordinator_tasks.doctor import DoctorFinding
from coordinator_tasks.settings import Settings

SETTINGS = '{"cluster": "shop", "zookeeper": "zk:2181", "kafka": {"bootstrap.servers": "broker:9092"%s}}'


@pytest.mark.parametrize(
    ("given", "level"),
    [pytest.param("", "2", id="ours"), pytest.param(', "log_level": "7"', "7", id="that of the settings")],
)
def test_kafkas_library_prints_nothing_beside_findings(given: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(settings: Settings, *_: object) -> Iterator[DoctorFinding]:
        seen.append(settings)
        yield from ()

    seen: list[Settings] = []
    monkeypatch.setattr(rights, "examine", found)
    monkeypatch.setenv("COORDINATOR_SETTINGS_SECRET", SETTINGS % given)
    with pytest.raises(SystemExit) as ended:
        main(["doctor"])
    assert ended.value.code == 0
    assert [one.kafka["log_level"] for one in seen] == [level]
