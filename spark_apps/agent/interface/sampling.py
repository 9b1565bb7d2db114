"""The mean size of a consumer's records, for plans by bytes. A separate thread samples records from time to time.

No plan waits for a sample: a partition without a sample counts with the average of the others.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from coordinator_tasks.core.errors import BadSettings, KafkaUnavailable
from coordinator_tasks.core.model import ConsumerStatus, RunningPartition, TopicStatus
from coordinator_tasks.core.ports import RecordSampler

EVERY_S = 10.0
AT_ONCE = 50
RECENT = 20
"""Records between a sample's begin and the log's end."""
NEWEST_SHARE = 0.5
"""Weight of the newest sample against all earlier samples."""
JOIN_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)


class SampledStatus:
    """A consumer's status with the mean bytes of its records."""

    def __init__(self, status: Callable[[], ConsumerStatus], sampler: RecordSampler) -> None:
        self._status = status
        self._sampler = sampler
        self._bytes: dict[tuple[str, int], float | None] = {}  # least recently sampled first

    def status(self) -> ConsumerStatus:
        """Return the consumer's status with the known mean sizes."""
        said = self._status()
        return replace(said, topics={name: self._completed(name, topic) for name, topic in said.topics.items()})

    def _completed(self, name: str, topic: TopicStatus) -> TopicStatus:
        running = {p: replace(one, record_bytes=self._bytes.get((name, p))) for p, one in topic.running.items()}
        return replace(topic, running=running)

    def sample(self) -> None:
        """Sample the least recently sampled partitions; forget partitions that no longer run."""
        topics = self._status().topics
        running = {(name, p): one for name, topic in topics.items() for p, one in topic.running.items()}
        self._bytes = {key: mean for key, mean in self._bytes.items() if key in running}
        flowing = {key: one for key, one in running.items() if one.rate and one.lag_records is not None}
        waited = [*(key for key in flowing if key not in self._bytes), *(key for key in self._bytes if key in flowing)]
        wanted: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for name, partition in waited[:AT_ONCE]:
            wanted[name][partition] = _recent(flowing[name, partition])
        for name, offsets in wanted.items():
            found = self._means(name, offsets)
            for partition in offsets:
                self._note((name, partition), found.get(partition))

    def _means(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, float]:
        try:
            return self._sampler.mean_bytes(topic, offsets)
        except (KafkaUnavailable, BadSettings) as error:  # optional, and retried
            log.info("%s", error)
            return {}

    def _note(self, key: tuple[str, int], mean: float | None) -> None:
        before = self._bytes.pop(key, None)
        if mean is not None and before is not None:
            mean = NEWEST_SHARE * mean + (1 - NEWEST_SHARE) * before
        self._bytes[key] = before if mean is None else mean

    @contextmanager
    def sampling(self, every_s: float = EVERY_S) -> Iterator[None]:
        """Take samples in a thread until the block ends."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop, every_s), name="samples", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(JOIN_TIMEOUT_S)

    def _run(self, stop: threading.Event, every_s: float) -> None:
        while not stop.wait(every_s):
            self.sample()


def _recent(one: RunningPartition) -> int:
    return max(0, one.position + (one.lag_records or 0) - RECENT)
