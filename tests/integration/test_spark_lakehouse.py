"""Exactly once into tables of a lakehouse through Spark: a hand-off while records flow, and a driver that dies in a commit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_apps.delivery import Delivery
from spark_apps.plain import Output
from tests.integration.agent_site import Site, wait_for
from tests.integration.real_site import Consumer
from tests.integration.test_agent_spark import START_S, SparkProcess
from tests.sink_bench import TableBench, bench_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400), pytest.mark.partitions(2)]


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableBench]:
    made = bench_of(request.param, request, tmp_path / "tables", monkeypatch)
    assert isinstance(made, TableBench)
    for name, value in {"kind": made.kind, "tables": made.folder, "die": tmp_path / "die"}.items():
        monkeypatch.setenv(f"PIPELINE_{name}", str(value))
    yield made
    made.close()


def reached(site: Site, offset: int) -> bool:
    """Both partitions are committed up to here."""
    return [one.offset for one in site.committed().values()] == [offset] * 2


@pytest.mark.parametrize(("bench", "point"), [("delta", "before"), ("iceberg", "after")], indirect=["bench"])
def test_the_table_equals_the_log_after_a_hand_off_and_a_death_in_a_commit(
    bench: TableBench, site: Site, tmp_path: Path, point: str
) -> None:
    spark = SparkProcess(site, "a", tmp_path, "tests.integration.lake_pipeline:build")
    plain = Consumer(site, "b", Output(delivery=Delivery.EXACTLY_ONCE, store=bench.sink(evolve=True)))
    try:
        spark.registered()
        site.produce(300)
        site.assign(dict.fromkeys(range(2), "a"))
        wait_for(lambda: reached(site, 300), "a processes everything", START_S)
        site.produce(300, start=300)
        site.hand_off({1: "b"})
        site.produce(300, start=600)
        wait_for(lambda: reached(site, 900), "both process everything", START_S)
        (tmp_path / "die").write_text(point)
        site.produce(300, start=900)
        wait_for(lambda: spark.process.poll() is not None, "a dies in a commit", START_S)
        site.assign(dict.fromkeys(range(2), "b"), guarded=frozenset([0]))
        wait_for(lambda: reached(site, 1200), "b processes the rest", START_S)
        rows = bench.table().to_pylist()
        found = sorted((row["partition"], row["offset"]) for row in rows)
        assert found == [(p, offset) for p in range(2) for offset in range(1200)]
        assert {row["topic"] for row in rows} == {site.topic}
    finally:
        plain.close()
        spark.close()
