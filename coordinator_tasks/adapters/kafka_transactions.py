"""`ports.GroupOffsets` whose commits are Kafka transactions, so that the broker itself refuses a former owner.

Each held partition has a producer with `transactional.id` = cluster/group/topic/partition. A new owner initializes its
producer. From then on Kafka refuses every commit of the former owner, even a commit under way (KIP-98, KIP-447). The
new owner reads the committed entry only afterwards, so its start is never older than the entry that it replaces.

While another consumer subscribes in the group, Kafka refuses plain commits, but not transactional commits. The commits
of the other consumer reveal it.
"""

import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from coordinator_tasks.adapters.broker import DEFAULT_LIMIT_S, built
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets
from coordinator_tasks.core.codecs.status_codec import encode_metadata
from coordinator_tasks.core.errors import CommitFenced, KafkaUnavailable
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.ports import committed_of
from coordinator_tasks.library_log import LIBRARY_LOG

# a dead owner's transaction is aborted by the broker after this time, if the partition has no new owner
TRANSACTION_TIMEOUT_MS = 10_000
_AT_ONCE = 16
_START_S = 0.5
"""Seconds that a call waits for a new producer to start.

Afterwards the start continues in the background, and later calls only check whether it is done. So the other partitions
of the topic do not wait.
"""
_RESUME_S = 0.02
"""Seconds until a producer's start is requested again; doubled each time.

The repeated request makes the start continue at once. Without it, the library waits half a second if its first lookup
of the transaction coordinator finds no connection (librdkafka 2.16).
"""
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})  # noqa: SLF001 - its only name
_OF_CONSUMERS = ("fetch.", "queued.", "auto.", "enable.partition.eof", "partition.assignment.", "heartbeat.")


