"""Processes dead letters again by a consumer without Spark.

The consumer's own program runs, up to `PlainConsumer.run`: there the topic's letters are replayed, and neither
ZooKeeper nor Kafka is asked for anything.
"""

import runpy
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.machine.presence import wants
from spark_apps.agent.process import consumer_process
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.dead_letters import Letter
from spark_apps.dead_letters.replaying import Counts, LetterReplay, add_and_delete
from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.plain import Output, Record, table_of
from spark_apps.records.batches import Range


class LetterMessage:
    """The record of a dead letter, with the methods of a message from the Kafka client."""

    def __init__(self, letter: Letter) -> None:
        self._letter = letter

    def topic(self) -> str:
        return self._letter.place.topic

    def partition(self) -> int:
        return self._letter.place.partition

    def offset(self) -> int:
        return self._letter.place.offset

    def key(self) -> bytes | None:
        return self._letter.key

    def value(self) -> bytes | None:
        return self._letter.value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self._letter.headers) or None

    def timestamp(self) -> tuple[int, int]:
        """Return type and time. The client's numbers of the types begin at 0 = none."""
        return self._letter.timestamp_type + 1, self._letter.timestamp_ms

    def error(self) -> None:
        return None

    def latency(self) -> None:
        """Return nothing: the record was not fetched."""

    def leader_epoch(self) -> None:
        """Return nothing: the record was not fetched."""

    def __len__(self) -> int:
        return len(self._letter.value or b"")


class OutputReplay(LetterReplay):
    """The replay of one topic's letters by a plain consumer's output."""

    def __init__(self, topic: str, output: Output) -> None:
        self._topic, self._output = topic, output
        if isinstance(output.store, DatabaseSink):
            self.database = output.store.database
        elif output.store is None and output.on_error.database:
            self.database = Database(output.on_error.database)
        else:
            raise Refused(
                f"the consumer of topic {topic} has no database of dead letters: only an Output with a DatabaseSink, or with a "
                'function and OnError("dead-letter", database=...), can replay'
            )

    def attempt(self, letters: Sequence[Letter]) -> None:
        records = [_record(letter) for letter in letters]
        if isinstance(self._output.store, DatabaseSink):
            add_and_delete(self._output.store, table_of(self._topic, records), letters)
        elif self._output.sink is not None:
            self._output.sink(self._topic, records)
            self.delete(letters)


def _record(letter: Letter) -> Record:
    offset = letter.place.offset
    return Range(letter.place.partition, offset, offset + 1, 0), cast("Any", LetterMessage(letter))


class _StandIn:
    """Replays the letters in place of the program's first consumer of the topic."""

    def __init__(self, cluster: str, topic: str, where: Mapping[str, Any]) -> None:
        self._cluster, self._topic = cluster, topic
        self._where = {"cluster": cluster, "topic": topic, **where}
        self._first = threading.Lock()
        self.counts: Counts | None = None
        self.error: Exception | None = None

    def __call__(self, settings: ConsumerSettings, output: object) -> int:
        """Return the exit code of `PlainConsumer.run`."""
        if not wants(settings.topics, self._topic) or not self._first.acquire(blocking=False):
            return 0
        self.counts = Counts()
        try:
            self._replay(settings, output)
        except Exception as error:  # noqa: BLE001 - raised when the program has ended
            self.error = error
        return int(self.error is not None or self.counts.failed > 0)

    def _replay(self, settings: ConsumerSettings, output: object) -> None:
        if settings.site.cluster != self._cluster:
            raise Refused(
                f"the program's consumer is of cluster {settings.site.cluster!r}, and the dead letters of cluster {self._cluster!r} "
                "are to be replayed; give the same cluster to both"
            )
        if isinstance(output, Output) and self.counts is not None:
            OutputReplay(self._topic, output).run_pages(self._where, self.counts)


def by_program(program: Sequence[str], cluster: str, topic: str, where: Mapping[str, Any]) -> Counts:
    """Replay a topic's letters. `program`: what follows `python` in the command line of the consumer.

    Raises `Refused` if the program fails, or ends without a plain consumer of the topic.
    """
    stand_in = _StandIn(cluster, topic, where)
    is_module = program[:1] == ["-m"]
    place = next(iter(program[is_module:]), "")
    if not place or not (is_module or Path(place).is_file()):
        raise Refused(
            f"there is no program {place!r}; write what follows `python` in the consumer's command line: file.py or -m module, "
            "and then the arguments"
        )
    with _standing_in(stand_in, [place, *program[is_module + 1 :]]):
        try:
            if is_module:
                runpy.run_module(place, run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(Path(place).resolve().parent))
                runpy.run_path(place, run_name="__main__")
        except SystemExit:
            pass
        except CoordinatorError:
            raise
        except Exception as error:
            if stand_in.error is None:
                traceback.print_exc()
                raise Refused(f"the program {place} has failed: {type(error).__name__}: {error}; correct it") from error
    if stand_in.error is not None:
        raise stand_in.error
    if stand_in.counts is None:
        raise Refused(
            f"the program {place} has ended without a PlainConsumer of topic {topic}: nothing was replayed; name the program that "
            "consumes the topic, with its arguments"
        )
    return stand_in.counts


@contextmanager
def _standing_in(stand_in: _StandIn, argv: list[str]) -> Iterator[None]:
    """Let `stand_in` run in place of this process's consumers, under the program's command line."""
    former, path = sys.argv, [*sys.path]
    consumer_process.stand_in, sys.argv = stand_in, argv
    try:
        yield
    finally:
        consumer_process.stand_in, sys.argv, sys.path[:] = None, former, path
