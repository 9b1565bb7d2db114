"""Random walks over the three deliveries: one consumer after the other, absent brokers and sinks, failing batches, lost answers.
Afterwards everything is read to the end, and the sink has the records that the delivery promises.
"""

import random
from collections.abc import Collection
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Handoff
from spark_apps.agent.ownership.listening import Telling
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import Failed, perform
from spark_apps.agent.settings import Identity, Pacing, Terms
from spark_apps.records.batches import BatchOffset
from tests.unit.spark_apps.agent.ownership.stage import TIMING
from tests.unit.spark_apps.agent.ownership.test_deliveries import Play

WALKS = 50
PARTITIONS = range(4)


class Walk(Play):
    """One topic; `sunk`: the ranges in the sink, by partition, in order of arrival."""

    def __init__(self, terms: Terms, seed: int) -> None:
        super().__init__(terms)
        self.terms = terms
        self.chance = random.Random(seed)
        self.pacing = Pacing(batch_interval_s=0.0, max_offsets=self.chance.choice([None, 7, 30]))
        self.sunk: dict[int, list[tuple[int, int]]] = {p: [] for p in PARTITIONS}
        self.life = 0
        self.begin()
        self.assign(self.some(), guarded=False)

    def begin(self) -> None:
        """A new process under the same id."""
        self.life += 1
        self.ownership = TopicOwnership("t", Identity("a", "c", self.life), self.clock, TIMING)
        self.ownership.agree(self.terms)
        self.planner = BatchPlanner(self.ownership, self.clock, self.pacing)
        self.passed = self.planner.initial()
        self.under_way: BatchOffset | None = None
        self.telling: Telling | None = None

    def some(self) -> Collection[int]:
        return [p for p in PARTITIONS if self.chance.random() < 0.7]

    def assign(self, partitions: Collection[int], guarded: bool) -> None:
        """Staying partitions keep their holdings, unless the process is new."""
        node, epoch = self.node, self.node.epoch + 1
        same = node.incarnations.get("a") == self.life
        since = {p: node.since[p] if same and p in node.assignments else epoch for p in partitions}
        self.node = replace(
            node,
            epoch=epoch,
            assignments=dict.fromkeys(partitions, "a"),
            since=since,
            handoff={},
            incarnations={"a": self.life, "b": 1},
            guarded=frozenset(p for p in since if guarded and since[p] == epoch),
        )
        self.ownership.grants.on_node(self.node)

    # What may happen -------------------------------------------------------------------------------------------------

    def step(self, usual: float) -> str:
        """Do a random event, of the regular or the rare events; return the event's name."""
        going_on = (self.deliver, self.tell_next, self.heal, *[self.go_on, self.offer, self.answer] * 2)
        changes = (self.own_some, self.give, self.pause, self.isolate, self.die, self.lose_an_answer)
        troubles = (self.kafka_fails, self.sink_fails, self.query_fails, self.append, self.append)
        chosen = self.chance.choice(going_on if self.chance.random() < usual else changes + troubles)
        chosen()
        return chosen.__name__

    def go_on(self) -> None:
        self.tick(self.chance.choice([0.0, 0.1, 0.5, 1.0, 2.5]))

    def offer(self) -> None:
        found = self.planner.offer(self.passed)
        self.under_way = found if found != self.passed else None

    def deliver(self) -> None:
        if self.under_way is None:
            return
        if self.terms.claims:
            self.transact()
        else:
            for p, one in self.under_way.ranges.items():
                self.sunk[p].append((one.start, one.end))
        self.passed, self.under_way = self.under_way, None

    def transact(self) -> None:
        """A sink with transactions: rows and positions together, under the stored token."""
        for p, added in self.ownership.batches.adds().items():
            standing = self.sink.positions[p]
            assert (standing.token, standing.offset) in {(added.token, None), (added.token, added.start)}
            self.sink.positions[p] = replace(standing, offset=added.end)
            self.sunk[p].append((added.start, added.end))

    def tell_next(self) -> None:
        self.telling = self.telling or self.ownership.listening.telling()

    def answer(self) -> None:
        if self.telling is not None:
            self.ownership.listening.told(self.telling, {})
            self.telling = None

    def heal(self) -> None:
        self.kafka.down = self.sink.down = False
        self.ownership.grants.on_isolated(False)

    def die(self) -> None:
        """Answer at once, or perform the request and lose the answer."""
        self.lose_an_answer()
        self.begin()
        self.assign(self.some(), guarded=True)

    def lose_an_answer(self) -> None:
        work = self.ownership.requests.work() if self.chance.random() < 0.7 else None
        if work is not None:
            perform(self.offsets, "t", work, self.sink)
            self.ownership.requests.answer(Failed("no answer"))

    def own_some(self) -> None:
        self.assign(self.some(), guarded=False)

    def give(self) -> None:
        epoch = self.node.epoch + 1
        gone = [p for p in self.node.assignments if self.chance.random() < 0.5]
        left = {p: c for p, c in self.node.assignments.items() if p not in gone}
        since = {p: self.node.since[p] for p in left}
        entries = {p: Handoff("a", "b", epoch) for p in gone}
        self.node = replace(self.node, epoch=epoch, assignments=left, since=since, handoff=entries)
        self.ownership.grants.on_node(self.node)

    def pause(self) -> None:
        self.node = replace(self.node, epoch=self.node.epoch + 1, paused=frozenset(self.some()))
        self.ownership.grants.on_node(self.node)

    def isolate(self) -> None:
        self.ownership.grants.on_isolated(True)

    def kafka_fails(self) -> None:
        self.kafka.down = True

    def sink_fails(self) -> None:
        self.sink.down = True

    def query_fails(self) -> None:
        """In the middle of a batch: a sink without transactions may have a part."""
        if self.under_way is not None and not self.terms.claims:
            for p, one in self.under_way.ranges.items():
                if self.chance.random() < 0.5:
                    self.sunk[p].append((one.start, one.end))
        self.ownership.query_failed(self.chance.choice(["a bad record", "the sink is away"]))
        self.passed, self.under_way = self.planner.initial(), None

    def append(self) -> None:
        self.kafka.append("t", self.chance.choice(PARTITIONS), self.chance.randint(1, 20))

    # The end ---------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everything answers, and half of the partitions stay."""
        self.heal()
        self.node = replace(self.node, paused=frozenset())
        self.assign(PARTITIONS[:2], guarded=False)
        for _ in range(500):
            for turn in (self.go_on, self.offer, self.deliver, self.tell_next, self.answer):
                turn()
            if self.read_to_the_end:
                return

    @property
    def read_to_the_end(self) -> bool:
        """Everything of the staying partitions has passed the sink and is committed, and no other partition runs."""
        stays, ends = PARTITIONS[:2], self.offsets.ends("t", PARTITIONS)
        passed = {p: (held.passed, held.commits.acknowledged) for p, held in self.ownership.holdings.ready().items()}
        return passed == {p: (ends[p], ends[p]) for p in stays} and self.running.keys() == set(stays)


@pytest.mark.parametrize("listening", [False, True], ids=["nobody listens", "a listener"])
@pytest.mark.parametrize(
    "terms",
    [Terms(), Terms(commit_first=True), Terms(claims=True)],
    ids=["at least once", "at most once", "exactly once"],
)
def test_what_reaches_the_sink_is_what_the_delivery_promises(terms: Terms, listening: bool) -> None:
    for seed in range(WALKS):
        walk = Walk(replace(terms, listening=listening), seed)
        usual = walk.chance.choice([0.7, 0.85, 0.95])
        done = [walk.step(usual) for _ in range(walk.chance.randint(20, 140))]
        walk.settle()
        about = f"seed {seed}: {' '.join(done)}"
        assert walk.read_to_the_end, about
        for partition, ranges in walk.sunk.items():
            end = 0
            for start, stop in ranges:
                assert start <= end or terms.commit_first, f"partition {partition} lost {end} to {start - 1}, {about}"
                assert start >= end or terms == Terms(), f"partition {partition} doubled {start} to {end - 1}, {about}"
                end = max(end, stop)
        for partition, log_end in walk.offsets.ends("t", PARTITIONS[:2]).items():
            assert terms.commit_first or walk.sunk[partition][-1][1] == log_end, about
