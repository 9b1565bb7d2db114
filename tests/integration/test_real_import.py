"""An import that is killed between two writes, on a real ZooKeeper: a second import completes, and no half state gives a partition."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from coordinator_plugin.reconcile import reconcile

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.ports import Clock, Connection, Delete, ZooKeeper
from coordinator_tasks.core.protocol.znodes import children
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import state_file, topics
from coordinator_tasks.service.nodes.action_log import asked
from coordinator_tasks.service.nodes.state_file import StateFile
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_zookeeper
from tests.fakes.cluster import PERSON
from tests.fakes.zookeeper import FakeZooKeeperServer
from tests.unit.coordinator_tasks.service.nodes.test_state_file import exported, shop
from tests.world.site import Site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
TOPICS = ("orders", "payments")
LAST = ("config/", "fleet/")
"""A topic and a fleet act as soon as their nodes are there."""
LEAST_WRITES = 20
BEGINS = 3
"""Writes of topics and fleets, the last ones of an import."""


@dataclass
class Session:
    """A session on the real ZooKeeper, with the attributes of a fake session."""

    zk: ZooKeeper
    connection: Connection = Connection.CONNECTED

    def __getattr__(self, name: str) -> object:
        return getattr(self.zk, name)


@dataclass
class RealServer:
    """The real ZooKeeper in the place of the world's fake one; `folder` is a chroot of its own."""

    address: str
    folder: str
    clock: Clock | None = None
    sessions: ExitStack = field(default_factory=ExitStack)

    def connect(self) -> Session:
        zk = open_zookeeper(Settings("shop", f"{self.address}/{self.folder}", {"bootstrap.servers": "unused:9092"}))
        self.sessions.callback(zk.close)
        return Session(zk)


@dataclass
class Killed:
    """A session whose process is killed after write number `last`; `ensure` counts as one write."""

    zk: ZooKeeper
    last: int
    count: int = 0

    def ensure(self, path: str) -> None:
        self._counted(lambda: self.zk.ensure(path))

    def transact(self, operations: list[object]) -> object:
        return self._counted(lambda: self.zk.transact(operations))  # type: ignore[arg-type]

    def _counted(self, write: Callable[[], object]) -> object:
        done = write()
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self.zk, name)


@dataclass
class Imports:
    """Imports of one file into empty clusters, each at a chroot of its own."""

    zookeeper: EmbeddedZooKeeper
    base: str
    old: Site
    state: StateFile

    @contextmanager
    def cluster(self, folder: str) -> Iterator[Site]:
        server = RealServer(self.zookeeper.connect_string, f"{self.base}-{folder}")
        with server.sessions:
            yield Site("shop", self.old.clock, self.old.kafka, self.old.statuses, cast("FakeZooKeeperServer", server))

    def done(self, site: Site) -> None:
        """Import to the end: all of the file is there, unchanged, with one record of the action."""
        state_file.restore(site.coordinator, state_file.plan(site.coordinator, self.state), PERSON, "moved")
        there = state_file.take(site.coordinator).nodes
        assert {path: there.get(path) for path in self.state.nodes} == self.state.nodes
        assert [one.action for one in asked(site.coordinator)].count("import") == 1

    def dies_after(self, folder: str, last: int) -> bool:
        """Import in a process that is killed after this write. Return whether the process was killed."""
        process = multiprocessing.get_context("fork").Process(target=self._import, args=(folder, last))
        process.start()
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode != 0

    def writes(self) -> int:
        """Writes of a whole import."""
        with self.cluster("whole") as site:
            counted = Killed(site.zk, 0)
            c = replace(site.coordinator, zk=cast("ZooKeeper", counted))
            state_file.restore(c, state_file.plan(c, self.state), PERSON, "moved")
        assert counted.count > LEAST_WRITES
        return counted.count

    def _import(self, folder: str, last: int) -> None:
        with self.cluster(folder) as site:
            c = replace(site.coordinator, zk=cast("ZooKeeper", Killed(site.zk, last)))
            state_file.restore(c, state_file.plan(c, self.state), PERSON, "moved")

    def missing(self, site: Site) -> set[str]:
        """Return the missing nodes that a topic's plan needs."""
        return {one for one in self.state.nodes if not one.startswith(LAST)} - state_file.take(
            site.coordinator
        ).nodes.keys()


@pytest.fixture
def imports(zookeeper: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Imports:
    monkeypatch.setattr(state_file, "_WRITE_NODES", 1)  # a transaction for each node: the largest number of half states
    old = shop()
    return Imports(zookeeper, tmp_path.name, old, state_file.decode("shop.state", exported(old)))


def deaths(imports: Imports, name: str, writes: Iterable[int]) -> Iterator[Site]:
    """Yield the cluster after each of these deaths."""
    for last in writes:
        folder = f"{name}-{last}"
        assert imports.dies_after(folder, last)
        with imports.cluster(folder) as site:
            yield site


def test_a_second_import_completes_what_one_killed_after_any_write_has_begun_also_beside_reconcile(
    imports: Imports,
) -> None:
    for site in deaths(imports, "again", range(1, imports.writes() + 1)):
        reconcile(site.coordinator)
        assert not owned(site)
        imports.done(site)


def test_consumers_that_start_in_a_half_state_get_only_topics_of_which_all_is_there(imports: Imports) -> None:
    seen = set[tuple[str, ...]]()
    writes = imports.writes()
    spread = {*range(1, writes, 5), *range(writes - BEGINS, writes + 1)}
    for site in deaths(imports, "started", sorted(spread)):
        missing = imports.missing(site)
        topics.refresh_partitions(site.coordinator)
        site.starts("a", "b")
        site.settles()
        found = owned(site)
        seen.add(tuple(found))
        assert not (found and missing)
        for topic in found:
            site.check(topic)
            before = imports.old.node(topic)
            assert topic != "orders" or site.node(topic).epoch > before.epoch, (
                "the world's offsets are all of the first topic"
            )
            assert all(number > before.incarnations[name] for name, number in site.node(topic).incarnations.items())
        refused(imports, site, "consumers are registered")
        for consumer in "ab":
            site.dies(consumer)
        refused(imports, site, "is not empty")
        remove(site.zk, site.paths.base)
        imports.done(site)
    assert seen == {(), TOPICS[:1], TOPICS}


def owned(site: Site) -> list[str]:
    """Return the topics with partitions that a consumer owns or gets."""
    nodes = {one: site.zk.find(site.paths.topic(one)) for one in TOPICS}
    there = [topic for topic, node in nodes.items() if node is not None and node.data]
    return [one for one in there if site.node(one).assignments or site.node(one).handoff]


def refused(imports: Imports, site: Site, said: str) -> None:
    before = state_file.take(site.coordinator).nodes
    with pytest.raises(Refused, match=said):
        state_file.plan(site.coordinator, imports.state)
    assert state_file.take(site.coordinator).nodes == before


def remove(zk: ZooKeeper, path: str) -> None:
    """Remove the tree, as the refusal tells a person."""
    for name in children(zk, path):
        remove(zk, f"{path}/{name}")
    zk.transact([Delete(path)])
