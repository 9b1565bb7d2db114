"""What the tests on real servers wait for."""

from collections.abc import Callable
from dataclasses import replace

from coordinator_tasks.core.codecs.codec import encode_node, encode_state
from coordinator_tasks.core.model import State, TopicNode, TopicState
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Node, SetData
from tests.fakes.zookeeper import FakeZooKeeper, FakeZooKeeperServer
from tests.stable import stable_node

PATHS = Paths("c")
BEFORE = TopicNode("h:1", "g", epoch=3, generation="g1", topic_id="id", assignments={0: "b"}, since={0: 3})
PLANNED = replace(BEFORE, epoch=4, assignments={0: "a"}, since={0: 4})


def put(zk: FakeZooKeeper, node: TopicNode, state: State) -> None:
    """In one transaction, as the coordinator does it."""
    written = {PATHS.topic("t"): encode_node(node), PATHS.state("t"): encode_state(TopicState(state))}
    for path in written:
        zk.ensure(path)
    zk.transact([SetData(path, data, zk.get(path).stat.version) for path, data in written.items()])


def test_a_plan_between_two_reads_is_not_taken_for_stable() -> None:
    zk = FakeZooKeeperServer().connect()
    put(zk, BEFORE, State.STABLE)
    assert stable_node(zk.find, PATHS, "t") == BEFORE

    assert stable_node(_after(zk.find, lambda: put(zk, PLANNED, State.STARTING)), PATHS, "t") is None
    put(zk, PLANNED, State.STABLE)
    assert stable_node(zk.find, PATHS, "t") == PLANNED


def test_a_topic_that_was_not_planned_when_its_node_was_read_is_not_stable() -> None:
    zk = FakeZooKeeperServer().connect()
    zk.ensure(PATHS.topic("t"))
    assert stable_node(_after(zk.find, lambda: put(zk, PLANNED, State.STABLE)), PATHS, "t") is None


def _after(find: Callable[[str], Node | None], happens: Callable[[], None]) -> Callable[[str], Node | None]:
    """The same, and something happens after its first call."""
    waiting = [happens]

    def found(path: str) -> Node | None:
        read = find(path)
        while waiting:
            waiting.pop()()
        return read

    return found
