"""ZooKeeper in the simulation: a tree with its recent past, and sessions on possibly lagging followers.

A session reads as of the follower's last applied transaction; `sync` and own writes bring the follower up to date.
Watches fire in the order of the transactions, before the session can read the changes. A session with a paused or
cut-off client is ended by the server after the time-out; the client learns this later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from coordinator_tasks.adapters.zookeeper import check_size
from coordinator_tasks.core.codecs.packed import begins_packed
from coordinator_tasks.core.errors import NodeExists, NodeMissing, StoreUnavailable
from coordinator_tasks.core.ports import (
    Connection,
    Create,
    Delete,
    Node,
    Operation,
    Stat,
    Watcher,
)
from tests.fakes import znodes
from tests.fakes.znodes import Znode
from tests.simulation.faults import Fault
from tests.simulation.kernel import Host, Kernel

KEPT = 60  # maximum lag of a follower, in transactions
UNREADABLE = b'{"version":3}'
"""A packed node as seen by an older release: of an unknown format."""


Changes: TypeAlias = Mapping[str, Znode | None]
OnWrite: TypeAlias = Callable[[Changes, Changes, str], None]
"""Gets the changed nodes before and after a transaction, and the writer's name."""


class Server:
    """The ensemble. `zxid` never falls, also not after an older snapshot's return: the past is then another's."""

    def __init__(self, kernel: Kernel, on_write: OnWrite) -> None:
        self.kernel = kernel
        self.zxid = 0
        self.sessions: list[Session] = []
        self.nodes: dict[str, Znode] = {}
        self._on_write = on_write
        self._past: list[tuple[int, dict[str, Znode | None], list[tuple[str, bool]]]] = []
        self._shown: dict[str, tuple[Znode, Node]] = {}
        self._numbers = 0
        self._orphans: list[tuple[float, int]] = []
        self.nodes["/"] = znodes.fresh(b"", 0, 0, kernel.now)

    def connect(self, host: Host, timeout_s: float) -> "Session":
        session = Session(self, host, timeout_s)
        self.sessions.append(session)
        return session

    def next_session(self) -> int:
        self._numbers += 1
        return self._numbers

    def at(self, path: str, zxid: int) -> Znode | None:
        """Return the node after that transaction."""
        found = self.nodes.get(path)
        for number, before, _ in reversed(self._past):
            if number <= zxid:
                break
            if path in before:
                found = before[path]
        return found

    def shown(self, path: str, node: Znode) -> Node:
        """Return the node in the port's form."""
        known = self._shown.get(path)
        if known is None or known[0] is not node:
            known = self._shown[path] = node, Node(node.data, node.stat())
        return known[1]

    def events(self, after: int) -> list[tuple[str, bool]]:
        """Return the changes since that transaction, in order: path, and whether the list of children changed."""
        missed = []
        for number, _, events in reversed(self._past):
            if number <= after:
                break
            missed.append(events)
        return [event for events in reversed(missed) for event in events]

    @property
    def oldest(self) -> int:
        """Return the oldest transaction of any follower."""
        return self._past[0][0] - 1 if self._past else self.zxid

    def apply(self, operations: Sequence[Operation], session: int, who: str) -> list[str | Stat | None]:
        """All or nothing."""
        self.zxid += 1
        done = znodes.Transaction(self.nodes, operations, session, self.zxid, self.kernel.now)
        before = {path: self.nodes.get(path) for path in done.changed}
        znodes.apply(self.nodes, done.changed)
        self._past.append((self.zxid, before, done.events))
        if len(self._past) > KEPT:
            del self._past[0]
        self._on_write(before, done.changed, who)
        for one in self.sessions:
            if not one.lagging or one.seen < self.oldest:
                one.catch_up()
        return done.results

    def end_session(self, number: int) -> None:
        mine = sorted(path for path, node in self.nodes.items() if node.owner == number)
        if number and mine:
            self.apply([Delete(path) for path in mine], 0, "server")

    def orphan(self, number: int, at: float) -> None:
        """End an abandoned session at this time."""
        self._orphans.append((at, number))

    def tick(self) -> None:
        """End the sessions that were silent for the time-out."""
        for session in self.sessions:
            session.beat()
        due = [number for at, number in self._orphans if at <= self.kernel.now]
        self._orphans = [one for one in self._orphans if one[0] > self.kernel.now]
        for number in due:
            self.end_session(number)

    def snapshot(self) -> dict[str, Znode]:
        return dict(self.nodes)

    def restore(self, nodes: Mapping[str, Znode], timeout_s: float) -> None:
        """Replace the tree; ephemeral nodes stay until the time-out of their sessions."""
        self.zxid += 1
        changed: dict[str, Znode | None] = {path: nodes.get(path) for path in {**self.nodes, **nodes}}
        before = {path: self.nodes.get(path) for path in changed}
        self.nodes = dict(nodes)
        self._past.clear()
        self._on_write(before, changed, "restore")
        owners = {node.owner for node in nodes.values() if node.owner}
        self._orphans += [(self.kernel.now + timeout_s, number) for number in sorted(owners)]
        for session in self.sessions:
            session.disown()


