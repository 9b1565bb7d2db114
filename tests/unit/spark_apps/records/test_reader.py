"""How a reader asks its Kafka client. No broker."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from spark_apps.records import reader
from spark_apps.records.batches import Range
from spark_apps.records.columns import Records
from spark_apps.records.fetching import Problem
from spark_apps.records.reader import Job


class Fetched:
    """Records of a partition and an offset each, without keys and values."""

    def __init__(self, found: Sequence[tuple[int, int]]) -> None:
        self.problems: list[Problem] = []
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

    def __init__(self, *portions: Sequence[tuple[int, int]]) -> None:
        self.complaints: list[KafkaError] = []
        self.waited = 0
        self._portions = deque(portions)
        self._here: deque[tuple[int, int]] = deque()

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
        raise AssertionError((topic, partition, timeout_s))

    def close(self) -> None: ...


def read(client: Client, monkeypatch: pytest.MonkeyPatch, *ranges: Range) -> list[tuple[int, int]]:
    def new_client(settings: Mapping[str, Any], *, fast: bool) -> Client:
        assert settings
        assert fast is not None
        return client

    monkeypatch.setattr(reader, "_idle", {})
    monkeypatch.setattr(reader, "_new_client", new_client)
    batches = list(reader.read(Job("orders", ranges, {"bootstrap.servers": "none:1"})))
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
