"""A producer's start is asked for again, soon at first, until it is done, refused for good, or out of time."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from coordinator_tasks.adapters.kafka_transactions import _start

LATER = KafkaError(KafkaError._TIMED_OUT, "not yet", retriable=True)
NEVER = KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not allowed")


class Starting:
    """Gives these answers, one for each call, and the last one for ever; a call lasts as long as it may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: KafkaError | None) -> None:
        self.answers, self.asked, self.now = list(answers), list[float](), 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def init_transactions(self, timeout_s: float) -> None:
        self.asked.append(timeout_s)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            self.now += timeout_s
            raise KafkaException(answer)


def test_a_start_that_takes_longer_is_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Starting(monkeypatch, LATER, LATER, LATER, None)
    _start(producer, 10.0)  # type: ignore[arg-type]
    assert producer.asked == pytest.approx([0.02, 0.04, 0.08, 0.16])


def test_what_is_refused_for_good_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Starting(monkeypatch, LATER, NEVER)
    with pytest.raises(KafkaException, match="not allowed"):
        _start(producer, 10.0)  # type: ignore[arg-type]
    assert len(producer.asked) == 2


def test_all_attempts_together_take_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Starting(monkeypatch, LATER)
    with pytest.raises(KafkaException, match="not yet"):
        _start(producer, 0.1)  # type: ignore[arg-type]
    assert producer.asked == pytest.approx([0.02, 0.04, 0.04])
    assert producer.now == pytest.approx(100.1)
