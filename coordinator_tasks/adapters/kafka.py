"""`ports.KafkaAdmin` and `ports.GroupOffsets` on confluent_kafka's admin client.

Commits go through the admin client as well: unlike a consumer's own synchronous commit it has a time limit, and needs
no consumer. SASL and TLS settings are passed on as they are. librdkafka tries for ever, also with a wrong password, so
every request has a limit here, and a refused log-in ends it at once with its reason.
"""

import concurrent.futures
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from coordinator_tasks.core.errors import CoordinatorError, GroupInUse, KafkaUnavailable, Refused
from coordinator_tasks.core.model import Committed, Token, TopicDescription
from coordinator_tasks.core.ports import GroupAnswer, Wanted
from coordinator_tasks.core.status_codec import decode_metadata, encode_metadata

DEFAULT_LIMIT_S = 10.0
_GRACE_S = 1.0  # librdkafka ends a request at the limit by itself; this only covers its own delay
_LOOK_S = 0.1
_MAX_READERS = 8  # groups whose committed offsets are asked for again and again
_CLIENT_ONLY = ("isolation.level", "group.id", "enable.auto.commit")  # consumer settings that an admin client warns of
_LOGIN_ERRORS = frozenset({"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED"})
_NO_ANSWER = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_MOVING = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})  # unknown, or no possible name
K = TypeVar("K")


