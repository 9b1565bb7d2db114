"""An upgrade of a fleet of plain consumers on real ZooKeeper and Kafka while records flow: it fails in its second step."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.fleet.upgrade import Rule, Upgrade, UpgradePhase
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import upgrade_report, upgrades
from coordinator_tasks.service.fleets.upgrade_begin import WantedUpgrade, begin
from coordinator_tasks.service.nodes import fleet, upgrade_store
from coordinator_tasks.service.plan import pauses, transitions
from coordinator_tasks.wiring import open_coordinator
from spark_apps.plain import Record, Sink
from tests.integration.agent_site import Traffic, wait_for
from tests.integration.real_site import LIMIT_S, QUICK, Consumer, Ledger, Managed
from tests.stable import stable_node

PARTITIONS = 8
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600), pytest.mark.partitions(PARTITIONS)]
APP, OLD, NEW = "billing", ("b-1", "b-2"), ("b-3", "b-4")
SLOW_S = 5.0


@dataclass
class SlowLedger(Ledger):
    """A sink that takes five seconds for a batch of these consumers."""

    slow: set[str] = field(default_factory=set)

    def sink(self, consumer: Consumer) -> Sink:
        take, never = super().sink(consumer), threading.Event()

        def slowed(topic: str, records: Sequence[Record]) -> None:
            if consumer.name in self.slow:
                never.wait(SLOW_S)
            take(topic, records)

        return slowed


@pytest.fixture
def managed(managed: Managed) -> Managed:
    site = managed.site
    site.settings = replace(site.settings, allowed=AllowedLaunches(applications="/opt/*/main.py"))
    managed.ledger = SlowLedger()
    return managed


@contextmanager
def running(managed: Managed) -> Iterator[Coordinator]:
    """The plain loop, and a fleet in version v1 that owns everything."""
    quick = replace(managed.site.settings, policy=QUICK, answer_timeout_s=4.0)
    with open_coordinator(quick) as c, managed.looping():
        fleet.set_fleet(c, Fleet(APP, "/opt/{code}/main.py", OLD, code="v1"))
        launch(c, managed)
        wait_for(lambda: owners(managed) == set(OLD), "the fleet owns everything", LIMIT_S)
        yield c


def owners(managed: Managed) -> set[str]:
    """Who owns something, while the topic is Stable."""
    node = stable_node(managed.site.zk.find, managed.site.paths, managed.site.topic)
    return set(node.assignments.values()) if node is not None else set()


def launch(c: Coordinator, managed: Managed) -> None:
    for one in fleet.missing(c):
        managed.join(one.consumer)


def followed(c: Coordinator, managed: Managed, until: tuple[UpgradePhase, int]) -> Upgrade:
    """Launch what is missing and do the upgrade's steps until it is there, or over."""
    problems: list[str] = []

    def there() -> bool:
        launch(c, managed)
        for line in upgrades.advance(c, problems):
            print(line)
        one = upgrade_store.read(c, APP)
        return one.over or (one.phase, one.step) == until

    wait_for(there, f"the upgrade is {until}: {problems[-3:]}", LIMIT_S)
    return upgrade_store.read(c, APP)


def to_v2(c: Coordinator, hold_s: float = 4.0) -> None:
    now = fleet.version_of(fleet.fleet_of(c, APP))
    wish = WantedUpgrade(
        APP, "v2", replace(now, code="v2"), steps=(25, 50, 100), hold_s=hold_s, rule=Rule(max_lag_s=1.0)
    )
    begin(c, wish, by="ada", why="test")


def measured(c: Coordinator, managed: Managed) -> upgrade_report.UpgradeReport:
    """The report, once each move is measured."""
    wait_for(lambda: not pauses.complete(c, transitions.topics(c)), "pauses are measured", 40)
    found = upgrade_report.report(c, APP)
    print("\n".join(found.lines))
    return found


def test_an_upgrade_that_fails_in_its_second_step_moves_everything_back_and_loses_nothing(managed: Managed) -> None:
    assert isinstance(managed.ledger, SlowLedger)
    with running(managed) as c:
        traffic = Traffic(managed.site, 50.0, str)
        managed.ledger.grown(range(PARTITIONS), "records flow")
        to_v2(c, hold_s=3 * SLOW_S)  # the lag has to be seen while the second step is judged
        held = followed(c, managed, (UpgradePhase.HOLDING, 1))
        assert held.step == 1, held.reason
        managed.ledger.slow = set(NEW)
        done = followed(c, managed, (UpgradePhase.ROLLED_BACK, 1))
        assert done.phase is UpgradePhase.ROLLED_BACK
        assert done.reason.startswith("step 2 of 3 (50 %): a lag of more than 1 s: ")
        wait_for(lambda: owners(managed) == set(OLD), "Stable with the old ones", LIMIT_S)
        assert fleet.fleet_of(c, APP).consumers == OLD
        wait_for(lambda: [managed.consumers[one].code for one in NEW] == [0, 0], "the new ones have left", LIMIT_S)
        managed.ledger.grown(range(PARTITIONS), "records go on")
        sent = traffic.close()
        managed.consumed(sent)
        found = measured(c, managed)
        there = {one.partition for one in found.moved if one.taker in NEW}
        assert there == {one.partition for one in found.moved if one.giver in NEW}
        assert len(there) == PARTITIONS // 2
    managed.judge(sent)
