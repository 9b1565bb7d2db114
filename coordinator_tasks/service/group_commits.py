"""The committed offsets of the managed topics' groups, each with the log's end. Writes nothing."""

from collections.abc import Collection, Iterator, Mapping

from coordinator_tasks.core.errors import KafkaUnavailable, Refused
from coordinator_tasks.core.lag_moments import Seen
from coordinator_tasks.core.ports import GroupAnswer, Wanted, committed_of
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.figures import TopicFigures


def commits(c: Coordinator, topics: Collection[TopicFigures], unknown: dict[str, str]) -> Iterator[Seen]:
    """Those of these topics that have any, by group and topic; `unknown` gets the groups that Kafka does not tell, and why."""
    wanted: dict[str, dict[str, tuple[int, ...]]] = {}
    owners = {one.topic: one.owners for one in topics}
    for one in topics:
        if one.group and one.partitions:
            wanted.setdefault(one.group, {})[one.topic] = one.partitions
    for group, answer in _committed(c, wanted).items():
        try:
            told = {topic: committed_of(answer, topic) for topic in wanted[group]}
            ends = {topic: c.kafka.bounds(topic, partitions) for topic, partitions in wanted[group].items()}
        except (KafkaUnavailable, Refused) as error:
            unknown[group] = error.told
            continue
        for topic, committed in told.items():
            for partition, entry in sorted(committed.items()):
                if partition in ends[topic]:
                    owner, end = owners[topic].get(partition, ""), ends[topic][partition][1]
                    yield Seen(group, topic, partition, owner, entry.offset, end)


def _committed(c: Coordinator, wanted: Wanted) -> Mapping[str, GroupAnswer]:
    try:
        return c.kafka.committed(wanted) if wanted else {}
    except KafkaUnavailable as error:
        return dict.fromkeys(wanted, error)
