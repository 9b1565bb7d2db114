"""A consumer, a topic, a broker in memory and a manual clock, for the tests of ownership."""

from dataclasses import replace
from typing import Any, TypeVar

from coordinator_tasks.core.model import Committed, Handoff, Release, Token, TopicNode
from coordinator_tasks.core.protocol.holding import Reading
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import ListOffsets, Work, perform
from spark_apps.agent.settings import Identity, Pacing, Timing
from spark_apps.records.batches import Range
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka, perform_due

TIMING = Timing(guard_s=2.0)
GENERATION = "g1"
OLD = Token(1, 1, GENERATION)
W = TypeVar("W", bound=Work)


class Stage:
    """Consumer `a` of incarnation 5 and topic `t` with four partitions of 100 records."""

    sink: Any = None

    def __init__(self, consumer: str = "a", incarnation: int = 5, kafka: FakeKafka | None = None) -> None:
        self.clock = FakeClock()
        self.kafka = kafka or FakeKafka()
        if kafka is None:
            self.kafka.create_topic("t", 4)
            for partition in range(4):
                self.kafka.append("t", partition, 100)
        self.offsets = self.kafka.offsets("g")
        self.ownership = TopicOwnership("t", Identity(consumer, "c", incarnation), self.clock, TIMING)
        self.batch = 0
        self.node = TopicNode(
            "host:9092", "g", 0, GENERATION, "id-1", incarnations={"a": 5, "b": 6}, initial_partitions=4
        )

    def read(self, **changes: object) -> Reading:
        self.node = replace(self.node, epoch=self.node.epoch + 1, **changes)  # type: ignore[arg-type]
        reading = self.ownership.grants.on_node(self.node)
        self.tick()
        return reading

    def own(self, *partitions: int, epoch: int | None = None, guarded: frozenset[int] = frozenset()) -> None:
        since = self.node.epoch + 1 if epoch is None else epoch
        self.read(
            assignments=dict.fromkeys(partitions, "a"),
            since=dict.fromkeys(partitions, since),
            handoff={},
            guarded=guarded,
        )

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        perform_due(self.ownership, self.offsets, self.sink)

    def wait(self, seconds: float) -> None:
        """Time passes, and the agent looks often."""
        for _ in range(round(seconds / 0.1)):
            self.tick(0.1)

    def hand_out(self, partition: int, end: int) -> None:
        self.batch += 1
        held = self.ownership.holdings.ready()[partition]
        self.ownership.batches.hand_out(self.batch, (Range(partition, held.position, end, held.token.epoch),))

    def cover(self) -> None:
        self.ownership.batches.cover(self.batch)
        self.tick()

    def process(self, partition: int, end: int, took_s: float = 0.0) -> None:
        """A batch passes the sink."""
        self.hand_out(partition, end)
        self.clock.advance(took_s)
        self.cover()

    def committed(self, partition: int) -> Committed:
        return self.offsets.committed("t", [partition])[partition]

    def commit(
        self,
        partition: int,
        offset: int,
        token: Token,
        topic_id: str = "id-1",
        owner: str = "z",
        *,
        keeps_state: bool = False,
    ) -> None:
        self.offsets.commit("t", {partition: Committed(offset, token, owner, "c", topic_id, None, keeps_state)})

    @property
    def running(self) -> dict[int, bool]:
        return {p: one.closing for p, one in self.ownership.status().running.items()}

    def reported(self, text: str) -> bool:
        return any(text in one for one in self.ownership.reports.all())


def stage_with(partitions: int, records: int) -> Stage:
    """A stage that runs all partitions, each with so many records."""
    kafka = FakeKafka()
    kafka.create_topic("t", partitions)
    for partition in range(partitions):
        kafka.append("t", partition, records)
    stage = Stage(kafka=kafka)
    stage.own(*range(partitions))
    stage.wait(2)
    return stage


def give(stage: Stage, *partitions: int) -> None:
    """Partitions leave a for b by a hand-off."""
    left = {p: c for p, c in stage.node.assignments.items() if p not in partitions}
    epoch = stage.node.epoch + 1
    stage.read(
        assignments=left,
        since={p: stage.node.since[p] for p in left},
        handoff={p: Handoff("a", "b", epoch) for p in partitions},
    )


def take(stage: Stage, partition: int) -> None:
    stage.read(assignments={}, since={}, handoff={partition: Handoff("b", "a", stage.node.epoch + 1)})


def release_of(stage: Stage, partition: int, offset: int, token: Token) -> Release:
    return Release(stage.node.handoff[partition].epoch, "b", 6, offset, GENERATION, token)


def planner_of(stage: Stage, **pacing: object) -> BatchPlanner:
    return BatchPlanner(stage.ownership, stage.clock, replace(Pacing(), **pacing))  # type: ignore[arg-type]


def asked(stage: Stage, kind: type[W]) -> W:
    """The next request of this kind; earlier requests are answered, this one is not."""
    for _ in range(10):
        work = stage.ownership.requests.work()
        assert work is not None
        if isinstance(work, kind):
            return work
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    raise AssertionError(f"no {kind.__name__} was due")


def list_offsets(stage: Stage) -> ListOffsets:
    stage.clock.advance(TIMING.measure_s)
    stage.ownership.requests.want_ends()
    work = asked(stage, ListOffsets)
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return work
