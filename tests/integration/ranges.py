"""Reads offset ranges by the reader in the JVM, without Spark: a Java process answers one request after the other."""

import base64
import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_tasks.devstack.embedded.jars import pyspark_home
from coordinator_tasks.devstack.java_compiler import compile_sources, provided_jars
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java
from spark_apps.jvm import jars
from spark_apps.records.batches import Range

PROGRAM = Path(__file__).parents[1] / "jvm" / "ReadRanges.java"
OPENED = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
LOGGING = ("-Dorg.apache.logging.log4j.level=WARN",)
EVERYTHING = 2**31 - 1


class Row(NamedTuple):
    """A row of the source; `headers` and the assignment's columns only if included."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    time_us: int | None
    time_type: int
    more: tuple[Any, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class ReadError(Exception):
    """The reader's error; its text begins with the kind."""


@dataclass(frozen=True)
class Wanted:
    """The ranges of a task, and the settings that the agent gives for them."""

    topic: str
    ranges: Sequence[Range]
    kafka: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)
    settings_file: str = ""
    include_headers: bool = False
    include_assignment: bool = False
    fail_on_data_loss: bool = True
    progress_timeout_s: float = 20.0

    def settings(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "consumer": "a",
            "incarnation": 4,
            "kafka": dict(self.kafka),
            "settings_file": self.settings_file,
            "options": dict(self.options),
            "include_headers": self.include_headers,
            "include_assignment": self.include_assignment,
            "fail_on_data_loss": self.fail_on_data_loss,
            "progress_timeout_ms": round(self.progress_timeout_s * 1000),
        }


class RangesReader:
    """The Java process; `log` is what it has written besides answers."""

    def __init__(self, folder: Path) -> None:
        classes = folder / "classes"
        jar_paths = [*jars.paths(), *provided_jars()]
        compile_sources([PROGRAM], jar_paths, classes)
        spark = pyspark_home() / "jars"
        class_path = f"{classes}:{':'.join(map(str, jars.paths()))}:{spark}/*"
        self.log = ""
        command = [str(find_java().executable), *QUICK_START_OPTIONS, *OPENED, *LOGGING, "-cp", class_path]
        self._process = subprocess.Popen(
            [*command, "partitioncoordinator.spark.ReadRanges"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def read(self, wanted: Wanted, most: int = EVERYTHING) -> list[Row]:
        """The rows of the ranges, at most so many; raises `ReadError`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        ranges = [[one.partition, one.start, one.end, one.token_epoch] for one in wanted.ranges]
        request = {"settings": wanted.settings(), "ranges": ranges, "most": most}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        rows: list[Row] = []
        for line in self._process.stdout:
            if not line.startswith(("[", "{", "null")):
                self.log += line
                continue
            answer = json.loads(line)
            if answer is None:
                return rows
            if isinstance(answer, dict):
                raise ReadError(answer["error"])
            rows.append(_row(answer, wanted))
        raise AssertionError(f"the reader has ended: {self.log[-2000:]}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


def _row(fields: Sequence[Any], wanted: Wanted) -> Row:
    more = list(fields[7:])
    if wanted.include_headers and more[0] is not None:
        more[0] = [(name, _bytes(value)) for name, value in more[0]]
    columns = (_bytes(fields[0]), _bytes(fields[1]), *fields[2:7], tuple(more))
    return Row._make(columns)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@contextmanager
def opened() -> Iterator[RangesReader]:
    """A reader until the end of the block."""
    with tempfile.TemporaryDirectory() as folder:
        one = RangesReader(Path(folder))
        try:
            yield one
        finally:
            one.close()
