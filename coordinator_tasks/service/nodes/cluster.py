"""All topics and consumers, observed once for all decisions of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe, store
from coordinator_tasks.service.nodes.observe import Observation
from coordinator_tasks.service.nodes.store import StoredTopics


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """The topics as read, and the world observed afterwards. `snapshot` has the committed offsets of every topic.

    `views`: the readable topics with Kafka's descriptions. `before`: the world before this observation wrote its notes.
    `silent`: why Kafka described no topic. A write that relies on the observation checks the versions of the nodes.
    """

    topics: StoredTopics
    snapshot: Observation
    views: Mapping[str, TopicView]
    before: World
    silent: KafkaUnavailable | None = None

    @property
    def stored_world(self) -> World:
        """Return the world as another reader of ZooKeeper sees it: a refused note makes no consumer unclear."""
        return replace(self.snapshot.world, unclear=self.before.unclear)


def observe_cluster(c: Coordinator) -> ClusterObservation:
    """Read all topics, ask each consumer once, and note absences. Raises the `Unavailable` kinds of ZooKeeper."""
    topics = store.load_topics(c.zk, c.paths)
    seen = observe.snapshot(c, topics.nodes, note=False)
    before = seen.world
    seen = observe.noted(c, seen)
    silent: list[KafkaUnavailable] = []
    views = {view.topic: view for view in observe.describe(c, topics.views, silent)}
    seen = replace(seen, committed=observe.committed(c, list(views.values())))
    return ClusterObservation(topics, seen, views, before, silent[0] if silent else None)
