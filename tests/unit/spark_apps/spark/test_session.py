"""Required settings of a session: no speculative execution, where both attempts of a task would write."""

import os
import uuid
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.wiring import Settings
from spark_apps import consumer, main
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.consumer import Consumer, SparkSettings
from spark_apps.spark import session

SETTINGS = ConsumerSettings(Settings("c", "zk:2181", {"bootstrap.servers": "k:9092"}), "a")
SOCKET_PATH_BYTES = 108
"""Length of `sun_path` in Linux's unix(7), with the final NUL byte."""
GIVEN = ("--consumer", "a", "--cluster", "c", "--zookeeper", "zk:2181", "--kafka", "k:9092", "--default", "m:f")


def running(**settings: str) -> Any:
    """A session with our settings and these settings, as in the context; names with _ for a point."""
    given = {**session.SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
    context = SimpleNamespace(getConf=lambda: SimpleNamespace(get=given.get), environment={})
    return SimpleNamespace(conf=SimpleNamespace(get=given.get), sparkContext=context)


class Builder(dict[str, str]):
    """Records all set values."""

    _options: Mapping[str, str] = MappingProxyType({})

    def config(self, name: str, value: str) -> "Builder":
        self[name] = value
        return self

    def appName(self, _: str) -> "Builder":  # noqa: N802 (Spark's name)
        return self

    def getOrCreate(self) -> Any:  # noqa: N802
        raise Refused("there is no Spark")


@pytest.mark.parametrize("value", ["true", "TRUE", " true ", "${spark.mine}"])
def test_speculative_execution_is_refused_unless_the_sink_bears_it(value: str) -> None:
    speculating = running(spark_speculation=value)
    with pytest.raises(Refused, match=r"set spark\.speculation=false, or declare the sink"):
        session.check(speculating)
    assert session.check(speculating, idempotent_sink=True) == []
    for off in (running(), running(spark_speculation="false"), running(spark_speculation=" False ")):
        assert session.check(off) == []


def test_what_a_session_over_a_running_context_says_of_it_counts_for_nothing() -> None:
    """`getOrCreate` writes the builder's settings into such a session; tasks run by the context's former settings."""
    speculating = running(spark_speculation="true")
    speculating.conf = running(spark_speculation="false").conf
    with pytest.raises(Refused, match=r"spark\.speculation is on"):
        session.check(speculating)


@pytest.mark.parametrize(("declared", "expected"), [((), "false"), (("--idempotent-sink",), None)])
def test_the_application_leaves_it_to_spark_if_the_sink_bears_it(
    declared: tuple[str, ...], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder()
    monkeypatch.setattr(main, "SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.setattr(main, "load_build", lambda _: None)
    monkeypatch.setattr(main, "set_up_logs", lambda _: None)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(session, "given_to_spark", lambda _: {})
    assert main.main([*GIVEN, *declared]) == main.REFUSED_EXIT
    assert builder.get(session.SPECULATION) == expected


@pytest.mark.parametrize(
    ("given", "cores"),
    [
        ({"spark.master": "spark://master:7077"}, "2"),
        ({"spark.master": "spark://master:7077", "spark.cores.max": "8"}, "8"),
        ({"spark.master": "yarn"}, None),
        ({}, None),
    ],
    ids=["a standalone master", "the site says how many", "another master", "no master"],
)
def test_a_consumer_leaves_cores_of_a_standalone_master_to_others(
    given: dict[str, str], cores: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "given_to_spark", lambda names: {name: given[name] for name in names if name in given})
    builder = Builder()
    session.configure(cast(Any, builder))
    assert builder.get(session.CORES) == cores


def test_the_path_of_a_socket_fits_wherever_the_temporary_folder_is() -> None:
    builder = Builder()
    session.configure(cast(Any, builder))
    path = Path(builder["spark.python.unix.domain.socket.dir"]) / f".{uuid.uuid4()}.sock"
    assert len(os.fsencode(path)) < SOCKET_PATH_BYTES
    assert session.check(running(spark_python_unix_domain_socket_dir="/run/short")) == [], "a site may choose another"


def test_a_consumer_asks_for_it_before_it_does_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(consumer, "open_process", opened)
    speculating = running(spark_speculation="true")
    with pytest.raises(Refused, match="is on, and the sink is not declared"), Consumer(speculating, SETTINGS):
        pass
    declared = main._how(main._parse([*GIVEN, "--idempotent-sink"]), SETTINGS.site)
    for how in (declared, SparkSettings(idempotent_sink=True)):
        with pytest.raises(ZeroDivisionError), Consumer(speculating, SETTINGS, how):
            pass
    assert not main._how(main._parse(GIVEN), SETTINGS.site).idempotent_sink


@pytest.mark.parametrize("seconds", [0, 2**33], ids=["before 1980", "after 2107"])
def test_files_of_any_time_are_shipped(seconds: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reproducible images have one time for all files, such as 1970."""
    for package in ("spark_apps", "coordinator_tasks"):
        file = tmp_path / package / "inner" / "__init__.py"
        file.parent.mkdir(parents=True)
        file.write_text("HERE = True\n")
        os.utime(file, (seconds, seconds))
    monkeypatch.setattr(session, "ROOT", tmp_path)
    shipped: list[str] = []
    spark = SimpleNamespace(sparkContext=SimpleNamespace(addPyFile=shipped.append))
    with zipfile.ZipFile(session.ship_packages(cast(Any, spark), tmp_path)) as archive:
        assert archive.namelist() == ["spark_apps/inner/__init__.py", "coordinator_tasks/inner/__init__.py"]
        assert archive.read("spark_apps/inner/__init__.py") == b"HERE = True\n"
    assert shipped == [str(tmp_path / "spark_apps.zip")]
