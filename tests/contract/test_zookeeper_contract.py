"""What every ZooKeeper session must do, on the fake, in the simulation and on a real server."""

import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from coordinator_tasks.adapters.zookeeper import MAX_TRANSACTION_BYTES, KazooZooKeeper
from coordinator_tasks.core.errors import LookAgain, NodeExists, NodeMissing, Refused, StoreUnavailable
from coordinator_tasks.core.ports import Create, Delete, SetData, Stat, VersionCheck, ZooKeeper
from tests.fakes.zookeeper import FakeZooKeeperServer
from tests.simulation.kernel import Host, Kernel
from tests.simulation.zookeeper import Server

WAIT_S = 60.0


@dataclass
class Bench:
    """Sessions of one server, and a folder of this test's own."""

    connect: Callable[[], ZooKeeper]
    base: str
    zk: ZooKeeper

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"


@pytest.fixture(params=["fake", "simulated", "real"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    sessions: list[ZooKeeper] = []
    if request.param == "fake":
        connect: Callable[[], ZooKeeper] = FakeZooKeeperServer().connect
    elif request.param == "simulated":
        server, host = Server(kernel := Kernel(), lambda *_: None), Host(kernel, "test")

        def connect() -> ZooKeeper:
            return server.connect(host, 10.0)

    else:
        hosts = request.getfixturevalue("zookeeper").connect_string

        def connect() -> ZooKeeper:
            return KazooZooKeeper(hosts)

    def opened() -> ZooKeeper:
        sessions.append(connect())
        return sessions[-1]

    base = f"/contract/{uuid.uuid4().hex}"
    zk = opened()
    zk.ensure(base)
    yield Bench(opened, base, zk)
    for session in sessions:
        session.close()


def test_a_node_has_a_version_and_the_zxid_of_its_last_change(bench: Bench) -> None:
    node = bench.path("a")
    bench.zk.transact([Create(node, b"1")])
    first = bench.zk.get(node)
    (stat,) = bench.zk.transact([SetData(node, b"2", 0)])
    assert isinstance(stat, Stat)
    assert (first.data, first.stat.version) == (b"1", 0)
    assert stat.version == 1
    assert stat.modified_zxid > first.stat.modified_zxid
    assert bench.zk.get(node).data == b"2"


def test_a_transaction_with_a_failed_guard_changes_nothing(bench: Bench) -> None:
    node, other = bench.path("a"), bench.path("b")
    bench.zk.transact([Create(node, b"1")])
    before = bench.zk.get(bench.base).stat.children_version
    with pytest.raises(LookAgain, match=node):
        bench.zk.transact([Create(other), SetData(node, b"2"), Delete(node), Create(node), VersionCheck(node, 7)])
    assert bench.zk.find(other) is None
    assert bench.zk.get(node).data == b"1"
    assert bench.zk.get(node).stat.version == 0
    assert bench.zk.get(bench.base).stat.children_version == before


def test_a_node_that_is_created_and_deleted_in_one_transaction_guards_by_its_absence(bench: Bench) -> None:
    node, other = bench.path("a"), bench.path("b")
    bench.zk.transact([Create(node), Delete(node), Create(other)])
    assert bench.zk.children(bench.base) == ["b"]
    bench.zk.transact([Create(node, b"1"), Delete(other)])
    with pytest.raises(NodeExists, match=node):
        bench.zk.transact([Create(node), Delete(node), Create(other)])
    assert bench.zk.find(other) is None
    assert bench.zk.get(node).data == b"1"


def test_later_parts_see_earlier_ones(bench: Bench) -> None:
    node = bench.path("a")
    bench.zk.transact([Create(node, b"1"), SetData(node, b"2", 0), Create(f"{node}/x"), VersionCheck(node, 1)])
    assert bench.zk.children(node) == ["x"]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (lambda path: SetData(path("absent"), b""), NodeMissing),
        (lambda path: Delete(path("absent")), NodeMissing),
        (lambda path: VersionCheck(path("absent"), 0), NodeMissing),
        (lambda path: Create(path("absent/child")), NodeMissing),
        (lambda path: Create(path("full")), NodeExists),
        (lambda path: Delete(path("full")), LookAgain),
        (lambda path: SetData(path("full"), b"", 3), LookAgain),
        (lambda path: Delete(path("full/child"), 3), LookAgain),
    ],
)
def test_a_failed_part_says_what_failed(
    bench: Bench, operation: Callable[..., VersionCheck], error: type[LookAgain]
) -> None:
    bench.zk.transact([Create(bench.path("full")), Create(bench.path("full/child"))])
    with pytest.raises(error, match=bench.base) as raised:
        bench.zk.transact([Create(bench.path("before")), operation(bench.path)])
    assert type(raised.value) is error
    assert bench.zk.find(bench.path("before")) is None


def test_sequence_nodes_count_on_over_deletions(bench: Bench) -> None:
    folder = bench.path("history")
    bench.zk.transact([Create(folder)])
    first, second = bench.zk.transact([Create(f"{folder}/", b"x", sequence=True) for _ in range(2)])
    assert (first, second) == (f"{folder}/0000000000", f"{folder}/0000000001")
    bench.zk.transact([Delete(str(first)), Delete(str(second))])
    assert bench.zk.transact([Create(f"{folder}/n-", sequence=True)]) == [f"{folder}/n-0000000002"]
    assert bench.zk.get(folder).stat.children_version == 5


