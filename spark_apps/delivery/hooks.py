"""Callbacks of an application, named after Kafka's own interfaces.

The driver runs `ConsumerRebalanceListener` and the `on_commit` of `ConsumerInterceptor`, in one thread per topic, one
call at a time. The executors run `on_consume`, where records are read.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from coordinator_tasks.core.errors import Refused

log = logging.getLogger(__name__)


class ConsumerRebalanceListener:
    """Called when partitions begin and end. `offsets`: partition → offset. Override the methods that you need.

    An exception is logged and reported, and has no other effect. A partition neither starts nor is released before its
    call has returned.
    """

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, int] | None:  # noqa: ARG002
        """These partitions begin at these offsets. Return other offsets for partitions that should start elsewhere.

        With exactly once the sink's position decides, and other offsets are ignored and reported.
        """
        return None

    def on_partitions_revoked(self, topic: str, offsets: Mapping[int, int]) -> None:
        """These partitions end here. All earlier offsets have passed the sink, and the release follows this call."""

    def on_partitions_lost(self, topic: str, offsets: Mapping[int, int]) -> None:
        """These partitions are lost (fenced or isolated). Other consumers may already run them.

        By default, calls `on_partitions_revoked`, as in Kafka.
        """
        self.on_partitions_revoked(topic, offsets)


class ConsumerInterceptor:
    """Gets records and committed offsets. An exception is logged, and cancels the effect of the call."""

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:  # noqa: ARG002
        """Return the records for the query: the same columns, changed or fewer rows. Runs pickled on executors."""
        return batch

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """These offsets were committed."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """At most one listener, and interceptors in their order. Raises `Refused` for other objects."""

    listener: ConsumerRebalanceListener | None = None
    interceptors: Sequence[ConsumerInterceptor] = ()

    def __post_init__(self) -> None:
        listeners = () if self.listener is None else (self.listener,)
        for kind, given in ((ConsumerRebalanceListener, listeners), (ConsumerInterceptor, self.interceptors)):
            for one in given:
                if not isinstance(one, kind):
                    raise Refused(f"{one!r} is no {kind.__name__}; give an object of a class that extends it")

    @property
    def consuming(self) -> tuple[ConsumerInterceptor, ...]:
        return tuple(one for one in self.interceptors if type(one).on_consume is not ConsumerInterceptor.on_consume)

    @property
    def any(self) -> bool:
        return self.listener is not None or bool(self.interceptors)


def intercepted(
    batches: Iterator[pa.RecordBatch], topic: str, interceptors: Sequence[ConsumerInterceptor]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches after passing all interceptors in their order."""
    for batch in batches:
        changed = batch
        for one in interceptors:
            changed = _consumed(one, topic, changed)
        yield changed


def _consumed(one: ConsumerInterceptor, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    try:
        changed = one.on_consume(topic, batch)
        if isinstance(changed, pa.RecordBatch) and changed.schema.equals(batch.schema):
            return changed
        log.error("%s.on_consume returned other columns than it got: its result is not used", type(one).__name__)
    except BaseException:  # user code: neither its error nor its exit may stop the stream
        log.exception("%s.on_consume failed: its result is not used", type(one).__name__)
    return batch


def committed(topic: str, offsets: Mapping[int, int], interceptors: Sequence[ConsumerInterceptor]) -> None:
    """Call `on_commit` of all interceptors."""
    for one in interceptors:
        try:
            one.on_commit(topic, offsets)
        except BaseException:  # user code: an exit would end the thread of all calls
            log.exception("%s.on_commit failed", type(one).__name__)
