"""The account's rights in Kafka, found by requests that change nothing."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._acl import AclOperation
from confluent_kafka.admin._config import ConfigResource

from coordinator_tasks.adapters.broker import DEFAULT_LIMIT_S, Broker, built
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.protocol.kafka_rights import Resource, Right, transactional_ids
from coordinator_tasks.library_log import LIBRARY_LOG

_GROUP_DENIED = KafkaError.GROUP_AUTHORIZATION_FAILED
_OPERATIONS = {"Describe": AclOperation.DESCRIBE, "Read": AclOperation.READ}
_RETENTION = "offsets.retention.minutes"
_NO_TOPIC = (KafkaError.UNKNOWN_TOPIC_OR_PART,)


class KafkaRights:
    """The rights that requests show. All methods raise `KafkaUnavailable`, or `Refused` for unusable settings."""

    def __init__(self, settings: Mapping[str, str], limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._broker = Broker(settings, limit_s)

    def brokers(self) -> tuple[str, ...]:
        """Return the addresses of the cluster's brokers. Every account may ask."""
        return tuple(sorted(f"{node.host}:{node.port}" for node in self._nodes()))

    def _nodes(self) -> list[Any]:
        answer = self._broker.results(
            lambda client, time_out: {"": client.describe_cluster(request_timeout=time_out)}
        ).only("the cluster")
        return list(answer.nodes)

    def offsets_kept_s(self, problems: dict[str, CoordinatorError]) -> float | None:
        """Return the shortest time for which a broker keeps offsets after a group's last commit; `None` if unknown.

        `problems` gets the brokers that gave no answer, each with the reason.
        """
        entries = []
        for one in self._nodes():  # a request names one broker, and goes to this broker
            try:
                found = self._configuration(ConfigResource(ConfigResource.Type.BROKER, str(one.id)))
            except Refused:  # this account lacks the right to ask
                return None
            except CoordinatorError as error:
                problems[f"{one.host}:{one.port}"] = error
            else:
                entries.append(found.get(_RETENTION))
        return min((float(one.value) * 60 for one in entries if one is not None and one.value), default=None)

    def _configuration(self, broker: ConfigResource) -> Any:
        return self._broker.results(
            lambda client, time_out: client.describe_configs([broker], request_timeout=time_out)
        ).only(f"the configuration of broker {broker.name}")

    def has(self, right: Right, topic: str, group: str, cluster: str) -> bool:
        """Return whether the account has the right on the topic, the group, or the cluster's transactional ids."""
        if right.resource is Resource.TOPIC:
            return self._on_topic(right.operation, topic)
        if right.resource is Resource.TRANSACTIONAL_ID:
            return self._begins_transactions(cluster)
        return self._describes(group) if right.operation == "Describe" else self._commits(group, topic)

    def has_topic(self, topic: str) -> bool:
        """Return whether the topic exists, as far as this account may see topics."""
        with suppress(Refused):
            return self._topic(topic) is not None
        return True

    def topic_id(self, topic: str) -> str:
        """Return Kafka's id of the topic; empty if the topic does not exist.

        Raises `Refused` if the account may not describe the topic.
        """
        found = self._topic(topic)
        return str(getattr(found, "topic_id", ""))

    def _topic(self, topic: str) -> object:
        answers = self._broker.results(
            lambda client, time_out: client.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=time_out
            )
        )
        return answers.get(topic, f"topic {topic!r}", missing=_NO_TOPIC)

    def _on_topic(self, operation: str, topic: str) -> bool:
        try:
            found = self._topic(topic)
        except Refused:
            return False
        granted = getattr(found, "authorized_operations", None)
        return found is None or granted is None or _OPERATIONS[operation] in granted

    def _describes(self, group: str) -> bool:
        answers = self._broker.of_coordinator(
            lambda client, time_out: client.describe_consumer_groups([group], request_timeout=time_out), only_reads=True
        )
        try:
            answers.get(group, f"group {group!r}", missing=(KafkaError.GROUP_ID_NOT_FOUND,))
        except Refused:
            return False
        return True

    def _commits(self, group: str, topic: str) -> bool:
        """Return whether the account may commit.

        The request names a partition that no topic has. Brokers check the group's rights first, and write nothing.
        """
        request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, MAX_PARTITION, 0)])
        answers = self._broker.of_coordinator(
            lambda client, time_out: client.alter_consumer_group_offsets([request], request_timeout=time_out)
        )
        try:
            answer = answers.only(f"group {group!r}")
        except Refused:
            return False
        return all(one.error is None or one.error.code() != _GROUP_DENIED for one in answer.topic_partitions)

    def _begins_transactions(self, cluster: str) -> bool:
        """Return whether the account may initialize a transactional producer, under an id that no partition uses."""
        own = {"transactional.id": f"{transactional_ids(cluster)}doctor", "transaction.timeout.ms": "10000"}
        producer = built(lambda: Producer({**self._broker.usable, **own}, logger=LIBRARY_LOG))
        try:
            producer.init_transactions(self._broker.limit_s)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                return False
            raise self._broker.translated(error, "transactions") from error
        return True
