"""When the library's own queue is read, when it is not, and how bytes at addresses become columns. No broker."""

import ctypes
import logging
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.errors import ReadFailed
from spark_apps.records import fetching, librdkafka, reader
from spark_apps.records.batches import Range
from spark_apps.records.fast_fetch import _copied
from spark_apps.records.fetching import Fetched
from spark_apps.records.reader import BATCH_BYTES, _parts


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    for cached in (librdkafka.unfit, librdkafka.library):
        cached.cache_clear()
    yield
    for cached in (librdkafka.unfit, librdkafka.library):
        cached.cache_clear()


def test_the_installed_library_is_read_directly() -> None:
    assert librdkafka.unfit() == ""


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(librdkafka.SWITCH, "False")
    assert librdkafka.unfit() == "ASSIGNED_KAFKA_FAST_FETCH is false"


def test_an_untested_version_is_named_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(librdkafka, "TESTED", frozenset({1}))
    with caplog.at_level(logging.WARNING):
        assert [librdkafka.unfit() for _ in range(3)] == [librdkafka.unfit()] * 3
    assert [one.message for one in caplog.records] == [
        "records are read by consume(), which takes about twice the time: librdkafka 2.16.0 was not tested with this"
    ]


def test_a_library_without_one_of_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(librdkafka._FUNCTIONS, "of_another_release", (None,))  # type: ignore[arg-type]
    assert "rd_kafka_of_another_release" in librdkafka.unfit()


@pytest.mark.parametrize("name", librdkafka.ROW.names or ())
def test_each_field_at_another_place_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    row = librdkafka.ROW
    offsets = {field: row.fields[field][1] for field in row.names}  # type: ignore[index,union-attr]
    neighbour = 8 if name == "offset" else 56  # of the topic's handle, or of the offset
    moved = {
        "names": list(offsets),
        "formats": [row[field] for field in offsets],
        "offsets": [neighbour if field == name else at for field, at in offsets.items()],
        "itemsize": row.itemsize,
    }
    monkeypatch.setattr(librdkafka, "ROW", np.dtype(moved))  # type: ignore[call-overload]
    assert "librdkafka's messages look different" in librdkafka.unfit()


@given(st.lists(st.none() | st.binary(max_size=40)), st.randoms(use_true_random=False))
def test_bytes_at_addresses_become_a_column(pieces: list[bytes | None], chance: object) -> None:
    order = list(range(len(pieces)))
    chance.shuffle(order)  # type: ignore[attr-defined]
    memory = ctypes.create_string_buffer(b"".join(b"--" + (pieces[index] or b"") for index in order) + b"--")
    addresses, at = np.zeros(len(pieces), np.int64), ctypes.addressof(memory)
    for index in order:
        at += 2
        addresses[index] = 0 if pieces[index] is None else at
        at += len(pieces[index] or b"")
    sizes = np.array([len(piece or b"") for piece in pieces], np.int64)
    column = _copied(addresses, sizes)
    column.validate(full=True)
    ctypes.memset(memory, 0, len(memory))
    assert column.to_pylist() == pieces


@given(st.lists(st.integers(1, 3 * BATCH_BYTES), max_size=30))
def test_parts_hold_every_record_once_and_are_as_large_as_allowed(sizes: list[int]) -> None:
    parts = [sizes[part] for part in _parts(np.array(sizes, np.int64))]
    assert [size for part in parts for size in part] == sizes
    assert all(sum(part) <= BATCH_BYTES or len(part) == 1 for part in parts)
    assert all(sum(part) + following[0] > BATCH_BYTES for part, following in pairwise(parts))


class UnfitClient:
    """Finds out while it fetches that its library is another one."""

    def __init__(self) -> None:
        self.closed = 0

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        pass

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        raise librdkafka.Unfit("a record's time is elsewhere")

    def close(self) -> None:
        self.closed += 1


def test_a_client_that_cannot_be_replaced_is_closed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # A second time, librdkafka would work on a handle that is gone.
    client = UnfitClient()

    def made(_: object, *, fast: bool) -> UnfitClient:
        if fast:
            return client
        raise ReadFailed("refused")

    monkeypatch.setattr(reader, "_new_client", made)
    with pytest.raises(ReadFailed):
        list(reader.read(reader.Job("t", (Range(0, 0, 5, 1),), {"bootstrap.servers": "127.0.0.1:1"})))
    assert client.closed == 1


class SilentClient:
    """Gives nothing; takes down how often it was assigned and closed."""

    def __init__(self) -> None:
        self.assigned = self.closed = 0
        self.complaints: list[KafkaError] = []

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        self.assigned += 1

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        self.complaints.append(
            KafkaError(KafkaError._AUTHENTICATION if self.assigned > 1 else KafkaError._ALL_BROKERS_DOWN)
        )
        return fetching._Messages([])

    def close(self) -> None:
        self.closed += 1


def test_who_gives_nothing_is_asked_again_and_then_another_client(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[SilentClient] = []

    def made(_: object, *, fast: bool) -> SilentClient:
        clients.append(SilentClient())
        return clients[-1]

    monkeypatch.setattr(reader, "_new_client", made)
    job = reader.Job("t", (Range(0, 0, 5, 1),), {"bootstrap.servers": "127.0.0.1:1"}, progress_timeout_s=0.4)
    with pytest.raises(ReadFailed, match=r"gave nothing for 0.4 s.*_AUTHENTICATION"):
        list(reader.read(job))
    assert clients[0].assigned == 2
    assert len(clients) > 1
    assert [one.closed for one in clients] == [1] * len(clients)


def test_fetches_are_joined_into_batches_that_are_as_large_as_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = [[700_000], [700_000], [1_900_000], [100_000], [50_000, 1_600_000], [10]]

    def fetch(reading: Any) -> list[tuple[pa.RecordBatch, int]]:
        sizes = fetches.pop(0)
        if not fetches:
            reading._open.clear()
        return [(pa.record_batch({"size": [size]}), size) for size in sizes]

    monkeypatch.setattr(reader._Reading, "_fetch", fetch)
    monkeypatch.setattr(reader._Reading, "_assign", lambda _: None)
    reading = reader._Reading(reader.Job("t", (Range(0, 0, 5, 1),), {}), cast(Any, None))
    found = [batch["size"].to_pylist() for batch in reading.batches()]
    assert found == [[700_000, 700_000], [1_900_000], [100_000, 50_000, 1_600_000], [10]]