class Broker:
    """An admin client whose requests end: with a result, or with one of our errors within `limit_s`."""

    def __init__(self, settings: Mapping[str, str], limit_s: float) -> None:
        self.address = settings.get("bootstrap.servers", "")
        if not self.address:
            raise Refused("the Kafka settings name no bootstrap.servers; set it to host:port of one or more brokers")
        self.limit_s = limit_s
        self._troubles: list[KafkaError] = []
        self._last_trouble: KafkaError | None = None
        self._lock = threading.Lock()
        self._readers: dict[tuple[str, bool], Consumer] = {}
        self.usable = usable = {key: value for key, value in settings.items() if key not in _CLIENT_ONLY}
        try:
            # The callback stands among the settings, though the library's own types do not know it.
            self.client = AdminClient({**usable, "error_cb": self._trouble})  # type: ignore[dict-item]
        except (KafkaException, ValueError, TypeError) as error:
            raise Refused(f"the Kafka settings are not usable: {_said(error)}; correct them") from error

    def results(self, send: Callable[[], Mapping[K, Any]]) -> "_Results[K]":
        """Send a request with `request_timeout=limit_s`; its futures' results or `KafkaException`s, by their keys.

        It is sent again for up to `limit_s` while a group's coordinator loads or moves, which a broker does when it
        starts: such an answer has changed nothing.
        """
        deadline_s = time.monotonic() + self.limit_s
        while True:
            found = self._once(send)
            if time.monotonic() > deadline_s or not any(_is_moving(one) for one in found.values()):
                return _Results(found, self)
            time.sleep(_LOOK_S)

    def _once(self, send: Callable[[], Mapping[K, Any]]) -> dict[K, Any]:
        self.client.poll(0)
        self._troubles.clear()
        deadline_s = time.monotonic() + self.limit_s + _GRACE_S
        try:
            futures = send()
        except (KafkaException, ValueError, TypeError) as error:
            raise Refused(f"Kafka's client does not accept the request: {_said(error)}; correct it") from error
        pending = set(futures.values())
        while pending:
            _, pending = concurrent.futures.wait(
                pending, timeout=_LOOK_S, return_when=concurrent.futures.FIRST_EXCEPTION
            )
            self.client.poll(0)
            self._check_login()
            if pending and time.monotonic() > deadline_s:
                raise self.unavailable("no answer")
        found = {key: future.exception() or future.result() for key, future in futures.items()}
        if not any(isinstance(one, BaseException) for one in found.values()):
            self._last_trouble = None
        return found

    def _trouble(self, error: KafkaError) -> None:
        self._troubles.append(error)
        self._last_trouble = error

    def committed(self, group: str, places: list[TopicPartition], stable: bool) -> list[TopicPartition]:
        """The committed offsets of a group; `stable` = wait for the end of transactions that would change them.

        Asked through a consumer that never subscribes: librdkafka's admin client dereferences a null pointer when the
        answer is that the coordinator loads or has moved (`rd_kafka_handle_OffsetFetch`, 2.16.1), and the process ends.
        """
        self._troubles.clear()
        reader = self._reader(group, stable)
        deadline_s = time.monotonic() + self.limit_s
        while True:
            try:
                found = reader.committed(places, timeout=max(_LOOK_S, deadline_s - time.monotonic()))
            except KafkaException as error:
                reader.poll(0)  # what went wrong on the way is told here
                self._check_login()
                if time.monotonic() > deadline_s or not _is_moving(error):
                    raise self.translated(error, f"group {group!r}") from error
                time.sleep(_LOOK_S)
            else:
                self._last_trouble = None
                return found

    def group_metadata(self, group: str) -> Any:
        """What a transaction needs to commit for a group without members."""
        return self._reader(group, stable=True).consumer_group_metadata()

    def _reader(self, group: str, stable: bool) -> Consumer:
        key = (group, stable)
        with self._lock:
            reader = self._readers.pop(key, None)
            if reader is None:
                own = {"group.id": group, "enable.auto.commit": False, "error_cb": self._trouble}
                isolation = "read_committed" if stable else "read_uncommitted"
                reader = Consumer({**self.usable, **own, "isolation.level": isolation})
            self._readers[key] = reader
            if len(self._readers) > _MAX_READERS:
                del self._readers[next(iter(self._readers))]  # ends with its last user
            return reader

    def _check_login(self) -> None:
        refusal = next((trouble for trouble in self._troubles if trouble.name() in _LOGIN_ERRORS), None)
        if refusal is not None:
            raise KafkaUnavailable(
                f"Kafka at {self.address} refuses the log-in ({refusal.str()}); "
                "check security.protocol, user, password and certificates in the settings"
            )

    def unavailable(self, what: object) -> KafkaUnavailable:
        # librdkafka tells the same trouble only once in half a minute.
        last = self._troubles[0] if self._troubles else self._last_trouble
        trouble = f" ({last.str()})" if last is not None else ""
        return KafkaUnavailable(
            f"Kafka at {self.address} does not answer within {self.limit_s:g} s: {_said(what)}{trouble}; "
            "check that it runs and that this address is right"
        )

    def translated(self, error: Exception, about: object) -> Exception:
        """One of our errors for a failed part of a request; `about` names the part."""
        cause = error.args[0] if isinstance(error, KafkaException) and error.args else None
        if not isinstance(cause, KafkaError):
            return self.unavailable(error)
        if cause.code() in _DENIED:
            return Refused(f"Kafka at {self.address} does not let this user ask for {about}: {cause.str()}; grant it")
        if cause.name() in _NO_ANSWER:
            return self.unavailable(error)
        return KafkaUnavailable(
            f"Kafka at {self.address} could not answer for {about}: {cause.name()}, {cause.str()}; try again"
        )


class _Results(Generic[K]):
    def __init__(self, results: Mapping[K, Any], broker: Broker) -> None:
        self._results = results
        self._broker = broker

    def get(self, key: K, about: object, missing: Collection[int] = ()) -> Any:
        """The result, `None` for an error whose code is in `missing`; raises one of our errors for any other."""
        result = self._results[key]
        if not isinstance(result, BaseException):
            return result
        if isinstance(result, KafkaException) and result.args[0].code() in missing:
            return None
        if isinstance(result, Exception):
            raise self._broker.translated(result, about) from result
        raise result

    def only(self, about: object) -> Any:
        """The result of the only part."""
        (key,) = self._results
        return self.get(key, about)


