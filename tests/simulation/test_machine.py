"""The world of the simulation driven by Hypothesis, which chooses the next event, and cuts down a broken rule.

The oracle looks after every step; at the end everything is healed and has to settle, as in a history by seed.
"""

from contextlib import ExitStack

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.simulation.actions import FAULTS, STEPS, Action, perform
from tests.simulation.faults import Fault
from tests.simulation.healing import heal
from tests.simulation.history import without_chance
from tests.simulation.world import Setup, World

WHO = st.integers(0, 5)
HOW = st.integers(0, 11)
RARE = (Fault.RELAUNCHED, Fault.ZOMBIE, Fault.LOST, Fault.RESTORED)


class Protocol(RuleBasedStateMachine):
    """One site; the objects of turns and faults are found by number among the present objects."""

    def __init__(self) -> None:
        super().__init__()
        self.around = ExitStack()
        self.around.enter_context(without_chance())
        self.holds = True

    @initialize(
        consumers=st.integers(2, 3),
        partitions=st.integers(1, 3),
        settled=st.booleans(),
        returns=st.none() | st.integers(0, 2),
    )
    def begin(self, consumers: int, partitions: int, settled: bool, returns: int | None) -> None:
        self.world = World(Setup(consumers, partitions, returns=returns))
        for _ in range(3 if settled else 0):
            self.something_happens("calm", 1, 0)

    @rule(kind=st.sampled_from(list(STEPS)), who=WHO, how=HOW)
    def something_happens(self, kind: str, who: int, how: int) -> None:
        self.holds = False
        perform(self.world, Action(kind, who, how))
        self.holds = True

    @rule(fault=st.sampled_from(list(FAULTS)), who=WHO, how=HOW)
    def something_fails(self, fault: Fault, who: int, how: int) -> None:
        self.something_happens(fault.name, who, how)

    @rule(fault=st.sampled_from(RARE), who=WHO, how=HOW)
    def something_fails_with_a_rare_opportunity(self, fault: Fault, who: int, how: int) -> None:
        self.something_happens(fault.name, who, how)

    def teardown(self) -> None:
        with self.around:
            if self.holds:
                heal(self.world)
        self.world.kernel.close()


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_every_fault_has_an_effect() -> None:
    assert FAULTS.keys() == set(Fault)
