"""The thread for the application's listener and interceptors: calls, and use of the answers."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest
from structlog.contextvars import get_contextvars

from spark_apps.agent.ownership.listening import Happening, Telling
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.reports import Reports
from spark_apps.agent.threads.callbacks import Callbacks
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener, Hooks

ENDS_WITHIN_S = 60.0


class Topic:
    """An ownership with pending calls, and a list of the answers."""

    topic = "t"

    def __init__(self) -> None:
        self.reports = Reports()
        self.due: deque[Telling] = deque()
        self.answers: list[tuple[Telling, Mapping[int, int]]] = []
        self.asked = threading.Event()

    @property
    def listening(self) -> "Topic":
        return self

    def telling(self) -> Telling | None:
        self.asked.set()
        return self.due.popleft() if self.due else None

    def told(self, telling: Telling, wanted: Mapping[int, int]) -> None:
        self.answers.append((telling, wanted))


class Listener(ConsumerRebalanceListener):
    """`wants` is the answer; a call about partition 13 raises."""

    def __init__(self, wants: dict[int, int] | None, error: type[BaseException] = RuntimeError) -> None:
        self.wants = wants
        self.error = error
        self.heard: list[tuple[str, str, Mapping[int, int]]] = []

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, int] | None:
        self._hear("assigned", topic, offsets)
        return self.wants

    def on_partitions_revoked(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._hear("revoked", topic, offsets)

    def on_partitions_lost(self, topic: str, offsets: Mapping[int, int]) -> None:
        self._hear("lost", topic, offsets)

    def _hear(self, what: str, topic: str, offsets: Mapping[int, int]) -> None:
        if 13 in offsets:
            raise self.error("unlucky")
        self.heard.append((what, topic, offsets))
        self.thread, self.about = threading.current_thread(), dict(get_contextvars())


class Commits(ConsumerInterceptor):
    """Records the reported commits."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_commit(self, topic: str, offsets: object) -> None:
        self.seen.append((topic, offsets))


Start = Callable[[Topic, Hooks], Callbacks]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the calls for a topic, and ends the calls after the test."""
    started: list[Callbacks] = []

    def begin(topic: Topic, hooks: Hooks) -> Callbacks:
        turn = threading.Condition()

        def edit(change: Callable[[TopicOwnership], Any]) -> Any:
            with turn:
                return change(cast(TopicOwnership, topic))

        started.append(Callbacks(cast(TopicOwnership, topic), hooks, turn, edit))
        return started[-1]

    yield begin
    for one in started:
        one.close()


@pytest.mark.parametrize("wants", [None, {3: 7}])
def test_what_is_due_is_told_before_the_end_and_the_wish_passed_on(start: Start, wants: dict[int, int] | None) -> None:
    topic, listener, commits = Topic(), Listener(wants), Commits()
    tellings = [Telling(happening, {3: 5}) for happening in (Happening.ASSIGNED, Happening.REVOKED, Happening.LOST)]
    topic.due.extend(tellings)
    calls = start(topic, Hooks(listener, (commits,)))
    calls.committed({3: 6})
    calls.close()
    assert listener.heard == [(what, "t", {3: 5}) for what in ("assigned", "revoked", "lost")]
    assert topic.answers == [(one, (wants or {}) if one is tellings[0] else {}) for one in tellings]
    assert (listener.thread.name, listener.thread.daemon, listener.about) == ("callbacks-t", True, {"topic": "t"})
    assert commits.seen == [("t", {3: 6})]
    assert topic.reports.all() == ()


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_listener_that_fails_is_reported_and_the_partition_goes_on(start: Start, error: type[BaseException]) -> None:
    topic = Topic()
    topic.due.append(Telling(Happening.ASSIGNED, {13: 5}))
    start(topic, Hooks(Listener({13: 9}, error))).close()
    assert [answer for _, answer in topic.answers] == [{}]
    assert topic.reports.all() == (f"on_partitions_assigned failed: {error.__name__}: unlucky",)


def test_it_goes_on_asking_when_nothing_was_due_and_ends_when_told(start: Start) -> None:
    topic, listener = Topic(), Listener(None)
    calls = start(topic, Hooks(listener))
    assert topic.asked.wait(ENDS_WITHIN_S)
    topic.due.append(Telling(Happening.REVOKED, {3: 5}))
    calls.close()
    assert listener.heard == [("revoked", "t", {3: 5})]
    assert not calls._thread.is_alive()