class ConfluentKafkaAdmin:
    """`ports.KafkaAdmin`. Each request takes at most `limit_s`; a `KafkaUnavailable` says what to check."""

    def __init__(self, settings: Mapping[str, str], limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._broker = Broker(settings, limit_s)

    def describe(self, topics: Collection[str]) -> Mapping[str, TopicDescription | None]:
        return _describe(self._broker, topics)

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        if not wanted:
            return {}
        # A group's first request waits for its coordinator to be found: several at once.
        with ThreadPoolExecutor(min(len(wanted), _MAX_READERS)) as pool:
            return dict(zip(wanted, pool.map(self._group, wanted, wanted.values()), strict=True))

    def _group(self, group: str, topics: Mapping[str, Collection[int]]) -> GroupAnswer:
        try:
            return committed_offsets(self._broker, group, topics)
        except CoordinatorError as error:
            return error

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        first = self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.earliest()))  # type: ignore[no-untyped-call]
        end = self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.latest()))  # type: ignore[no-untyped-call]
        return {partition: (first[partition], end[partition]) for partition in first}

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        found = self._offsets(topic, {p: OffsetSpec.for_timestamp(at) for p, at in times_ms.items()})
        return {p: offset for p, offset in found.items() if offset >= 0}

    def _offsets(self, topic: str, specs: Mapping[int, Any]) -> Mapping[int, int]:
        return _listed(self._broker, topic, specs, IsolationLevel.READ_UNCOMMITTED)

    def group_members(self, group: str) -> tuple[str, ...]:
        return _members(self._broker, group)

    def create_topic(self, topic: str, partitions: int, replication: int = 1, **config: str) -> None:
        """Create a topic where there is none, and wait until the brokers know it; for the demo and the tests."""
        limit_s = self._broker.limit_s
        new = NewTopic(topic, partitions, replication, config={key.replace("_", "."): v for key, v in config.items()})
        made = self._broker.results(
            lambda: self._broker.client.create_topics([new], request_timeout=limit_s, operation_timeout=limit_s)
        )
        made.get(topic, f"topic {topic!r}", missing=(KafkaError.TOPIC_ALREADY_EXISTS,))
        deadline_s = time.monotonic() + limit_s
        while self.describe([topic])[topic] is None:
            if time.monotonic() > deadline_s:
                raise self._broker.unavailable(f"topic {topic!r} was created but is not known")
            time.sleep(_LOOK_S)


class ConfluentGroupOffsets:
    """`ports.GroupOffsets` of one consumer group; `isolation.level` of the settings decides what `ends` means."""

    def __init__(self, settings: Mapping[str, str], group: str, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._broker = Broker(settings, limit_s)
        self._group = group
        # librdkafka's own default, so that an end here is one that a reader with the same settings reaches.
        committed_only = settings.get("isolation.level", "read_committed") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        return committed_offsets(self._broker, self._group, {topic: partitions}).get(topic, {})

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> None:
        """Nothing: these commits are not fenced by the broker."""

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> None:
        if not offsets:
            return
        request = ConsumerGroupTopicPartitions(
            self._group,
            [TopicPartition(topic, p, one.offset, encode_metadata(one)) for p, one in sorted(offsets.items())],
        )
        about = f"group {self._group!r}"
        answer = self._broker.results(
            lambda: self._broker.client.alter_consumer_group_offsets([request], request_timeout=self._broker.limit_s)
        ).only(about)
        failed = [one for one in answer.topic_partitions if one.error is not None]
        if any(one.error.code() == KafkaError.UNKNOWN_MEMBER_ID for one in failed):
            raise GroupInUse(_intruded(self._group, _members(self._broker, self._group)))
        if failed:
            error = KafkaException(failed[0].error)
            raise self._broker.translated(error, f"the offset of {topic}-{failed[0].partition} in {about}") from error

    def topic_id(self, topic: str) -> str:
        found = _topics(self._broker, [topic])[topic]
        return str(found.topic_id) if found is not None else ""

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.latest()))  # type: ignore[no-untyped-call]

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.earliest()))  # type: ignore[no-untyped-call]

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        found = self._offsets(topic, {p: OffsetSpec.for_timestamp(at) for p, at in times_ms.items()})
        return {p: offset for p, offset in found.items() if offset >= 0}

    def _offsets(self, topic: str, specs: Mapping[int, Any]) -> Mapping[int, int]:
        return _listed(self._broker, topic, specs, self._isolation)


