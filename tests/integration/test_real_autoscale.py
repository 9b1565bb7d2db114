"""A fleet that grows by a backlog and shrinks when it is idle, on real servers, by the commands and the real measurement."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

import pytest
from confluent_kafka import Producer

from coordinator_tasks import cli
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.fleet.growth import GrowthKind
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, growth_store, topics
from coordinator_tasks.wiring import open_coordinator
from spark_apps import plain
from spark_apps.plain import Record, Sink
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import QUIET, Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, QUICK, Consumer, Ledger, Managed
from tests.stable import stable_node

pytestmark = pytest.mark.integration
APP, PARTITIONS = "billing", 4
READ, WRITTEN = 400.0, 25.0
"""Records per second: what a consumer reads of all its partitions, and what is written to each partition."""
BACKLOG = 12_000
"""Records of each partition: one consumer has enough to read for two minutes, also where the machine is busy."""
LIMITS = ("--min", "1", "--max", "2", "--catch-up", "30", "--start-up", "1", "--window", "1")
PAUSES = ("--grow-pause", "1", "--shrink-pause", "10")


@dataclass
class PacedLedger(Ledger):
    """A sink that takes so many records per second from each consumer."""

    per_second: float = READ

    def sink(self, consumer: Consumer) -> Sink:
        take, never = super().sink(consumer), threading.Event()

        def paced(topic: str, records: Sequence[Record]) -> None:
            never.wait(len(records) / self.per_second)
            take(topic, records)

        return paced


class SlowlyRead(Managed):
    """The records are small, and so is what is fetched of a partition at once: one partition does not wait for another's backlog."""

    def add_topic(self) -> None:
        properties, site = {"max.partition.fetch.bytes": "4096"}, self.site
        site.producer = Producer({**QUIET, "bootstrap.servers": site.kafka, "linger.ms": 2, "batch.num.messages": 100})
        with open_coordinator(site.settings) as c:
            topics.add_topic(c, site.topic, site.group, properties=properties, actor=PERSON)


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Managed]:
    """A slow sink gets a few records of each partition at a time."""
    monkeypatch.setattr(plain, "MOST_MESSAGES", 100)
    made = SlowlyRead(Site(zookeeper.connect_string, kafka.bootstrap_servers, PARTITIONS))
    made.ledger = PacedLedger()
    for name, value in made.site.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def c(managed: Managed) -> Iterator[Coordinator]:
    with open_coordinator(replace(managed.site.settings, policy=QUICK)) as coordinator, managed.looping():
        yield coordinator


@pytest.fixture
def traffic(managed: Managed) -> Iterator[Traffic]:
    """A backlog in each partition, and records that flow."""
    managed.site.produce(BACKLOG)
    made = Traffic(managed.site, WRITTEN, str)
    yield made
    made.close()


def owners(managed: Managed) -> set[str]:
    """Who owns something, while the topic is Stable."""
    node = stable_node(managed.site.zk.find, managed.site.paths, managed.site.topic)
    return set(node.assignments.values()) if node is not None and len(node.assignments) == PARTITIONS else set()


def launched(managed: Managed, c: Coordinator) -> list[str]:
    """Do what a launcher does."""
    found = [one.consumer for one in fleet.missing(c)]
    for consumer in found:
        managed.join(consumer)
    return found


def test_a_backlog_grows_the_fleet_and_idleness_shrinks_it_and_the_history_says_why(
    managed: Managed,
    c: Coordinator,
    traffic: Traffic,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert isinstance(managed.ledger, PacedLedger)

    def ran(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        said = capsys.readouterr()
        assert ended.value.code == 0, said.err
        return said.out

    ran("set-fleet", APP, "--application", OWN_APPLICATIONS[0], "--consumer", "b-1")
    assert launched(managed, c) == ["b-1"]
    wait_for(lambda: owners(managed) == {"b-1"}, "the fleet owns everything", LIMIT_S)
    wait_for(lambda: managed.ledger.rows, "something is read", LIMIT_S)

    ran("set-growth", APP, *LIMITS, *PAUSES, "--why", "to watch it")
    said = ran("autoscale", APP)
    assert said.startswith("billing: would grow to 2 consumers: "), said
    assert fleet.fleet_of(c, APP).consumers == ("b-1",), "in shadow mode it is only said"

    ran("set-growth", APP, *LIMITS, *PAUSES, "--act", "--why", "it was right")
    said = ran("autoscale", APP)
    assert said.startswith("billing: grow to 2 consumers: "), said
    assert "records/s are needed, and 1 x " in said
    managed.ledger.per_second = inf
    monkeypatch.setattr(plain, "MOST_MESSAGES", 5_000)
    assert launched(managed, c) == ["b-2"]
    wait_for(lambda: owners(managed) == {"b-1", "b-2"}, "the new one has its share", LIMIT_S)

    sent = BACKLOG + traffic.close()
    ends = [sent] * PARTITIONS
    committed = lambda: [*managed.site.positions().values()]  # noqa: E731
    wait_for(lambda: committed() == ends, "the backlog is read", LIMIT_S)
    said = ran("autoscale", APP)
    assert said.startswith("billing: shrink to 1 consumer: 0 records/s are needed, and 2 x "), said
    (left,) = {"b-1", "b-2"} - set(fleet.fleet_of(c, APP).consumers)
    stays = fleet.fleet_of(c, APP).consumers[0]
    wait_for(lambda: owners(managed) == {stays}, f"{left} has given everything away", LIMIT_S)
    wait_for(lambda: managed.consumers[left].code == 0, f"{left} has left", LIMIT_S)
    assert [len(managed.ledger.offsets(p)) for p in range(PARTITIONS)] == ends, "nothing is lost, nothing is read twice"

    shrunk, grown, *_ = json.loads(ran("history", APP, "--actions", "--json"))
    assert [one["why"].partition(":")[0] for one in (shrunk, grown)] == [
        "shrink to 1 consumer",
        "grow to 2 consumers",
    ]
    decided = growth_store.read(c, APP).memory.decisions
    assert [(one.kind, one.acted) for one in decided] == [
        (GrowthKind.GROW, False),
        (GrowthKind.GROW, True),
        (GrowthKind.SHRINK, True),
    ]
