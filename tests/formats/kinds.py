"""Every kind of stored or sent data: an example, how today's release writes it, and how it reads it."""

import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from coordinator_tasks.adapters import file_registry
from coordinator_tasks.adapters.kafka_transactions import TransactionalGroupOffsets
from coordinator_tasks.core.codecs.status_codec import decode_metadata, encode_metadata
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.fleet_values import SQLITE
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.settings import Settings, plain_settings, read_settings_file, settings_of
from spark_apps.delivery import SinkEntry, SinkStep, Writer
from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from tests.fakes.clock import FakeClock
from tests.unit.coordinator_tasks.core.codecs.test_codecs import CASES, TOKEN, Case

_MEMBER = CASES["member"].value
_KAFKA = {"bootstrap.servers": "h:9092", "sasl.username": "ada", "sasl.password": "made up"}
_POLICY = Policy(pack_over_bytes=65_536)
_SETTINGS = Settings("shop", "h:2181", _KAFKA, status_token="made-up", parameters={"capacity": "7"}, policy=_POLICY)
_WRITER = Writer("shop", "orders", "id", "a")
_NEWER = Token(9, 3, "gen")


def _file(name: str, write: Callable[[Path], object], read: Callable[[Path], Any], value: Any) -> Case:
    """A file: both functions take its path, in a folder of its own."""

    def written(_: Any) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / name)
            return (Path(folder) / name).read_bytes()

    def found(raw: bytes) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(raw)
            path.chmod(0o600)
            return read(path)

    return Case(value, written, found)


def _registered(path: Path) -> Any:
    clock = FakeClock(path.stat().st_mtime)
    return file_registry.FileDiscovery(path.parent, clock).members()[path.stem]


def _write_positions(path: Path) -> None:
    """The table as SQL: a database file of SQLite has its library's version in it."""
    database = path.with_suffix(".sqlite")
    with closing(DatabaseSink(Database(f"{SQLITE}{database}"), lambda _: None, lambda *_: None)) as sink:
        sink.claim(_WRITER, {3: TOKEN}, {})
        sink.write(_WRITER, {3: SinkStep(TOKEN, 0, 5)}, pa.table({"partition": [3]}))
    with closing(sqlite3.connect(database)) as connection:
        path.write_text("\n".join(connection.iterdump()) + "\n")


def _claimed(path: Path) -> Mapping[int, SinkEntry]:
    """What a newer owner finds."""
    database = path.with_suffix(".sqlite")
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(path.read_text())
    with closing(DatabaseSink(Database(f"{SQLITE}{database}"), lambda _: None, lambda *_: None)) as sink:
        return sink.claim(_WRITER, {3: _NEWER}, {})


def _transactional_id(_: Any) -> bytes:
    return TransactionalGroupOffsets(_KAFKA, "g", "shop")._id("orders", 3).encode()


KINDS: Mapping[str, Case] = {
    **CASES,
    "committed metadata": Case(
        Committed(5, TOKEN, "a", "shop", "id"),
        lambda value: encode_metadata(value).encode(),
        lambda raw: decode_metadata(5, raw.decode()),
    ),
    "transactional id": Case("shop/g/orders/3", _transactional_id, bytes.decode),
    "registration file": _file(
        f"{_MEMBER.consumer}.json",
        lambda path: path.write_bytes(file_registry._encode(_MEMBER, 5.0)),
        _registered,
        replace(_MEMBER, registered_at=5.0),
    ),
    "settings file": _file(
        "settings.json",
        lambda path: write_private(path, plain_settings(_SETTINGS)),
        lambda path: settings_of(read_settings_file(path)),
        _SETTINGS,
    ),
    # The reader in the JVM reads the file: tests/jvm/SettingsFileTest.java.
    "kafka file": _file(
        "kafka.json", lambda path: write_private(path, _KAFKA), lambda p: json.loads(p.read_text()), _KAFKA
    ),
    "ended file": _file(
        "ended.json",
        lambda path: RunFolder(path.parent).write_ended(137, "killed", 5.0),
        lambda path: (RunFolder(path.parent).exit_code(), RunFolder(path.parent).reason()),
        (137, "killed"),
    ),
    "leaving file": _file(
        "leaving.json",
        lambda path: RunFolder(path.parent).write_leaving("asked to", 5.0),
        lambda path: RunFolder(path.parent).leaves(),
        "asked to",
    ),
    "positions table": _file("positions.sql", _write_positions, _claimed, {3: SinkEntry(_NEWER, "a", 5)}),
}
VERSIONED = (*CASES, "registration file")
"""Those with a field `version`."""


def of_another_version(raw: bytes, version: int) -> bytes:
    """The same data, as a later release may write it."""
    return json.dumps({**json.loads(raw), "version": version}).encode()