def _listed(broker: Broker, topic: str, specs: Mapping[int, Any], isolation: IsolationLevel) -> dict[int, int]:
    if not specs:
        return {}
    asked = {partition: TopicPartition(topic, partition) for partition in sorted(specs)}
    answers = broker.results(
        lambda: broker.client.list_offsets(
            {asked[partition]: spec for partition, spec in specs.items()},
            isolation_level=isolation,
            request_timeout=broker.limit_s,
        )
    )
    return {p: int(answers.get(one, f"partition {topic}-{p}").offset) for p, one in asked.items()}


def _describe(broker: Broker, topics: Collection[str]) -> dict[str, TopicDescription | None]:
    found = _topics(broker, topics) if topics else {}
    return {
        name: topic and TopicDescription(name, str(topic.topic_id), len(topic.partitions), _racks(topic.partitions))
        for name, topic in found.items()
    }


def _racks(partitions: Iterable[Any]) -> dict[int, tuple[str, ...]]:
    """Partition → the racks of its replicas, of those that have any; the first replica is the preferred leader."""
    found = {one.id: tuple(dict.fromkeys(node.rack for node in one.replicas if node.rack)) for one in partitions}
    return {partition: racks for partition, racks in found.items() if racks}


def _topics(broker: Broker, topics: Collection[str]) -> dict[str, Any]:
    client, limit_s, names = broker.client, broker.limit_s, sorted(set(topics))
    answers = broker.results(lambda: client.describe_topics(TopicCollection(names), request_timeout=limit_s))
    return {name: answers.get(name, f"topic {name!r}", missing=_NO_TOPIC) for name in names}


def committed_offsets(
    broker: Broker, group: str, topics: Mapping[str, Collection[int]], *, stable: bool = False
) -> dict[str, dict[int, Committed]]:
    """Topic → partition → what the group has committed; `stable` as in `Broker.committed`."""
    places = [TopicPartition(topic, p) for topic in sorted(topics) for p in sorted(set(topics[topic]))]
    found: dict[str, dict[int, Committed]] = {}
    for one in broker.committed(group, places, stable) if places else ():
        if one.error is not None:
            error = KafkaException(one.error)
            raise broker.translated(error, f"partition {one.topic}-{one.partition} of group {group!r}") from error
        if one.offset >= 0:
            found.setdefault(one.topic, {})[one.partition] = decode_metadata(one.offset, one.metadata)
    return found


def _members(broker: Broker, group: str) -> tuple[str, ...]:
    answers = broker.results(lambda: broker.client.describe_consumer_groups([group], request_timeout=broker.limit_s))
    described = answers.get(group, f"group {group!r}", missing=(KafkaError.GROUP_ID_NOT_FOUND,))
    members = described.members if described is not None else []
    return tuple(sorted(f"{member.client_id} at {member.host.lstrip('/')}" for member in members))


def _intruded(group: str, members: Collection[str]) -> str:
    who = ", ".join(members) or "a client that has left since"
    return (
        f"Kafka refuses commits of group {group!r} because {who} subscribes with the same group id; "
        "stop that client or give it another group.id"
    )


def _is_moving(result: Any) -> bool:
    """Whether the whole answer, or that for a partition, is that the group's coordinator is not ready."""
    errors = [result.args[0]] if isinstance(result, KafkaException) and result.args else []
    errors += [one.error for one in getattr(result, "topic_partitions", [])]
    return any(isinstance(error, KafkaError) and error.code() in _MOVING for error in errors)


def _said(error: object) -> str:
    cause = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
