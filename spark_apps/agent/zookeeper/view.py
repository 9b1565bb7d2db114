"""Reads ZooKeeper for each topic's ownership, and writes the releases.

The view reads and watches only wanted topics and topics known already: the coordinator plans no other topic to a
consumer. A fired watch leads to a read at once. Polls read every node too, within a budget of bytes. A vanished or
unreadable node is reported and changes nothing. All reads and writes belong to one session; a new session begins with a
registration.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from coordinator_tasks.core.codecs.codec import decode_node, decode_release, encode_release
from coordinator_tasks.core.codecs.member_codec import decode_directive
from coordinator_tasks.core.errors import LookAgain, Malformed, NoAccess, NodeMissing, Unavailable
from coordinator_tasks.core.model import Directive, Release, TopicNode
from coordinator_tasks.core.names import Paths, is_topic
from coordinator_tasks.core.ports import Clock, Node, Operation, SetData, Watcher, ZooKeeper
from spark_apps.agent.reports import Reports
from spark_apps.agent.settings import Identity
from spark_apps.agent.threads.topics import Topics
from spark_apps.agent.zookeeper.watches import Watches

MAX_RELEASES_AT_ONCE = 500
LEARNT_AT_ONCE = 200
REFUSED_S = 10.0
"""Seconds between a refused write of a release and its retry. Each refused release costs a separate request."""
POLLED_BYTES_S, MAX_POLL_S = 1_000.0, 600.0
"""Limits of one consumer's polls of topic nodes and the list of topics: a watch already reports each write.

Bytes per second, and the longest pause in seconds.
"""


def poll_after_s(polled_bytes: int) -> float:
    """Return the seconds between two polls of nodes with this total size."""
    return min(MAX_POLL_S, polled_bytes / POLLED_BYTES_S)


def existing(zk: ZooKeeper, paths: Paths, wanted: Callable[[str], bool]) -> Iterator[tuple[str, TopicNode]]:
    """Yield the wanted topics with their nodes. Removed topics and unreadable nodes are left out."""
    topics: Sequence[str] = ()
    with suppress(NodeMissing):
        topics = zk.children(paths.assignments)
    for topic in sorted(one for one in topics if is_topic(one) and wanted(one)):
        path = paths.topic(topic)
        with suppress(NodeMissing, Malformed):
            node = decode_node(path, zk.get(path).data)
            if not node.removed:
                yield topic, node


class SessionChanged(Unavailable, code="KPC-045"):
    """The consumer's session with ZooKeeper was replaced; the consumer reads again.

    Remedy: if the error repeats, look at ZooKeeper and at pauses of the process.
    """


@dataclass(frozen=True, slots=True)
class _Known:
    """A partition's node as last read or written in this session: node version, and epoch of the release (0 = none)."""

    version: int
    epoch: int