def test_an_ephemeral_node_ends_with_its_session(bench: Bench) -> None:
    other = bench.connect()
    gone = threading.Event()
    other.transact([Create(bench.path("member"), b"x", ephemeral=True)])
    found = bench.zk.find(bench.path("member"), gone.set)
    assert found is not None
    assert found.stat.ephemeral_owner == other.session_id != bench.zk.session_id
    other.close()
    assert gone.wait(WAIT_S)
    assert bench.zk.find(bench.path("member")) is None
    with pytest.raises(StoreUnavailable):
        other.get(bench.base)


def test_a_watch_fires_once_and_only_for_its_node(bench: Bench) -> None:
    fired: list[str] = []
    changed = threading.Event()

    def watcher() -> None:
        fired.append("a")
        changed.set()

    bench.zk.transact([Create(bench.path("a")), Create(bench.path("b"))])
    for _ in range(3):
        bench.zk.get(bench.path("a"), watcher)
    other = bench.connect()
    other.transact([SetData(bench.path("b"), b"1"), Create(bench.path("a/child"))])
    other.transact([SetData(bench.path("a"), b"1")])
    other.transact([SetData(bench.path("a"), b"2")])
    assert changed.wait(WAIT_S)
    bench.zk.sync()
    assert fired == ["a"]


def test_a_watch_on_a_missing_node_fires_on_its_creation(bench: Bench) -> None:
    created = threading.Event()
    assert bench.zk.find(bench.path("later"), created.set) is None
    bench.connect().transact([Create(bench.path("later"))])
    assert created.wait(WAIT_S)


def test_a_watch_on_children_fires_on_a_new_child_and_not_on_data(bench: Bench) -> None:
    changed = threading.Event()
    assert bench.zk.children(bench.base, changed.set) == []
    other = bench.connect()
    other.transact([SetData(bench.base, b"data")])
    bench.zk.sync()
    assert not changed.is_set()
    other.transact([Create(bench.path("child"))])
    assert changed.wait(WAIT_S)


def test_a_watch_on_children_fires_when_the_node_itself_goes(bench: Bench) -> None:
    folder = bench.path("folder")
    bench.zk.transact([Create(folder)])
    changed = threading.Event()
    bench.zk.children(folder, changed.set)
    bench.connect().transact([Delete(folder)])
    assert changed.wait(WAIT_S)
    with pytest.raises(NodeMissing):
        bench.zk.children(folder)


def test_many_reads_keep_their_order_and_name_what_is_missing(bench: Bench) -> None:
    count = 1_500
    for start in range(0, count, 500):
        bench.zk.transact([Create(bench.path(str(n)), str(n).encode()) for n in range(start, start + 500)])
    wanted = [bench.path(str(n)) for n in range(count, -1, -1)]
    found = bench.zk.get_many(wanted)
    assert found[0] is None
    assert [node and node.data for node in found[1:]] == [str(n).encode() for n in range(count - 1, -1, -1)]
    assert bench.zk.get_many([]) == []


def test_many_reads_watch_what_is_there_and_what_is_not(bench: Bench) -> None:
    bench.zk.transact([Create(bench.path("there"), b"1")])
    changed, created, quiet = threading.Event(), threading.Event(), threading.Event()
    paths = [bench.path("there"), bench.path("later"), bench.path("there")]
    first, missing, again = bench.zk.get_many(paths, [changed.set, created.set, None])
    assert first == again
    assert missing is None
    bench.zk.transact([SetData(bench.path("there"), b"2")])
    assert changed.wait(WAIT_S)
    assert not created.is_set()
    bench.zk.transact([Create(bench.path("later"))])
    assert created.wait(WAIT_S)
    assert bench.zk.get_many(paths[:1], [quiet.set])[0] != first
    assert not quiet.is_set()


def test_ensure_creates_the_parents_and_may_be_repeated(bench: Bench) -> None:
    for _ in range(2):
        bench.zk.ensure(bench.path("x/y/z"))
    assert bench.zk.children(bench.path("x/y")) == ["z"]
    assert bench.zk.get(bench.path("x/y/z")).data == b""


def test_a_transaction_that_is_too_large_is_refused_with_its_largest_path(bench: Bench) -> None:
    parts = [Create(bench.path("small")), Create(bench.path("large"), b"x" * MAX_TRANSACTION_BYTES)]
    with pytest.raises(Refused, match=rf"^{bench.path('large')}: the transaction has 1000\d+ bytes"):
        bench.zk.transact(parts)
    assert bench.zk.find(bench.path("small")) is None


def test_a_transaction_just_below_the_limit_is_taken(bench: Bench) -> None:
    data = b"x" * (MAX_TRANSACTION_BYTES - 300)
    bench.zk.transact([Create(bench.path("large"), data)])
    assert bench.zk.get(bench.path("large")).data == data


def test_a_thousand_nodes_fit_in_one_transaction(bench: Bench) -> None:
    bench.zk.transact([Create(bench.path(str(n))) for n in range(1_000)])
    assert len(bench.zk.children(bench.base)) == 1_000


def test_an_empty_transaction_does_nothing(bench: Bench) -> None:
    assert bench.zk.transact([]) == []
