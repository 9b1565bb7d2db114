"""A site with a fleet that can be upgraded: consumers are launched and leave as the fleet says, and process records at a rate."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.fleet.upgrade import Rule, Upgrade
from coordinator_tasks.core.model import Answer, ConsumerStatus, Ending, Failure, Fleet, Member, State
from coordinator_tasks.service.fleets import upgrades
from coordinator_tasks.service.fleets.upgrade_begin import Beginning, WantedUpgrade, begin
from coordinator_tasks.service.nodes import directives, fleet, upgrade_store
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import overview
from tests.world.site import LOOP, Site

APP = "billing"
OLD, NEW = ("b-1", "b-2"), ("b-3", "b-4")
TURN_S = 10.0
TURNS = 300


@dataclass
class UpgradingSite(Site):
    """`lag`: consumer → waiting records per partition; `speed`: consumer → records per second and partition.

    `reports`: consumer → reports; `away`: consumer → report about an unavailable sink; `broken`: consumers that do not
    start; `lingering`: consumers that do not leave; `advances`: whether a turn does the steps of upgrades;
    `kafka_away`: consumers without answers from Kafka.
    """

    lag: dict[str, int] = field(default_factory=dict)
    speed: dict[str, float] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    lingering: set[str] = field(default_factory=set)
    processed: dict[tuple[str, int], float] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    advances: bool = True
    kafka_away: bool = False

    def starts(self, *consumers: str, topics: tuple[str, ...] = ()) -> None:
        for consumer in consumers:
            super().starts(consumer, topics=topics)
            process = self.processes[consumer]
            self.statuses.answers[consumer] = self._answering(process.answer)

    def _answering(self, answer: Callable[[Member], Answer]) -> Callable[[Member], Answer]:
        def answered(asked: Member) -> Answer:
            said = answer(asked)
            if not isinstance(said, ConsumerStatus):
                return said
            who = said.consumer
            topics = {}
            for topic, one in said.topics.items():
                running = {
                    p: replace(
                        each,
                        position=int(self.processed.get((topic, p), 0.0)),
                        lag_records=self.lag.get(who, 0),
                        rate=100.0,
                    )
                    for p, each in one.running.items()
                }
                why = self.away.get(who, "")
                failures = (Failure(tuple(running), why, away=True),) if why and running else ()
                said_of_it = tuple(f"partitions wait: {each.why}" for each in failures)
                topics[topic] = replace(one, running=running, reports=said_of_it, failures=failures)
            reports = (self.reports[who],) if who in self.reports else ()
            return replace(said, topics=topics, reports=reports)

        return answered

    def turn(self) -> None:
        """Some seconds: launches, consumers' steps, the loop's step, leaves, records, and the upgrade."""
        for launch in fleet.missing(self.coordinator):
            if launch.consumer not in self.broken:
                self.starts(launch.consumer)
        self.clock.advance(TURN_S)
        for process in self.processes.values():
            for topic, running in process.running.items():
                for partition in running:
                    rate = self.speed.get(process.member.consumer, 100.0)
                    key = topic, partition
                    self.processed[key] = self.processed.get(key, 0.0) + rate * TURN_S
        for _ in range(3):
            self.everybody_acts()
            transitions.step(self.coordinator, transitions.topics(self.coordinator), LOOP)
        self._leave()
        if self.advances:
            self.kafka.down = self.kafka_away
            self.said += upgrades.advance(self.coordinator, self.said)
            self.kafka.down = False

    def _leave(self) -> None:
        """Let drained consumers without partitions leave."""
        for consumer in list(self.processes):
            draining = directives.read_directive(self.coordinator, consumer).draining
            nodes = [self.node(topic) for topic in transitions.topics(self.coordinator)]
            owns = any(
                consumer in node.assignments.values()
                or any(consumer in (one.giver, one.taker) for one in node.handoff.values())
                for node in nodes
            )
            if draining is not None and not owns and consumer not in self.lingering:
                self.dies(consumer, Ending.LEFT)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn()

    def turns_until(self, reached: Callable[[Upgrade], bool]) -> Upgrade:
        for _ in range(TURNS):
            found = upgrade_store.read(self.coordinator, APP)
            if reached(found):
                return found
            self.turn()
            assert overview.unowned(self.coordinator) == {}
        raise AssertionError(f"not reached: {self.said[-5:]}; {found}")

    def ends(self) -> Upgrade:
        return self.turns_until(lambda one: one.over)

    def owners(self, topic: str = "orders") -> dict[int, str]:
        return dict(self.node(topic).assignments)

    def consumers(self) -> tuple[str, ...]:
        return fleet.fleet_of(self.coordinator, APP).consumers


def upgrading_site(partitions: int = 20, names: tuple[str, ...] = ("orders",)) -> UpgradingSite:
    """Return a fleet of two consumers in version v1, with shared topics."""
    site = UpgradingSite()
    for topic in names:
        site.add_topic(topic, partitions)
    told = Fleet(APP, "/opt/{code}/main.py", OLD, ("--set", "x=1"), code="v1")
    fleet.set_fleet(site.coordinator, told)
    site.starts(*OLD)
    site.settles()
    assert all(site.state(topic).state is State.STABLE for topic in names)
    return site


def to_v2(site: UpgradingSite, **changes: object) -> Beginning:
    """Begin the upgrade to v2."""
    now = fleet.version_of(fleet.fleet_of(site.coordinator, APP))
    wish = WantedUpgrade(APP, "v2", replace(now, code="v2"), hold_s=60.0, rule=Rule(max_lag_s=30.0))
    return begin(site.coordinator, replace(wish, **changes), by="ada", why="new release")  # type: ignore[arg-type]
