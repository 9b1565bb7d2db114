"""Requests to Kafka with a time limit, for the admin client and the group offsets.

SASL and TLS settings are passed on unchanged. librdkafka retries for ever, even with a wrong password. Here every
request has a limit. A refused log-in ends the request at once with the reason.
"""

import concurrent.futures
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_tasks.core.errors import BadSettings, CoordinatorError, KafkaUnavailable, NoAccess, Refused
from coordinator_tasks.library_log import LIBRARY_LOG

DEFAULT_LIMIT_S = 10.0
_GRACE_S = 1.0  # librdkafka ends a request only some time after the limit
_CONNECT_MS = 10  # librdkafka delays every connection by this time, even the first; its default is 100
_NEVER_S = 3600.0  # the longest time-out that librdkafka takes
_LOST_S = 4.0  # librdkafka looks for a coordinator three times within a second, and may wait for ever afterwards
LOOK_S = 0.1
MAX_READERS = 8  # number of consumers kept for reading committed offsets
# settings of consumers, for which an admin client logs a warning
_CLIENT_ONLY = ("isolation.level", "group.id", "enable.auto.commit")
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
C = TypeVar("C")
K = TypeVar("K")
Futures: TypeAlias = Mapping[K, "concurrent.futures.Future[Any]"]
Send: TypeAlias = Callable[[AdminClient, float], Futures[K]]
"""Sends a request with the given client and time-out in seconds."""


