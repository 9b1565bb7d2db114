"""A REST catalog of Iceberg that is away, dies in a commit, or does not answer: nothing is lost and nothing is doubled."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_apps.delivery import PositionMoved, SinkStep, SinkUnavailable
from spark_apps.lakehouse import iceberg
from tests.rest_catalog import RestCatalogServer
from tests.sink_bench import NEW, OLD, REST_CATALOG, IcebergBench, patient_claim, rows_of
from tests.table_writer import WRITER

BATCH = 5
LIMIT_S = 60.0
AWAY = "Iceberg table shop.texts does not answer"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalogServer]:
    made = RestCatalogServer()
    monkeypatch.setenv(REST_CATALOG, made.url)
    yield made
    made.stop()


@pytest.fixture
def bench(server: RestCatalogServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IcebergBench]:
    made = IcebergBench("iceberg-rest", tmp_path, monkeypatch)
    yield made
    made.close()


class Consumer:
    """Writes batch after batch, and repeats a batch that failed."""

    def __init__(self, bench: IcebergBench) -> None:
        self.sink = bench.sinks["a"]
        self.batches = 0
        self.errors: list[str] = []
        self._ended = threading.Event()
        patient_claim(self.sink, WRITER, {0: OLD})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> int:
        """Return the offset that was reached."""
        self._ended.set()
        self._thread.join()
        return self.batches * BATCH

    def _run(self) -> None:
        while not self._ended.is_set():
            steps = {0: SinkStep(OLD, self.batches * BATCH, (self.batches + 1) * BATCH)}
            try:
                assert self.sink.write(WRITER, steps, rows_of(WRITER, steps)) == {}
                self.batches += 1
            except SinkUnavailable as error:
                self.errors.append(str(error))
                self._ended.wait(0.01)


def grows(number: Callable[[], int], by: int) -> None:
    wanted, until = number() + by, time.monotonic() + LIMIT_S
    while number() < wanted:
        assert time.monotonic() < until
        time.sleep(0.02)


def offsets(bench: IcebergBench) -> list[int]:
    return sorted(bench.table()["offset"].to_pylist())


def test_a_catalog_that_goes_away_between_commits_loses_and_doubles_nothing(
    bench: IcebergBench, server: RestCatalogServer
) -> None:
    consumer = Consumer(bench)
    grows(lambda: consumer.batches, 3)
    for _ in range(2):
        server.stop()
        grows(lambda: len(consumer.errors), 3)
        with pytest.raises(SinkUnavailable, match=AWAY):
            bench.sinks["b"].claim(WRITER, {1: OLD}, {})
        server.start()
        grows(lambda: consumer.batches, 3)
    reached = consumer.end()
    assert all(error.startswith(AWAY) and "\n" not in error for error in consumer.errors)
    assert offsets(bench) == list(range(reached))
    assert patient_claim(bench.sinks["b"], WRITER, {0: NEW})[0].offset == reached


def test_a_commit_whose_answer_is_lost_is_not_repeated(bench: IcebergBench, server: RestCatalogServer) -> None:
    sink, steps = bench.sinks["a"], {0: SinkStep(OLD, 0, BATCH)}
    patient_claim(sink, WRITER, {0: OLD})
    server.lost_answers = 1
    with pytest.raises(SinkUnavailable, match=AWAY):
        sink.write(WRITER, steps, rows_of(WRITER, steps))
    with pytest.raises(PositionMoved, match=f"at offset {BATCH} of epoch 3, and the batch begins at 0"):
        sink.write(WRITER, steps, rows_of(WRITER, steps))
    assert patient_claim(sink, WRITER, {0: OLD})[0].offset == BATCH
    assert offsets(bench) == list(range(BATCH))


def test_a_catalog_that_does_not_answer_ends_the_batch(
    bench: IcebergBench, server: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = bench.sinks["a"]
    patient_claim(sink, WRITER, {0: OLD})
    first, second = ({0: SinkStep(OLD, start, start + BATCH)} for start in (0, BATCH))
    assert sink.write(WRITER, first, rows_of(WRITER, first)) == {}
    server.stop()
    limit_s = iceberg.ANSWER_LIMIT_S
    monkeypatch.setattr(iceberg, "ANSWER_LIMIT_S", 0.2)
    with socket.create_server(server.address), pytest.raises(SinkUnavailable, match=f"{AWAY}.*Read timed out"):
        sink.write(WRITER, second, rows_of(WRITER, second))
    monkeypatch.setattr(iceberg, "ANSWER_LIMIT_S", limit_s)
    server.start()
    assert sink.write(WRITER, second, rows_of(WRITER, second)) == {}
    assert offsets(bench) == list(range(2 * BATCH))
