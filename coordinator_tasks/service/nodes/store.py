"""One topic in ZooKeeper: reads with versions, and guarded writes of decisions.

The topic's node is created empty, as the parent of its partitions. An empty node at version 0 means that there is no
plan yet. At any later version, an empty node is unreadable.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.history_codec import PACK_RECORDS_OVER, encode_record
from coordinator_tasks.core.codecs.packed import begins_packed
from coordinator_tasks.core.errors import CoordinatorError, LookAgain, Malformed, NotManaged, Refused
from coordinator_tasks.core.machine.decision import Decision
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import Release, TopicNode
from coordinator_tasks.core.names import Paths, is_topic, partition_of, partitions_of
from coordinator_tasks.core.ports import Create, Node, Operation, SetData, VersionCheck, ZooKeeper
from coordinator_tasks.core.protocol.znodes import children, find_decoded, find_many, put
from coordinator_tasks.core.text.partition_text import shown

MAX_TORN_READS = 20
Unread: TypeAlias = Malformed | Refused | LookAgain
"""Why a topic could not be read."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The znode versions behind a decision; -1 means that the node was absent."""

    config: int
    node: int
    state: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A topic as read, with the versions."""

    view: TopicView
    versions: Versions


@dataclass(frozen=True, slots=True)
class StoredTopics:
    """The managed topics, each read once. `stored`: by name, in order. `unread`: topic → error.

    `nodes`: the readable nodes of all managed topics, also of topics outside `stored`.
    """

    managed: tuple[str, ...]
    stored: Mapping[str, Stored]
    unread: Mapping[str, Unread]
    nodes: Mapping[str, TopicNode]

    @property
    def views(self) -> list[TopicView]:
        return [one.view for one in self.stored.values()]


def load_topics(zk: ZooKeeper, paths: Paths, names: Collection[str] = (), *, others: bool = True) -> StoredTopics:
    """Read all managed topics and `names`. Without `others`, read only the nodes of managed topics not in `names`."""
    zk.sync()  # a stale read of ZooKeeper, older than the consumers' answers, would look like a restored ZooKeeper
    managed = tuple(children(zk, paths.configs))
    found = with_topics(zk, paths, StoredTopics(managed, {}, {}, {}), {*names, *(managed if others else ())})
    rest = [name for name in managed if name not in found.stored]
    return replace(found, nodes={**found.nodes, **load_nodes(zk, paths, rest)})


def with_topics(zk: ZooKeeper, paths: Paths, found: StoredTopics, names: Collection[str]) -> StoredTopics:
    """Return `found` with these topics read as well."""
    stored, unread = dict(found.stored), dict(found.unread)
    for name in sorted(set(names) - stored.keys() - unread.keys()):
        try:
            stored[name] = load(zk, paths, name)
        except (Malformed, Refused, LookAgain) as error:
            unread[name] = error
    nodes = {name: one.view.node for name, one in stored.items() if one.view.node is not None}
    return StoredTopics(found.managed, dict(sorted(stored.items())), unread, {**found.nodes, **nodes})


def load(zk: ZooKeeper, paths: Paths, topic: str) -> Stored:
    """Read one topic. Raises `NotManaged`, or `Malformed` with the unreadable node's path."""
    config_path, node_path, state_path = paths.config(topic), paths.topic(topic), paths.state(topic)
    config, state, node = _read_together(zk, [config_path, state_path, node_path])
    if config is None:
        raise not_managed(zk, paths, topic)
    topic_node = read_node(node_path, node)
    view = TopicView(
        config=codec.decode_config(config_path, config.data),
        node=topic_node,
        state=codec.decode_state(state_path, state.data) if state is not None else None,
        partitions=_partitions(zk, paths, topic),
        releases=releases(zk, paths, topic, topic_node.handoff if topic_node is not None else ()),
        packed=topic_node is not None and node is not None and begins_packed(node.data),
    )
    if view.config.topic != topic:
        raise Malformed(config_path, f"is the configuration of topic {view.config.topic!r}")
    return Stored(view, Versions(config.stat.version, _version(node), _version(state)))


def not_managed(zk: ZooKeeper, paths: Paths, topic: str) -> NotManaged:
    """Return the error for an unmanaged topic, with a list of the managed topics."""
    known = shown([one for one in children(zk, paths.configs) if is_topic(one)]) or "none"
    return NotManaged(
        f"topic {topic!r} is not managed by cluster {paths.cluster!r} (it manages: {known}); correct the name, or add the "
        "topic first"
    )


