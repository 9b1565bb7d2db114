"""Reports of inputs and outputs to OpenLineage, by OpenLineage's client and the site's settings."""

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_apps.delivery import lineage
from spark_apps.delivery.lineage import (
    Dataset,
    Lineage,
    RunFacts,
    file_dataset,
    is_on,
    opened,
    outputs_of,
    table_dataset,
    topic_dataset,
    writes_to,
)

READER = RunFacts("shop", "a", 7)
TABLE = Dataset("postgres://db:5432", "shop.public.orders")


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The site's settings name a file as the transport."""
    path, config = tmp_path / "events", tmp_path / "openlineage.json"
    config.write_text(json.dumps({"transport": {"type": "file", "log_file_path": str(path), "append": True}}))
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "prod")
    return path


def test_a_run_begins_and_ends_with_its_topic_and_its_sink(log_file: Path) -> None:
    one = opened(READER)
    one.began("orders", "g", "broker-b:9092,broker-a:9092", [TABLE])
    one.ended("orders")
    one.close()
    begin, end = told(log_file)
    assert (begin["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert begin["run"]["runId"] == end["run"]["runId"]
    for event in (begin, end):
        assert (event["job"]["namespace"], event["job"]["name"]) == ("prod", "shop.g.orders")
        assert [(d["namespace"], d["name"]) for d in event["inputs"]] == [("kafka://broker-a:9092", "orders")]
        assert [(d["namespace"], d["name"]) for d in event["outputs"]] == [("postgres://db:5432", "shop.public.orders")]
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
        tags = {tag["key"]: tag["value"] for tag in event["run"]["facets"]["tags"]["tags"]}
        assert tags.items() >= {"cluster": "shop", "consumer": "a", "incarnation": "7"}.items()


def test_a_failed_run_says_why(log_file: Path) -> None:
    one = opened(READER)
    one.began("orders", "g", "b:1", [])
    one.ended("orders", "the query has ended")
    one.ended("orders", "a second time")
    one.close()
    _, end = told(log_file)
    assert end["eventType"] == "FAIL"
    assert end["run"]["facets"]["errorMessage"]["message"] == "the query has ended"


def test_a_reading_that_begins_again_is_the_same_run(log_file: Path) -> None:
    one = opened(READER)
    for _ in range(2):
        one.began("orders", "g", "b:1", [])
    one.close()
    assert [event["eventType"] for event in told(log_file)] == ["START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in told(log_file)}) == 1


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"OPENLINEAGE_NAMESPACE": "prod"}, False),
        ({"OPENLINEAGE_URL": "http://marquez:5000"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "console"}, True),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml", "OPENLINEAGE_DISABLED": "True"}, False),
    ],
)
def test_it_is_on_by_openlineages_own_settings(environ: Mapping[str, str], on: bool) -> None:
    assert is_on(environ) is on


def test_a_missing_client_stops_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(lineage, "import_module", missing)
    assert opened(READER, {"OPENLINEAGE_URL": "http://marquez"}) is None
    assert "install openlineage-python" in caplog.text


def test_a_transport_that_does_not_answer_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    answers = threading.Event()
    taken: list[object] = []

    def emit(event: object) -> None:
        assert answers.wait(10)
        if not taken:
            taken.append(event)
            raise ConnectionError("refused")
        taken.append(event)

    one = Lineage(READER, emit, "default")
    one.began("orders", "g", "b:1", [])
    one.ended("orders")
    assert taken == [], "the caller went on"
    answers.set()
    one.close()
    assert len(taken) == 2
    assert "did not take an event: refused" in caplog.text


def test_what_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(lineage, "MAX_WAITING", 1)
    hold = threading.Event()
    one = Lineage(READER, lambda _: hold.wait(10), "default")
    for number in range(4):
        one.began(f"t{number}", "g", "b:1", [])
    assert "one is left out" in caplog.text
    hold.set()
    one.close()


def test_a_pipeline_says_what_it_writes() -> None:
    @writes_to(lambda settings: [file_dataset(settings["folder"])])
    def build(stream: object, settings: Mapping[str, str]) -> object:
        return stream, settings

    assert outputs_of(build, {"folder": "/data/rows"}) == (Dataset("file", "/data/rows"),)
    assert outputs_of(len, {}) == ()


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_what_a_pipeline_cannot_tell_is_logged(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: object) -> list[Dataset]:
        raise error("no such setting")

    @writes_to(fails)
    def build(stream: object, settings: object) -> object:
        return stream, settings

    assert outputs_of(build, {}) == ()
    assert "what build writes is not told: no such setting" in caplog.text


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        ("db1:5433,db2:5432", "db1:5433,db2:5432"),
        ("db1,db2:6432", "db1:5432,db2:6432"),
        ("[::1],[::2]:6432", "[::1]:5432,[::2]:6432"),
        ("", "localhost:5432"),
    ],
)
def test_a_table_of_several_hosts_is_named_by_all_of_them(hosts: str, named: str) -> None:
    """As OpenLineage's integration of JDBC does."""
    assert table_dataset(f"postgresql://app:a,b:c@{hosts}/shop", "orders").namespace == f"postgres://{named}"


def test_names_are_those_of_openlineage() -> None:
    assert topic_dataset("SASL_SSL://b:9093, a:9092", "t") == Dataset("kafka://a:9092", "t")
    assert table_dataset("postgresql://app@db/shop", "orders") == TABLE
    assert table_dataset("postgresql://app:secret@db:6432/shop", "orders").namespace == "postgres://db:6432"
    assert table_dataset("sqlite:////data/x.sqlite", "orders") == Dataset("file", "/data/x.sqlite#orders")
