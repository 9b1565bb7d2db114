"""A replay of dead letters through their pipelines, in Spark."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

from coordinator_tasks.core.errors import Refused
from spark_apps import AtLeastOnce, ExactlyOnce, OnError, replay
from spark_apps.dead_letters import Letter, table
from spark_apps.delivery import Writer
from spark_apps.delivery.database import Cursor, Database, RowSink
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.pipelines.letter_replay import SCHEMA, PipelineReplay
from spark_apps.state.stateful import stateful_sink
from tests.integration import stateful_pipeline
from tests.integration.spark_submit import local_spark
from tests.letters_bench import TOKEN, letter

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
TOPIC = "orders"
TEXTS = RowSink("replayed", {"text": "TEXT", "trace": "TEXT", "minute": "TEXT"})
TEXT = {
    "text": "CAST(value AS STRING)",
    "trace": "CAST(headers[0].value AS STRING)",
    "minute": "CAST(timestamp AS STRING)",
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark("local[1]", {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}, "OFF") as one:
        yield one


def rows_of(stream: DataFrame) -> DataFrame:
    @F.udf("binary")
    def checked(value: bytes) -> bytes:
        if value == b"bad":
            raise ValueError("still bad")
        return value

    rows = stream.withColumn("value", checked("value"))
    return rows.selectExpr("topic", "partition", "offset", *(f"{text} AS {name}" for name, text in TEXT.items()))


def build(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    def store(cursor: Cursor, rows: Any) -> None:
        TEXTS.append(cursor, [[row[name] for name in TEXTS.columns] for row in rows.to_pylist()])

    return ExactlyOnce(rows_of(stream), DatabaseSink(Database(settings["database"]), TEXTS.prepare, store))


def at_least_once(stream: DataFrame, settings: Mapping[str, str]) -> AtLeastOnce:
    database = Database(settings["database"])

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.toArrow().to_pylist()
        with database.transaction() as cursor:
            TEXTS.write(cursor, [[row[name] for name in TEXTS.columns] for row in rows])

    return AtLeastOnce(rows_of(stream), write, OnError("dead-letter"))


class Stage:
    """A database with dead letters of the topic."""

    def __init__(self, url: str) -> None:
        self.url = url
        with Database(url).transaction() as cursor:
            TEXTS.prepare(cursor)
        DatabaseSink(Database(url), TEXTS.prepare, lambda *_: None).claim(
            Writer("main", TOPIC, "id-1", "a"), {0: TOKEN, 1: TOKEN}, {}
        )

    def put(self, *values: bytes) -> list[Letter]:
        letters = [
            replace(letter(TOPIC, at % 2, at), value=value, key=b"k%d" % (at % 3)) for at, value in enumerate(values)
        ]
        with Database(self.url).transaction() as cursor:
            table.prepare(cursor)
            table.put_letters(cursor, letters)
        return self.letters()

    def letters(self) -> list[Letter]:
        with Database(self.url).transaction() as cursor:
            return table.find(cursor, 1_000).letters

    def stored(self) -> list[tuple[Any, ...]]:
        with Database(self.url).transaction() as cursor:
            return cursor.query('SELECT "partition", "offset", text, trace, minute FROM replayed ORDER BY 1, 2')


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(f"sqlite:///{tmp_path}/rows.sqlite")


@pytest.mark.parametrize("pipeline", [build, at_least_once])
def test_letters_become_rows_and_those_that_fail_again_stay_with_the_new_error(
    spark: SparkSession, stage: Stage, pipeline: Any
) -> None:
    letters = stage.put(*(b"bad" if at in (3, 8) else b"text" for at in range(20)))
    counts = PipelineReplay(spark, TOPIC, pipeline, {"database": stage.url}).run(letters)
    assert (counts.passed, counts.failed) == (18, 2)
    left = stage.letters()
    assert sorted((one.place.partition, one.place.offset, one.tries) for one in left) == [(0, 8, 2), (1, 3, 2)]
    assert {(one.kind, one.consumer, one.value) for one in left} == {("PythonException", "replay", b"bad")}
    assert "still bad" in left[0].error
    rows = stage.stored()
    assert [offset for _, offset, *_ in rows] == [
        *(at for at in range(0, 20, 2) if at != 8),
        *(at for at in range(1, 20, 2) if at != 3),
    ]
    assert rows[0] == (0, 0, "text", "1", "2023-11-14 22:13:20")
    again = PipelineReplay(spark, TOPIC, pipeline, {"database": stage.url}).run(left)
    assert (again.passed, again.failed, {one.tries for one in stage.letters()}) == (0, 2, {3})
    assert len(stage.stored()) == 18


def test_letters_reach_the_state_of_their_keys(spark: SparkSession, stage: Stage, tmp_path: Path) -> None:
    settings = {"database": stage.url, "die": str(tmp_path / "die")}
    letters = stage.put(*[b"x"] * 6)
    sink = stateful_sink(stateful_pipeline.build(replay_frame(spark), settings))
    sink.claim(Writer("main", TOPIC, "id-1", "a"), {0: TOKEN, 1: TOKEN}, {})
    counts = PipelineReplay(spark, TOPIC, stateful_pipeline.build, settings).run(letters)
    assert (counts.passed, counts.failed, stage.letters()) == (6, 0, [])
    with Database(stage.url).transaction() as cursor:
        found = cursor.query(f"SELECT key, count FROM {stateful_pipeline.TABLE} ORDER BY key")
    assert [key for key, _ in found] == ["k0", "k1", "k2"]


def replay_frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


def test_a_pipeline_without_a_database_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Refused, match="has no database of dead letters: only"):
        PipelineReplay(spark, TOPIC, lambda stream, _: AtLeastOnce(stream, lambda *_: None), {})


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COORDINATOR_CLUSTER", raising=False)
    assert replay.main(["--pipeline", "orders=tests.integration.test_replay:build"]) == 2
    assert "no cluster is given" in capsys.readouterr().err
    assert replay.main(["--pipeline", "orders=tests.integration.test_replay:none", "--cluster", "c"]) == 2
    assert "there is no pipeline at" in capsys.readouterr().err


def of_texts(stream: DataFrame, settings: Mapping[str, str]) -> ExactlyOnce:
    """Report a problem of each record that is no text; the columns of the sink's rows are those of the table."""
    rows = rows_of(stream).withColumn("problem", F.expr("if(text = 'no text', 'no text', NULL)"))

    def store(cursor: Cursor, given: Any) -> None:
        cursor.merge(TEXTS.table, given.column_names, [list(row.values()) for row in given.to_pylist()])

    sink = DatabaseSink(Database(settings["database"]), TEXTS.prepare, store)
    return ExactlyOnce(rows, sink, on_error=OnError("dead-letter", problem_column="problem"))


def test_a_record_with_a_problem_stays_and_the_sink_gets_the_others_without_the_column(
    spark: SparkSession, stage: Stage
) -> None:
    letters = stage.put(b"text", b"no text", b"text")
    counts = PipelineReplay(spark, TOPIC, of_texts, {"database": stage.url}).run(letters)
    assert (counts.passed, counts.failed, len(stage.stored())) == (2, 1, 2)
    (left,) = stage.letters()
    assert (left.kind, left.error, left.tries) == ("RecordHasProblem", "no text", 2)
