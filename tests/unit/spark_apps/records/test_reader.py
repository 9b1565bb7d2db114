"""How a reader asks its Kafka client. No broker."""

from collections import deque
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from spark_apps.errors import DataLost, lost_records
from spark_apps.records import reader
from spark_apps.records.batches import Range
from spark_apps.records.columns import Records
from spark_apps.records.fetching import FetchError
from spark_apps.records.reader import Job

Came: TypeAlias = tuple[int, int] | FetchError
"""A record by its partition and its offset, or an error in its place."""


class Fetched:
    """Records of a partition and an offset each, without keys and values."""

    def __init__(self, came: Sequence[Came]) -> None:
        found = [one for one in came if isinstance(one, tuple)]
        self.problems = [one for one in came if isinstance(one, FetchError)]
        self.partitions = np.array([partition for partition, _ in found], np.int32)
        self.offsets = np.array([offset for _, offset in found], np.int64)
        self.sizes = np.zeros(len(found), np.int64)

    def records(self, chosen: NDArray[np.int64], include_headers: bool) -> Records:
        assert not include_headers
        nothing, zeros = pa.nulls(chosen.size, pa.binary()), np.zeros(chosen.size, np.int64)
        kinds = np.zeros(chosen.size, np.int32)
        return Records(nothing, nothing, self.partitions[chosen], self.offsets[chosen], zeros, kinds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Client:
    """Records arrive in portions, the next one while a fetch waits; `waited` counts the fetches whose whole time passed."""

    def __init__(self, *portions: Sequence[Came]) -> None:
        self.complaints: list[KafkaError] = []
        self.waited = 0
        self.log: tuple[int, int] | None = None  # the bounds that Kafka tells, of every partition
        self.further: Sequence[Came] = ()  # arrives once they were asked for
        self._portions = deque(portions)
        self._here: deque[Came] = deque()

    def assign(self, topic: str, positions: Mapping[int, int]) -> None: ...

    def unassign(self) -> None: ...

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        while timeout_s > 0 and len(self._here) < most:
            if not self._portions:
                self.waited += 1
                break
            self._here.extend(self._portions.popleft())
        return Fetched([self._here.popleft() for _ in range(min(most, len(self._here)))])

    def bounds(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        assert self.log is not None, (topic, partition, timeout_s)
        self._portions.append(self.further)
        return self.log

    def close(self) -> None: ...


def read(client: Client, monkeypatch: pytest.MonkeyPatch, *ranges: Range, **how: Any) -> list[tuple[int, int]]:
    def new_client(settings: Mapping[str, Any], *, fast: bool) -> Client:
        assert settings
        assert fast is not None
        return client

    monkeypatch.setattr(reader, "_idle", {})
    monkeypatch.setattr(reader, "_new_client", new_client)
    batches = list(reader.read(Job("orders", ranges, {"bootstrap.servers": "none:1"}, **how)))
    return [
        (p, o) for one in batches for p, o in zip(one["partition"].to_pylist(), one["offset"].to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("late", [False, True], ids=["all are here", "one comes later"])
def test_records_behind_an_end_make_no_fetch_wait_for_more_than_there_is(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, further = [(0, 0), (0, 1), (1, 0), (1, 1)], [(0, 2), (0, 3)]
    first, rest = [*wanted[:2], *further], wanted[2:]
    client = Client(first, rest[:1], rest[1:]) if late else Client([*first, *rest])
    assert read(client, monkeypatch, Range(0, 0, 2, 1), Range(1, 0, 2, 1)) == wanted
    assert client.waited == 0


UNREADABLE = FetchError(KafkaError(KafkaError._BAD_MSG, "MessageSet at offset 2 failed CRC32C check"), 0, 2)


def test_records_that_the_client_leaves_out_as_damaged_are_lost_and_not_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client([(0, 0), (0, 1), UNREADABLE, (0, 4), (1, 0)])
    with pytest.raises(DataLost, match="partition 0, planned 0 to 4") as raised:
        read(client, monkeypatch, Range(0, 0, 5, 1), Range(1, 0, 1, 1))
    said = "the records at offset 2 are damaged (_BAD_MSG: MessageSet at offset 2 failed CRC32C check)"
    assert lost_records(f"DataLost: {raised.value}") == (0, said)


def test_damaged_records_are_left_out_where_that_is_wanted_and_elsewhere_they_are_nobodys(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client([(0, 0), (0, 1), UNREADABLE, (0, 4)])
    read_on = [(0, 0), (0, 1), (0, 4)]
    assert read(client, monkeypatch, Range(0, 0, 5, 1), fail_on_data_loss=False) == read_on
    assert "the records at offset 2 are damaged" in caplog.text
    behind = Client([(0, 0), UNREADABLE, (0, 1), (1, 0)])
    assert read(behind, monkeypatch, Range(0, 0, 2, 1), Range(1, 0, 1, 1)) == [(0, 0), (0, 1), (1, 0)]


REFUSED = FetchError(KafkaError(KafkaError._AUTO_OFFSET_RESET, "Partition log truncation detected"), 0, 2)


@pytest.mark.parametrize(
    ("log", "further", "found"),
    [
        pytest.param((0, 9), [(0, 2), (0, 3), (0, 4)], range(5), id="the log has them all"),
        pytest.param((0, 2), [], range(2), id="the log ends at the position"),
        pytest.param((4, 9), [(0, 4)], (0, 1, 4), id="the log begins behind the position"),
    ],
)
def test_records_that_exist_behind_a_refused_position_are_read_where_losses_are_allowed(
    monkeypatch: pytest.MonkeyPatch, log: tuple[int, int], further: list[tuple[int, int]], found: Sequence[int]
) -> None:
    client = Client([(0, 0), (0, 1), REFUSED])
    client.log, client.further = log, further
    read_on = read(client, monkeypatch, Range(0, 0, 5, 1), fail_on_data_loss=False, progress_timeout_s=0.5)
    assert read_on == [(0, offset) for offset in found]


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ((0, 9), "offset 2 is refused although the log has 0 to 8 (truncated and written again, or recreated)"),
        ((0, 2), "offsets 2 to 4 are not there, the log ends at 2 (truncated or recreated)"),
        ((4, 9), "offsets 2 to 3 are gone, the log begins at 4"),
    ],
)
def test_a_refused_position_is_told_by_what_the_log_has(
    monkeypatch: pytest.MonkeyPatch, log: tuple[int, int], says: str
) -> None:
    client = Client([(0, 0), (0, 1), REFUSED])
    client.log = log
    with pytest.raises(DataLost) as raised:
        read(client, monkeypatch, Range(0, 0, 5, 1))
    assert lost_records(f"DataLost: {raised.value}") == (0, says)


def end_at(partition: int, offset: int) -> FetchError:
    return FetchError(KafkaError(KafkaError._PARTITION_EOF), partition, offset)


def cut_at(monkeypatch: pytest.MonkeyPatch, last: int, fail_on_data_loss: bool = True) -> list[tuple[int, int]]:
    """What is read of two partitions up to 5, if the log of the first seems to end at 3 and Kafka says that it ends at `last`."""
    client = Client([(0, 0), (0, 1), (0, 2), end_at(0, 3), (1, 0)], *[[end_at(0, 3)] for _ in range(3)])
    client.log = (0, last)
    ranges = Range(0, 0, 5, 1), Range(1, 0, 1, 1)
    return read(client, monkeypatch, *ranges, fail_on_data_loss=fail_on_data_loss, progress_timeout_s=0.3)


def test_a_log_that_was_cut_at_the_position_has_lost_the_rest_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka refuses only positions behind the log's end."""
    with pytest.raises(DataLost) as raised:
        cut_at(monkeypatch, 3)
    said = "offsets 3 to 4 are not there, the log ends at 3 (truncated or recreated)"
    assert lost_records(f"DataLost: {raised.value}") == (0, said)


class SkippingClient(Client):
    """The log's end is 30 s of aborted records behind the position, for a client that is not asked again meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self._assigned_at = 0.0

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        self._assigned_at = self.now

    def fetch(self, most: int, timeout_s: float) -> Fetched:
        self.now += 1.0
        return Fetched([end_at(0, 5)] if self.now - self._assigned_at >= 30 else [])


def test_aborted_records_that_take_long_to_skip_are_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SkippingClient()
    monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=lambda: client.now))
    assert read(client, monkeypatch, Range(0, 0, 5, 1)) == []
    assert client.now < 120
