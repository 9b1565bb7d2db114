"""A repeated line of Kafka's client library is written once a minute, with the number of repeats."""

import logging

import pytest

from coordinator_tasks.library_log import EVERY_S, LIBRARY_LOG, MAX_LINES, Repeats
from tests.fakes.clock import FakeClock

REFUSED = "FAIL [rdkafka#consumer-{0}] [thrd:{1}:9092/1]: {1}:9092/1: Connect to ipv4#127.0.0.1:9092 failed: refused (after {0}ms in state CONNECT)"


class Log:
    """The lines that pass the filter."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.filter = Repeats(self.clock.monotonic)

    def write(self, text: str, level: int = logging.ERROR) -> str | None:
        record = logging.LogRecord("librdkafka", level, "", 0, "%s", (text,), None)
        return record.getMessage() if self.filter.filter(record) else None


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_line_of_whatever_client_passes_once_and_then_with_the_number_of_the_others(log: Log) -> None:
    assert log.write(REFUSED.format(1, "a")) == REFUSED.format(1, "a")
    assert [log.write(REFUSED.format(n, "a")) for n in range(50)] == [None] * 50
    log.clock.advance(EVERY_S)
    assert log.write(REFUSED.format(7, "a")) == REFUSED.format(7, "a") + " (50 more such lines in 60 s)"
    log.clock.advance(EVERY_S)
    assert log.write(REFUSED.format(8, "a")) == REFUSED.format(8, "a"), "nothing came meanwhile"


def test_what_the_library_has_counted_itself_is_the_same_line(log: Log) -> None:
    assert log.write("refused (after 0ms in state CONNECT)")
    assert log.write("refused (after 0ms in state CONNECT, 30 identical error(s) suppressed)") is None


def test_not_more_than_so_many_lines_are_remembered(log: Log) -> None:
    for n in range(MAX_LINES):
        log.write("x" * n)
    assert log.write("") is None, "it was written, and is the latest now"
    log.write("another")
    assert log.write("") is None
    assert log.write("x") == "x", "the oldest was forgotten"


def test_the_librarys_lines_pass_through_it() -> None:
    assert any(isinstance(one, Repeats) for one in LIBRARY_LOG.filters)
