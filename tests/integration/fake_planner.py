"""A planner that a test drives by hand: it owns the partitions it is told to, and knows the log's ends from Kafka."""

import threading
import time
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from spark_apps.records.agent_socket import Attached, Latest
from spark_apps.records.batches import BatchOffset, Group, Range, admit, plan_tasks
from spark_apps.records.options import SourceOptions

PARALLELISM = 2


class FakePlanner:
    """`give` adds what is owned, at any time; `passed` holds what has gone through the sink."""

    def __init__(self, topic: str, bootstrap_servers: str) -> None:
        self.topic = topic
        self.options: SourceOptions | None = None
        self.passed: dict[int, int] = {}
        self.latest_calls = 0
        self.settings = {"bootstrap.servers": bootstrap_servers}
        self._owned: dict[int, tuple[int, int]] = {}
        self._planned: dict[int, int] = {}
        self._lock = threading.Condition()
        self._kafka = Consumer({**self.settings, "group.id": "fake", "enable.auto.commit": False})

    def give(self, partition: int, start: int, epoch: int) -> None:
        with self._lock:
            self._owned[partition] = (start, epoch)
            self._lock.notify_all()

    def attach(self, reader: str, options: SourceOptions) -> Attached:
        self.options = options
        return Attached(self.settings, options.fail_on_data_loss)

    def detach(self, reader: str) -> None:
        """Nothing is kept for a reader."""

    def initial(self, reader: str) -> BatchOffset:
        return BatchOffset(self.topic)

    def latest(self, reader: str, start: BatchOffset) -> Latest:
        return Latest(self._wait_for_more(start), self._log_end())

    def _wait_for_more(self, start: BatchOffset) -> BatchOffset:
        self.latest_calls += 1
        with self._lock:
            for one in start.ranges.values():
                self.passed[one.partition] = max(self.passed.get(one.partition, 0), one.end)
            self._lock.notify_all()
        deadline = time.monotonic() + 0.2
        while (found := self._next(start)) is start and time.monotonic() < deadline:
            time.sleep(0.005)
        return found

    def _next(self, start: BatchOffset) -> BatchOffset:
        with self._lock:
            owned = dict(self._owned)
        ends = {p: self._kafka.get_watermark_offsets(TopicPartition(self.topic, p))[1] for p in owned}
        with self._lock:
            available = [
                Range(p, max(self._planned.get(p, begin), begin), max(ends[p], begin), epoch)
                for p, (begin, epoch) in owned.items()
                if self._owned.get(p) == (begin, epoch)
            ]
            ranges = admit(available, self.options.max_offsets_per_trigger if self.options else None)
            if not ranges:
                return start
            self._planned.update({one.partition: one.end for one in ranges})
            return start.following(ranges, PARALLELISM)

    def _log_end(self) -> BatchOffset:
        with self._lock:
            owned = dict(self._owned)
        ends = {p: self._kafka.get_watermark_offsets(TopicPartition(self.topic, p))[1] for p in owned}
        return BatchOffset(self.topic, 0, 1, {p: Range(p, self.passed.get(p, 0), end, 0) for p, end in ends.items()})

    def tasks(self, end: BatchOffset) -> Sequence[Group]:
        return plan_tasks(end)

    def until_now(self, reader: str) -> None:
        raise NotImplementedError

    def is_over(self, reader: str) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        self._kafka.close()