def _read_together(zk: ZooKeeper, paths: list[str]) -> list[Node | None]:
    """Read configuration, state and node (in this order) as of one moment.

    A decision writes node and state in one transaction. If the node is newer than the state, the transaction came
    between our reads, or a person edited the node. A second read tells: after an edit, it finds the same.
    """
    before: list[Node | None] = []
    for _ in range(MAX_TORN_READS):
        found = zk.get_many(paths)
        _, state, node = found
        written = node is not None and bool(node.data)
        if not written or found == before or (state is not None and _zxid(node) <= _zxid(state)):
            return found
        before = found
    raise LookAgain(f"{paths[2]} changed {MAX_TORN_READS} times while it was being read")


def _zxid(node: Node | None) -> int:
    return node.stat.modified_zxid if node is not None else 0


def read_node(path: str, node: Node | None) -> TopicNode | None:
    """Return a topic's node; `None` before the first plan. Raises `Malformed`, also for an emptied node."""
    if node is None or (not node.data and node.stat.version == 0):
        return None
    if not node.data:
        raise Malformed(path, "is empty, though a plan was written to it")
    return codec.decode_node(path, node.data)


def load_nodes(
    zk: ZooKeeper, paths: Paths, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None
) -> dict[str, TopicNode]:
    """Return the nodes of these topics. Missing and unreadable nodes are left out: `load` reports them.

    `problems` gets the unreadable topics.
    """
    wanted = {topic: paths.topic(topic) for topic in topics if is_topic(topic)}
    found = find_decoded(zk, wanted, read_node, problems if problems is not None else {})
    return {topic: node for topic, node in found.items() if node is not None}


def releases(zk: ZooKeeper, paths: Paths, topic: str, partitions: Collection[int]) -> dict[int, Release]:
    """Return the last releases of these partitions, if any."""
    found = find_many(zk, {p: paths.partition(topic, p) for p in sorted(partitions)})
    decoded = {p: codec.decode_release(paths.partition(topic, p), node.data) for p, node in found.items()}
    return {partition: release for partition, release in decoded.items() if release is not None}


def commit(zk: ZooKeeper, paths: Paths, stored: Stored, decision: Decision, world: World) -> None:
    """Write a decision: state, node and history in one transaction.

    Raises `LookAgain` if any input of the decision has changed. After `StoreUnavailable` nobody knows whether the write
    succeeded: read again.
    """
    zk.ensure(paths.history(stored.view.topic))
    zk.transact(writes(paths, stored, decision, world))


def writes(
    paths: Paths, stored: Stored, decision: Decision, world: World, *, announce: bool = False
) -> list[Operation]:
    """Return the transaction that writes a decision. The history's folder must exist.

    `announce`: also write the unchanged configuration. Airflow watches the configuration, and a reset of offsets by a
    person writes no other node that Airflow watches.
    """
    if decision.state is None or decision.record is None:
        raise TypeError("only a decision to write can be committed")
    versions, topic, config = stored.versions, stored.view.topic, stored.view.config
    if decision.ends_rollback:
        config = replace(config, rollback=None)
    operations: list[Operation] = [VersionCheck(paths.config(topic), versions.config)]
    if announce or decision.ends_rollback:
        operations = [SetData(paths.config(topic), codec.encode_config(config), versions.config)]
    operations += [put(paths.state(topic), codec.encode_state(decision.state), versions.state)]
    if decision.node is not None:
        operations += [put(paths.topic(topic), codec.encode_node(decision.node, decision.pack_over), versions.node)]
    else:
        operations += [VersionCheck(paths.topic(topic), versions.node)]
    operations += _guards(paths, decision, world)
    operations += [Create(f"{paths.history(topic)}/", encode_record(decision.record, PACK_RECORDS_OVER), sequence=True)]
    return operations


def _guards(paths: Paths, decision: Decision, world: World) -> list[Operation]:
    """Return guards: no consumer counted as closed without confirmation has registered or been readmitted."""
    guards: list[Operation] = []
    for consumer in sorted(decision.relies_on):
        if consumer in world.claims:
            guards += [VersionCheck(paths.id(consumer), world.claims[consumer].version)]
        if consumer in world.directives and world.directives[consumer].version >= 0:
            guards += [VersionCheck(paths.directive(consumer), world.directives[consumer].version)]
    return guards


def _partitions(zk: ZooKeeper, paths: Paths, topic: str) -> tuple[int, ...]:
    listed = children(zk, paths.topic(topic))
    found = partitions_of(listed)
    return tuple(sorted((p for one in listed if (p := partition_of(one)) is not None) if found is None else found))


def _version(node: Node | None) -> int:
    return node.stat.version if node is not None else -1
