"""Walks of the whole protocol in memory, by seed and by Hypothesis, which shrinks failures.

Small and quick, for slips in the rules; the simulation proper has sessions, connections and many more faults.
"""

import copy
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.machine.decision import ALL_STEPS, Step
from coordinator_tasks.core.model import State
from tests.world.protocol import Cluster

NAMES = st.sampled_from(["a", "b", "c"])


@pytest.mark.parametrize("block", range(4))
def test_no_walk_gives_a_partition_to_two_and_every_walk_settles(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        rng = random.Random(seed)
        cluster = Cluster(rng, partitions=rng.choice([1, 2, 5]))
        for _ in range(300):
            cluster.step()
        cluster.heal()
        assert cluster.state is not None, seed
        assert cluster.node is not None, seed
        assert cluster.state.state is State.STABLE, (seed, cluster.state, cluster.node)
        loads = [list(cluster.node.assignments.values()).count(c) for c in cluster.consumers]
        assert sum(loads) == cluster.partitions, (seed, loads)
        assert max(loads) - min(loads) <= 1, (seed, loads)


class Protocol(RuleBasedStateMachine):
    """The same world, with one rule for each event."""

    @initialize(partitions=st.integers(1, 3), seed=st.integers(0, 2**16))
    def begin(self, partitions: int, seed: int) -> None:
        self.cluster = Cluster(random.Random(seed), partitions)

    @rule(steps=st.sampled_from([ALL_STEPS, frozenset({Step.PLAN}), frozenset({Step.START}), frozenset({Step.SETTLE})]))
    def coordinate(self, steps: frozenset[Step]) -> None:
        self.cluster.coordinate(steps)

    @rule(name=NAMES)
    def join(self, name: str) -> None:
        self.cluster.join(name)

    @rule(name=NAMES, reads=st.booleans())
    def act(self, name: str, reads: bool) -> None:
        if name in self.cluster.consumers:
            consumer = self.cluster.consumers[name]
            self.cluster.read(consumer) if reads else None
            self.cluster.act(consumer)

    @rule(name=NAMES)
    def crash(self, name: str) -> None:
        self.cluster.crash(name)

    @rule(name=NAMES)
    def isolate(self, name: str) -> None:
        self.cluster.isolate(name)

    @rule(name=NAMES)
    def readmit(self, name: str) -> None:
        self.cluster.readmit(name)

    @rule(name=NAMES, on=st.booleans())
    def drain(self, name: str, on: bool) -> None:
        self.cluster.drain(name, on)

    @invariant()
    def what_is_stored_is_valid(self) -> None:
        if self.cluster.node is not None and self.cluster.state is not None:
            assert invariants.of_topic(self.cluster.node, self.cluster.state) == []

    @rule()
    def it_would_settle_if_nothing_else_happened(self) -> None:
        healed = copy.deepcopy(self.cluster)
        healed.heal(60)
        assert healed.state.state is State.STABLE


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
