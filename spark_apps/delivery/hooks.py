"""What an application may be told of its partitions, by the names of Kafka's own interfaces.

`ConsumerRebalanceListener` and the `on_commit` of `ConsumerInterceptor` are called in the driver, in a thread of the
topic's own, one call at a time. `on_consume` is called where records are read, on the executors.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

log = logging.getLogger(__name__)


class ConsumerRebalanceListener:
    """Told when partitions come and go; `offsets` are partition → offset. Overwrite what is of interest.

    An exception is logged and reported, and changes nothing. A partition is neither started nor released before the call
    about it has returned.
    """

    def on_partitions_assigned(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, int] | None:  # noqa: ARG002
        """These begin, at these offsets; return other offsets for those that are to begin elsewhere.

        With exactly once the sink's position counts, and another one is left out and reported.
        """
        return None

    def on_partitions_revoked(self, topic: str, offsets: Mapping[int, int]) -> None:
        """These end here: everything before the offset has passed the sink, the release comes after this call."""

    def on_partitions_lost(self, topic: str, offsets: Mapping[int, int]) -> None:
        """These were taken from us (fenced or isolated), others may run them already. As in Kafka: `revoked` unless
        overwritten.
        """
        self.on_partitions_revoked(topic, offsets)


class ConsumerInterceptor:
    """Sees what is read and what was committed. An exception is logged, and the call counts as not made."""

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:  # noqa: ARG002
        """The records as they go on: the same columns, changed or fewer rows. Runs on the executors, pickled."""
        return batch

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """These offsets have been committed."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """Who is told: at most one listener, and interceptors in their order."""

    listener: ConsumerRebalanceListener | None = None
    interceptors: Sequence[ConsumerInterceptor] = ()

    @property
    def consuming(self) -> tuple[ConsumerInterceptor, ...]:
        """Those that the executors need."""
        return tuple(one for one in self.interceptors if type(one).on_consume is not ConsumerInterceptor.on_consume)

    @property
    def any(self) -> bool:
        return self.listener is not None or bool(self.interceptors)


def intercepted(
    batches: Iterator[pa.RecordBatch], topic: str, interceptors: Sequence[ConsumerInterceptor]
) -> Iterator[pa.RecordBatch]:
    """The batches after all interceptors, in their order."""
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
        log.error("%s.on_consume gave other columns than it got: left out", type(one).__name__)
    except Exception:  # the edge of a user's function: an interceptor never stops the stream
        log.exception("%s.on_consume failed: left out", type(one).__name__)
    return batch


def committed(topic: str, offsets: Mapping[int, int], interceptors: Sequence[ConsumerInterceptor]) -> None:
    """Tell all interceptors of a commit."""
    for one in interceptors:
        try:
            one.on_commit(topic, offsets)
        except Exception:  # as above
            log.exception("%s.on_commit failed", type(one).__name__)
