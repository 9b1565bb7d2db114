"""The plain consumer's file of JSON lines."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.plain import FileSink
from spark_apps.records.batches import Range


@dataclass
class Message:
    at: int

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_500

    def value(self) -> bytes:
        return b"text\xff"


def written(path: Path, offset: int) -> list[str]:
    """The lines when the call has returned; the sink still lives, as in a process that is killed then."""
    sink = FileSink(str(path), "a")
    sink("orders", [(Range(2, offset, offset + 1, 7), cast("Any", Message(offset)))])
    return path.read_text().splitlines()


def test_a_row_says_who_processed_what(tmp_path: Path) -> None:
    (line,) = written(tmp_path / "rows.jsonl", 5)
    row = json.loads(line)
    assert row.pop("processed_at") > 1.5
    assert row == {
        "consumer": "a",
        "topic": "orders",
        "partition": 2,
        "epoch": 7,
        "offset": 5,
        "produced_at": 1.5,
        "value": "text�",
    }


@pytest.mark.parametrize(("before", "kept"), [("", []), ('{"offset": 4}\n', ['{"offset": 4}']), ('{"off', ['{"off'])])
def test_the_first_row_of_a_process_begins_a_line_after_a_torn_one(
    tmp_path: Path, before: str, kept: list[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(before)
    *first, last = written(path, 5)
    assert first == kept
    assert json.loads(last)["offset"] == 5


def test_a_file_that_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    for place, why in ((tmp_path / "nowhere" / "rows.jsonl", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(Refused, match=f"sink {place} cannot be written: {why}.*; name a file"):
            FileSink(str(place), "a")
