"""The world of the simulation driven by Hypothesis, which chooses the next event, and cuts down a broken rule.

The oracle looks after every step; at the end everything is healed and has to settle, as in a history by seed.
"""

from contextlib import ExitStack

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.simulation.actions import STEPS, Action, perform
from tests.simulation.faults import Fault
from tests.simulation.healing import heal
from tests.simulation.history import without_chance
from tests.simulation.memo import remembering
from tests.simulation.world import Setup, World

WHO = st.integers(0, 5)
HOW = st.integers(0, 11)

STOPS = (Fault.LEFT, Fault.QUERY_ENDED)
DIES = (Fault.CRASHED, Fault.HOST_LOST)
STANDS_STILL = (Fault.PAUSED, Fault.FROZEN, Fault.STUCK)
SESSIONS = (Fault.EXPIRED, Fault.SUSPENDED, Fault.DETACHED, Fault.TASK_EXPIRED)
CONNECTIONS = (Fault.WRITE_LOST, Fault.ANSWER_LOST, Fault.STALE_READ)
TREES = (Fault.LOST, Fault.RESTORED)
COMMITS = (Fault.COMMIT_LOST, Fault.COMMIT_UNKNOWN, Fault.COMMIT_DELAYED, Fault.COMMIT_DOUBLED)
KAFKA = (Fault.FOREIGN_COMMIT, Fault.BROKERS_DOWN, Fault.PARTITIONS_ADDED, Fault.RECREATED)
INTERFACES = (Fault.SILENT, Fault.REFUSED, Fault.ANSWER_DELAYED, Fault.POST_DOUBLED)
TASKS = (Fault.TASK_KILLED, Fault.TWO_ATTEMPTS, Fault.CLEARED, Fault.TASK_DELAYED, Fault.CLOCK_JUMP)
PERSONS = (Fault.DRAINED, Fault.ISOLATED, Fault.READMITTED, Fault.RECONFIGURED, Fault.RESTART_EXPECTED)
REGISTRY = (Fault.REGISTRY_UNREADABLE, Fault.REGISTRY_EMPTY, Fault.REGISTRY_OLD)
GROUPS = (STOPS, DIES, STANDS_STILL, SESSIONS, CONNECTIONS, TREES, COMMITS, KAFKA, INTERFACES, TASKS, PERSONS, REGISTRY)


class Protocol(RuleBasedStateMachine):
    """One site; the objects of turns, faults and messages are found by number among the present objects."""

    def __init__(self) -> None:
        super().__init__()
        self.around = ExitStack()
        self.around.enter_context(without_chance())
        self.around.enter_context(remembering())
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
            self.step("calm", 1, 0)

    def step(self, kind: str, who: int, how: int) -> None:
        self.holds = False
        perform(self.world, Action(kind, who, how))
        self.holds = True

    def meet(self, fault: Fault, who: int, how: int) -> None:
        self.step(fault.name, who, how)

    @rule(kind=st.sampled_from(["go", "consume", "task"]), who=WHO, how=HOW)
    def somebody_takes_a_turn(self, kind: str, who: int, how: int) -> None:
        self.step(kind, who, how)

    @rule(kind=st.sampled_from(["calm", "closing"]), who=WHO, how=HOW)
    def the_orchestrator_steps(self, kind: str, who: int, how: int) -> None:
        self.step(kind, who, how)

    @rule(who=WHO, how=HOW)
    def time_passes(self, who: int, how: int) -> None:
        self.step("wait", who, how)

    @rule(who=WHO, how=HOW)
    def records_arrive(self, who: int, how: int) -> None:
        self.step("produce", who, how)

    @rule(who=WHO)
    def a_second_process_starts(self, who: int) -> None:
        self.meet(Fault.RELAUNCHED, who, 0)

    @rule(who=WHO, how=HOW)
    def a_zombie_wakes(self, who: int, how: int) -> None:
        self.meet(Fault.ZOMBIE, who, how)

    @rule(fault=st.sampled_from(STOPS + DIES + STANDS_STILL), who=WHO, how=HOW)
    def a_consumer_fails(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    @rule(fault=st.sampled_from(SESSIONS + CONNECTIONS), who=WHO, how=HOW)
    def a_connection_fails(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    @rule(fault=st.sampled_from(TREES), who=WHO, how=HOW)
    def zookeeper_is_another(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    @rule(fault=st.sampled_from(COMMITS + KAFKA), who=WHO, how=HOW)
    def kafka_fails(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    @rule(fault=st.sampled_from(INTERFACES + TASKS), who=WHO, how=HOW)
    def the_orchestrator_fails(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    @rule(fault=st.sampled_from(REGISTRY), who=WHO, how=HOW)
    def the_registry_fails(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    @rule(fault=st.sampled_from(PERSONS), who=WHO, how=HOW)
    def a_person_asks(self, fault: Fault, who: int, how: int) -> None:
        self.meet(fault, who, how)

    def teardown(self) -> None:
        with self.around:
            if self.holds:
                heal(self.world)
        self.world.kernel.close()


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=200, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_every_fault_and_every_turn_is_a_rule() -> None:
    assert {Fault.RELAUNCHED, Fault.ZOMBIE}.union(*GROUPS) == set(Fault)
    assert STEPS.keys() == {"go", "consume", "task", "calm", "closing", "wait", "produce"}
