"""Dead letters through Kafka and Spark: poison among many records."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_apps.dead_letters import Letter, OnError, table
from spark_apps.delivery.database import Database
from spark_apps.plain import Output, Record
from tests.integration.agent_site import Site, wait_for
from tests.integration.letters_pipeline import POISON
from tests.integration.real_site import Consumer
from tests.integration.test_agent_spark import SparkProcess
from tests.postgres_server import sink_url

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900), pytest.mark.partitions(2)]
PIPELINE = "tests.integration.letters_pipeline"
MANY = 10_000
PASS_S = 400.0


class Stage:
    """A topic of two partitions, and an application whose pipeline does not bear poison."""

    def __init__(self, site: Site, url: str, folder: Path) -> None:
        self.site, self.url, self.folder = site, url, folder
        self.sent: dict[tuple[int, int], bytes] = {}
        self.spark: SparkProcess | None = None

    def start(self, build: str) -> None:
        self.spark = SparkProcess(self.site, "a", self.folder, f"{PIPELINE}:{build}")
        self.spark.registered()
        self.site.assign(dict.fromkeys(range(2), "a"))

    def produce(self, partition: int, *values: bytes) -> None:
        first = sum(1 for p, _ in self.sent if p == partition)
        for number, value in enumerate(values):
            self.site.producer.produce(self.site.topic, value, b"k", partition=partition, headers=[("trace", b"1")])
            self.sent[partition, first + number] = value
        self.site.producer.flush()

    def passes(self) -> float:
        ends = {p: sum(1 for q, _ in self.sent if p == q) for p in range(2)}

        def done() -> bool:
            if self.spark is not None:
                assert self.spark.process.poll() is None, self.spark.log.read_text()[-3000:]
            found = self.site.committed()
            return all(p in found and found[p].offset == end for p, end in ends.items())

        return wait_for(done, f"partitions {ends} pass", PASS_S)

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        database = Database(self.url)
        with database.transaction() as cursor:
            found = cursor.query(statement, values)
        database.close()
        return found

    def stored(self) -> list[tuple[int, int]]:
        return self.query('SELECT "partition", "offset" FROM numbers WHERE topic = ? ORDER BY 1, 2', self.site.topic)

    def letters(self) -> dict[tuple[int, int], Letter]:
        database = Database(self.url)
        with database.transaction() as cursor:
            found = table.find(cursor, MANY, topic=self.site.topic).letters if cursor.has_table(table.TABLE) else []
        database.close()
        return {(one.place.partition, one.place.offset): one for one in found}

    def poison(self) -> list[tuple[int, int]]:
        return sorted(place for place, value in self.sent.items() if value in POISON.values())

    def close(self) -> None:
        if self.spark is not None:
            self.spark.close()


@pytest.fixture
def stage(
    request: pytest.FixtureRequest, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    url = sink_url(request, tmp_path)
    monkeypatch.setenv("PIPELINE_database", url)
    made = Stage(site, url, tmp_path)
    yield made
    made.close()


def numbers(count: int, poison: dict[int, str]) -> list[bytes]:
    return [POISON[poison[at]] if at in poison else b"%d" % (at % 1_000) for at in range(count)]


@pytest.mark.parametrize("stage", ["postgresql"], indirect=True)
def test_poison_among_many_records_is_found_wherever_the_pipeline_fails(stage: Stage) -> None:
    stage.start("build")
    stage.produce(0, *numbers(MANY, {17: "function", 4_000: "table", 9_999: "cast"}))
    stage.produce(1, *numbers(500, {}))
    print(f"\n{MANY:,} records with three bad ones: {stage.passes():.1f} s")
    found = stage.letters()
    assert sorted(found) == stage.poison()
    assert stage.stored() == [place for place in sorted(stage.sent) if place not in found]
    letter = found[0, 17]
    assert (letter.key, letter.value, letter.headers) == (b"k", POISON["function"], (("trace", b"1"),))
    assert [found[0, offset].stage for offset in (17, 4_000, 9_999)] == ["pipeline", "store", "pipeline"]
    assert "this function does not bear poison" in letter.error
    assert stage.site.topic_status("a").failures == ()


@pytest.mark.parametrize("build", ["staged", "at_least_once"])
def test_poison_for_a_stage_and_for_a_function_of_batches(stage: Stage, build: str) -> None:
    stage.start(build)
    stage.produce(0, *numbers(1_000, {17: "function", 500: "table"}))
    stage.produce(1, b"1", POISON["function"])
    print(f"\n1,000 records with three bad ones, {build}: {stage.passes():.1f} s")
    assert sorted(stage.letters()) == stage.poison()
    assert stage.stored() == [place for place in sorted(stage.sent) if place not in stage.poison()]


def test_a_plain_consumer_keeps_dead_letters_of_its_function_and_of_its_store(stage: Stage) -> None:
    taken: list[tuple[int, int]] = []

    def sink(_: str, records: Sequence[Record]) -> None:
        if any(message.value() == POISON["function"] for _, message in records):
            raise ValueError("this sink does not bear poison")
        taken.extend((one.partition, message.offset() or 0) for one, message in records)

    policy = OnError("dead-letter", share=1.0, database=stage.url)
    plain = Consumer(stage.site, "a", Output(sink, on_error=policy))
    stage.site.assign(dict.fromkeys(range(2), "a"))
    stage.produce(0, *numbers(200, dict.fromkeys((0, 7, 199), "function")))
    stage.produce(1, *numbers(50, {}))
    stage.passes()
    assert sorted(stage.letters()) == stage.poison()
    assert sorted(set(taken)) == [place for place in sorted(stage.sent) if place not in stage.poison()]
    assert (len(taken), stage.letters()[0, 7].value) == (247, POISON["function"])
    assert plain.close() == 0
