"""The rules of ZooKeeper's tree: versions, ephemeral and sequence nodes, transactions that apply as a whole or not at all."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator_tasks.core.errors import LookAgain, NodeExists, NodeMissing
from coordinator_tasks.core.ports import Create, Delete, Operation, SetData, Stat


class Znode(NamedTuple):
    """A node; `owner` is the session of an ephemeral node, or 0; `creations` counts the children ever made."""

    data: bytes
    version: int
    owner: int
    modified_zxid: int
    created_at: float
    modified_at: float
    creations: int
    children: frozenset[str]

    def stat(self) -> Stat:
        # ZooKeeper keeps the number of creations and shows the number of changes.
        return Stat(
            version=self.version,
            created_at=self.created_at,
            modified_at=self.modified_at,
            children_version=2 * self.creations - len(self.children),
            ephemeral_owner=self.owner,
            modified_zxid=self.modified_zxid,
        )


def fresh(data: bytes, owner: int, zxid: int, now: float) -> Znode:
    return Znode(data, 0, owner, zxid, now, now, 0, frozenset())


class Transaction:
    """Operations of a session on `nodes`, which stay unchanged.

    `changed`: path → the node afterwards, or `None`; `events`: notices to watches, in order, as path and whether about
    the list of its children; `results`: as in the port. Raises `LookAgain` and its kinds.
    """

    def __init__(
        self, nodes: Mapping[str, Znode], operations: Sequence[Operation], session: int, zxid: int, now: float
    ) -> None:
        self.changed: dict[str, Znode | None] = {}
        self.events: list[tuple[str, bool]] = []
        self._nodes = nodes
        self._session = session
        self._zxid = zxid
        self._at = now
        self.results = [self._one(operation) for operation in operations]

    def _one(self, operation: Operation) -> str | Stat | None:
        if isinstance(operation, Create):
            return self._create(operation)
        path = operation.path
        node = self._guarded(path, operation.version)
        if isinstance(operation, SetData):
            self.changed[path] = node = node._replace(
                data=operation.data, version=node.version + 1, modified_zxid=self._zxid, modified_at=self._at
            )
            self.events.append((path, False))
            return node.stat()
        if isinstance(operation, Delete):
            if node.children:
                raise LookAgain(f"{path} has children")
            self.changed[path] = None
            parent_path, name = _split(path)
            parent = self._now(parent_path)
            self.changed[parent_path] = parent._replace(children=parent.children - {name})
            self.events += [(path, False), (path, True), (parent_path, True)]
        return None

    def _create(self, operation: Create) -> str:
        parent_path = _split(operation.path)[0]
        parent = self._now(parent_path)
        path = f"{operation.path}{parent.creations:010d}" if operation.sequence else operation.path
        if self._find(path) is not None:
            raise NodeExists(f"{path} is there already")
        children = parent.children | {_split(path)[1]}
        self.changed[parent_path] = parent._replace(children=children, creations=parent.creations + 1)
        self.changed[path] = fresh(operation.data, self._session if operation.ephemeral else 0, self._zxid, self._at)
        self.events += [(path, False), (parent_path, True)]
        return path

    def _find(self, path: str) -> Znode | None:
        return self.changed[path] if path in self.changed else self._nodes.get(path)

    def _now(self, path: str) -> Znode:
        node = self._find(path)
        if node is None:
            raise NodeMissing(f"{path} is not there")
        return node

    def _guarded(self, path: str, version: int) -> Znode:
        node = self._now(path)
        if version not in (-1, node.version):
            raise LookAgain(f"{path} was changed in between")
        return node


def apply(nodes: dict[str, Znode], changed: Mapping[str, Znode | None]) -> None:
    """Bring a transaction's changes into the tree."""
    for path, node in changed.items():
        if node is None:
            nodes.pop(path, None)
        else:
            nodes[path] = node


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name
