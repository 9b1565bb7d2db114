"""Runs the dead letters of a database through their pipelines again: `coordinator dead-letters replay`.

    python -m spark_apps.replay --cluster c --pipeline orders=module:function --set database=sqlite:////data/shop.sqlite

The records come from the dead letters, in the order of their offsets. With exactly once, one transaction adds the
records' rows and deletes their letters. If a record fails again, its letter stays, with the new error and one more try.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from coordinator_tasks import __version__, logs
from coordinator_tasks.core.errors import CoordinatorError, LookAgain, Refused
from coordinator_tasks.core.model import KafkaRecord, Token
from coordinator_tasks.core.text.name_values import name_values
from coordinator_tasks.core.text.partition_text import counted
from coordinator_tasks.fleet_values import DATABASE
from coordinator_tasks.java import find_java
from coordinator_tasks.settings import of_the_host
from coordinator_tasks.wiring import settings_from_environment
from spark_apps.dead_letters import Letter, LetterPlace, RecordHasProblem, table
from spark_apps.dead_letters.recovery import shown_error
from spark_apps.delivery import SinkStep, Writer
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.main import load_build, pipeline_settings, with_addresses
from spark_apps.pipelines import AtLeastOnce, Build, ExactlyOnce, Output
from spark_apps.pipelines.bad_records import Rerun
from spark_apps.pipelines.outputs import rows_of
from spark_apps.spark import session
from spark_apps.state.stateful import Stateful, stateful_sink

PAGE = 1_000
"""Number of letters that are replayed together."""
FAILED_EXIT, REFUSED_EXIT = 1, 2
REPLAYING = "replay"
"""Stands in place of a consumer's name."""
SCHEMA = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("timestampType", T.IntegerType()),
        T.StructField("headers", T.ArrayType(T.StructType().add("key", T.StringType()).add("value", T.BinaryType()))),
        T.StructField("consumer", T.StringType()),
        T.StructField("incarnation", T.LongType()),
        T.StructField("epoch", T.LongType()),
    ]
)
"""Columns of the source, with headers and the columns of the assignment."""


class LettersChanged(LookAgain):
    """Another process has replayed or dropped the same dead letters meanwhile. Their records were not processed here.

    Remedy: repeat.
    """

    code = "KPC-033"


@dataclass(slots=True)
class Counts:
    """Numbers of letters that were replayed, and of letters that failed again."""

    passed: int = 0
    failed: int = 0


class Replay:
    """The replay of one topic's letters. `database`: the database with the letters."""

    def __init__(self, spark: SparkSession, topic: str, build: Build, settings: dict[str, str]) -> None:
        self._spark = spark
        self._rerun = Rerun(topic, lambda frame: build(frame, settings), SCHEMA, REPLAYING)
        empty = self._over(())
        self._sink = _sink_of(empty)
        if self._sink is not None:
            self.database = self._sink.database
        elif isinstance(empty, AtLeastOnce) and (url := empty.on_error.overridden(settings).database):
            self.database = Database(url)
        else:
            raise Refused(
                f"the pipeline of topic {topic} has no database of dead letters: only ExactlyOnce and Stateful with a DatabaseSink, "
                "and AtLeastOnce with OnError(database=...), can replay"
            )

    def run(self, letters: Sequence[Letter]) -> Counts:
        """Replay letters of one topic id, each once."""
        counts = Counts()
        if letters:
            self._halved(letters, counts)
        return counts

    def _halved(self, letters: Sequence[Letter], counts: Counts) -> None:
        try:
            self._attempt(letters)
            counts.passed += len(letters)
        except Exception as error:
            if not self.database.blames_record(error):
                raise
            if len(letters) == 1:
                self._keep(letters[0], error)
                counts.failed += 1
                return
            middle = len(letters) // 2
            self._halved(letters[:middle], counts)
            self._halved(letters[middle:], counts)

    def _attempt(self, letters: Sequence[Letter]) -> None:
        output = self._over(letters)
        if isinstance(output, AtLeastOnce):
            output.each_batch(output.rows, 0)
            with self.database.transaction() as cursor:
                table.delete(cursor, [letter.place for letter in letters])
            return
        rows, sink = rows_of(output), _sink_of(output)
        if sink is None:
            raise Refused("the pipeline has returned another output than before")
        place = letters[0].place
        steps = {
            letter.place.partition: SinkStep(Token(0, 0), letter.place.offset, letter.place.offset + 1)
            for letter in letters
        }

        def delete(cursor: Cursor) -> None:
            if table.delete(cursor, [letter.place for letter in letters]) != len(letters):
                raise LettersChanged(
                    f"dead letters of topic {place.topic} are gone: another process replays or drops the same; repeat"
                )

        try:
            writer = Writer(place.cluster, place.topic, place.topic_id, REPLAYING)
            sink.add(writer, steps, _without_problems(output, rows), delete)
        finally:
            sink.close()

    def _over(self, letters: Sequence[Letter]) -> Output:
        records = {
            (one.place.partition, one.place.offset): KafkaRecord(
                one.key, one.value, one.headers, one.timestamp_ms, one.timestamp_type
            )
            for one in letters
        }
        return self._rerun.over(self._spark, records, {})

    def _keep(self, letter: Letter, error: Exception) -> None:
        kind, text = shown_error(error)
        failed = replace(
            letter,
            kind=kind,
            error=text,
            release=__version__,
            consumer=REPLAYING,
            failed_at_ms=int(time.time() * 1_000),
            tries=letter.tries + 1,
        )
        with self.database.transaction() as cursor:
            if table.delete(cursor, [letter.place]):
                table.put_letters(cursor, [failed])
        print(f"partition {letter.place.partition}, offset {letter.place.offset} failed again: {kind}: {text[:200]}")


