"""The re-hash of a topic's state with the facts that Kafka and ZooKeeper tell about the topic."""

from collections.abc import Mapping

from coordinator_tasks.adapters.partitioners import partitioners
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.ports import committed_of
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.store import read_node
from spark_apps.delivery.database import existing
from spark_apps.state.rehash import Moves, StatefulTopic, rehash


def rehash_topic(c: Coordinator, address: str, topic: str, partitioner: str = "", *, execute: bool) -> list[Moves]:
    """Return the moves as `rehash`. `address`: the database. `partitioner`: that of the producers; empty = find it."""
    known = partitioners()
    if partitioner not in ("", *known):
        raise Refused(f"there is no partitioner {partitioner!r}; give {', '.join(known)}")
    chosen = {partitioner: known[partitioner]} if partitioner else known
    with existing(address) as sink:
        found = c.kafka.describe([topic])[topic]
        if found is None:
            raise Refused(f"Kafka has no topic {topic!r}; correct the name")
        count = found.partition_count
        bounds = c.kafka.bounds(topic, range(count))
        stateful = StatefulTopic(c.paths.cluster, topic, found.topic_id, count, bounds, _committed(c, topic, count))
        return rehash(sink, stateful, chosen, execute=execute)


def _committed(c: Coordinator, topic: str, count: int) -> Mapping[int, int]:
    """Return the offsets that the topic's consumers have committed; empty without consumers."""
    path = c.paths.topic(topic)
    node = read_node(path, c.zk.find(path))
    if node is None:
        return {}
    answer = c.kafka.committed({node.group_id: {topic: range(count)}})[node.group_id]
    return {partition: found.offset for partition, found in committed_of(answer, topic).items()}
