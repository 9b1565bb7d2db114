"""The plain consumer without its reading threads: a reader for each topic, the end, and the command line."""

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.settings import Settings
from spark_apps import plain
from spark_apps.agent.process.consumer_process import ConsumerSettings, Process
from spark_apps.agent.settings import Identity, Terms
from spark_apps.agent.threads.topics import Topics
from spark_apps.delivery import Delivery, TransactionalSink
from spark_apps.delivery.hooks import ConsumerRebalanceListener, Hooks
from spark_apps.delivery.lineage import Dataset
from tests.fakes.kafka import FakeKafka
from tests.unit.spark_apps.test_plain import Clients, clients

__all__ = ["clients"]

NODE = TopicNode("rogue:1", "g", 1, "g1", "id-1", initial_partitions=1)
ROWS = Dataset("file", "/rows")
SETTINGS = ConsumerSettings(Settings("c", "127.0.0.1:1", {"bootstrap.servers": "k:1"}), "a")


class FakeProcess:
    """A process with `work` as its service."""

    def __init__(self, work: Callable[[plain.PlainTopics], int]) -> None:
        kafka = FakeKafka()
        kafka.create_topic("t", 1)
        self.settings, self.identity, self.clock = SETTINGS, Identity("a", "c", 1), SystemClock()
        self.told: list[tuple[object, ...]] = []
        self.lineage = SimpleNamespace(
            began=lambda *what: self.told.append(("began", *what)),
            ended=lambda *what: self.told.append(("ended", *what)),
        )
        self.left: list[float | None] = []
        self._work = work
        self._offsets = kafka.offsets("g")

    def connect(self, _node: TopicNode) -> object:
        return self._offsets

    def wake(self) -> None: ...

    def leave(self, within_s: float | None) -> None:
        self.left.append(within_s)

    def run(self, topics: Topics) -> int:
        return self._work(cast("plain.PlainTopics", topics))


Serve = Callable[[Callable[[plain.PlainTopics], int]], FakeProcess]


@pytest.fixture
def serve(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """The process opened by the next consumers."""

    def prepared(work: Callable[[plain.PlainTopics], int]) -> FakeProcess:
        process = FakeProcess(work)

        @contextmanager
        def opened(_settings: ConsumerSettings) -> Iterator[Process]:
            yield cast("Process", process)

        monkeypatch.setattr(plain, "open_process", opened)
        return process

    return prepared


def test_a_topic_that_appears_is_read_by_its_own_group_at_our_brokers(clients: Clients) -> None:
    process = FakeProcess(lambda _: 0)
    topics = plain.PlainTopics(cast("Process", process), plain.Output(lambda *_: None, writes=(ROWS,)))
    assert topics.appeared("t", NODE) == ""
    assert topics.names() == ("t",)
    assert (topics.failure(), topics.trouble()) == ("", "")
    assert clients.settings[0]["group.id"] == "g"
    assert clients.settings[0]["bootstrap.servers"] == "k:1"
    topics.halt()
    assert process.told == [("began", "t", "g", "k:1", (ROWS,)), ("ended", "t", "")]
    topics.close()


def test_refused_kafka_settings_end_the_consumer_with_the_remedy() -> None:
    process = FakeProcess(lambda _: 0)
    kafka = {**SETTINGS.site.kafka, "max.poll.interval.ms": "1"}
    process.settings = replace(SETTINGS, site=replace(SETTINGS.site, kafka=kafka))
    topics = plain.PlainTopics(cast("Process", process), plain.Output(lambda *_: None))
    said = topics.appeared("t", NODE)
    assert re.fullmatch(r"topic t: the Kafka settings are not usable: .*max\.poll\.interval\.ms.*; correct them", said)
    assert (topics.failure(), topics.names()) == (said, ())
    assert "agent-t" not in {one.name for one in threading.enumerate()}


def test_a_topic_is_delivered_as_the_output_says(clients: Clients) -> None:
    store = cast("TransactionalSink", SimpleNamespace())
    output = plain.Output(None, Delivery.EXACTLY_ONCE, store, Hooks(ConsumerRebalanceListener()))
    topics = plain.PlainTopics(cast("Process", FakeProcess(lambda _: 0)), output)
    topics.appeared("t", NODE)
    assert topics.edit("t", lambda ownership: ownership.holdings.terms) == Terms(claims=True, listening=True)
    assert topics._topics["t"].runner._sink is store
    assert len(clients.settings) == 1
    topics.close()


@pytest.mark.parametrize("broken", [False, True])
def test_every_reader_and_its_client_end_with_the_consumer(serve: Serve, clients: Clients, broken: bool) -> None:
    def work(topics: plain.PlainTopics) -> int:
        for topic in ("t", "u"):
            topics.appeared(topic, NODE)
        if broken:
            raise CoordinatorError("the id is in use")
        return 1

    process = serve(work)
    consumer = plain.PlainConsumer(SETTINGS, lambda *_: None)
    assert consumer.process is None
    if broken:
        with pytest.raises(CoordinatorError, match="in use"):
            consumer.run()
    else:
        assert consumer.run() == 1
    assert len(clients.closed) == 2
    assert cast("object", consumer.process) is process


def test_a_signal_lets_a_consumer_of_the_main_thread_leave(serve: Serve) -> None:
    def work(_: plain.PlainTopics) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    process = serve(work)
    assert plain.PlainConsumer(SETTINGS, lambda *_: None).run() == 0
    assert process.left == [None]


def test_a_consumer_is_asked_to_leave_within_a_time(serve: Serve) -> None:
    def work(_: plain.PlainTopics) -> int:
        consumer.leave(3.0)
        consumer.leave()
        return 0

    process = serve(work)
    consumer = plain.PlainConsumer(SETTINGS, lambda *_: None)
    assert consumer.run() == 0
    assert process.left == [3.0, None]


ARGUMENTS = ("--consumer", "a", "--cluster", "c", "--zookeeper", "127.0.0.1:1", "--kafka", "k:1")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> list[ConsumerSettings]:
    """The recorded settings of the log, without a set-up."""
    given: list[ConsumerSettings] = []
    monkeypatch.setattr(plain, "set_up_logs", given.append)
    return given


def test_the_command_writes_to_its_file_and_ends_with_the_consumers_code(
    serve: Serve, quiet: list[ConsumerSettings], tmp_path: Path
) -> None:
    def work(topics: plain.PlainTopics) -> int:
        found.append(topics._output)
        return 1

    serve(work)
    found: list[plain.Output] = []
    rows = tmp_path / "rows.jsonl"
    assert plain.main([*ARGUMENTS, "--sink", str(rows)]) == 1
    assert [one.consumer for one in quiet] == ["a"]
    assert found[0].writes == (Dataset("file", str(rows)),)
    assert rows.exists()
    assert cast("plain.FileSink", found[0].sink)._consumer == "a"
