"""Texts for positions of partitions: the words of `--to`, of Kafka's own tool, and of a file of offsets.

Pure.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from coordinator_tasks.core.errors import BadOffsets, Refused
from coordinator_tasks.core.names import MAX_DIGITS, MAX_PARTITION
from coordinator_tasks.core.text.partition_text import counted, cut
from coordinator_tasks.tables import without_apostrophe

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_TEXT = 40
"""Characters of a position: no offset or time is longer."""
MAX_OFFSET = 2**63 - 1
MAX_FILE_CHARS = 2_000_000
_SAYS = (
    "give earliest, latest, current, an offset, a shift such as -100 or +100, a duration back from now such as PT1H, "
    "or a time with its zone such as 2026-11-21T08:15:00Z"
)
_DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?", re.ASCII)
_LINE = "topic,partition,offset"
_BYTE_ORDER_MARK = "\ufeff"
"""Spreadsheets begin a file with this character."""


class PositionKind(StrEnum):
    """What a position refers to."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"  # the committed offset, or else the end of the log
    OFFSET = "offset"
    SHIFT = "shift"  # from the committed offset
    TIME = "time"
    DURATION = "duration"  # back from now


@dataclass(frozen=True, slots=True)
class Position:
    """A position. `text`: the position as given.

    `number`: the offset, the shift in offsets, milliseconds since 1970, or milliseconds back from now.
    """

    kind: PositionKind
    text: str
    number: int = 0


Offsets = Mapping[str, Mapping[int, int]]
"""Topic → partition → offset."""


def position(text: str) -> Position:
    """Read a position of `--to` or of the form. Raises `BadOffsets`."""
    word = text.strip().lower()
    if word in (PositionKind.EARLIEST, PositionKind.LATEST, PositionKind.CURRENT):
        return Position(PositionKind(word), word)
    if word[:1] in ("+", "-"):
        return shift(word)
    if word.isascii() and word.isdigit():
        return offset(word)
    return duration(word) if word[:1] == "p" else time(text)


def offset(text: str) -> Position:
    """Read an offset, 0 or more. Raises `BadOffsets`."""
    word = text.strip()
    if not _is_number(word, MAX_OFFSET):
        raise BadOffsets(_no_offset(text))
    return Position(PositionKind.OFFSET, word, int(word))


def shift(text: str) -> Position:
    """Read a number of offsets; a negative number goes towards the beginning. Raises `BadOffsets`."""
    word = text.strip()
    digits = word[1:] if word[:1] in ("+", "-") else word
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
        raise BadOffsets(f"{_shown(text)} is no position: a shift is a whole number of offsets, such as -100 or +100")
    return Position(PositionKind.SHIFT, word if word != digits else f"+{digits}", int(word))


def duration(text: str) -> Position:
    """Read an ISO 8601 duration back from now, as in Kafka's tool: PnDTnHnMnS. Raises `BadOffsets`."""
    word = text.strip().upper()
    found = _DURATION.fullmatch(word)
    if found is None or not any(found.groups()) or word.endswith("T"):
        raise BadOffsets(f"{_shown(text)} is no position: a duration is written as PnDTnHnMnS, such as P1D or PT1H30M")
    days, hours, minutes, seconds = (float(one or 0) for one in found.groups())
    total_s = 86_400 * days + 3600 * hours + 60 * minutes + seconds
    return Position(PositionKind.DURATION, word, round(total_s * 1000))


def time(text: str, *, zone: bool = True) -> Position:
    """Read an ISO 8601 time. `zone`: refuse a time without a zone; otherwise take it as UTC, as in Kafka's tool.

    Raises `BadOffsets`, also for a time before 1970: Kafka takes a negative time for `latest`, or refuses it.
    """
    shown = _shown(text)
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise BadOffsets(f"{shown} is no position; {_SAYS}") from error
    if at.tzinfo is None:
        if zone:
            raise BadOffsets(f"the time {shown} has no zone; {_SAYS}")
        at = at.replace(tzinfo=UTC)
    since = at - EPOCH  # exact, and for every year, unlike `timestamp()`
    if since < timedelta(0):
        raise before_1970(text)
    return Position(PositionKind.TIME, text.strip(), since // timedelta(milliseconds=1))


def before_1970(text: str) -> Refused:
    """Return the refusal of a time before Kafka's first."""
    return BadOffsets(
        f"the time {_shown(text)} lies before 1970, where Kafka's times begin; give a later one, or earliest"
    )


def offsets_of(text: str, groups: Mapping[str, str]) -> Offsets:
    """Read an export of Kafka's tool: lines of topic,partition,offset, or of group,topic,partition,offset.

    `groups`: topic → its group; empty if unknown. Raises `BadOffsets` with the line's number. Offsets are not checked
    against the log, nor partitions against the topic.
    """
    if len(text) > MAX_FILE_CHARS:
        raise BadOffsets(f"the file of offsets has more than {MAX_FILE_CHARS} characters; split it by topic")
    found: dict[str, dict[int, int]] = {}
    for number, row in _rows(text):
        topic, partition, at = _line(number, [cell.strip() for cell in row], groups)
        if partition in found.setdefault(topic, {}):
            raise BadOffsets(
                f"line {number} names partition {partition} of topic {topic!r} a second time; remove one line"
            )
        found[topic][partition] = at
    if not found:
        raise BadOffsets(f"the file of offsets is empty; write lines of {_LINE}")
    return found


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each line that is not empty, with its number."""
    read = csv.reader(io.StringIO(text.removeprefix(_BYTE_ORDER_MARK), newline=""))
    try:
        yield from ((read.line_num, [without_apostrophe(cell) for cell in row]) for row in read if row)
    except csv.Error as error:
        raise BadOffsets(f"line {read.line_num} of the offsets is no CSV; write lines of {_LINE}") from error


def _line(number: int, row: list[str], groups: Mapping[str, str]) -> tuple[str, int, int]:
    if problem := _problem(row, groups):
        raise BadOffsets(f"line {number} of the offsets: {problem}")
    topic, partition, at = row[-3:]
    return topic, int(partition), int(at)


def _problem(row: list[str], groups: Mapping[str, str]) -> str:
    """Return the problem of a line; empty if there is none."""
    if len(row) not in (3, 4):
        return f"it has {counted(len(row), 'field')}; write {_LINE}, or group,{_LINE}"
    topic, partition, at = row[-3:]
    if topic not in groups:
        return f"topic {_shown(topic)} is not managed here; leave its lines out, or add the topic"
    if len(row) == 4 and groups[topic] and row[0] != groups[topic]:
        return f"group {_shown(row[0])} is not that of topic {topic!r}, which is {groups[topic]!r}; correct it"
    if not _is_number(partition, MAX_PARTITION):
        return f"{_shown(partition)} is no partition; write {_LINE}"
    return "" if _is_number(at, MAX_OFFSET) else _no_offset(at)


def _no_offset(text: str) -> str:
    return f"{_shown(text)} is no position: an offset is a whole number from 0 to {MAX_OFFSET}"


def _is_number(text: str, most: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS and int(text) <= most


def _shown(text: str) -> str:
    return repr(cut(text, MAX_TEXT))
