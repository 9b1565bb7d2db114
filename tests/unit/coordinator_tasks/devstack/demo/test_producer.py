"""The producer's journal: what the broker has confirmed, and an end that says whether that is all."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_tasks.devstack.demo import producer
from coordinator_tasks.devstack.demo.producer import SteadyProducer, read_journal


class Broker:
    """Confirms every record but those of `refused` partitions; `left`: how many it never answers."""

    def __init__(self, refused: int = -1, left: int = 0) -> None:
        self.refused, self.left = refused, left
        self.sent = 0
        self.stop: Callable[[], None] = lambda: None

    def produce(self, _topic: str, _value: bytes, *, partition: int, on_delivery: Callable[[Any, Any], None]) -> None:
        self.sent += 1
        offset = self.sent
        on_delivery("refused" if partition == self.refused else None, SimpleNamespace(offset=lambda: offset))

    def poll(self, _timeout_s: float) -> None:
        if self.sent > 1:
            self.stop()

    def flush(self, _timeout_s: float) -> int:
        return self.left


def journal_of(broker: Broker, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, bool]:
    monkeypatch.setattr(producer, "Producer", lambda _settings: broker)
    with path.open("w") as journal:
        steady = SteadyProducer("a-broker", "orders", 2, journal)
        broker.stop = steady.stop
        clean = steady.run(1000.0)
    return clean, read_journal(path)[1]


def test_the_journal_has_an_end_if_every_record_was_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert journal_of(Broker(), tmp_path / "journal.txt", monkeypatch) == (True, True)


@pytest.mark.parametrize("broker", [Broker(refused=1), Broker(left=3)], ids=["one refused", "some not answered"])
def test_an_unconfirmed_record_leaves_no_end(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert journal_of(broker, tmp_path / "journal.txt", monkeypatch) == (False, False)


def test_an_unfinished_line_of_the_journal_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.txt"
    path.write_text("0 0 0 1.5\n1 0 0 1.")
    found, ended = read_journal(path)
    assert ([one.partition for one in found], ended) == ([0], False)
