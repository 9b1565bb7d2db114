"""The dead letters of a cluster, in the databases that this host's settings name.

Records come from any producer, and rows from any program. So all texts are shortened here, and the templates escape
them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from coordinator_tasks.core.errors import CoordinatorError, Malformed, NotManaged, Refused, StoreUnavailable
from coordinator_tasks.core.text.partition_text import cut
from coordinator_tasks.settings import of_the_host
from coordinator_ui.access import ReadableCluster
from spark_apps.dead_letters import Letter, table
from spark_apps.dead_letters.shown import plain
from spark_apps.delivery.database import Cursor

THREADS = 4
LIMIT_S = 6.0
LOCK_WAIT_S = 2.0
MOST_DATABASES = 20
MOST_TOPICS = 50
MOST_LETTERS = 50
MOST_ALIKE = 5
"""Maximum letters with the same offset in several topics of one name, which were created one after another."""
MOST_HEADERS = 50
MOST_CHARS = 4_000
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicLetters:
    """The dead letters of a topic: their number, and the last failures."""

    topic: str
    count: int
    last: table.LetterLine


@dataclass(frozen=True, slots=True)
class DatabaseLetters:
    """The dead letters in a database. `problem`: why the database cannot be read."""

    name: str
    topics: tuple[TopicLetters, ...] = ()
    letters: tuple[table.LetterLine, ...] = ()
    problem: str = ""


class LetterReader:
    """Reads dead letters in separate threads, so that a hanging database delays no other page.

    `databases`: returns name → address; the databases in this host's settings if not given.
    """

    def __init__(self, databases: Callable[[], Mapping[str, str]] | None = None, limit_s: float = LIMIT_S) -> None:
        self._databases = databases or (lambda: of_the_host().get("databases", {}))
        self._limit_s = limit_s
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="coordinator-letters")

    async def every(self, cluster: ReadableCluster, topic: str) -> list[DatabaseLetters]:
        """Return the dead letters of a cluster by database, for one topic or all topics."""
        names = sorted(self._databases())[:MOST_DATABASES]
        return list(await asyncio.gather(*(self._of(name, cluster, topic) for name in names)))

    async def _of(self, name: str, cluster: ReadableCluster, topic: str) -> DatabaseLetters:
        try:
            return await self._read(name, partial(_listed, name, cluster, topic))
        except CoordinatorError as error:
            return DatabaseLetters(name, problem=error.told)

    async def find(
        self, cluster: ReadableCluster, name: str, topic: str, partition: int, offset: int
    ) -> list[dict[str, Any]]:
        """Return the dead letters of this record. Raises `NotManaged` if there are none."""
        if name not in self._databases():
            raise NotManaged(f"no database is named {cut(name, 60)!r} in the settings of Airflow's host; see the list")
        where: dict[str, Any] = {"cluster": cluster, "topic": topic, "partition": partition, "offset": offset}

        def read(cursor: Cursor | None) -> list[Letter]:
            if cursor is None:
                return []
            found = table.find(cursor, MOST_ALIKE, **where)
            if found.unreadable:
                raise found.unreadable[0]
            return found.letters

        found = await self._read(name, read)
        if not found:
            raise NotManaged("there is no such dead letter any more: it was replayed or dropped; see the list")
        return [_bounded(plain(letter)) for letter in found]

    async def _read(self, name: str, read: Callable[[Cursor | None], T]) -> T:
        work = asyncio.get_running_loop().run_in_executor(self._pool, _opened, self._databases()[name], read)
        try:
            return await asyncio.wait_for(asyncio.shield(work), self._limit_s)
        except TimeoutError:
            raise StoreUnavailable(f"the database {name} has not answered within {self._limit_s:g} s") from None
        except (Refused, Malformed):
            raise
        except (CoordinatorError, OSError) as error:
            # The text may name hosts and accounts, which readers of the cluster need not know.
            log.warning("the dead letters in the database %s cannot be read: %s", name, error)
            raise StoreUnavailable(
                f"the database {name} cannot be read from Airflow's API server ({type(error).__name__}), whose log says why"
            ) from None
        finally:
            work.add_done_callback(lambda late: late.cancelled() or late.exception())


def _opened(url: str, read: Callable[[Cursor | None], T]) -> T:
    with table.opened(url, LOCK_WAIT_S) as cursor:
        return read(cursor)


def _listed(name: str, cluster: str, topic: str, cursor: Cursor | None) -> DatabaseLetters:
    if cursor is None:
        return DatabaseLetters(name)
    where = {"cluster": cluster, **({"topic": topic} if topic else {})}
    counted = table.counts(cursor, MOST_TOPICS, **where)
    topics = [
        TopicLetters(one, count, table.newest(cursor, 1, cluster=cluster, topic=one)[0])
        for one, count in counted.items()
    ]
    return DatabaseLetters(name, tuple(topics), tuple(table.newest(cursor, MOST_LETTERS, **where)))


def _bounded(letter: dict[str, Any]) -> dict[str, Any]:
    cut_ones = {name: cut(value, MOST_CHARS) for name, value in letter.items() if isinstance(value, str)}
    headers = [[cut(name, MOST_CHARS), value] for name, value in letter["headers"][:MOST_HEADERS]]
    return {**letter, **cut_ones, "headers": headers, "more_headers": len(letter["headers"]) - len(headers)}
