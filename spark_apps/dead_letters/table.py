"""The table `consumer_dead_letters`, in the database of the pipeline's sink: a row per record that could not be
processed.

The transaction that moves the position past a bad record also adds the row. If the record fails again, its row is
replaced.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

from spark_apps.dead_letters import Letter, LetterPlace, LetterUnreadable, Stage
from spark_apps.delivery import Writer
from spark_apps.delivery.database import Cursor, existing

TABLE = "consumer_dead_letters"
VERSION = 1
"""Format of a row. Rows of a later format are not read."""
LINE_CHARS = 300
"""Maximum characters of a text in a list."""
KEY_COLUMNS = ("cluster", "topic", "topic_id", "partition", "offset")
COLUMNS = (
    *KEY_COLUMNS,
    *("version", "key", "value", "headers", "timestamp_ms", "timestamp_type"),
    *("error_class", "error", "stage", "release", "consumer", "failed_at_ms", "tries"),
)
_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    cluster TEXT NOT NULL, topic TEXT NOT NULL, topic_id TEXT NOT NULL, "partition" INTEGER NOT NULL,
    "offset" BIGINT NOT NULL, version INTEGER NOT NULL, "key" BYTEA, value BYTEA, headers TEXT NOT NULL,
    timestamp_ms BIGINT NOT NULL, timestamp_type INTEGER NOT NULL, error_class TEXT NOT NULL, error TEXT NOT NULL,
    stage TEXT NOT NULL, "release" TEXT NOT NULL, consumer TEXT NOT NULL, failed_at_ms BIGINT NOT NULL,
    tries INTEGER NOT NULL, PRIMARY KEY (cluster, topic, topic_id, "partition", "offset")
)"""
_SELECT = f"SELECT {', '.join(f'{chr(34)}{name}{chr(34)}' for name in COLUMNS)} FROM {TABLE}"  # noqa: S608
MAX_PAGE_BYTES = 64 * 1024 * 1024
"""Maximum bytes of keys, values and headers that `find` reads at once. A page has at least one row."""
_ORDER = 'topic, topic_id, "partition", "offset", cluster'
_SIZE = 'COALESCE(LENGTH("key"), 0) + COALESCE(LENGTH(value), 0) + LENGTH(headers)'
_AT = 'cluster = ? AND topic = ? AND topic_id = ? AND "partition" = ? AND "offset" = ?'
_NAMED = "LENGTH(topic) < 250"
"""Condition of listed rows. Another program may have written a topic name that Kafka does not allow."""
_CONDITIONS = {"until_ms": "failed_at_ms <= ?"}
_DELETE = f"DELETE FROM {TABLE} WHERE {_AT}"  # noqa: S608


class LetterLine(NamedTuple):
    """A dead letter without its record. `stage`, `kind` and `error` are shortened."""

    topic: str
    partition: int
    offset: int
    failed_at_ms: int
    tries: int
    stage: str
    kind: str
    error: str


@contextmanager
def opened(url: str, lock_wait_s: float | None = None) -> Iterator[Cursor | None]:
    """Yield a cursor in a transaction; `None` if the database has no table of dead letters. Raises as `existing`."""
    with existing(url, lock_wait_s) as database, database.transaction() as cursor:
        yield cursor if cursor.has_table(TABLE) else None


def prepare(cursor: Cursor) -> None:
    """Create the table if missing."""
    if not cursor.has_table(TABLE):
        cursor.exclusively(TABLE)  # two consumers may have their first dead letters at once, and both create the table
        cursor.execute(_CREATE)


def put_letters(cursor: Cursor, letters: Iterable[Letter]) -> None:
    """Store letters. A letter replaces the letter of the same record."""
    cursor.replace(TABLE, COLUMNS, KEY_COLUMNS, [_row(letter) for letter in letters])


def since(cursor: Cursor, writer: Writer, partitions: Sequence[int], at_ms: int) -> Mapping[int, Mapping[int, int]]:
    """Return partition → offset → time of the letters that failed since `at_ms` for the first time."""
    first = f'SELECT "partition", "offset", failed_at_ms FROM {TABLE} WHERE cluster = ? AND topic = ? AND topic_id = ?'  # noqa: S608
    recent, values = f"{first} AND failed_at_ms >= ? AND tries = 1", (writer.cluster, writer.topic, writer.topic_id)
    found: dict[int, dict[int, int]] = {}
    for partition, offset, failed_at_ms in cursor.query_in(recent, (*values, at_ms), '"partition"', partitions):
        found.setdefault(partition, {})[offset] = failed_at_ms
    return found


def delete(cursor: Cursor, places: Iterable[LetterPlace]) -> int:
    """Delete the letters at these places. Return how many were deleted."""
    return sum(cursor.execute(_DELETE, _values(place)) for place in places)


class Page(NamedTuple):
    """Rows in the order of topic, partition and offset.

    `last`: the place of the page's last row, where the next page begins; `None` on the last page.
    """

    letters: list[Letter]
    unreadable: list[LetterUnreadable]
    last: LetterPlace | None


