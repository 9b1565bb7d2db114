"""`ports.ZooKeeper` on kazoo. No exception of kazoo leaves this module: each becomes the cause of one of our errors.

- Nothing is sent without a connection. kazoo would queue the request, and might send a write long after its time-out.
- Reads are retried until the time limit. A write is sent once. If the connection is lost, its outcome is unknown.
- A lost connection fires every watch, because kazoo then forgets all watches. The watchers read again.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.exceptions import KazooException, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.handlers.threading import KazooTimeoutError

from coordinator_tasks.adapters.zookeeper_session import KazooSession
from coordinator_tasks.core.errors import NodeMissing, Refused
from coordinator_tasks.core.ports import Create, Delete, Node, Operation, SetData, Stat, VersionCheck, Watcher

MAX_TRANSACTION_BYTES = 1_000_000  # the server drops the connection above jute.maxbuffer, 1,048,575
_OPERATION_OVERHEAD_BYTES = 80  # headers, flags and the access list of one operation
PIPELINE = 1000  # requests in flight at once


@dataclass(frozen=True, slots=True)
class _Wake:
    """A watcher for kazoo. Two objects for the same watcher are equal, so kazoo keeps only one watch."""

    watcher: Watcher

    def __call__(self, _event: object) -> None:
        self.watcher()


class KazooZooKeeper(KazooSession):
    """`ports.ZooKeeper`: reads and writes in a session."""

    # Reads -----------------------------------------------------------------------------------------------------------

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        return self.repeat(path, lambda: self.client.get_async(self.full(path), watch=_wake(watch)), _node)

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        while True:
            try:
                return self.get(path, watch)
            except NodeMissing:
                if watch is None or self._exists(path, watch) is None:
                    return None
                # The node was created meanwhile. The watch is set, so read the node.

    def _exists(self, path: str, watch: Watcher) -> object:
        return self.repeat(path, lambda: self.client.exists_async(self.full(path), watch=_wake(watch)), _same)

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        wanted = list(zip(paths, watches or [None] * len(paths), strict=True))
        found: list[Node | None] = []
        for start in range(0, len(wanted), PIPELINE):
            chunk = wanted[start : start + PIPELINE]
            if not self.live.is_set():
                found += [self.find(path, watch) for path, watch in chunk]
                continue
            sent = [self.client.get_async(self.full(p), watch=_wake(w)) for p, w in chunk]
            sent[-1].wait(self.limit_s)  # answers arrive in order, so waiting for the last wakes this thread only once
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
        return self.repeat(path, lambda: self.client.get_children_async(self.full(path), watch=_wake(watch)), sorted)

    def sync(self) -> None:
        self.repeat("/", lambda: self.client.sync_async("/"), _same)

    def ensure(self, path: str) -> None:
        if self.access_lists.access.separate:
            self._ensure_each(path)
        else:
            # This write may be repeated safely.
            self.repeat(path, lambda: self.client.ensure_path_async(self.full(path)), _same)

    def _ensure_each(self, path: str) -> None:
        """Create each missing node of the path, with the access list for this node."""
        if self.repeat(path, lambda: self.client.exists_async(self.full(path)), _same) is not None:
            return
        if not self.access_lists.may_create(path):
            raise self.access_lists.missing(self.full(path))
        names = path.strip("/").split("/")
        for above in ("/" + "/".join(names[: depth + 1]) for depth in range(len(names))):
            acl = self.access_lists.acl_of(above)
            self.repeat(above, partial(self.client.ensure_path_async, self.full(above), acl), _same)

    # Writes ----------------------------------------------------------------------------------------------------------

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        if not operations:
            return []
        check_size(operations)
        transaction = self.client.transaction()
        for operation in operations:
            self._add(transaction, operation)
        self.await_connection(time.monotonic() + self.limit_s)
        try:
            results = transaction.commit_async().get(timeout=self.limit_s)
        except (KazooException, KazooTimeoutError) as error:
            raise self.translated(error, operations[0].path) from error
        for operation, result in zip(operations, results, strict=False):
            # Only one operation has failed. The others were rolled back or never tried.
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise self.translated(result, operation.path) from result
        return [self._result(operation, result) for operation, result in zip(operations, results, strict=True)]

    def _add(self, transaction: Any, operation: Operation) -> None:
        path = self.full(operation.path)
        match operation:
            case Create(data=data, ephemeral=ephemeral, sequence=sequence):
                acl = self.access_lists.acl_of(operation.path)
                transaction.create(path, data, acl, ephemeral=ephemeral, sequence=sequence)
                if sequence and path.endswith("/"):
                    # kazoo's transactions drop the final slash. Then the number would be the whole name of the node.
                    transaction.operations[-1] = transaction.operations[-1]._replace(path=path)
            case SetData(data=data, version=version):
                transaction.set_data(path, data, version)
            case Delete(version=version):
                transaction.delete(path, version)
            case VersionCheck(version=version):
                transaction.check(path, version)

    def _result(self, operation: Operation, result: Any) -> str | Stat | None:
        match operation:
            case Create():
                return str(result).removeprefix(self.prefix)
            case SetData():
                return _stat(result)
        return None


def check_size(operations: Sequence[Operation]) -> None:
    """Raise `Refused` for a transaction so large that the server would drop the connection."""
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
        modified_zxid=stat.mzxid,
    )