class View:
    """One consumer's view of its cluster, in the session of the last `begin`."""

    def __init__(
        self,
        zk: ZooKeeper,
        paths: Paths,
        identity: Identity,
        clock: Clock,
        *,
        topics: Topics,
        wanted: Callable[[str], bool],
        reports: Reports,
        wake: Callable[[], None],
    ) -> None:
        self.directive = Directive(identity.consumer)
        self._zk = zk
        self._paths = paths
        self._identity = identity
        self._clock = clock
        self._topics = topics
        self._wanted = wanted
        self._reports = reports
        self._wake = wake
        self._watches = Watches(wake)
        self._session = 0
        self._listed: tuple[str, ...] = ()
        self._names: tuple[str, ...] = ()  # the wanted topics among the listed topics
        self._known: dict[str, dict[int, _Known]] = {}  # topic → partition → node, only of the present generation
        self._generations: dict[str, str] = {}
        self._poll_at: dict[str, float] = {}  # path → time, for topic nodes and their folder
        self._sizes: dict[str, int] = {}  # path → bytes of the last read
        self._refused_until: dict[str, float] = {}  # path of a partition's node → end of the pause
        self._troubles: dict[str, set[int]] = {}  # topic → partitions whose node has a reported problem

    def begin(self, session: int) -> None:
        """Begin with the session of a new registration. Reads of earlier sessions no longer count."""
        self._session = session
        self._watches.renew()
        self._known.clear()
        self._poll_at.clear()
        self._sizes.clear()
        self._refused_until.clear()
        self._zk.sync()

    def prepare(self) -> None:
        """Start the queries of the existing topics before the registration. Assign nothing and report nothing yet."""
        known = self._topics.names()
        for topic, node in existing(self._zk, self._paths, lambda one: one not in known and self._wanted(one)):
            self._topics.appeared(topic, node)

    def read(self, polling: bool) -> None:
        """Read changed nodes; with `polling`, all due nodes. Raises `StoreUnavailable` or `SessionChanged`."""
        self._read_directive(polling)
        self._read_names(polling)
        for topic in dict.fromkeys((*self._names, *self._topics.names())):  # a known topic may have left the list
            self._read_topic(topic, polling)
        for topic in self._topics.names():
            self._read_releases(topic, polling)
            if polling:
                self._learn(topic)

    def look_again(self, topic: str) -> None:
        """Make the next step read the topic's node, whatever its size. Callable from any thread."""
        self._watches.fire(self._paths.topic(topic))

    # Reading ---------------------------------------------------------------------------------------------------------

    def _due(self, path: str, polling: bool) -> bool:
        return self._watches.take(path) or polling or not self._watches.is_armed(path)

    def _poll_due(self, path: str, polling: bool) -> bool:
        return self._due(path, polling and self._clock.monotonic() >= self._poll_at.get(path, 0.0))

    def _was_read(self, path: str, size: int) -> None:
        """Set the time of the next poll of this path, by the total bytes of the topic nodes and their folder."""
        self._sizes[path] = size
        self._poll_at[path] = self._clock.monotonic() + poll_after_s(sum(self._sizes.values()))

    def _find(self, path: str) -> Node | None:
        with self._arming([path]):
            return self._zk.find(path, self._watches.arm(path))

    @contextmanager
    def _arming(self, paths: Sequence[str]) -> Iterator[None]:
        """Guard a read that arms watches: disarm them after a failure, and check that the session is still the same."""
        try:
            yield
        except (Unavailable, NodeMissing):
            for path in paths:
                self._watches.disarm(path)
            raise
        self._same_session()

    def _same_session(self) -> None:
        if self._zk.session_id != self._session:
            raise SessionChanged("ZooKeeper's session is a new one: register in it before acting on a read")

    def _read_directive(self, polling: bool) -> None:
        path = self._paths.directive(self._identity.consumer)
        if not self._due(path, polling):
            return
        node = self._find(path)
        try:
            found = (
                Directive(self._identity.consumer)
                if node is None
                else decode_directive(path, node.data, self._identity.consumer, node.stat.version)
            )
        except Malformed as error:
            self._reports.add(path, str(error))
            return
        self._reports.clear(path)
        before, was_isolated = self.directive, self.isolated
        self.directive = found
        isolated = self.isolated
        # A readmission raises the version. An unchanged version means that ZooKeeper was lost or restored.
        lost = was_isolated and not isolated and (node is None or found.version <= before.version)
        for topic in self._topics.names():
            if lost:
                self._topics.edit(topic, lambda ownership: ownership.grants.on_isolation_lost())
            else:
                self._topics.edit(topic, lambda ownership: ownership.grants.on_isolated(isolated))

    @property
    def isolated(self) -> bool:
        """Return whether a directive forbids this incarnation to run partitions."""
        isolation = self.directive.isolation
        return isolation is not None and isolation.incarnation in (0, self._identity.incarnation)

    def _read_names(self, polling: bool) -> None:
        path = self._paths.assignments
        if not self._poll_due(path, polling):
            return
        try:
            with self._arming([path]):
                names = self._zk.children(path, self._watches.arm(path))
        except NodeMissing:
            return
        self._was_read(path, sum(map(len, names)))
        if self._listed == (listed := tuple(names)):
            return
        self._listed = listed
        for topic in {*self._names} - {*names} - {*self._topics.names()}:  # never ours, and without a node now
            self._reports.clear(self._paths.topic(topic))
            self._sizes.pop(self._paths.topic(topic), None)
        self._names = tuple(name for name in names if is_topic(name) and self._wanted(name))
        strange = sorted(name for name in names if not is_topic(name))
        if strange:
            self._reports.add(path, f"{path}/{strange[0]!r} can be no topic's and is left out; remove the node")
        else:
            self._reports.clear(path)

    def _read_topic(self, topic: str, polling: bool) -> None:
        path = self._paths.topic(topic)
        if not self._poll_due(path, polling):
            return
        node = self._find(path)
        self._was_read(path, len(node.data) if node is not None else 0)
        known = topic in self._topics.names()
        unwritten = node is not None and not node.data and node.stat.version == 0
        if unwritten and not known:
            return  # no plan exists yet
        try:
            # A vanished node is decoded as an empty text, which is malformed.
            seen = decode_node(path, node.data if node is not None else b"")
        except Malformed as error:
            # An unwritten node of a known topic: the topic was added again after the loss of ZooKeeper, and has no plan
            # yet.
            sentence = f"{path} has vanished; held as it is" if node is None or unwritten else str(error)
            if known:
                self._topics.edit(topic, lambda ownership: ownership.grants.on_unreadable(sentence))
            else:
                self._reports.add(path, sentence)
            return
        if not known:
            mine = self._identity
            if seen.removed and seen.incarnations.get(mine.consumer) != mine.incarnation:
                self._reports.clear(path)
                return  # the topic is not planned to us
            refusal = self._topics.appeared(topic, seen)
            if refusal:
                self._reports.add(path, refusal)
                return
            isolated = self.isolated
            self._topics.edit(topic, lambda ownership: ownership.grants.on_isolated(isolated))
        self._reports.clear(path)
        if self._generations.get(topic) != seen.generation:  # a topic that was added again has new nodes
            self._generations[topic] = seen.generation
            self._known.pop(topic, None)
        self._topics.edit(topic, lambda ownership: ownership.grants.on_node(seen))

    def _read_releases(self, topic: str, polling: bool) -> None:
        """Read all new releases together, so that their starts are committed together.

        A giver writes its releases in one transaction: when the watch of one has fired, the others exist too. A
        partition whose release is still missing gets a new watch.
        """
        awaited = self._topics.edit(topic, lambda ownership: ownership.grants.awaited())
        givers = {entry.giver for p, entry in awaited.items() if self._watches.take(self._paths.partition(topic, p))}
        self._hand_over(topic, [p for p, entry in awaited.items() if entry.giver in givers], lambda _: None)
        left = self._topics.edit(topic, lambda ownership: ownership.grants.awaited())
        self._forget(topic, left)
        due = [p for p in left if polling or not self._watches.is_armed(self._paths.partition(topic, p))]
        self._hand_over(topic, due, self._watches.arm)

    def _forget(self, topic: str, awaited: Collection[int]) -> None:
        """End reports about nodes of partitions that are neither awaited, nor owned, nor to be released."""
        if not self._troubles.get(topic):
            return
        owed = self._topics.edit(topic, lambda ownership: {*ownership.releasing.outbox, *ownership.holdings.held})
        over = self._troubles[topic] - owed - {*awaited}
        for partition in over:
            self._reports.clear(self._paths.partition(topic, partition))
        self._troubles[topic] -= over

    def _trouble(self, topic: str, partition: int, sentence: str) -> None:
        self._reports.add(self._paths.partition(topic, partition), sentence)
        self._troubles.setdefault(topic, set()).add(partition)

    def _hand_over(self, topic: str, partitions: Sequence[int], watcher: Callable[[str], Watcher | None]) -> None:
        """Read these partitions' nodes, with a watcher for each path, and hand the releases to the ownership."""
        read = self._read_nodes(topic, partitions, watcher)
        releases = {p: release for p, release in read.items() if release is not None}
        if releases:
            self._topics.edit(topic, lambda ownership: ownership.grants.on_releases(releases))

    def _read_nodes(
        self, topic: str, partitions: Sequence[int], watcher: Callable[[str], Watcher | None] = lambda _: None
    ) -> dict[int, Release | None]:
        """Return the releases on these partitions' nodes. Report and leave out unreadable nodes."""
        if not partitions:
            return {}
        paths = [self._paths.partition(topic, p) for p in partitions]
        with self._arming(paths):
            nodes = self._zk.get_many(paths, [watcher(path) for path in paths])
        known, found = self._known.setdefault(topic, {}), dict[int, Release | None]()
        for partition, path, node in zip(partitions, paths, nodes, strict=True):
            known.pop(partition, None)
            if node is None:
                # ZooKeeper was lost. Only the coordinator makes these nodes; the topic may have fewer partitions now.
                self._trouble(topic, partition, f"{path} has vanished; the release waits for it")
                continue
            try:
                found[partition] = release = decode_release(path, node.data)
            except Malformed as error:
                self._trouble(topic, partition, str(error))
                continue
            self._reports.clear(path)
            known[partition] = _Known(node.stat.version, release.epoch if release is not None else 0)
        return found

    def _learn(self, topic: str) -> None:
        """Read some nodes of owned partitions at each poll, so that a later release needs no read before its write."""
        known = self._known.get(topic, {})
        new = [p for p in self._topics.edit(topic, lambda ownership: ownership.holdings.ready()) if p not in known]
        self._read_nodes(topic, new[:LEARNT_AT_ONCE])

    # Releasing -------------------------------------------------------------------------------------------------------

    def write_releases(self) -> None:
        """Write the posted releases by compare-and-set, so that an older release never replaces a newer release."""
        for topic in self._topics.names():
            posted = self._topics.edit(topic, lambda ownership: ownership.releasing.timed())
            partitions = sorted(posted)
            for begin in range(0, len(partitions), MAX_RELEASES_AT_ONCE):
                chunk = partitions[begin : begin + MAX_RELEASES_AT_ONCE]
                self._write(topic, {p: posted[p] for p in chunk})

    def _write(self, topic: str, releases: Mapping[int, Release]) -> None:
        operations = self._operations(topic, releases)
        try:
            self._zk.transact(list(operations.values()))
        except LookAgain:
            self._read_nodes(topic, list(operations))  # another writer changed a node: retry at once
            self._wake()
            return
        except NoAccess as error:
            if len(operations) > 1:  # one of the releases is refused: write each release alone
                for partition in operations:
                    self._write(topic, {partition: releases[partition]})
                return
            for partition, operation in operations.items():
                self._refused_until[operation.path] = self._clock.monotonic() + REFUSED_S
                self._trouble(topic, partition, f"{error}; the release waits for it")
            return
        known = self._known[topic]
        for partition, operation in operations.items():
            self._reports.clear(operation.path)
            known[partition] = _Known(known[partition].version + 1, releases[partition].epoch)
            self._written(topic, partition, releases[partition])

    def _operations(self, topic: str, releases: Mapping[int, Release]) -> dict[int, Operation]:
        """Return the writes of the releases that are neither written nor recently refused."""
        known, now = self._known.setdefault(topic, {}), self._clock.monotonic()
        self._read_nodes(topic, [p for p, r in releases.items() if p not in known or known[p].epoch >= r.epoch])
        operations: dict[int, Operation] = {}
        for partition, release in releases.items():
            node, path = known.get(partition), self._paths.partition(topic, partition)
            if node is None:
                continue  # the node has vanished or is unreadable
            if node.epoch >= release.epoch:
                self._written(topic, partition, release)  # this release or a newer release is written already
            elif now >= self._refused_until.get(path, now):
                operations[partition] = SetData(path, encode_release(release), node.version)
        return operations

    def _written(self, topic: str, partition: int, release: Release) -> None:
        self._topics.edit(topic, lambda ownership: ownership.releasing.note(partition, release.epoch))
