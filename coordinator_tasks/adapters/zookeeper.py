"""`ports.ZooKeeper` on kazoo. No kazoo exception leaves this module: ours have it as their cause.

- Nothing is sent without a connection: kazoo would queue it, and might send a write long after its caller gave up.
- Reads are tried again until the time limit; a write is sent once, and a lost connection leaves its outcome unknown.
- A server that was restored, or lost its data, hangs up on clients that have seen a newer transaction: kazoo would try
  for ever. After a session time-out of that, the session is given up and a new one begins.
- A lost connection fires every watch, since kazoo forgets them then: watchers read again, and may find no change.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConfigurationError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.security import ACL

from coordinator_tasks.adapters.kazoo_handler import PollingHandler
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.adapters.zookeeper_causes import Causes, hung_up, why_silent
from coordinator_tasks.core.errors import (
    CoordinatorError,
    LookAgain,
    NodeExists,
    NodeMissing,
    Refused,
    StoreUnavailable,
)
from coordinator_tasks.core.ports import Check, Connection, Create, Delete, Node, Operation, SetData, Stat, Watcher

MAX_TRANSACTION_BYTES = 1_000_000  # the server drops the connection above jute.maxbuffer, 1,048,575
_OPERATION_OVERHEAD_BYTES = 80  # headers, flags and the access list of one operation
_PIPELINE = 1000  # requests in flight at once in get_many
_RECONNECT_PAUSE_S = 0.05
# For ever, and at least once a second: kazoo's own pauses double up to an hour.
_RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
_CONNECTIONS = {
    KazooState.CONNECTED: Connection.CONNECTED,
    KazooState.SUSPENDED: Connection.SUSPENDED,
    KazooState.LOST: Connection.LOST,
}
_MEANING: dict[type[KazooException], tuple[type[CoordinatorError], str]] = {
    NoNodeError: (NodeMissing, "is not there"),
    NodeExistsError: (NodeExists, "is there already"),
    BadVersionError: (LookAgain, "was changed in between"),
    NotEmptyError: (LookAgain, "has children"),
    NoAuthError: (Refused, "may not be used by this ZooKeeper account; check the account, or the node's access list"),
    InvalidACLError: (
        Refused,
        "cannot be made for this account alone, since the server takes no log-in from it; for a client certificate set "
        "ssl.clientAuth there, or set zookeeper_access.open_nodes to true",
    ),
}
_LOST = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)
log = logging.getLogger(__name__)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Wake:
    """A watcher for kazoo. Equal watchers are equal, so that re-arming adds no second one."""

    watcher: Watcher

    def __call__(self, _event: object) -> None:
        self.watcher()


class KazooZooKeeper:
    """One session, connected when this returns; after an expiry it begins a new session by itself.

    `hosts`: `host:port,host:port[/chroot]`; the chroot is created where missing, with the first `ensure`.
    `answer_timeout_s` limits the connecting and every request. Raises `StoreUnavailable` or `Refused`.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float = 10.0,
        answer_timeout_s: float = 10.0,
        access: ZooKeeperAccess | None = None,
    ) -> None:
        self._hosts, slash, chroot = hosts.partition("/")
        self._prefix = (slash + chroot).rstrip("/")
        self._limit_s = answer_timeout_s
        self._granted_s = session_timeout_s
        self._ready = threading.Event()
        self._closed = False
        self._hung_up_since_s: float | None = None
        self._access = access or ZooKeeperAccess()
        self._causes = Causes(self._access)
        options = self._access.client_options()
        try:
            self._client = KazooClient(
                self._hosts,
                timeout=session_timeout_s,
                connection_retry=dict(_RECONNECT),
                handler=PollingHandler(),
                **options,
            )
        except (ConfigurationError, ValueError) as error:
            raise Refused(
                f"{hosts!r} is no ZooKeeper address ({error}); write host:port,host:port[/folder], with ports"
            ) from error
        self._note_granted_timeout()
        self._live = self._client.start_async()
        try:
            self._await_first_connection()
        except CoordinatorError:
            # Stopping may last as long as a connection attempt under way.
            threading.Thread(target=self.close, name="zookeeper-give-up", daemon=True).start()
            raise

    def _note_granted_timeout(self) -> None:
        """Keep the time-out that the server grants, which kazoo only logs. By then the log-in is over as well."""
        connection = self._client._connection  # noqa: SLF001 - there is no public way to it
        connect = connection._connect  # noqa: SLF001

        def connect_and_note(host: str, ip: str, port: int) -> tuple[float, float]:
            try:
                read_timeout_ms, connect_timeout_ms = connect(host, ip, port)
            except SessionExpiredError:
                raise
            except ConnectionDropped as error:
                self._causes.note(host, ip, port, error)
                self._note_hang_up(error)
                raise
            except Exception as error:
                self._causes.note(host, ip, port, error)
                raise
            self._hung_up_since_s = None
            self._causes.forget()
            self._granted_s = read_timeout_ms * 1.5 / 1000  # kazoo reads for two thirds of the session time-out
            self._ready.set()
            return read_timeout_ms, connect_timeout_ms

        connection._connect = connect_and_note  # noqa: SLF001

    def _note_hang_up(self, error: ConnectionDropped) -> None:
        """Give up the session after servers have taken our connections and hung up for a session time-out.

        No server kept the session alive meanwhile. The next reads may be older than those before: a listener for new
        sessions must expect that.
        """
        if not hung_up(error):
            self._hung_up_since_s = None  # no server took the connection
            return
        now_s = time.monotonic()
        self._hung_up_since_s = since_s = self._hung_up_since_s or now_s
        if self._client.last_zxid and now_s - since_s >= self._granted_s:
            log.warning(
                "ZooKeeper at %s hangs up on a session that has seen newer data: beginning a new one", self._hosts
            )
            self._client.last_zxid, self._hung_up_since_s = 0, None
            raise SessionExpiredError("the server has older data than this session has seen") from error

    def _await_first_connection(self) -> None:
        deadline_s = time.monotonic() + self._limit_s
        while not self._ready.wait(_RECONNECT_PAUSE_S):
            if text := self._causes.lasting(self._client.hosts):
                raise Refused(f"ZooKeeper at {self._hosts} cannot be used: {text}")
            if time.monotonic() > deadline_s:
                raise self._no_answer(self._causes.text() or why_silent(self._hosts))

    def _no_answer(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"ZooKeeper at {self._hosts} does not answer within {self._limit_s:g} s: {reason}; "
            "check that it runs and that this address is right"
        )

    # Reads -----------------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        return self._repeat(path, lambda: self._client.get_async(self._full(path), watch=_wake(watch)), _node)

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        while True:
            try:
                return self.get(path, watch)
            except NodeMissing:
                if watch is None or self._exists(path, watch) is None:
                    return None
                # It was created meanwhile: the watch is armed, read it.

    def _exists(self, path: str, watch: Watcher) -> object:
        return self._repeat(path, lambda: self._client.exists_async(self._full(path), watch=_wake(watch)), _same)

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        wanted = list(zip(paths, watches or [None] * len(paths), strict=True))
        found: list[Node | None] = []
        for start in range(0, len(wanted), _PIPELINE):
            chunk = wanted[start : start + _PIPELINE]
            if not self._live.is_set():
                found += [self.find(path, watch) for path, watch in chunk]
                continue
            sent = [self._client.get_async(self._full(p), watch=_wake(w)) for p, w in chunk]
            sent[-1].wait(self._limit_s)  # answers come in order: this thread is woken once
            found += [self._take(one, answer) for one, answer in zip(chunk, sent, strict=True)]
        return found

    def _take(self, wanted: tuple[str, Watcher | None], answer: Any) -> Node | None:
        path, watch = wanted
        try:
            return _node(answer.get(block=False))
        except NoNodeError:
            return self.find(path, watch) if watch is not None else None
        except (KazooException, KazooTimeoutError):
            return self.find(path, watch)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        return self._repeat(path, lambda: self._client.get_children_async(self._full(path), watch=_wake(watch)), sorted)

    def sync(self) -> None:
        self._repeat("/", lambda: self._client.sync_async("/"), _same)

    def ensure(self, path: str) -> None:
        if self._access.separate:
            self._ensure_each(path)
        else:
            # A write, but one that may be repeated.
            self._repeat(path, lambda: self._client.ensure_path_async(self._full(path)), _same)

    def _ensure_each(self, path: str) -> None:
        """Create each missing node on the way with an access list of its own."""
        if self._repeat(path, lambda: self._client.exists_async(self._full(path)), _same) is not None:
            return
        if not self._access.may_create(path):
            raise self._not_made(path)
        names = path.strip("/").split("/")
        for above in ("/" + "/".join(names[: depth + 1]) for depth in range(len(names))):
            acl = self._access.acl_of(above)
            self._repeat(above, partial(self._client.ensure_path_async, self._full(above), acl), _same)

    def _not_made(self, path: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._full(path)} is not in ZooKeeper, and this account may not create it; start the coordinator, which does"
        )

    def _repeat(self, path: str, send: Callable[[], Any], read: Callable[[Any], V]) -> V:
        """Send until there is an answer or the time is over."""
        deadline_s = time.monotonic() + self._limit_s
        while True:
            self._await_connection(deadline_s)
            try:
                return read(send().get(timeout=max(0.0, deadline_s - time.monotonic())))
            except ConnectionClosedError as error:
                # kazoo also raises this while it replaces a connection.
                if self._closed or time.monotonic() >= deadline_s:
                    raise self._translated(error, path) from error
                time.sleep(_RECONNECT_PAUSE_S)
            except _LOST as error:
                if time.monotonic() >= deadline_s:
                    raise self._translated(error, path) from error
            except (KazooException, KazooTimeoutError) as error:
                raise self._translated(error, path) from error

    def _await_connection(self, deadline_s: float) -> None:
        while not self._live.wait(min(0.2, max(0.0, deadline_s - time.monotonic()))):
            if self._closed:
                raise StoreUnavailable("this ZooKeeper session was closed; open a new one")
            if time.monotonic() >= deadline_s:
                raise self._no_answer(self._causes.text() or "the connection is lost")

    # Writes ----------------------------------------------------------------------------------------------------------

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        if not operations:
            return []
        check_size(operations)
        transaction = self._client.transaction()
        for operation in operations:
            self._add(transaction, operation)
        self._await_connection(time.monotonic() + self._limit_s)
        try:
            results = transaction.commit_async().get(timeout=self._limit_s)
        except (KazooException, KazooTimeoutError) as error:
            raise self._translated(error, operations[0].path) from error
        for operation, result in zip(operations, results, strict=False):
            # Only one part failed; the others were rolled back or never tried.
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise self._translated(result, operation.path) from result
        return [self._result(operation, result) for operation, result in zip(operations, results, strict=True)]

    def _add(self, transaction: Any, operation: Operation) -> None:
        path = self._full(operation.path)
        match operation:
            case Create(data=data, ephemeral=ephemeral, sequence=sequence):
                acl = self._access.acl_of(operation.path)
                transaction.create(path, data, acl, ephemeral=ephemeral, sequence=sequence)
                if sequence and path.endswith("/"):
                    # kazoo's transactions drop the slash that makes the number alone the name.
                    transaction.operations[-1] = transaction.operations[-1]._replace(path=path)
            case SetData(data=data, version=version):
                transaction.set_data(path, data, version)
            case Delete(version=version):
                transaction.delete(path, version)
            case Check(version=version):
                transaction.check(path, version)

    def _result(self, operation: Operation, result: Any) -> str | Stat | None:
        match operation:
            case Create():
                return str(result).removeprefix(self._prefix)
            case SetData():
                return _stat(result)
        return None

    def check_closed(self, folders: Sequence[str]) -> None:
        """Refuse folders that others may change, or that another account owns; nothing without a log-in.

        The first folder holds the others. Those that are not there are left out, unless only the coordinator may create
        them: then `StoreUnavailable`.
        """
        if not self._access.closes_nodes:
            return
        top = self._full(folders[0])
        for folder in folders:
            full = self._full(folder)
            try:
                acls = self._acls(folder)
            except NodeMissing:
                if not self._access.may_create(folder):
                    raise self._not_made(folder) from None
                continue
            except Refused as error:
                raise self._access.foreign(full, top) from error
            self._access.check_closed(full, acls, top, self._prefix)

    def wrong_access_lists(self, top: str) -> tuple[int, list[str]]:
        """How many nodes there are from `top` on, and what is wrong with the access lists of some of them."""
        count, problems, wanted = 0, list[str](), [top]
        while wanted:
            path = wanted.pop()
            try:
                self.check_closed([path])
                wanted += [f"{path}/{child}" for child in self.children(path)]
            except NodeMissing:
                continue  # it vanished
            except Refused as error:
                problems.append(str(error))
            count += 1
        return count, problems

    def set_access_lists(self, top: str) -> int:
        """Give a node and everything below it the access lists that they would be created with; how many got one.

        Raises `Refused` for a node whose access list this account may not change.
        """
        wanted, done = [top], 0
        while wanted:
            sent = [
                (path, self._client.set_acls_async(self._full(path), self._access.acl_of(path)))
                for path in wanted[:_PIPELINE]
            ]
            below: list[str] = []
            for path, answer in sent:
                try:
                    answer.get(timeout=self._limit_s)
                    below += [f"{path}/{child}" for child in self.children(path)]
                    done += 1
                except (NoNodeError, NodeMissing):
                    continue  # it vanished
                except NoAuthError as error:
                    raise self._access.foreign(self._full(path), self._full(top)) from error
                except (KazooException, KazooTimeoutError) as error:
                    raise self._translated(error, path) from error
            wanted = [*wanted[_PIPELINE:], *below]
        return done

    def _acls(self, path: str) -> list[ACL]:
        return self._repeat(path, lambda: self._client.get_acls_async(self._full(path)), lambda answer: list(answer[0]))

    # The session -----------------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[Connection], None]) -> None:
        def forward(state: str) -> None:
            listener(_CONNECTIONS[state])

        self._client.add_listener(forward)

    @property
    def session_id(self) -> int:
        client_id = self._client.client_id
        return int(client_id[0] or 0) if client_id else 0

    @property
    def session_timeout_s(self) -> float:
        return self._granted_s

    def close(self) -> None:
        self._closed = True
        try:
            self._client.stop()
            self._client.close()
        except (KazooException, OSError, AttributeError) as error:
            # kazoo raises these if there is no connection to close.
            log.debug("closing the ZooKeeper session: %s", error)

    def _full(self, path: str) -> str:
        return self._prefix + path if path != "/" else self._prefix or "/"

    def _translated(self, error: Exception, path: str) -> CoordinatorError:
        for kind, (ours, problem) in _MEANING.items():
            if isinstance(error, kind):
                return ours(f"{path} {problem}")
        if isinstance(error, AuthFailedError):
            return Refused(
                f"ZooKeeper at {self._hosts} refuses the log-in; check the user and the password in the settings"
            )
        if isinstance(error, KazooTimeoutError):
            return self._no_answer("it took the request and said nothing")
        if isinstance(error, _LOST):
            return StoreUnavailable(
                f"the connection to ZooKeeper at {self._hosts} broke during a request for {path} "
                f"({type(error).__name__}); what it wrote may or may not be there: look before trying again"
            )
        return StoreUnavailable(f"ZooKeeper at {self._hosts} failed a request for {path}: {error!r}; see its log")


def check_size(operations: Sequence[Operation]) -> None:
    """Raise `Refused` for a transaction that is so large that the server would drop the connection."""
    sizes = {operation.path: _size(operation) for operation in operations}
    total = sum(_size(operation) for operation in operations)
    if total > MAX_TRANSACTION_BYTES:
        largest = max(sizes, key=lambda path: sizes[path])
        raise Refused(
            f"{largest}: the transaction has {total} bytes, more than the {MAX_TRANSACTION_BYTES} that ZooKeeper takes "
            f"at once, {sizes[largest]} of them for this node; nothing was written, change less at a time"
        )


def _size(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return _OPERATION_OVERHEAD_BYTES + len(operation.path.encode()) + len(data)


def _wake(watch: Watcher | None) -> _Wake | None:
    return None if watch is None else _Wake(watch)


def _same(answer: Any) -> Any:
    return answer


def _node(answer: Any) -> Node:
    data, stat = answer
    return Node(data or b"", _stat(stat))


def _stat(stat: Any) -> Stat:
    return Stat(
        version=stat.version,
        created_at=stat.ctime / 1000,
        modified_at=stat.mtime / 1000,
        children_version=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        created_zxid=stat.czxid,
        modified_zxid=stat.mzxid,
    )
