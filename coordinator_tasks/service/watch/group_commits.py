"""The committed offsets of the managed topics' groups, each with the end of the log. Writes nothing."""

from collections.abc import Collection, Iterator, Mapping

from coordinator_tasks.core.errors import KafkaUnavailable, Refused
from coordinator_tasks.core.measure.lag_moments import PartitionMoment
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.ports import GroupAnswer, Wanted, committed_of
from coordinator_tasks.core.text.partition_text import leaderless
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.watch.topic_metrics import TopicFigures

SILENT_S = 20.0
"""Maximum seconds of waiting for a silent Kafka, over all groups. Each group would cost a full time-out."""


def commits(c: Coordinator, topics: Collection[TopicFigures], unknown: dict[str, str]) -> Iterator[PartitionMoment]:
    """Yield committed offsets by group and topic. `unknown` gets the groups without an answer, and why.

    A removed topic, or a topic missing in Kafka, has no offsets. If this account may not read one topic of a group, the
    other topics are still yielded. If one partition has no leader, the other partitions are still yielded.
    """
    wanted, owners = _wanted(c, topics), {one.topic: one.owners for one in topics}
    waited_s, last = 0.0, ""
    for group, answer in _committed(c, wanted).items():
        if waited_s > SILENT_S:
            unknown[group] = last
            continue
        for topic, partitions in wanted[group].items():
            began_s = c.clock.monotonic()
            try:
                committed, ends = committed_of(answer, topic), c.kafka.bounds(topic, partitions)
            except Refused as error:
                unknown[group] = error.told
                continue
            except KafkaUnavailable as error:
                unknown[group] = last = error.told
                waited_s += c.clock.monotonic() - began_s
                break  # each further topic would cost a time-out too
            if unled := sorted(committed.keys() - ends.keys()):
                unknown[group] = KafkaUnavailable(leaderless(topic, unled)).told
            for partition, entry in sorted(committed.items()):
                if partition in ends:
                    owner, end = owners[topic].get(partition, ""), ends[partition][1]
                    yield PartitionMoment(group, topic, partition, owner, entry.offset, end)


def _wanted(c: Coordinator, topics: Collection[TopicFigures]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return group → topic → partitions with committed offsets."""
    gone = _gone(c, [one.topic for one in topics])
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for one in topics:
        if one.group and one.partitions and not one.removed and one.topic not in gone:
            found.setdefault(one.group, {})[one.topic] = one.partitions
    return found


def _gone(c: Coordinator, topics: Collection[str]) -> set[str]:
    try:
        found = c.kafka.describe([topic for topic in topics if is_topic(topic)], {}) if topics else {}
    except (KafkaUnavailable, Refused):
        return set()
    return {topic for topic, described in found.items() if described is None}


def _committed(c: Coordinator, wanted: Wanted) -> Mapping[str, GroupAnswer]:
    try:
        return c.kafka.committed(wanted) if wanted else {}
    except KafkaUnavailable as error:
        return dict.fromkeys(wanted, error)