def find(cursor: Cursor, limit: int, after: LetterPlace | None = None, **where: Any) -> Page:
    """Return at most `limit` rows after the place `after`.

    `where`: column → wanted value; `until_ms` → time of the last failure at most.
    """
    having, values = _having(where), tuple(where.values())
    if after is not None:
        having += f" AND ({_ORDER}) > (?, ?, ?, ?, ?)"
        values += (after.topic, after.topic_id, after.partition, after.offset, after.cluster)
    sizes = cursor.query(f"SELECT {_SIZE} FROM {TABLE} {having} ORDER BY {_ORDER} LIMIT {limit:d}", values)  # noqa: S608
    sums = accumulate(int(size) for (size,) in sizes)
    number = max(sum(total <= MAX_PAGE_BYTES for total in sums), 1)
    found = cursor.query(f"{_SELECT} {having} ORDER BY {_ORDER} LIMIT {number:d}", values)
    letters, unreadable = list[Letter](), list[LetterUnreadable]()
    for row in found:
        try:
            letters.append(_letter(dict(zip(COLUMNS, row, strict=True))))
        except LetterUnreadable as error:
            unreadable.append(error)
    ended = not found or len(found) == len(sizes) < limit
    return Page(letters, unreadable, None if ended else LetterPlace(*found[-1][: len(KEY_COLUMNS)]))


def count(cursor: Cursor, **where: Any) -> int:
    """Return the number of letters. `where` as in `find`."""
    ((number,),) = cursor.query(f"SELECT COUNT(*) FROM {TABLE} {_having(where)}", tuple(where.values()))  # noqa: S608
    return int(number)


def counts(cursor: Cursor, limit: int, **where: Any) -> dict[str, int]:
    """Return topic → number of letters, for at most `limit` topics. `where` as in `find`."""
    query = f"SELECT topic, COUNT(*) FROM {TABLE} {_having(where)} AND {_NAMED} GROUP BY topic ORDER BY topic LIMIT {limit:d}"  # noqa: S608
    return {topic: int(number) for topic, number in cursor.query(query, tuple(where.values()))}


def newest(cursor: Cursor, limit: int, **where: Any) -> list[LetterLine]:
    """Return at most `limit` letters without their records, the latest failure first. `where` as in `find`."""
    texts = ", ".join(map(_begin, ("stage", "error_class", "error")))
    wanted = f'topic, "partition", "offset", failed_at_ms, tries, {texts}'
    query = f"SELECT {wanted} FROM {TABLE} {_having(where)} AND {_NAMED} ORDER BY failed_at_ms DESC LIMIT {limit:d}"  # noqa: S608
    return [LetterLine(*row) for row in cursor.query(query, tuple(where.values()))]


def drop(cursor: Cursor, **where: Any) -> int:
    """Delete letters and return how many. `where` as in `find`."""
    return cursor.execute(f"DELETE FROM {TABLE} {_having(where)}", tuple(where.values()))  # noqa: S608


def _begin(column: str) -> str:
    return f"SUBSTR({column}, 1, {LINE_CHARS})"


def _having(where: Mapping[str, Any]) -> str:
    return "WHERE " + (" AND ".join(_CONDITIONS.get(name, f'"{name}" = ?') for name in where) or "1 = 1")


def _values(place: LetterPlace) -> tuple[Any, ...]:
    return place.cluster, place.topic, place.topic_id, place.partition, place.offset


def _row(letter: Letter) -> Sequence[Any]:
    headers = [[name, None if value is None else base64.b64encode(value).decode()] for name, value in letter.headers]
    return (
        *_values(letter.place),
        *(VERSION, letter.key, letter.value, json.dumps(headers), letter.timestamp_ms, letter.timestamp_type),
        *(letter.kind, letter.error, letter.stage, letter.release, letter.consumer, letter.failed_at_ms, letter.tries),
    )


def _letter(row: dict[str, Any]) -> Letter:
    place = LetterPlace(*(row[name] for name in KEY_COLUMNS))
    where = f"{TABLE}, topic {place.topic}, partition {place.partition}, offset {place.offset}"
    if row["version"] != VERSION:
        raise LetterUnreadable(where, f"the row has format {row['version']}, and this release reads {VERSION}")
    try:
        headers = tuple(
            (str(name), None if value is None else base64.b64decode(value))
            for name, value in json.loads(row["headers"])
        )
        stage = Stage(row["stage"])
    except (ValueError, TypeError, binascii.Error) as error:
        raise LetterUnreadable(where, f"stage or headers cannot be read ({error})") from error
    return Letter(
        place=place,
        key=_bytes(row["key"]),
        value=_bytes(row["value"]),
        headers=headers,
        timestamp_ms=row["timestamp_ms"],
        timestamp_type=row["timestamp_type"],
        kind=row["error_class"],
        error=row["error"],
        stage=stage,
        release=row["release"],
        consumer=row["consumer"],
        failed_at_ms=row["failed_at_ms"],
        tries=row["tries"],
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
