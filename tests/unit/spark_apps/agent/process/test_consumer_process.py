"""A consumer's process, also with a very early request to leave."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import pytest

from coordinator_tasks import wiring
from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.discovery import ZooKeeperRegistry, claim_incarnation, read_claim
from coordinator_tasks.core.model import Ending, Member, TopicNode
from coordinator_tasks.core.names import Paths
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import ConsumerSession
from spark_apps import plain
from spark_apps.agent.process import consumer_process
from spark_apps.agent.process.consumer_process import ConsumerSettings, Process
from spark_apps.agent.settings import Identity
from tests.fakes.clock import FakeClock
from tests.fakes.topics import FakeTopics
from tests.fakes.zookeeper import FakeZooKeeperServer

PATHS = Paths("c")
SETTINGS = ConsumerSettings(Settings("c", "127.0.0.1:1", {"bootstrap.servers": "127.0.0.1:1"}), "a")
WITHIN_S = 60.0


def no_topics(failure: str = "") -> FakeTopics:
    topics = FakeTopics(Identity("a", "c", 1), FakeClock())
    topics.broken = failure
    return topics


class Site:
    """A process of consumer `a` on ZooKeeper in memory, with production's interface and times."""

    def __init__(self) -> None:
        server = FakeZooKeeperServer(FakeClock())
        self.zk = server.connect()
        for folder in PATHS.folders():
            self.zk.ensure(folder)
        zk, clock = server.connect(), SystemClock()
        session = ConsumerSession(SETTINGS.site, PATHS, zk, ZooKeeperRegistry(zk, PATHS, clock), clock)
        self.process = Process(SETTINGS, session, claim_incarnation(zk, PATHS, "a", 1))

    @property
    def registrations(self) -> int:
        return len(read_claim(self.zk, PATHS, "a").registrations)


@pytest.fixture
def site() -> Site:
    return Site()


def code_of(run: Callable[[], int], leave: Callable[[], None]) -> int | None:
    """The exit code of `run`; `None` if only a second request ended the process."""
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(run()), daemon=True)
    thread.start()
    thread.join(WITHIN_S)
    found = codes[0] if codes else None
    leave()
    thread.join(WITHIN_S)
    return found


def test_a_leave_that_comes_before_the_agent_is_there_ends_it_unregistered(site: Site) -> None:
    """As during Spark's warm-up of some seconds."""
    site.process.leave()
    assert code_of(lambda: site.process.run(no_topics()), site.process.leave) == 0
    assert read_claim(site.zk, PATHS, "a").ended == {1: Ending.LEFT}
    assert site.registrations == 0, "nobody is given anything who only comes to leave"


def test_the_launcher_is_told_that_the_process_is_to_end_and_why(site: Site, tmp_path: Path) -> None:
    site.process.settings = replace(SETTINGS, run_folder=str(tmp_path))
    folder = RunFolder(tmp_path)
    assert folder.leaves() is None
    why = "topic t: the query has ended: boom"
    assert code_of(lambda: site.process.run(no_topics(why)), site.process.leave) == 1
    assert folder.leaves() == why
    folder.begin()
    assert folder.leaves() is None, "a new start has said nothing yet"


def test_a_leave_before_zookeeper_has_answered_is_not_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def opened(_settings: ConsumerSettings) -> Iterator[Process]:
        consumer.leave()
        yield site.process

    monkeypatch.setattr(plain, "open_process", opened)
    consumer = plain.PlainConsumer(SETTINGS, lambda *_: None)
    assert code_of(consumer.run, consumer.leave) == 0
    assert read_claim(site.zk, PATHS, "a").ended == {1: Ending.LEFT}


def test_a_topics_offsets_are_asked_for_at_our_own_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str]] = []

    def offsets(kafka: dict[str, str], group: str, _limit_s: float) -> object:
        asked.append((kafka["bootstrap.servers"], kafka["isolation.level"], group))
        return object()

    monkeypatch.setattr(wiring, "ConfluentGroupOffsets", offsets)
    process = Site().process
    node = TopicNode("rogue:9092", "g", 1, "g1", "id-1", properties={"isolation.level": "read_committed"})
    first = process.connect(node)
    assert process.connect(replace(node, bootstrap_servers="other:9092")) is first, "one client for a group"
    assert asked == [("127.0.0.1:1", "read_committed", "g")]


def test_a_spark_application_is_registered_with_its_page(site: Site) -> None:
    site.process.works_in("http://h:4040", "local-17")
    member = site.process._registration("http://h:1")
    assert (member.spark_ui, member.application_id) == ("http://h:4040", "local-17")


def test_every_field_of_a_registration_is_given(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def member(**values: object) -> Member:
        given.extend(values)
        return Member(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(consumer_process, "Member", member)
    site.process.leave()
    site.process.run(no_topics())
    by_others = {"registered_at", "formats", "problem"}  # ZooKeeper, the release, and its reader
    assert set(given) == {field.name for field in fields(Member)} - by_others