def _without_problems(output: Output, rows: pa.Table) -> pa.Table:
    """Return the rows without the problem column; raises `RecordHasProblem` for a row with a problem."""
    column = output.on_error.problem_column if isinstance(output, ExactlyOnce | Stateful) else ""
    if not column:
        return rows
    problem = next((found for found in rows[column].to_pylist() if found is not None), None)
    if problem is not None:
        raise RecordHasProblem(str(problem))
    return rows.drop_columns([column])


def _sink_of(output: Output) -> DatabaseSink | None:
    if isinstance(output, Stateful):
        return stateful_sink(output)
    return output.sink if isinstance(output, ExactlyOnce) and isinstance(output.sink, DatabaseSink) else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 = all letters replayed, 1 = some failed again, 2 = refused."""
    parser = argparse.ArgumentParser(prog="coordinator dead-letters replay", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--pipeline", action="append", default=[], required=True, help="topic=module:function; repeatable"
    )
    parser.add_argument("--set", action="append", default=[], help="name=value for the pipelines; repeatable")
    parser.add_argument("--cluster", default=os.environ.get("COORDINATOR_CLUSTER", ""), help="the cluster of consumers")
    parser.add_argument("--partition", type=int, help="only of this partition")
    parser.add_argument("--offset", type=int, help="only of this offset")
    given = parser.parse_args(arguments)
    try:
        counts = _replay(given)
    except CoordinatorError as error:
        logs.say_error(error.told)
        return REFUSED_EXIT
    print(f"{counted(counts.passed, 'dead letter')} replayed, {counts.failed} failed again")
    return FAILED_EXIT if counts.failed else 0


def _replay(given: argparse.Namespace) -> Counts:
    if not given.cluster:
        raise Refused("no cluster is given; name the cluster of the consumers with --cluster or COORDINATOR_CLUSTER")
    pipelines = {topic: load_build(place) for topic, place in name_values(given.pipeline, "--pipeline").items()}
    settings = _settings(given.set)
    numbers = {name: value for name in ("partition", "offset") if (value := getattr(given, name)) is not None}
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = session.configure(SparkSession.builder.master("local[2]").appName(REPLAYING)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    total = Counts()
    try:
        for topic, build in pipelines.items():
            replayed = Replay(spark, topic, build, settings)
            for page in pages_of(replayed.database, {"cluster": given.cluster, "topic": topic, **numbers}):
                _replay_page(replayed, page, total)
    finally:
        spark.stop()
    return total


def _settings(given: Sequence[str]) -> dict[str, str]:
    """Return the pipelines' settings. A database's name needs the environment's address, or the whole settings."""
    settings, host = pipeline_settings(given), of_the_host()
    name = settings.get(DATABASE, "")
    if not name or "://" in name or name in host["databases"]:
        return with_addresses(settings, host["databases"], host["registries"])
    site = settings_from_environment(os.environ)
    return with_addresses(settings, site.databases, site.registries)


def pages_of(database: Database, where: Mapping[str, Any]) -> Iterator[table.Page]:
    """Yield all dead letters in pages. A letter that fails again is not repeated."""
    after: LetterPlace | None = None
    while True:
        with database.transaction() as cursor:
            if not cursor.has_table(table.TABLE):
                return
            page = table.find(cursor, PAGE, after, **where)
        yield page
        after = page.last
        if after is None:
            return


def _replay_page(replayed: Replay, page: table.Page, total: Counts) -> None:
    for topic_id in dict.fromkeys(letter.place.topic_id for letter in page.letters):
        counts = replayed.run([one for one in page.letters if one.place.topic_id == topic_id and one.is_whole])
        total.passed += counts.passed
        total.failed += counts.failed
    for letter in page.letters:
        if not letter.is_whole:
            total.failed += 1
            print(
                f"partition {letter.place.partition}, offset {letter.place.offset} has no content: {letter.error[-80:]}"
            )
    for error in page.unreadable:
        total.failed += 1
        print(f"{error} [{error.code}]: {error.remedy}")


if __name__ == "__main__":
    sys.exit(main())
