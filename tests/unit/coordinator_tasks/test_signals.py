"""What a signal asks for is done while the main thread stands anywhere."""

import signal

import pytest

from coordinator_tasks.signals import on_signals, stopped_by

WITHIN_S = 20.0


@pytest.mark.timeout(60)
def test_a_signal_in_the_middle_of_the_events_own_lock_sets_it() -> None:
    """Where `Event.wait` and `Event.clear` are for a few microseconds each time, and a handler would wait for ever."""
    with stopped_by(signal.SIGTERM) as stop:
        with stop._cond:  # type: ignore[attr-defined]
            signal.raise_signal(signal.SIGTERM)
            assert not stop.is_set()
        assert stop.wait(WITHIN_S)


def test_every_signal_is_told_once_and_what_was_there_before_is_back() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    told: list[int] = []
    with on_signals(told.append, signal.SIGTERM, signal.SIGINT):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert told == [signal.SIGTERM, signal.SIGINT, signal.SIGTERM]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_what_goes_wrong_in_it_is_logged_and_the_next_signal_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def act(number: int) -> None:
        told.append(number)
        if len(told) == 1:
            raise OSError("no room")

    with on_signals(act, signal.SIGTERM):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert len(told) == 2
    assert "no room" in caplog.text
