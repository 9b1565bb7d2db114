"""The ownership of one topic: partitions run, handed out, committed and released by this consumer.

No Spark, no threads, no real time, no ZooKeeper: `grants` gets the reads of ZooKeeper, `releasing` has the releases to
write, and `requests` returns requests to Kafka and takes the answers. One thread at a time uses the ownership. An
interruption loses no record, by the order: commit the offset, close the partition, write the release.

Calls go one way: `requests`, `batches` and `listening` call `grants`, which calls `releasing`; all share `holdings`.
"""

from collections.abc import Mapping

from coordinator_tasks.core.model import StateSize, TopicStatus
from coordinator_tasks.core.ports import Clock
from spark_apps.agent.ownership.batches import Batches
from spark_apps.agent.ownership.failing import Failing
from spark_apps.agent.ownership.figures import OwnedFigures, PartitionFigures
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.letters import LetterCounts
from spark_apps.agent.ownership.listening import Listening
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.ownership.releasing import Releasing
from spark_apps.agent.ownership.requests import Requests
from spark_apps.agent.reports import Problem, Reports
from spark_apps.agent.settings import Identity, Terms, Timing
from spark_apps.delivery import Writer


class TopicOwnership:
    """The ownership of one topic by one incarnation. With `acquiring` False, no partition starts before `open`."""

    def __init__(
        self, topic: str, identity: Identity, clock: Clock, timing: Timing | None = None, *, acquiring: bool = True
    ) -> None:
        timing = timing or Timing()
        self.topic = topic
        self.identity = identity
        self.alive = True
        self._clock = clock
        self.reports = Reports()
        self.holdings = Holdings()
        self.releasing = Releasing(identity, self.holdings, clock, timing)
        self.grants = Grants(identity, self.holdings, self.releasing, clock, self.reports, acquiring)
        self.requests = Requests(identity, self.holdings, self.grants, clock, timing, self.reports)
        self.failing = Failing(self.holdings, clock)
        self.batches = Batches(self.holdings, self.grants, self.failing, clock, timing.fresh_s)
        self.letters = LetterCounts(clock)
        self.listening = Listening(self.holdings, self.grants, self.reports)
        self._sizes: Mapping[int, StateSize] = {}

    def agree(self, terms: Terms) -> None:
        """Set how the topic is delivered, before any grant."""
        self.holdings.terms = terms

    def open(self, first: FirstOffsets | None = None, *, fail_on_data_loss: bool = True) -> None:
        """Start the granted partitions, because a query reads now. `first`: the query's options for new groups."""
        if first is not None:
            self.holdings.first = first
        self.holdings.fail_on_data_loss = fail_on_data_loss
        self.failing.reading_began()
        self.grants.opened = True
        self.grants.apply()

    def query_ended(self, why: str) -> None:
        """Note that the query has ended, with all tasks. The next owner reads unpassed records again."""
        self.alive = False
        self.batches.drop()
        self.grants.stop(why)

    def query_failed(self, why: str) -> float:
        """Note that the query has failed, and all tasks have ended. Return the seconds until the next query may start.

        If a batch was under way, its partitions count as failed; if not, the reading as a whole.
        """
        under_way = self.batches.outstanding
        if under_way is not None and under_way[1]:
            self.batches.fail([one.partition for one in under_way[1]], why)
        pause_s = self.failing.reading_failed(why) if under_way is None else 0.0
        self.batches.drop()
        self.grants.apply()
        return pause_s

    def query_lost(self, partition: int, problem: str) -> None:
        """Note a query's failure by lost records of a partition. The partition stops, and another query follows."""
        self.batches.drop()
        self.requests.lose(partition, problem)
        self.grants.apply()

    def keeps(self, sizes: Mapping[int, StateSize]) -> None:
        """Take the sizes of the state that the sink keeps, by partition."""
        self._sizes = sizes

    @property
    def writer(self) -> Writer:
        """Return this consumer's identity for a sink that keeps the positions."""
        holdings, identity = self.holdings, self.identity
        return Writer(identity.cluster, self.topic, holdings.topic_id, identity.consumer, holdings.partition_count)

    def problems(self) -> tuple[Problem, ...]:
        return (*self.failing.problems(), *self.reports.problems())

    def status(self) -> TopicStatus:
        accepted, paused = self.holdings.accepted, self.holdings.paused
        counted = {p: h for p, h in sorted(self.holdings.held.items()) if h.commits.sent or h.pending}
        now = self._clock.monotonic()
        return TopicStatus(
            generation=self.holdings.generation,
            acted_epoch=accepted.epoch if accepted is not None else 0,
            held=self.grants.may_hold(),
            running={p: h.status(self.alive, p in paused, now, self._sizes.get(p)) for p, h in counted.items()},
            query_alive=self.alive,
            reports=(*self.failing.sentences(), *self.reports.merged()),
            failures=(*self.failing.told(), *self.batches.stuck(), *self.requests.unclaimed()),
            last_batch=dict(self.batches.last),
            stalls=self.batches.stalls(),
        )

    def figures(self) -> OwnedFigures:
        accepted, now = self.holdings.accepted, self._clock.monotonic()
        owned = {p: h for p, h in sorted(self.holdings.held.items()) if h.phase is Phase.READY}
        return OwnedFigures(
            group=accepted.group_id if accepted is not None else "",
            acted_epoch=accepted.epoch if accepted is not None else 0,
            held=len(self.holdings.held),
            partitions={
                p: PartitionFigures(
                    h.passed, h.log.offset, h.lag, h.log.points.behind_s(h.passed, now), self._sizes.get(p)
                )
                for p, h in owned.items()
            },
            fences=self.holdings.fences,
            dead_letters=self.letters.total,
            offsets=self.batches.offsets,
            batch_s=self.batches.seconds.total,
            batch_buckets=tuple(self.batches.seconds.cumulative()),
            failing=len({p for one in self.failing.told() for p in one.partitions or self.holdings.held}),
        )
