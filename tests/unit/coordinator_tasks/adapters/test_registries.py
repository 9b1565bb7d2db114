"""Behaviour of a single kind of registry: claims, guards, lost answers; a folder's heart-beats."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.discovery import (
    ZooKeeperDiscovery,
    ZooKeeperRegistry,
    claim_incarnation,
    note_registration,
    read_claim,
    write_claim,
)
from coordinator_tasks.adapters.file_registry import FileDiscovery, FileRegistry
from coordinator_tasks.core.errors import DiscoveryUnavailable, LookAgain, StoreUnavailable
from coordinator_tasks.core.model import Absence, Ending, IdClaim, Member
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, Delete, VersionCheck
from coordinator_tasks.core.protocol.claims import ended
from tests.fakes.clock import FakeClock
from tests.fakes.zookeeper import FakeZooKeeper, FakeZooKeeperServer

PATHS = Paths("shop")
A1 = Member("a", 1, "http://h:1", "boot")
WAIT_S = 5.0
Follow = Callable[..., IdClaim]


@pytest.fixture
def server() -> FakeZooKeeperServer:
    return FakeZooKeeperServer()


def registry(session: FakeZooKeeper, wait_s: float = 0.0) -> ZooKeeperRegistry:
    return ZooKeeperRegistry(session, PATHS, FakeClock(500.0), wait_s)


@pytest.mark.parametrize("applied", [False, True])
def test_a_draw_whose_answer_was_lost_is_not_drawn_by_another(server: FakeZooKeeperServer, applied: bool) -> None:
    session = server.connect()
    session.ensure(PATHS.ids)
    session.lose_next_write(applied=applied)
    with pytest.raises(StoreUnavailable):
        claim_incarnation(session, PATHS, "a", 1)
    assert claim_incarnation(session, PATHS, "a", 1) == (2 if applied else 1)


def test_a_registration_breaks_every_guard_on_the_claim(server: FakeZooKeeperServer) -> None:
    session = server.connect()
    assert claim_incarnation(session, PATHS, "a", 1) == 1
    seen = read_claim(session, PATHS, "a")
    absent = replace(ended(seen, 1, Ending.REFUSED), absence=Absence(1, 100.0))
    session.transact([write_claim(PATHS, absent)])
    noted = read_claim(session, PATHS, "a")
    registry(server.connect()).register(A1)
    with pytest.raises(LookAgain):
        session.transact([VersionCheck(PATHS.id("a"), noted.version), Create("/given-away")])
    claim = read_claim(session, PATHS, "a")
    assert (claim.absence, claim.ended, claim.address, claim.registrations) == (None, {}, "http://h:1", (500.0,))
    member, claimed = (session.get(path).stat for path in (PATHS.member("a"), PATHS.id("a")))
    assert member.modified_zxid == claimed.modified_zxid


@pytest.mark.parametrize("applied", [False, True])
def test_a_registration_whose_answer_was_lost_can_be_repeated(server: FakeZooKeeperServer, applied: bool) -> None:
    session = server.connect()
    session.ensure(PATHS.members)
    session.lose_next_write(applied=applied)
    with pytest.raises(StoreUnavailable):
        registry(session).register(A1)
    registry(session).register(A1)
    assert session.get(PATHS.member("a")).stat.ephemeral_owner == session.session_id
    assert len(read_claim(session, PATHS, "a").registrations) == 1


def test_a_registration_under_a_foreign_name_is_reported(server: FakeZooKeeperServer) -> None:
    session = server.connect()
    registry(session).register(A1)
    session.transact([Create(PATHS.member("b"), session.get(PATHS.member("a")).data)])
    found = ZooKeeperDiscovery(session, PATHS).members()
    assert found["a"].problem == ""
    assert found["b"].problem.startswith("/consumers/shop/members/b: is the registration of another consumer, 'a'")


def test_a_file_without_heart_beats_is_no_registration(tmp_path: Path) -> None:
    clock = FakeClock()
    first = FileRegistry(tmp_path, clock, ttl_s=10.0)
    first.register(A1)
    first.close()
    discovery = FileDiscovery(tmp_path, clock, ttl_s=10.0)
    clock.advance(10.0)
    assert list(discovery.members()) == ["a"]
    clock.advance(0.1)
    assert discovery.members() == {}
    second = FileRegistry(tmp_path, clock, ttl_s=10.0)
    second.register(replace(A1, incarnation=2))
    second.close()
    assert discovery.members()["a"].incarnation == 2


def test_heart_beats_keep_a_registration_and_write_it_again_when_it_is_removed(tmp_path: Path) -> None:
    clock = FakeClock()
    registry = FileRegistry(tmp_path, clock, ttl_s=0.2)
    registry.register(A1)
    registered_at = FileDiscovery(tmp_path, clock).members()["a"].registered_at
    clock.advance(1_000.0)
    (tmp_path / "a.json").unlink()
    discovery = FileDiscovery(tmp_path, clock, ttl_s=0.2)
    ready = threading.Event()
    for _ in range(500):
        if discovery.members() or ready.wait(0.01):
            break
    assert discovery.members()["a"].registered_at == registered_at
    registry.deregister("a", 1)
    registry.close()
    assert discovery.members() == {}


def test_a_folder_removed_during_a_read_loses_no_consumer(tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()

    class Going(FakeClock):
        """Called between the list of the files and the first file."""

        def now(self) -> float:
            if share.exists():
                share.rename(tmp_path / "away")
            return super().now()

    (share / "a.json").write_text("{}")
    with pytest.raises(DiscoveryUnavailable, match="cannot be used"):
        FileDiscovery(share, Going()).members()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "x y.json").write_text("{}")
    clock = FakeClock(time.time())
    found = FileDiscovery(tmp_path, clock).members()
    assert found["a"].problem.startswith(f"{tmp_path}/a.json: field 'consumer' is missing")
    assert list(found) == ["a"]
    clock.advance(60)
    assert FileDiscovery(tmp_path, clock).members() == {}


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a link to itself"])
def test_what_is_no_file_is_named_and_keeps_nobody_from_being_seen(tmp_path: Path, kind: str) -> None:
    clock = FakeClock(time.time())
    registry, strange = FileRegistry(tmp_path, clock), tmp_path / "a.json"
    registry.register(replace(A1, consumer="b"))
    registry.close()
    if kind == "a folder":
        strange.mkdir()
    elif kind == "a pipe":
        os.mkfifo(strange)
    else:
        strange.symlink_to(strange)
    found = FileDiscovery(tmp_path, clock).members()
    assert found["b"].problem == ""
    assert found["a"].problem.startswith(f"{strange}: ")
    clock.advance(60.0)
    assert FileDiscovery(tmp_path, clock).members() == {}


def test_heart_beats_go_on_when_a_file_that_could_not_be_read_is_removed(tmp_path: Path) -> None:
    registry, file = FileRegistry(tmp_path, SystemClock(), ttl_s=0.2), tmp_path / "a.json"
    registry.register(A1)
    until = time.monotonic() + WAIT_S
    while file.read_bytes() != b"{":  # a begun beat may write the file once more
        assert time.monotonic() < until
        file.write_bytes(b"{")
        time.sleep(0.2)  # several beats
    file.unlink()
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    registry.close()


def test_a_folder_registration_is_in_zookeeper_before_it_is_seen(server: FakeZooKeeperServer, tmp_path: Path) -> None:
    session, clock = server.connect(), FakeClock()
    order: list[str] = []

    def announce(member: Member) -> None:
        order.extend(FileDiscovery(tmp_path, clock).members())
        note_registration(session, PATHS, member, clock)

    registry = FileRegistry(tmp_path, clock, announce=announce)
    registry.register(A1)
    assert order == []
    assert read_claim(session, PATHS, "a").address == "http://h:1"
    registry.close()


def test_who_is_registered_in_a_folder_is_noted_once_per_zookeeper(server: FakeZooKeeperServer, tmp_path: Path) -> None:
    """Consumers register again every few seconds: no join and no leave."""
    session, clock = server.connect(), FakeClock()
    registry = FileRegistry(tmp_path, clock, announce=lambda member: note_registration(session, PATHS, member, clock))
    registry.register(A1)
    first = read_claim(session, PATHS, "a")
    clock.advance(5.0)
    registry.register(A1)
    assert read_claim(session, PATHS, "a") == first
    session.transact([write_claim(PATHS, replace(first, absence=Absence(1, 100.0)))])
    registry.register(A1)
    again = read_claim(session, PATHS, "a")
    assert (again.absence, len(again.registrations)) == (None, 2)
    session.transact([Delete(PATHS.id("a"))])
    registry.register(A1)
    assert read_claim(session, PATHS, "a").address == "http://h:1"
    registry.close()


OLD = Member("a", 3, "http://h:1", "boot", process="one")
NEW = Member("a", 9, "http://h:2", "boot", process="two")


@pytest.fixture(params=["zookeeper", "folder"])
def follows(request: pytest.FixtureRequest, server: FakeZooKeeperServer, tmp_path: Path) -> Iterator[Follow]:
    """Registers one consumer after the other, each in a separate process; `gone`: the ended consumers."""
    asked: list[str] = []

    def follow(*members: Member, gone: Collection[str] = ()) -> IdClaim:
        def is_gone(process: str) -> bool:
            asked.append(process)
            return process in gone

        for member in members:
            session, clock = server.connect(), FakeClock(500.0)
            if request.param == "folder":
                announce = partial(note_registration, session, PATHS, clock=clock, is_gone=is_gone)
                made = FileRegistry(tmp_path, clock, announce=announce)
                made.register(member)
                made.close()
                (tmp_path / "a.json").unlink()
            else:
                ZooKeeperRegistry(session, PATHS, clock, 0.0, is_gone).register(member)
                session.expire()
        return read_claim(server.connect(), PATHS, "a")

    yield follow
    assert "" not in asked, "who has no name is not asked about"


def test_a_successor_tells_the_end_of_a_process_that_is_gone(follows: Follow) -> None:
    claim = follows(OLD, NEW, gone={"one"})
    assert claim.ended == {3: Ending.REAPED}
    assert (claim.registered, claim.process, claim.address) == (9, "two", "http://h:2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(OLD, replace(NEW, boot_id="other"), id="another host or boot"),
        pytest.param(replace(OLD, boot_id=""), replace(NEW, boot_id=""), id="the boot is unknown"),
        pytest.param(replace(OLD, process=""), NEW, id="an older release has registered it"),
        pytest.param(OLD, replace(OLD, address="http://h:3"), id="the same incarnation registers again"),
        pytest.param(replace(OLD, process="lives"), NEW, id="the process before lives"),
    ],
)
def test_a_successor_that_cannot_know_tells_nothing(follows: Follow, old: Member, new: Member) -> None:
    assert follows(old, new, gone={"one", "two", ""}).ended == {}


def test_the_end_of_who_drew_and_never_registered_is_not_told(follows: Follow, server: FakeZooKeeperServer) -> None:
    follows(OLD)
    assert claim_incarnation(server.connect(), PATHS, "a", 3) == 6
    assert follows(NEW, gone={"one"}).ended == {3: Ending.REAPED}
