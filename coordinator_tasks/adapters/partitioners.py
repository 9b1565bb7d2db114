"""The partitioners of Kafka's clients, as librdkafka computes them: which partition gets a key."""

from collections.abc import Callable, Mapping

from coordinator_tasks.core.errors import Refused

Partitioner = Callable[[bytes, int], int | None]
"""A record's key, and the topic's number of partitions → the key's partition; `None` = any partition."""


def partitioners() -> Mapping[str, Partitioner]:
    """Return partitioners by name: `murmur2` of Java's clients, `consistent` (CRC-32, librdkafka's default), `fnv1a`.

    Raises `Refused` if the installed confluent-kafka has no such functions.
    """
    try:
        from confluent_kafka import consistent, fnv1a, murmur2  # noqa: PLC0415 - absent in older releases
    except ImportError as error:
        raise Refused(
            "the installed confluent-kafka cannot compute the partition of a key; install a later release: pip install -U "
            "confluent-kafka"
        ) from error

    def unless_empty(key: bytes, count: int) -> int | None:
        """Return no partition for an empty key, as librdkafka's default `consistent_random` does."""
        return consistent(key, count) if key else None

    return {"murmur2": murmur2, "consistent": unless_empty, "fnv1a": fnv1a}
