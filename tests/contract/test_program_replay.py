"""Dead letters of a consumer without Spark are processed again, on each database."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_apps.dead_letters import OnError, table
from spark_apps.dead_letters.replaying import Counts, LettersChanged
from spark_apps.delivery import Delivery
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.plain import Output, Record
from spark_apps.replay_program import OutputReplay
from tests import letters_program
from tests.letters_bench import ROWS, Place, Stage

BAD = 1_000
EVERY = [(partition, offset) for partition in range(2) for offset in range(10)]


class Replayed(Stage):
    """A consumer `a` whose records have all become dead letters. Now only the records in `bad` fail."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.bad: set[Place] = set()
        self.topic = self.writer.topic
        self.claim(0, 1)
        self.write(dict.fromkeys(EVERY, BAD))
        self.stores = 0

    def again(self, cursor: Cursor, rows: pa.Table) -> None:
        self.stores += 1
        found = [(row["topic"], row["partition"], row["offset"]) for row in rows.to_pylist()]
        ROWS.append(cursor, [(*place, BAD if place[1:] in self.bad else 1) for place in found])
        self.during(rows)

    def once(self) -> Output:
        sink = DatabaseSink(Database(self.url), ROWS.prepare, self.again)
        return Output(delivery=Delivery.EXACTLY_ONCE, store=sink, on_error=OnError("dead-letter"))

    def at_least_once(self) -> Output:
        def sink(topic: str, records: Sequence[Record]) -> None:
            if any((one.partition, message.offset()) in self.bad for one, message in records):
                raise ValueError("still bad")
            with closing(Database(self.url)) as database, database.transaction() as cursor:
                ROWS.write(cursor, [(topic, one.partition, message.offset(), 1) for one, message in records])
            self.during(pa.table({}))

        return Output(sink, on_error=OnError("dead-letter", database=self.url))

    def replay(self, output: Output) -> Counts:
        counts = Counts()
        OutputReplay(self.topic, output).run_pages({"cluster": self.cluster, "topic": self.topic}, counts)
        return counts


@pytest.fixture
def stage(url: str) -> Iterator[Replayed]:
    with closing(Replayed(url)) as made:
        assert (made.places(), made.stored()) == (EVERY, [])
        yield made


@pytest.mark.parametrize("kind", ["once", "at_least_once"])
def test_letters_become_rows_and_those_that_fail_again_stay_with_the_new_error(stage: Replayed, kind: str) -> None:
    stage.bad = {(0, 3), (1, 8)}
    output, good = getattr(stage, kind)(), [place for place in EVERY if place not in ((0, 3), (1, 8))]
    counts = stage.replay(output)
    assert (counts.passed, counts.failed, stage.stored()) == (18, 2, good)
    left = stage.letters()
    assert [(one.place.partition, one.place.offset, one.tries, one.consumer) for one in left] == [
        (0, 3, 2, "replay"),
        (1, 8, 2, "replay"),
    ]
    assert (left[0].value, left[0].headers) == (b"0-3", (("h", b"\0"), ("n", None)))
    assert "number" in left[0].error or "still bad" in left[0].error
    stage.bad = {(0, 3)}
    counts = stage.replay(output)
    assert (counts.passed, counts.failed, stage.places()) == (1, 1, [(0, 3)])
    assert stage.stored() == [place for place in EVERY if place != (0, 3)]
    assert (stage.position(0), stage.position(1)) == (10, 10), "the consumer's positions stay"


@pytest.mark.parametrize("kind", ["once", "at_least_once"])
def test_an_error_that_is_no_records_fault_leaves_all_letters(stage: Replayed, kind: str) -> None:
    def full(_: pa.Table) -> None:
        raise OSError(28, "No space left on device")

    stage.during = full
    with pytest.raises(OSError, match="No space left"):
        stage.replay(getattr(stage, kind)())
    assert (stage.places(), {one.tries for one in stage.letters()}) == (EVERY, {1})
    assert stage.stored() == ([] if kind == "once" else EVERY), "a function's rows may come twice, and none is lost"
    stage.during = lambda _: None
    assert stage.replay(getattr(stage, kind)()).passed == 20
    assert (stage.places(), stage.stored()) == ([], EVERY)