class Session:
    """A client's session; `ports.ZooKeeper`. `cut` = no packets between it and the servers."""

    def __init__(self, server: Server, host: Host, timeout_s: float) -> None:
        self.server = server
        self.host = host
        self.connection = Connection.CONNECTED
        self.cut = False
        self.lagging = False
        self.seen = server.zxid
        self.number = server.next_session()
        self.closed = False
        self.older = False
        self.on_effect: Callable[[Fault], None] = lambda _fault: None
        self.on_watched: Callable[[str, Node | None], None] = lambda _path, _node: None
        self._timeout_s = timeout_s
        self._expired = False
        self._heard_at = server.kernel.now
        self._watches: dict[tuple[str, bool], dict[Watcher, None]] = {}  # equal watchers count once
        self._listeners: list[Callable[[Connection], None]] = []

    # The network ------------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """The server's look at this session."""
        if self.closed or self._expired:
            return
        now = self.server.kernel.now
        if self.host.running and not self.cut and self.connection is Connection.CONNECTED:
            self._heard_at = now
        elif now - self._heard_at >= self._timeout_s:
            self.expire()

    def expire(self) -> None:
        """The server ends the session; the client does not know yet."""
        if not self._expired:
            self.on_effect(Fault.FROZEN if self.host.paused else Fault.DETACHED if self.cut else Fault.EXPIRED)
        self._expired = True
        self.server.end_session(self.number)

    def disown(self) -> None:
        """The servers no longer know the session."""
        self._expired = True
        self.lagging = False
        self.seen = self.server.zxid
        self._suspend()

    def reconnect(self) -> None:
        """Let the client find a server again, and learn its session's fate."""
        if self.closed or self.cut or not self.host.running:
            return
        if self.connection is Connection.CONNECTED and not self._expired:
            return
        self._suspend()
        if self._expired:
            self._expired = False
            self.number = self.server.next_session()
            self._tell(Connection.LOST)
        self.seen, self.lagging = self.server.zxid, False
        self._heard_at = self.server.kernel.now
        self._tell(Connection.CONNECTED)

    def catch_up(self) -> None:
        """Let the follower apply missing transactions, and fire the watches."""
        if self.seen == self.server.zxid:
            return
        events, self.seen = self.server.events(self.seen), self.server.zxid
        if not self._watches or self.connection is not Connection.CONNECTED or self._expired or self.cut:
            return
        for event in events:
            for watcher in self._watches.pop(event, ()):
                watcher()

    @property
    def broken(self) -> bool:
        """Whether a reconnection would change something."""
        return not self.closed and (self.connection is not Connection.CONNECTED or self._expired)

    def _suspend(self) -> None:
        """The connection is lost; as with the real client, every watch fires and is forgotten."""
        if self.connection is not Connection.CONNECTED:
            return
        fired, self._watches = self._watches, {}
        self._tell(Connection.SUSPENDED)
        for watchers in fired.values():
            for watcher in watchers:
                watcher()

    def _tell(self, connection: Connection) -> None:
        self.connection = connection
        for listener in list(self._listeners):
            listener(connection)

    def _request(self, kind: str) -> str:
        fault = self.server.kernel.io(kind)
        if self.closed or self.connection is not Connection.CONNECTED or self.cut or self._expired:
            self._suspend()
            raise StoreUnavailable("ZooKeeper does not answer; nothing was sent")
        return fault

    # The port ---------------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        found = self.find(path, watch)
        if found is None:
            raise NodeMissing(f"{path} is not there")
        return found

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        self._request("zk.read")
        return self._watched(path, watch)

    def _watched(self, path: str, watch: Watcher | None) -> Node | None:
        if watch is not None:
            self._watches.setdefault((path, False), {})[watch] = None
        node = self._read(path)
        self.on_watched(path, node)
        return node

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        if not paths:
            return []
        # Pipelined, not atomic: with a pause in the middle of each.
        wanted = list(zip(paths, watches or [None] * len(paths), strict=True))
        half = len(paths) // 2
        self._request("zk.read")
        first = [self._watched(*one) for one in wanted[:half]]
        if half:
            self._request("zk.read")
        return first + [self._watched(*one) for one in wanted[half:]]

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        self._request("zk.read")
        node = self._znode(path)
        if node is None:
            raise NodeMissing(f"{path} is not there")
        if watch is not None:
            self._watches.setdefault((path, True), {})[watch] = None
        return sorted(node.children)

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        if not operations:
            return []
        check_size(operations)
        fault = self._request("zk.write")
        if fault == Fault.WRITE_LOST:
            self.on_effect(Fault.WRITE_LOST)
            self._drop()
        results = self.server.apply(operations, self.number, self.host.name)
        self.catch_up()
        if fault == Fault.ANSWER_LOST:
            self.on_effect(Fault.ANSWER_LOST)
            self._drop()
        return results

    def _drop(self) -> None:
        """The connection breaks, and the client finds another server at once."""
        self._suspend()
        self.reconnect()
        raise StoreUnavailable("the connection broke; what was written may or may not be there")

    def ensure(self, path: str) -> None:
        for one in _upwards(path):
            if one not in self.server.nodes:
                self._request("zk.write")
                try:
                    self.server.apply([Create(one)], self.number, self.host.name)
                except NodeExists:
                    continue
                self.catch_up()

    def sync(self) -> None:
        self._request("zk.sync")
        self.catch_up()

    def listen(self, listener: Callable[[Connection], None]) -> None:
        self._listeners.append(listener)

    @property
    def session_id(self) -> int:
        return self.number if self.connection is Connection.CONNECTED and not self.closed else 0

    @property
    def session_timeout_s(self) -> float:
        return self._timeout_s

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.server.sessions.remove(self)
            if not self._expired:
                self.server.end_session(self.number)

    def abandon(self) -> None:
        """Lose the client silently: its ephemeral nodes stay until the time-out."""
        if not self.closed:
            self.closed = True
            self.server.sessions.remove(self)
            if not self._expired:
                self.server.orphan(self.number, self._heard_at + self._timeout_s)

    def _znode(self, path: str) -> Znode | None:
        newest = self.server.nodes.get(path)
        if not self.lagging or self.seen == self.server.zxid:
            return newest
        found = self.server.at(path, self.seen)
        if found is not newest:
            self.on_effect(Fault.STALE_READ)
        return found

    def _read(self, path: str) -> Node | None:
        node = self._znode(path)
        found = None if node is None else self.server.shown(path, node)
        return replace(found, data=UNREADABLE) if found and self.older and begins_packed(found.data) else found


@lru_cache(1_000)
def _upwards(path: str) -> tuple[str, ...]:
    """Return the folders on the path, and the path itself."""
    parts = path.strip("/").split("/")
    return tuple("/" + "/".join(parts[: n + 1]) for n in range(len(parts)))