class Broker:
    """An admin client. Each request ends within `limit_s`, with a result or with one of our errors."""

    def __init__(self, settings: Mapping[str, str], limit_s: float) -> None:
        self.address = settings.get("bootstrap.servers", "")
        if not self.address:
            raise BadSettings(
                "the Kafka settings name no bootstrap.servers; set it to host:port of one or more brokers"
            )
        self.limit_s = limit_s
        self._troubles: list[KafkaError] = []
        self._last_trouble: KafkaError | None = None
        self._all_down = False
        self._lock = threading.Lock()
        self._readers: dict[tuple[str, bool], Consumer] = {}
        self._denied: dict[str, KafkaError] = {}  # group -> why its offsets are denied to this account
        given = {key: value for key, value in settings.items() if key not in _CLIENT_ONLY}
        self.usable = {"reconnect.backoff.ms": str(_CONNECT_MS), **given}
        self._client = self._new_client()

    def _new_client(self) -> AdminClient:
        # librdkafka takes the callback among the settings, but the type stubs do not declare this.
        settings: Any = {**self.usable, "error_cb": _weak(self._trouble)}
        return built(lambda: AdminClient(settings, logger=LIBRARY_LOG))

    def results(self, send: Send[K]) -> "_Results[K]":
        """Send a request. Return results or `KafkaException`s by key.

        After a time-out the client is replaced: if its only broker has hung, a client may wait for a controller for
        ever, while a new client gets answers (librdkafka 2.16).
        """
        client = self._client
        found = self._answers(client, self._sent(client, send, self.limit_s), self.limit_s + _GRACE_S)
        if found is None or any(_has_timed_out(one) for one in found.values()):
            self._replace(client)
        if found is None:
            raise self.unavailable("no answer")
        return _Results(found, self)

    def of_coordinator(self, send: Send[K], *, only_reads: bool = False) -> "_Results[K]":
        """Send a request to a group's coordinator. Return results or `KafkaException`s by key.

        While the coordinator loads or moves, as after a broker's start, it answers with an error and changes nothing.
        So the request is sent again for up to `limit_s`. With `only_reads`, a request without an answer is sent again
        too, because librdkafka stops looking for a coordinator that takes more than a second to start.

        librdkafka's own time-out is not used. If the time-out came before the coordinator is found, librdkafka would
        release one reference too many, and abort the process at the coordinator's answer
        (`rd_kafka_admin_coord_request`, 2.16.0). A request that times out ends with its client, and its unsent parts
        are never sent.
        """
        deadline_s = time.monotonic() + self.limit_s
        while True:
            found = self._of_coordinator(send, min(_LOST_S, self.limit_s) if only_reads else self.limit_s)
            over = time.monotonic() > deadline_s
            if found is None:
                if over or not only_reads:
                    raise self.unavailable("no answer")
            elif over or not any(_is_moving(one) for one in found.values()):
                return _Results(found, self)
            else:
                time.sleep(LOOK_S)

    def _of_coordinator(self, send: Send[K], limit_s: float) -> dict[K, Any] | None:
        client = self._client
        futures = self._sent(client, send, _NEVER_S)
        try:
            # A weak reference: an error with its frames must not keep the client alive.
            return self._answers(weakref.proxy(client), futures, limit_s)
        finally:
            if not all(future.done() for future in futures.values()):
                self._replace(client)
            del client

    def _replace(self, client: AdminClient) -> None:
        """Replace the current client. The old client ends when its last user does."""
        with self._lock:
            if self._client is client:
                self._client = self._new_client()

    def _sent(self, client: AdminClient, send: Send[K], timeout_s: float) -> Futures[K]:
        client.poll(0)
        self._troubles.clear()
        try:
            return send(client, timeout_s)
        except (KafkaException, ValueError, TypeError) as error:
            raise Refused(f"Kafka's client does not accept the request: {_said(error)}; correct it") from error

    def _answers(self, client: AdminClient, futures: Futures[K], limit_s: float) -> dict[K, Any] | None:
        """Return results and errors by key; `None` if any of them is missing after `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        pending = set(futures.values())
        while pending:
            _, pending = concurrent.futures.wait(
                pending, timeout=LOOK_S, return_when=concurrent.futures.FIRST_EXCEPTION
            )
            client.poll(0)
            self._check_login()
            if pending and time.monotonic() > deadline_s:
                return None
        found = {key: future.exception() or future.result() for key, future in futures.items()}
        if not any(isinstance(one, BaseException) for one in found.values()):
            self._all_well()
        return found

    def _all_well(self) -> None:
        self._last_trouble, self._all_down = None, False

    def _trouble(self, error: KafkaError) -> None:
        all_down = error.name() == "_ALL_BROKERS_DOWN"
        self._all_down |= all_down
        if all_down and self._last_trouble is not None:
            return  # a consequence of the last error, with less detail
        self._troubles.append(error)
        self._last_trouble = error

    def _reader_trouble(self, group: str, error: KafkaError) -> None:
        if error.code() in _DENIED:
            self._denied[group] = error
        self._trouble(error)

    def committed(self, group: str, places: list[TopicPartition], stable: bool) -> list[TopicPartition]:
        """Return the committed offsets of a group.

        `stable`: wait for the end of transactions that would change the offsets.

        A consumer that never subscribes reads the offsets. librdkafka's admin client cannot: if the coordinator loads
        or has moved, it dereferences a null pointer and ends the process (`rd_kafka_handle_OffsetFetch`, 2.16.1).
        """
        self._troubles.clear()
        reader = self._reader(group, stable)
        deadline_s = time.monotonic() + self.limit_s
        while True:
            try:
                found = reader.committed(places, timeout=max(LOOK_S, deadline_s - time.monotonic()))
            except KafkaException as error:
                reader.poll(0)  # calls `_trouble` with the reason
                self._check_login()
                if group in self._denied:  # librdkafka reports a denial by a callback; the request times out
                    raise self.translated(KafkaException(self._denied[group]), f"group {group!r}") from error
                if time.monotonic() > deadline_s or not _is_moving(error):
                    raise self.translated(error, f"group {group!r}") from error
                time.sleep(LOOK_S)
            else:
                self._all_well()
                self._denied.pop(group, None)
                return found

    def group_metadata(self, group: str) -> Any:
        """Return the metadata that a transaction needs to commit for a group without members."""
        return self._reader(group, stable=True).consumer_group_metadata()

    def _reader(self, group: str, stable: bool) -> Consumer:
        key = (group, stable)
        with self._lock:
            reader = self._readers.pop(key, None)
            if reader is None:
                trouble = partial(_weak(self._reader_trouble), group)
                own = {"group.id": group, "enable.auto.commit": False, "error_cb": trouble}
                isolation = "read_committed" if stable else "read_uncommitted"
                settings = {**self.usable, **own, "isolation.level": isolation}
                reader = built(lambda: Consumer(settings, logger=LIBRARY_LOG))
            self._readers[key] = reader
            if len(self._readers) > MAX_READERS:
                del self._readers[next(iter(self._readers))]  # the consumer ends when its last user does
            return reader

    def _check_login(self) -> None:
        # One broker may have a wrong certificate while others answer. So `_SSL` counts only if all brokers are down.
        errors = _LOGIN_ERRORS if self._all_down else _LOGIN_ERRORS - {"_SSL"}
        refusal = next((trouble for trouble in self._troubles if trouble.name() in errors), None)
        if refusal is not None:
            raise KafkaUnavailable(
                f"Kafka at {self.address} refuses the log-in ({refusal.str()}); "
                "check security.protocol, user, password and certificates in the settings"
            )

    def unavailable(self, what: object) -> KafkaUnavailable:
        # librdkafka reports the same error only once in 30 s, so the last error is kept.
        last = self._troubles[0] if self._troubles else self._last_trouble
        trouble = f" ({last.str()})" if last is not None else ""
        return KafkaUnavailable(
            f"Kafka at {self.address} does not answer within {self.limit_s:g} s: {_said(what)}{trouble}; "
            "check that it runs and that this address is right"
        )

    def translated(self, error: Exception, about: object) -> CoordinatorError:
        """Return our error for the part of a request that has failed. `about` names the part."""
        cause = _cause(error)
        if cause is None:
            return self.unavailable(error)
        if cause.code() in _DENIED:
            return NoAccess(f"Kafka at {self.address} does not let this user ask for {about}: {cause.str()}; grant it")
        if cause.name() in _NO_ANSWER:
            return self.unavailable(error)
        return KafkaUnavailable(
            f"Kafka at {self.address} could not answer for {about}: {cause.name()}, {cause.str()}; try again"
        )


def built(client: Callable[[], C]) -> C:
    """Return a client of the library. Raises `BadSettings` for settings that this kind of client refuses."""
    try:
        return client()
    except (KafkaException, ValueError, TypeError) as error:
        raise BadSettings(f"the Kafka settings are not usable: {_said(error)}; correct them") from error
    except AttributeError as error:  # raised only for `default.topic.config`, a group of settings
        raise BadSettings(
            "the Kafka settings are not usable: default.topic.config is no group of settings; "
            "write its entries beside the others"
        ) from error


def _weak(method: Callable[..., None]) -> Callable[..., None]:
    """Return a callback that holds the method's object by a weak reference, for a client that the object keeps.

    With a strong reference, client and object would form a cycle and wait for Python's garbage collection.
    """
    known = weakref.WeakMethod(method)

    def call(*given: object) -> None:
        if (found := known()) is not None:
            found(*given)

    return call


class _Results(Generic[K]):
    def __init__(self, results: Mapping[K, Any], broker: Broker) -> None:
        self._results = results
        self._broker = broker

    def get(self, key: K, about: object, missing: Collection[int] = ()) -> Any:
        """Return the result; `None` for an error whose code is in `missing`. Raises our error for any other failure."""
        result = self._results[key]
        if not isinstance(result, BaseException):
            return result
        if (cause := _cause(result)) is not None and cause.code() in missing:
            return None
        if isinstance(result, Exception):
            raise self._broker.translated(result, about) from result
        raise result

    def only(self, about: object) -> Any:
        (key,) = self._results
        return self.get(key, about)


def _cause(error: object) -> KafkaError | None:
    """Return the Kafka error inside an exception of the client; `None` if there is none."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return found if isinstance(found, KafkaError) else None


def _has_timed_out(result: Any) -> bool:
    return (cause := _cause(result)) is not None and cause.name() == "_TIMED_OUT"


def _is_moving(result: Any) -> bool:
    """Return whether the group's coordinator is not ready, by the answer for the group or for a partition."""
    errors = [_cause(result), *(one.error for one in getattr(result, "topic_partitions", []))]
    return any(error is not None and error.code() in _MOVING for error in errors)


def _said(error: object) -> str:
    cause = _cause(error)
    return cause.str() if cause is not None else str(error)
