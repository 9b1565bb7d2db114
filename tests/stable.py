"""When a topic is Stable, for whoever looks from outside."""

from collections.abc import Callable

from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.model import State, TopicNode
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Node


def stable_node(find: Callable[[str], Node | None], paths: Paths, topic: str) -> TopicNode | None:
    """The topic's node, where the topic is Stable with it. The node is empty until the first plan.

    The state is read after the node: before it, it could be that of a time before the plan which the node shows.
    """
    node, state = find(paths.topic(topic)), find(paths.state(topic))
    if node is None or not node.data or state is None or decode_state("", state.data).state is not State.STABLE:
        return None
    return decode_node("", node.data)
