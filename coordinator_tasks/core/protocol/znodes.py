"""ZooKeeper helpers of services and adapters: lists of nodes that may be missing, and guarded writes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from coordinator_tasks.core.errors import CoordinatorError, LookAgain, Malformed, NoAccess, NodeMissing
from coordinator_tasks.core.ports import Create, Node, Operation, SetData, ZooKeeper

MAX_ATTEMPTS = 20
"""Maximum attempts of a compare-and-set. If an attempt is lost, another writer has made progress."""
CHUNK = 256
"""Number of consumers' nodes held in memory at once; each may have a megabyte."""
K = TypeVar("K")
T = TypeVar("T")


def children(zk: ZooKeeper, path: str) -> list[str]:
    """Return the sorted names of a node's children; empty if the node is missing."""
    try:
        return zk.children(path)
    except NodeMissing:
        return []


def find_many(zk: ZooKeeper, paths: Mapping[K, str], denied: dict[K, CoordinatorError] | None = None) -> dict[K, Node]:
    """Return the nodes at these paths, by key. Missing nodes are left out.

    `denied` gets the errors of nodes that this account may not read. Without `denied`, the first error is raised.
    """
    try:
        nodes = zk.get_many(list(paths.values()))
    except NoAccess:
        if denied is None:
            raise
        return {key: node for key, path in paths.items() if (node := _found(zk, key, path, denied)) is not None}
    return {key: node for key, node in zip(paths, nodes, strict=True) if node is not None}


def _found(zk: ZooKeeper, key: K, path: str, denied: dict[K, CoordinatorError]) -> Node | None:
    try:
        return zk.find(path)
    except NoAccess as error:
        denied[key] = error
        return None


def find_decoded(
    zk: ZooKeeper,
    paths: Mapping[K, str],
    decode: Callable[[str, Node], T],
    problems: dict[K, CoordinatorError] | None = None,
) -> dict[K, T]:
    """Return the values of the nodes at these paths, by key. Missing nodes are left out.

    `problems` gets the errors of forbidden and unreadable nodes. Without `problems`, the first error is raised.
    """
    found: dict[K, T] = {}
    for key, node in find_many(zk, paths, problems).items():
        try:
            found[key] = decode(paths[key], node)
        except Malformed as error:
            if problems is None:
                raise
            problems[key] = error
    return found


def chunks(names: Sequence[K], size: int) -> Iterator[Sequence[K]]:
    """Yield the names in order, `size` at a time."""
    return (names[begin : begin + size] for begin in range(0, len(names), size))


def numbered(zk: ZooKeeper, folder: str) -> list[str]:
    """Return the names of a folder's records, oldest first. Other children are left out."""
    return [name for name in children(zk, folder) if name.isascii() and name.isdigit()]


def newest_first(zk: ZooKeeper, folder: str, names: Sequence[str], chunk: int) -> Iterator[tuple[str, str, Node]]:
    """Yield name, path and node of these records, `chunk` at a time, newest first. `names` are oldest first.

    Pruned records are left out.
    """
    for paths in newest_paths(folder, names, chunk):
        for name, node in find_many(zk, paths).items():
            yield name, paths[name], node


def newest_paths(folder: str, names: Sequence[str], chunk: int) -> Iterator[dict[str, str]]:
    """Yield name → path of these records, `chunk` at a time, newest first. `names` are oldest first."""
    for end in range(len(names), 0, -chunk):
        yield {name: f"{folder}/{name}" for name in reversed(names[max(0, end - chunk) : end])}


def put(path: str, data: bytes, version: int) -> Operation:
    """Return the operation that writes the node at this version; -1 creates the node."""
    return Create(path, data) if version < 0 else SetData(path, data, version)


def written(zk: ZooKeeper, operations: Sequence[Operation]) -> bool:
    """Apply all operations in one transaction. Return False if a guard failed and nothing was applied."""
    try:
        zk.transact(operations)
    except LookAgain:
        return False
    return True


def compare_and_set(
    zk: ZooKeeper,
    path: str,
    attempt: Callable[[], tuple[Sequence[Operation], T]],
    *,
    lost: Callable[[], None] = lambda: None,
    doing: str = "it was being written",
    exhausted: type[CoordinatorError] = LookAgain,
) -> T:
    """Read, change and write under guards. Start over when a guard fails. Return the result of the applied attempt.

    `attempt` reads, and returns the guarded operations with its result. Without operations, nothing is written. After
    `MAX_ATTEMPTS` failed guards, raise `exhausted`: its text says that `path` changed while `doing`. `lost` is called
    after each failed guard, and may raise.
    """
    for _ in range(MAX_ATTEMPTS):
        operations, result = attempt()
        if not operations or written(zk, operations):
            return result
        lost()
    raise exhausted(f"{path} changed {MAX_ATTEMPTS} times while {doing}")
