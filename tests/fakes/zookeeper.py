"""ZooKeeper in memory: versions, sessions, ephemeral and sequence nodes, one-shot watches, atomic transactions, zxids.

Faults are asked for: a session can be suspended, resumed or expired, and its next write can lose its connection with
the write applied or not. Watches fire in the thread of the writer, after the write.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from coordinator_tasks.adapters.zookeeper import check_size
from coordinator_tasks.core.errors import NoAccess, NodeExists, NodeMissing, StoreUnavailable
from coordinator_tasks.core.ports import (
    Clock,
    Connection,
    Create,
    Delete,
    Node,
    Operation,
    Stat,
    VersionCheck,
    Watcher,
)
from tests.fakes import znodes
from tests.fakes.clock import FakeClock
from tests.fakes.znodes import Znode

BeforeWrite = Callable[["FakeZooKeeper", Sequence[Operation]], None]


@dataclass(frozen=True, slots=True)
class _Watch:
    session: "FakeZooKeeper"
    watcher: Watcher


class FakeZooKeeperServer:
    """The tree and its sessions. `before_write` is called ahead of every transaction, outside of the lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.before_write: BeforeWrite | None = None
        self.lock = threading.RLock()
        self.zxid = 0
        self.sessions: list[FakeZooKeeper] = []
        self._numbers = iter(range(1, 2**31))
        self._watches: defaultdict[tuple[str, bool], dict[_Watch, None]] = defaultdict(
            dict
        )  # by path and kind: many watch
        self._nodes = {"/": znodes.fresh(b"", 0, 0, self.clock.now())}

    def before_next(
        self, act: Callable[[], object], matches: Callable[["FakeZooKeeper", Sequence[Operation]], bool]
    ) -> None:
        """Act once, ahead of the next transaction that matches."""

        def before(session: "FakeZooKeeper", operations: Sequence[Operation]) -> None:
            if matches(session, operations):
                self.before_write = None
                act()

        self.before_write = before

    def lose_write(self, number: int, *, applied: bool) -> None:
        """Break the connection of one transaction, after or before it is applied; the next transaction has number 0."""
        left = iter(range(number, -1, -1))

        def before(session: "FakeZooKeeper", _: Sequence[Operation]) -> None:
            if next(left) == 0:
                self.before_write = None
                session.lose_next_write(applied=applied)

        self.before_write = before

    def connect(self, session_timeout_s: float = 10.0) -> "FakeZooKeeper":
        session = FakeZooKeeper(self, session_timeout_s)
        self.sessions.append(session)
        return session

    def next_session(self) -> int:
        return next(self._numbers)

    def stop(self) -> None:
        """Every session is suspended; the tree stays."""
        for session in list(self.sessions):
            session.suspend()

    def start(self) -> None:
        for session in list(self.sessions):
            session.resume()

    def node(self, path: str) -> Znode:
        if path not in self._nodes:
            raise NodeMissing(f"{path} is not there")
        return self._nodes[path]

    def overwrite(self, path: str, data: bytes) -> None:
        """Store anything there, beyond a client's rights, without notices."""
        self._nodes[path] = self.node(path)._replace(data=data)

    def watch(self, path: str, children: bool, session: "FakeZooKeeper", watcher: Watcher) -> None:
        self._watches[path, children][_Watch(session, watcher)] = None

    def forget(self, session: "FakeZooKeeper") -> list[_Watch]:
        """Drop the watches of a session."""
        mine = [(event, one) for event, watches in self._watches.items() for one in watches if one.session is session]
        for event, one in mine:
            del self._watches[event][one]
        return [one for _, one in mine]

    def close_session(self, number: int) -> None:
        with self.lock:
            mine = [path for path, node in self._nodes.items() if node.owner == number]
            fired = self.apply([Delete(path) for path in mine], 0)[1] if mine else []
        _fire(fired)

    def apply(self, operations: Sequence[Operation], session: int) -> tuple[list[str | Stat | None], list[_Watch]]:
        """All or nothing; the results, and the watches to fire. The caller holds the lock."""
        self.zxid += 1
        done = znodes.Transaction(self._nodes, operations, session, self.zxid, self.clock.now())
        znodes.apply(self._nodes, done.changed)
        return done.results, list(self._take(done.events))

    def _take(self, events: Sequence[tuple[str, bool]]) -> Iterator[_Watch]:
        for event in events:
            yield from self._watches.pop(event, {})


