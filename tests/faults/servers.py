"""What all cases share: ZooKeeper, Kafka, one topic that records flow into, and the broker's log of commits."""

import copy
import threading
from multiprocessing.context import ForkServerContext

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.core.errors import KafkaUnavailable
from tests.faults.commit_log import CommitLog, insist
from tests.faults.roles import fork_server

PER_SECOND = 25
ANSWER_S = 60.0
ASK_S = 8.0
"""A request that comes while a broker makes its own topics may stay without an answer, however long one waits."""


class Servers:
    """Cases side by side: each has a ZooKeeper folder and a consumer group of its own, and reads the same topic."""

    def __init__(self, zookeeper: str, kafka: str, name: str, partitions: int = 2) -> None:
        self.zookeeper, self.topic, self.partitions = zookeeper, f"flow-{name}", partitions
        quiet = {"bootstrap.servers": kafka, "log_level": "1"}
        # Many cases read at once: each would ask the broker a hundred times a second.
        self.client_settings = {**quiet, "fetch.wait.max.ms": "50"}
        self.forks: ForkServerContext = fork_server()
        # Starting a process asks all others whether they have ended, and only one thread may be told.
        self.processes = threading.Lock()
        self.zk = KazooZooKeeper(zookeeper, answer_timeout_s=ANSWER_S)
        self.admin = ConfluentKafkaAdmin(quiet, ASK_S)
        self.admin.create_topic(self.topic, partitions)
        self._ends = ConfluentGroupOffsets({**quiet, "isolation.level": "read_uncommitted"}, "ends")
        self.ends()
        self._producer = Producer({**quiet, "linger.ms": 5, "enable.idempotence": True})
        self.flows = {(self.topic, p): 0 for p in range(partitions)}
        self._stop = threading.Event()
        self._flow = threading.Thread(target=self._produce, name="flow", daemon=True)
        self._flow.start()
        self.begin_group(f"first-{name}", dict.fromkeys(range(partitions), 0))
        self.commits = CommitLog(kafka)

    def ends(self) -> dict[int, int]:
        """The offset after the last record of each partition that has a leader."""
        return insist(self._ends_now)

    def _ends_now(self) -> dict[int, int]:
        self._ends.describe(self.topic)  # an admin client learns of a leader's new epoch by that alone
        return dict(self._ends.ends(self.topic, range(self.partitions)))

    def begin_group(self, group: str, offsets: dict[int, int]) -> None:
        """Commit where a group begins, as a person would: without a token."""
        places = [TopicPartition(self.topic, p, offset) for p, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        broker = self.admin._broker
        insist(
            lambda: broker.of_coordinator(
                lambda client, time_out: client.alter_consumer_group_offsets(request, request_timeout=time_out)
            ).only(group)
        )

    def own_topic(self, name: str) -> "Servers":
        """The same with a topic of its own, of one partition."""
        mine = copy.copy(self)
        mine.topic, mine.partitions = f"{self.topic}-{name}", 0
        mine.admin.create_topic(mine.topic, 1)
        mine._flow_into(1)
        return mine

    def grow(self, partitions: int) -> None:
        """Give the topic more partitions."""
        client = AdminClient({key: value for key, value in self.client_settings.items() if key != "fetch.wait.max.ms"})
        client.create_partitions([NewPartitions(self.topic, partitions)])[self.topic].result(ASK_S)
        self._flow_into(partitions)

    def _flow_into(self, partitions: int) -> None:
        self.partitions = partitions
        insist(self._led)
        for partition in range(partitions):
            self.flows.setdefault((self.topic, partition), 0)

    def _led(self) -> None:
        if len(self._ends_now()) < self.partitions:
            raise KafkaUnavailable(f"partitions of {self.topic} have no leader yet")

    def dry_up(self) -> None:
        """Nothing flows into the topic any more."""
        for place in [place for place in list(self.flows) if place[0] == self.topic]:
            del self.flows[place]

    def _produce(self) -> None:
        while not self._stop.wait(1 / PER_SECOND):
            for (topic, partition), number in list(self.flows.items()):
                try:
                    self._producer.produce(topic, str(number).encode(), partition=partition)
                except KafkaException:  # the producer does not know yet that the topic has grown
                    self._producer.list_topics(topic, timeout=ASK_S)
                else:
                    self.flows[topic, partition] = number + 1
            self._producer.poll(0)

    def close(self) -> None:
        self._stop.set()
        self._flow.join()
        self._producer.flush()
        self.commits.close()
        self.zk.close()
