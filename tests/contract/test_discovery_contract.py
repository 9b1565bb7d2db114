"""What every registry of consumers must do: in ZooKeeper (fake and real), in a folder, and the fake of the services."""

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery, ZooKeeperRegistry
from coordinator_tasks.adapters.file_registry import FileDiscovery, FileRegistry
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.core.errors import IdInUse, InvalidName
from coordinator_tasks.core.model import Member
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Discovery, Registry, ZooKeeper
from tests.fakes.consumers import FakeDiscovery
from tests.fakes.zookeeper import FakeZooKeeperServer

WAIT_S = 60.0
A1 = Member("a", 1, "http://127.0.0.1:7001", "boot", "rack-1", 2.0, ("orders",), True, {"zone": "x"})
A2 = replace(A1, incarnation=2, address="http://127.0.0.1:7002")
B1 = Member("b", 1, "http://127.0.0.1:7003", "boot")


@dataclass
class Bench:
    """The coordinator's side, and a registry for each process of a consumer."""

    discovery: Discovery
    process: Callable[[], Registry]
    tells_changes: bool = True


def in_zookeeper(connect: Callable[[], ZooKeeper]) -> Bench:
    paths = Paths(f"c{uuid.uuid4().hex[:8]}")
    return Bench(ZooKeeperDiscovery(connect(), paths), lambda: ZooKeeperRegistry(connect(), paths, SystemClock()))


@pytest.fixture(params=["fake ZooKeeper", "ZooKeeper", "folder", "fake"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    ends: list[Callable[[], None]] = []

    def kept(session: ZooKeeper) -> ZooKeeper:
        ends.append(session.close)
        return session

    def in_folder() -> Registry:
        registry = FileRegistry(tmp_path, SystemClock())
        ends.append(registry.close)
        return registry

    if request.param == "fake ZooKeeper":
        server = FakeZooKeeperServer()
        yield in_zookeeper(lambda: kept(server.connect()))
    elif request.param == "ZooKeeper":
        hosts = request.getfixturevalue("zookeeper").connect_string
        yield in_zookeeper(lambda: kept(KazooZooKeeper(hosts)))
    elif request.param == "folder":
        yield Bench(FileDiscovery(tmp_path, SystemClock()), in_folder, tells_changes=False)
    else:
        fake = FakeDiscovery()
        yield Bench(fake, lambda: fake)
    for end in ends:
        end()


def seen(bench: Bench) -> dict[str, Member]:
    return {name: replace(member, registered_at=0.0) for name, member in bench.discovery.members().items()}


def test_registered_consumers_are_seen_with_all_they_said(bench: Bench) -> None:
    bench.process().register(A1)
    bench.process().register(B1)
    assert seen(bench) == {"a": A1, "b": B1}
    assert all(member.registered_at > 0 for member in bench.discovery.members().values())


def test_registering_again_changes_nothing(bench: Bench) -> None:
    process = bench.process()
    process.register(A1)
    first = bench.discovery.members()
    process.register(A1)
    assert bench.discovery.members() == first


def test_a_process_registers_again_after_it_lost_its_registration(bench: Bench) -> None:
    process = bench.process()
    process.register(A1)
    process.deregister("a", 1)
    process.register(A1)
    assert seen(bench) == {"a": A1}


def test_a_node_of_our_own_older_session_is_replaced(bench: Bench) -> None:
    bench.process().register(A1)
    bench.process().register(replace(A1, rack="rack-2"))
    assert seen(bench) == {"a": replace(A1, rack="rack-2")}


def test_a_live_id_is_refused_to_another_incarnation_and_says_where_it_is(bench: Bench) -> None:
    bench.process().register(A1)
    with pytest.raises(
        IdInUse, match=r"'a' is in use: incarnation 1 is registered at http://127\.0\.0\.1:7001.* stop "
    ):
        bench.process().register(A2)
    assert seen(bench) == {"a": A1}


def test_a_live_id_is_refused_to_another_process_with_the_same_number(bench: Bench) -> None:
    """As can happen once ZooKeeper has lost its counters."""
    bench.process().register(A1)
    with pytest.raises(IdInUse):
        bench.process().register(replace(A1, address="http://127.0.0.1:7009"))
    assert seen(bench) == {"a": A1}


def test_an_id_is_free_once_its_holder_has_left(bench: Bench) -> None:
    first = bench.process()
    first.register(A1)
    first.deregister("a", 1)
    bench.process().register(A2)
    assert seen(bench) == {"a": A2}


def test_nobody_deregisters_another_incarnation(bench: Bench) -> None:
    bench.process().register(A2)
    other = bench.process()
    other.deregister("a", 1)
    other.deregister("b", 1)
    assert seen(bench) == {"a": A2}


def test_a_change_wakes_the_watcher(bench: Bench) -> None:
    if not bench.tells_changes:
        pytest.skip("this registry cannot tell; polling finds changes")
    process = bench.process()
    process.register(B1)
    joined, left = threading.Event(), threading.Event()
    bench.discovery.watch(joined.set)
    process.register(A1)
    assert joined.wait(WAIT_S)
    bench.discovery.watch(left.set)
    process.deregister("a", 1)
    assert left.wait(WAIT_S)


def test_an_impossible_id_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidName):
        bench.process().register(replace(A1, consumer="../a"))
