"""How releases are read and written on the partitions' nodes, with as few requests as possible."""

from collections.abc import Sequence

import pytest

from coordinator_tasks.core.codecs.codec import encode_release
from coordinator_tasks.core.errors import NoAccess
from coordinator_tasks.core.model import Handoff, Release, Token
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, Delete, Node, Operation, SetData, Watcher
from spark_apps.agent.zookeeper import view
from spark_apps.agent.zookeeper.watches import Watches
from tests.unit.spark_apps.agent.process.test_agent import Stage as Site

PATHS = Paths("c")


@pytest.fixture
def site() -> Site:
    return Site()


def reads_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes of partitions that the consumer reads from now on."""
    found: list[str] = []
    real = site.zk.get_many

    def get_many(paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        found.extend(path.rsplit("/", 1)[1] for path in paths)
        return real(paths, watches)

    monkeypatch.setattr(site.zk, "get_many", get_many)
    return found


def release_for(epoch: int) -> Release:
    return Release(epoch, "b", 1, 0, "g1", Token(1, 1, "g1"))


def test_what_was_owned_at_a_poll_is_released_without_a_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run(0, 1)
    site.step(1.0)
    read = reads_of(site, monkeypatch)
    site.give(0, 1)
    site.step()
    assert read == []
    assert site.release(0) == Release(2, "a", 1, 0, "g1", Token(1, 1, "g1"))


@pytest.mark.parametrize("was_read", [False, True], ids=["a node that was not read", "a node that was read before"])
def test_a_release_is_written_after_the_stop_and_never_replaces_a_newer_release(site: Site, was_read: bool) -> None:
    site.run(0, 1)
    if was_read:
        site.step(1.0)
    newer = Release(90, "z", 1, 7, "g1", Token(80, 1, "g1"))
    site.site.transact([SetData(PATHS.partition("t", 1), encode_release(newer))])
    site.give(0, 1)
    site.step()
    assert site.release(0) == Release(2, "a", 1, 0, "g1", Token(1, 1, "g1"))
    assert site.release(1) == newer
    assert not site.topics.ownerships["t"].releasing.outbox


def test_a_refused_node_is_reported_and_keeps_no_other_release(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = site.zk.transact

    def transact(operations: Sequence[Operation]) -> object:
        asked.append(len(operations))
        if PATHS.partition("t", 0) in {one.path for one in operations}:
            raise NoAccess(f"{PATHS.partition('t', 0)} may not be used by this ZooKeeper account")
        return real(operations)

    site.run(0, 1, 2)
    with monkeypatch.context() as changed:
        changed.setattr(site.zk, "transact", transact)
        site.give(0, 1, 2)
        site.steps(4, 1.0)
        assert [site.release(p) is not None for p in range(3)] == [False, True, True]
        assert [number for number in asked if number] == [3, 1, 1, 1], "it is tried again after a pause"
        assert site.reported("assignments/t/0 may not be used by this ZooKeeper account; the release waits")
    site.step(view.REFUSED_S)
    assert site.release(0) is not None
    assert not site.reported("may not be used")


def test_nothing_that_was_read_counts_for_another_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.run(0)
    site.step(1.0)
    read = reads_of(site, monkeypatch)
    site.zk.expire()
    site.step(1.0)
    assert "0" in read


def test_a_release_that_has_come_leaves_no_watch_behind(site: Site) -> None:
    site.own()
    site.write(handoff={0: Handoff("b", "a", 2)}, assignments={})
    site.step()
    release = release_for(2)
    site.site.transact([SetData(PATHS.partition("t", 0), encode_release(release))])
    site.step()
    assert site.runs == {0}
    site.woken = 0
    site.site.transact([SetData(PATHS.partition("t", 0), encode_release(release))])
    assert site.woken == 0


def test_what_is_awaited_no_longer_and_what_never_was_ours_is_not_reported(site: Site) -> None:
    site.own()
    site.write(handoff={0: Handoff("b", "a", 2)}, assignments={})
    other = PATHS.topic("other")
    site.site.transact([Delete(PATHS.partition("t", 0)), Create(other, b"{nonsense")])
    site.step(1.0)
    assert site.reported("assignments/t/0 has vanished")
    assert site.reported("assignments/other")
    site.write(handoff={}, assignments={})
    site.site.transact([Delete(other)])
    site.step(1.0)
    assert not site.reported("has vanished")
    assert not site.reported("assignments/other")


def test_releases_of_one_giver_are_taken_together_before_all_watches(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.own()
    site.write(handoff={p: Handoff("b" if p < 2 else "z", "a", 2) for p in range(3)}, assignments={})
    site.step()
    read = reads_of(site, monkeypatch)
    real = Watches.take
    monkeypatch.setattr(Watches, "take", lambda self, path: real(self, path) and not path.endswith("/t/1"))
    both = [SetData(PATHS.partition("t", p), encode_release(release_for(2))) for p in range(2)]
    site.site.transact(both)
    site.agent.step()
    assert read == ["0", "1"]
    site.step()
    assert site.runs == {0, 1}