def test_the_slower_one_of_two_replays_changes_nothing(stage: Replayed) -> None:
    told: list[BaseException | Counts] = []
    letters = stage.letters()

    def second() -> None:
        other = Output(
            delivery=Delivery.EXACTLY_ONCE,
            store=DatabaseSink(Database(stage.url), ROWS.prepare, stage._store),
        )
        try:
            told.append(OutputReplay(stage.topic, other).run(letters))
        except LettersChanged as error:
            told.append(error)

    thread = threading.Thread(target=second)

    def meanwhile(_: pa.Table) -> None:
        stage.during = lambda _: None
        thread.start()

    stage.during = meanwhile
    assert stage.replay(stage.once()).passed == 20
    thread.join(60)
    (error,) = told
    assert isinstance(error, LettersChanged)
    assert (error.code, stage.stored(), stage.places()) == ("KPC-033", EVERY, [])


def test_letters_of_another_cluster_and_of_another_partition_stay(stage: Replayed) -> None:
    (first, *_) = stage.letters()
    others = [replace(first, place=replace(first.place, cluster=f"{stage.cluster}-2", offset=at)) for at in range(3)]
    with Database(stage.url).transaction() as cursor:
        table.put_letters(cursor, others)
    where = {"cluster": stage.cluster, "topic": stage.topic, "partition": 0}
    counts = Counts()
    OutputReplay(stage.topic, stage.once()).run_pages(where, counts)
    assert (counts.passed, stage.places()) == (10, [place for place in EVERY if place[0] == 1])
    with Database(stage.url).transaction() as cursor:
        assert table.find(cursor, 100, cluster=f"{stage.cluster}-2").letters == others


def test_a_function_gets_records_with_the_methods_of_the_kafka_clients_messages(stage: Replayed) -> None:
    seen: list[tuple[Any, ...]] = []

    def sink(topic: str, records: Sequence[Record]) -> None:
        for one, message in records:
            assert (topic, message.topic(), message.error()) == (stage.topic, stage.topic, None)
            assert (message.latency(), message.leader_epoch()) == (None, None)
            assert (one.start, one.end, one.partition) == (message.offset(), one.start + 1, message.partition())
            seen.append((message.key(), message.value(), message.headers(), message.timestamp(), len(message)))

    stage.replay(Output(sink, on_error=OnError("dead-letter", database=stage.url)))
    assert seen[11] == (b"k", b"1-1", [("h", b"\0"), ("n", None)], (1, 1_001), 3)


def test_a_process_that_dies_in_its_transaction_loses_nothing_and_doubles_nothing(
    stage: Replayed, tmp_path: Path
) -> None:
    letters = [replace(one, value=b"one") for one in stage.letters()]
    with Database(stage.url).transaction() as cursor:
        letters_program.AMOUNTS.prepare(cursor)
        table.put_letters(cursor, letters)

    def run(*words: str) -> int:
        chosen = ("--cluster", stage.cluster, "--topic", stage.topic)
        program = ("--program", letters_program.__file__, stage.topic, stage.url, *words)
        command = [sys.executable, "-m", "spark_apps.replay", *chosen, *program]
        given = {"CLUSTER": stage.cluster, "ZOOKEEPER": "nowhere:1", "KAFKA_BOOTSTRAP_SERVERS": "nowhere:1"}
        environ = {**os.environ, **{f"COORDINATOR_{name}": value for name, value in given.items()}}
        return subprocess.run(command, env=environ, cwd=tmp_path, timeout=120, check=False).returncode

    def rows() -> list[tuple[Any, ...]]:
        statement = 'SELECT "partition", "offset" FROM amounts WHERE topic = ? ORDER BY 1, 2'
        return stage.query(statement, stage.topic)

    assert (run("words", "half"), rows(), stage.places()) == (9, [], EVERY)
    assert (run("words"), rows(), stage.places()) == (0, EVERY, [])
