"""Answers that come late, as on a busy host, count."""

import threading
from collections.abc import Iterator

import pytest

from spark_apps.spark.asking import Asking


@pytest.fixture
def asking() -> Iterator[Asking]:
    one = Asking("test")
    yield one
    one.close()


class Slow:
    """A question whose answer comes when the test says so."""

    def __init__(self, answer: int) -> None:
        self.answer, self.times, self.may = answer, 0, threading.Event()

    def __call__(self) -> int:
        self.times += 1
        self.may.wait(10)
        return self.answer


def late(asking: Asking, question: Slow, about: object) -> None:
    assert asking.ask(question, 0.01, about) is None
    assert asking.ask(question, 0.01, about) is None, "the first answer is awaited"
    assert asking._late is not None
    question.may.set()
    asking._late[0].result(10)


def test_a_late_answer_is_the_next_calls_and_then_the_question_is_asked_again(asking: Asking) -> None:
    query, question = object(), Slow(7)
    late(asking, question, query)
    assert asking.ask(question, 10, query) == 7
    assert question.times == 1
    assert asking.ask(question, 10, query) == 7
    assert question.times == 2


def test_a_late_answer_about_another_thing_is_dropped(asking: Asking) -> None:
    late(asking, Slow(7), object())
    assert asking.ask(lambda: 8, 10, object()) == 8


def test_a_late_error_is_raised(asking: Asking) -> None:
    query, may = object(), threading.Event()

    def fails() -> int:
        may.wait(10)
        raise OSError("gone")

    assert asking.ask(fails, 0.01, query) is None
    may.set()
    assert asking._late is not None
    asking._late[0].exception(10)
    with pytest.raises(OSError, match="gone"):
        asking.ask(fails, 10, query)
