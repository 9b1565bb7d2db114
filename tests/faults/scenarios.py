"""Cases with operations that a join and a leave do not have, each with phases of its own; a point's phase says which scenario it belongs to."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.errors import NodeMissing
from coordinator_tasks.core.model import Record
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import FIRST, SECOND, Actor, Case, Failed, Result
from tests.faults.persons import PERSON, ask, recorded, wanted
from tests.faults.proxy import Proxy
from tests.faults.releases import Releases
from tests.faults.roles import AGENT_TIMING, COORDINATOR, TIMING, Life
from tests.integration import agent_site
from tests.stable import stable_node

CHORES_S = 0.3
REGISTER_S = 0.5
RESTLESS_S = 0.1
BOTH = {FIRST, SECOND}
RECORDS = 500
GROWN = 2


class Restless(Case):
    """The join and the leave by consumers that look and register again all the time, so that short phases have that, too."""

    def _life(self, role: str) -> Life:
        agent = replace(AGENT_TIMING, poll_s=RESTLESS_S, register_s=RESTLESS_S)
        timing = replace(TIMING, bounds_s=RESTLESS_S, measure_s=RESTLESS_S)
        return replace(super()._life(role), chores_s=CHORES_S, timing=timing, agent_timing=agent)

    def _initial(self) -> None:
        self._phase("initial")
        self._start(COORDINATOR)
        listed = self.paths.partition(self.topic, self.servers.partitions - 1)
        self._await(lambda: self.zk.find(listed) is not None, "the topic is there before its consumer")
        self._start(FIRST)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")


@dataclass
class Transactional(Case):
    """The join and the leave where commits are transactions. The first one of a broker takes its time."""

    fence: str = TRANSACTIONAL_FENCE


class Scenario(Case):
    """Two consumers from the beginning, and a person who asks for something in some of the phases."""

    standing: ClassVar[frozenset[str]] = frozenset()
    """Phases at whose end records do not flow: a brief case goes on."""

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST, SECOND):
            self._start(role)
        self._await(lambda: self._settled(BOTH), "Stable with both")

    def _life(self, role: str) -> Life:
        timing = replace(AGENT_TIMING, register_s=REGISTER_S)
        return replace(super()._life(role), chores_s=CHORES_S, agent_timing=timing)

    def _does(self, role: str) -> Callable[[Life], None]:
        return ask if role == PERSON else super()._does(role)

    def _may_end(self, role: str) -> bool:
        return role == PERSON

    def _over(self) -> bool:
        return self.phase not in self.standing and super()._over()

    def _asks(self, wish: str) -> None:
        """A person asks for it, as often as it takes."""
        actor = self.actors.pop(PERSON, None)
        if actor is not None and actor.process is not None:
            with self.servers.processes:
                actor.process.close()
        self.actors[PERSON] = Actor(replace(self._life(PERSON), wish=wish))
        self._start(PERSON)
        self._await(lambda: self.actors[PERSON].ended, f"{wish} is asked")

    def _scenario(self) -> None:
        super()._scenario()
        self._await(self._recorded, "all that persons have done stands in the history once")

    def _recorded(self) -> bool:
        found, asked = recorded(self.coordinator), wanted(self.folder)
        if len(found) > len(asked):
            raise Failed(f"recorded are {found}, and asked was for {asked}; see {self.folder}")
        return found == asked


class Positions(Scenario):
    """Partitions are paused, reset to where they are, and read again."""

    standing: ClassVar[frozenset[str]] = frozenset({"pause", "reset"})

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._pause, self._reset, self._resume)

    def _pause(self) -> None:
        self._phase("pause")
        self._asks("pause")
        self._await(self._still, "everything is paused and committed")

    def _reset(self) -> None:
        self._phase("reset")
        self._asks("reset")
        done = self.servers.partitions
        self._await(lambda: len(self._resets()) == done and self._still(), "everything is reset, and Stable")

    def _resume(self) -> None:
        self._phase("resume")
        self._asks("resume")
        self._await(lambda: self._settled(BOTH) and self._flows(), "Stable, and everything flows again")

    def _resets(self) -> list[Record]:
        records = history.records(self.coordinator, self.topic, RECORDS)
        return [one for one in records if one.plan is not None and one.plan.strategy == positions.RESET]

    def _still(self) -> bool:
        """All owners have acted on the pause, and Kafka has what has passed their sinks."""
        node = self._owned(BOTH)
        if node is None or len(node.paused) < self.servers.partitions:
            return False
        rows = self.rows.all()
        committed = {one.partition: one.entry for one in self.servers.commits.of(self.group, self.topic)}
        for partition, owner in node.assignments.items():
            with suppress(OSError, NodeMissing):
                address = decode_member("", self.zk.get(self.paths.member(owner)).data).address
                answer = agent_site.ask(address)
                status = answer.topics[self.topic]
                at = status.running[partition].position if partition in status.running else -1
                # What a killed process passed without a commit is read again after the pause.
                mine = [
                    one.offset for one in rows if (one.partition, one.incarnation) == (partition, answer.incarnation)
                ]
                passed = max(mine, default=self.base[partition] - 1) + 1
                if status.acted_epoch >= node.epoch and at == committed[partition].offset >= passed:
                    continue
            return False
        return True

    def _flows(self) -> bool:
        """Everything that was there a moment ago is processed."""
        self.target = self.servers.ends()
        return self._consumed()


@dataclass
class Removal(Scenario):
    """A person adds the topic, removes it while one of its consumers cannot reach ZooKeeper, and adds it again later."""

    standing: ClassVar[frozenset[str]] = frozenset({"remove"})
    through: Proxy | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        # Whoever cannot reach ZooKeeper takes a node only from those that have the token.
        self.settings = replace(self.settings, status_token="removal")

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._remove, self._add)

    def _life(self, role: str) -> Life:
        life = replace(super()._life(role), adds=False)
        if role != SECOND:
            return life
        self.through = Proxy(self.servers.zookeeper)
        return replace(life, settings=replace(life.settings, zookeeper=f"{self.through.address}/{self.name}"))

    def _start(self, role: str) -> None:
        super()._start(role)
        if role == SECOND and self.through is not None:
            self.through.let_through()  # its next life is not cut off

    def _initial(self) -> None:
        self._phase("initial")
        self._asks("add")
        super()._initial()

    def _remove(self) -> None:
        self._phase("remove")
        life = self._live(SECOND)
        if self.through is not None:
            self.through.refuse()
        self._await(lambda: self._live(SECOND) != life, "the registration's end")
        self._asks("remove")
        self._await(self._removed, "Stable with nothing of the removed topic")

    def _removed(self) -> bool:
        node = stable_node(self.zk.find, self.paths, self.topic)
        return node is not None and node.removed and not node.assignments

    def _add(self) -> None:
        self._phase("add")
        if self.through is not None:
            self.through.let_through()
        self._asks("add")
        self._await(lambda: self._settled(BOTH), "Stable with the topic that was added again")

    def close(self) -> None:
        super().close()
        if self.through is not None:
            self.through.__exit__()


class Growth(Scenario):
    """A topic of its own gets another partition."""

    def run(self) -> Result:
        self.servers = self.servers.own_topic(self.name)
        self.topic = self.servers.topic
        self.releases = Releases(self.zk, self.paths, self.topic, GROWN)
        try:
            return super().run()
        finally:
            self.servers.dry_up()

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._grow)

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with one partition")
        self._start(SECOND)
        self._await(lambda: self._live(SECOND) > 0 and self._settled({FIRST}), "Stable with both consumers")

    def _grow(self) -> None:
        self._phase("grow")
        self.servers.grow(GROWN)
        self.base |= dict.fromkeys(range(1, GROWN), 0)
        self._await(lambda: self._settled(BOTH), "Stable with both partitions")


SCENARIOS: Sequence[type[Case]] = (Transactional, Positions, Removal, Growth)