class TransactionalGroupOffsets(ConfluentGroupOffsets):
    """`ConfluentGroupOffsets` with transactional commits. `limit_s` is the limit of each request of a transaction."""

    fences = True

    def __init__(self, settings: Mapping[str, str], group: str, cluster: str, limit_s: float = DEFAULT_LIMIT_S) -> None:
        super().__init__(settings, group, limit_s)
        self._cluster = cluster
        self._producers: dict[tuple[str, int], tuple[Token, Producer]] = {}
        self._begun: dict[tuple[str, int], tuple[Token, Producer]] = {}
        self._lost: dict[tuple[str, int], Token] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="commit")

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        """Return committed entries after open transactions. Kafka may show an acknowledged commit with a delay."""
        return committed_of(self._committed(self._group, {topic: partitions}, stable=True), topic)

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:
        for made in (self._producers, self._begun):
            # a copy, because the workers of the group's other topics change the same dictionary
            for place, (token, _) in list(made.items()):
                if place[0] == topic and tokens.get(place[1]) != token:
                    del made[place]
        return self._take(topic, topic_id, tokens)

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        failed: dict[int, str] = {}
        for topic_id in {one.topic_id for one in offsets.values()}:  # also repeats commits of unknown outcome
            tokens = {p: o.token for p, o in offsets.items() if o.token is not None and o.topic_id == topic_id}
            failed |= self._take(topic, topic_id, tokens)
        errors = self._of_each([p for p in offsets if p not in failed], lambda p: self._commit(topic, p, offsets[p]))
        # Report fenced partitions before any other error: the owner must not take them again.
        fenced = tuple(p for p, error in errors.items() if isinstance(error, CommitFenced))
        if fenced:
            raise CommitFenced(str(errors[fenced[0]]), fenced)
        return failed | {p: str(error) for p, error in errors.items()}

    def _of_each(self, partitions: Collection[int], ask: Callable[[int], Exception | None]) -> dict[int, Exception]:
        """Call `ask` for each partition, several at once. Return partition → error."""
        answers = zip(partitions, self._pool.map(ask, partitions), strict=True)
        return {p: error for p, error in answers if error is not None}

    def _take(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> dict[int, str]:
        """Become the only committer of these partitions. Lost partitions, and entries of a newer owner, are left out.

        Return partition → Kafka's refusal.
        """
        new = {p: token for p, token in tokens.items() if (topic, p) not in self._producers}
        tokens = {p: token for p, token in new.items() if self._lost.get((topic, p)) != token}
        if not tokens:
            return {}
        # Do not wait for open transactions: a dead owner's transaction stays open until a new owner takes the
        # partition.
        entries = super().committed(topic, tokens)
        mine = {p: token for p, token in tokens.items() if not _newer(entries.get(p), token, topic_id)}
        errors = self._of_each(mine, lambda p: self._initialize(topic, p, mine[p]))
        return {p: str(error) for p, error in errors.items()}

    def _initialize(self, topic: str, partition: int, token: Token) -> Exception | None:
        """Fence the partition's other producers. Return an error, if any. The next call resumes an unfinished start."""
        place = (topic, partition)
        begun, limit_s = self._begun.get(place), _RESUME_S
        if begun is None or begun[0] != token:
            begun = self._begun[place] = (token, self._producer(topic, partition))
            limit_s = min(_START_S, self._broker.limit_s)
        try:
            _start(begun[1], limit_s)
        except KafkaException as error:
            cause = error.args[0]
            if cause.retriable():
                return KafkaUnavailable(
                    f"Kafka at {self._broker.address} has not begun transactions of {topic}-{partition} yet "
                    f"({cause.str()}); it is asked again. If that lasts, check that __transaction_state has its leaders"
                )
            del self._begun[place]
            return self._broker.translated(error, f"transactions of {topic}-{partition}")
        self._producers[place] = self._begun.pop(place)
        return None

    def _producer(self, topic: str, partition: int) -> Producer:
        usable = {key: value for key, value in self._broker.usable.items() if not key.startswith(_OF_CONSUMERS)}
        own = {
            "transactional.id": self._id(topic, partition),
            "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
            "linger.ms": "0",
        }
        return built(lambda: Producer({**usable, **own}, logger=LIBRARY_LOG))

    def _commit(self, topic: str, partition: int, entry: Committed) -> Exception | None:
        held = self._producers.get((topic, partition))
        if held is None:
            return self._fenced(topic, partition)
        token, producer = held
        producer.poll(0)  # serves the library's log
        try:
            producer.begin_transaction()
            self._send(producer, topic, partition, entry)
            producer.commit_transaction(self._broker.limit_s)
        except KafkaException as error:
            self._producers.pop((topic, partition), None)
            if error.args[0].code() in _FENCED:
                self._lost[topic, partition] = token
                return self._fenced(topic, partition)
            with suppress(KafkaException):
                producer.abort_transaction(self._broker.limit_s)
            place = f"the offset of {topic}-{partition} in group {self._group!r}"
            return self._broker.translated(error, place)
        return None

    def _fenced(self, topic: str, partition: int) -> CommitFenced:
        return CommitFenced(
            "Kafka refuses its commit, because another consumer has taken the partition (transactional.id "
            f"{self._id(topic, partition)}); it is held again once the coordinator grants it again",
            (partition,),
        )

    def _send(self, producer: Producer, topic: str, partition: int, entry: Committed) -> None:
        place = TopicPartition(topic, partition, entry.offset, encode_metadata(entry))
        producer.send_offsets_to_transaction([place], self._broker.group_metadata(self._group), self._broker.limit_s)

    def _id(self, topic: str, partition: int) -> str:
        # A cluster of the same name in another ZooKeeper may read the same topic for another group.
        return f"{self._cluster}/{self._group}/{topic}/{partition}"


def _start(producer: Producer, limit_s: float) -> None:
    """Initialize the producer's transactions within the limit. Raises the last error."""
    until, wait_s = time.monotonic() + limit_s, _RESUME_S
    while True:
        left_s = until - time.monotonic()
        try:
            return producer.init_transactions(max(0.0, min(wait_s, left_s)))
        except KafkaException as error:
            if left_s <= wait_s or not error.args[0].retriable():
                raise
        wait_s *= 2


def _newer(entry: Committed | None, token: Token, topic_id: str) -> bool:
    if entry is None or entry.token is None or entry.topic_id not in ("", topic_id):
        return False  # the entry belongs to a former topic of this name, so its owner does not count
    return entry.token > token
