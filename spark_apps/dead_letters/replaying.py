"""Processes dead letters of a database again, in the order of their offsets.

`LetterReplay` keeps the letters; a subclass processes the records.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from coordinator_tasks import __version__
from coordinator_tasks.core.errors import LookAgain
from coordinator_tasks.core.model import Token
from spark_apps.dead_letters import Letter, LetterPlace, table
from spark_apps.dead_letters.recovery import shown_error
from spark_apps.delivery import SinkStep, Writer
from spark_apps.delivery.database import Cursor, Database
from spark_apps.delivery.database_sink import DatabaseSink

PAGE = 1_000
"""Number of letters that are replayed together."""
REPLAYING = "replay"
"""Stands in place of a consumer's name."""


class LettersChanged(LookAgain, code="KPC-033"):
    """Another process has replayed or dropped the same dead letters meanwhile. Their records were not processed here.

    Remedy: repeat.
    """


@dataclass(slots=True)
class Counts:
    """Numbers of letters that were replayed, and of letters that failed again."""

    passed: int = 0
    failed: int = 0


class LetterReplay(ABC):
    """The replay of one topic's letters. `database`: the database with the letters."""

    database: Database

    @abstractmethod
    def attempt(self, letters: Sequence[Letter]) -> None:
        """Process these letters' records and delete the letters. An error leaves all these letters."""

    def run(self, letters: Sequence[Letter]) -> Counts:
        """Replay letters of one topic id, each once."""
        counts = Counts()
        if letters:
            self._halved(letters, counts)
        return counts

    def run_pages(self, where: Mapping[str, Any], total: Counts) -> None:
        """Replay all letters of one topic, in pages. `where` as in `table.find`."""
        for page in pages_of(self.database, where):
            self._run_page(page, total)

    def delete(self, letters: Sequence[Letter]) -> None:
        """Delete letters whose records a function has processed."""
        with self.database.transaction() as cursor:
            table.delete(cursor, [letter.place for letter in letters])

    def _run_page(self, page: table.Page, total: Counts) -> None:
        for topic_id in dict.fromkeys(letter.place.topic_id for letter in page.letters):
            counts = self.run([one for one in page.letters if one.place.topic_id == topic_id and one.is_whole])
            total.passed += counts.passed
            total.failed += counts.failed
        for letter in page.letters:
            if not letter.is_whole:
                total.failed += 1
                place = letter.place
                print(f"partition {place.partition}, offset {place.offset} has no content: {letter.error[-80:]}")
        for error in page.unreadable:
            total.failed += 1
            print(f"{error} [{error.code}]: {error.remedy}")

    def _halved(self, letters: Sequence[Letter], counts: Counts) -> None:
        try:
            self.attempt(letters)
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


def add_and_delete(sink: DatabaseSink, rows: pa.Table, letters: Sequence[Letter]) -> None:
    """Add the rows of these letters' records and delete the letters, in one transaction.

    Raises `LettersChanged` if a letter is gone.
    """
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

    sink.add(Writer(place.cluster, place.topic, place.topic_id, REPLAYING), steps, rows, delete)


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
