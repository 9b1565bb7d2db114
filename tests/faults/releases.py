"""The releases of a topic, taken down as they are written: each partition's node keeps the last one only."""

from coordinator_tasks.core.codecs.codec import decode_release
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import ZooKeeper
from coordinator_tasks.devstack.demo.evidence import SeenRelease


class Releases:
    """Watches every partition's node; `see` has to be called more often than a partition is released twice."""

    def __init__(self, zk: ZooKeeper, paths: Paths, topic: str, partitions: int) -> None:
        self._zk, self._paths, self._topic = zk, paths, topic
        self._changed = dict.fromkeys(range(partitions), True)
        self._seen: dict[tuple[int, int], SeenRelease] = {}

    def see(self) -> None:
        """Read what has changed."""
        for partition in [p for p, changed in self._changed.items() if changed]:
            path = self._paths.partition(self._topic, partition)
            self._changed[partition] = False
            try:
                node = self._zk.find(path, lambda p=partition: self._changed.update({p: True}))
            except StoreUnavailable:
                self._changed[partition] = True
                raise
            release = decode_release(path, node.data) if node is not None else None
            if node is not None and release is not None:
                self._seen[partition, release.epoch] = SeenRelease(partition, release, node.stat.modified_at)

    def all(self) -> list[SeenRelease]:
        """Everything is read once more: watches may have ended with their session."""
        self._changed = dict.fromkeys(self._changed, True)
        self.see()
        return list(self._seen.values())