class FakeZooKeeper:
    """One session; `ports.ZooKeeper`."""

    def __init__(self, server: FakeZooKeeperServer, session_timeout_s: float) -> None:
        self._server = server
        self._timeout_s = session_timeout_s
        self._number = server.next_session()
        self._expired = False
        self._listeners: list[Callable[[Connection], None]] = []
        self._lose_next: bool | None = None
        self.connection = Connection.CONNECTED
        self.closed = False
        # Nodes without any rights of this session's account, and nodes with read rights only.
        self.denied, self.read_only = set[str](), set[str]()

    # A test's interference
    # -----------------------------------------------------------------------------------------------

    def suspend(self) -> None:
        """The connection is lost; as with kazoo, every watch fires and is forgotten."""
        if self.connection is Connection.CONNECTED and not self.closed:
            fired = self._server.forget(self)
            self._tell(Connection.SUSPENDED)
            _fire(fired)

    def resume(self) -> None:
        if self.connection is Connection.CONNECTED or self.closed:
            return
        if self._expired:
            self._expired = False
            self._number = self._server.next_session()
            self._tell(Connection.LOST)
        self._tell(Connection.CONNECTED)

    def expire(self) -> None:
        """End the session on the server; the client learns this when connected, and continues with a new session."""
        connected = self.connection is Connection.CONNECTED
        self._expired = True
        self._server.close_session(self._number)
        if connected:
            self.suspend()
            self.resume()

    def lose_next_write(self, *, applied: bool) -> None:
        """Break the next transaction's connection, after or before the server has applied it."""
        self._lose_next = applied

    # The port ---------------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        with self._request():
            self._check(path)
            node = self._server.node(path)
            if watch is not None:
                self._server.watch(path, False, self, watch)
            return Node(node.data, node.stat())

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        with self._request():
            try:
                return self.get(path, watch)
            except NodeMissing:
                if watch is not None:
                    self._server.watch(path, False, self, watch)
                return None

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        return [self.find(path, watch) for path, watch in zip(paths, watches or [None] * len(paths), strict=True)]

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        with self._request():
            self._check(path)
            names = sorted(self._server.node(path).children)
            if watch is not None:
                self._server.watch(path, True, self, watch)
            return names

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        if not operations:
            return []
        check_size(operations)
        if self._server.before_write is not None:
            self._server.before_write(self, operations)
        lose, self._lose_next = self._lose_next, None
        with self._request():
            if lose is False:
                raise _lost()
            for operation in operations:
                self._check_write(operation)
            results, fired = self._server.apply(operations, self._number)
        _fire(fired)
        if lose:
            raise _lost()
        return results

    def ensure(self, path: str) -> None:
        with self._request():
            parts = path.strip("/").split("/")
            missing = ["/" + "/".join(parts[: n + 1]) for n in range(len(parts))]
            fired: list[_Watch] = []
            for one in missing:
                try:
                    fired += self._server.apply([Create(one)], self._number)[1]
                except NodeExists:
                    continue
        _fire(fired)

    def sync(self) -> None:
        with self._request():
            pass

    def listen(self, listener: Callable[[Connection], None]) -> None:
        self._listeners.append(listener)

    @property
    def session_id(self) -> int:
        return self._number if self.connection is Connection.CONNECTED and not self.closed else 0

    @property
    def session_timeout_s(self) -> float:
        return self._timeout_s

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._server.forget(self)
            self._server.sessions.remove(self)
            self._server.close_session(self._number)

    def _request(self) -> threading.RLock:
        if self.closed or self.connection is not Connection.CONNECTED:
            raise StoreUnavailable("ZooKeeper does not answer; nothing was sent")
        return self._server.lock

    def _check(self, path: str, *, write: bool = False) -> None:
        if path in self.denied or (write and path in self.read_only):
            raise NoAccess(
                f"{path} may not be used by this ZooKeeper account; check the account, or the node's access list"
            )

    def _check_write(self, operation: Operation) -> None:
        """Check the rights; the right to create and to delete a node is its parent's."""
        of_parent = isinstance(operation, Create | Delete)
        path = operation.path.rpartition("/")[0] if of_parent else operation.path
        self._check(path, write=not isinstance(operation, VersionCheck))

    def _tell(self, connection: Connection) -> None:
        self.connection = connection
        for listener in list(self._listeners):
            listener(connection)


def paths_read(zk: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the paths of all nodes that `find` and `get_many` read from now on."""
    found: list[str] = []
    inner = zk.find

    def noted(path: str, watch: Watcher | None = None) -> Node | None:
        found.append(path)
        return inner(path, watch)

    monkeypatch.setattr(zk, "find", noted)
    return found


def _fire(watches: Sequence[_Watch]) -> None:
    for watch in watches:
        watch.watcher()


def _lost() -> StoreUnavailable:
    return StoreUnavailable("the connection broke; what was written may or may not be there: look before trying again")
