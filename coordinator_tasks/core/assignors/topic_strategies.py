"""The strategies for one topic by name, as used by the coordinator."""

from collections.abc import Mapping

from coordinator_tasks.core.assignors import rocketmq
from coordinator_tasks.core.assignors.balanced import Balanced
from coordinator_tasks.core.assignors.group import GroupAssignor
from coordinator_tasks.core.assignors.one_topic import OneTopic
from coordinator_tasks.core.assignors.range_assignor import RangeAssignor, ServerRange
from coordinator_tasks.core.assignors.roundrobin import RoundRobin

STATELESS: Mapping[str, GroupAssignor] = {
    "range": RangeAssignor(),
    "roundrobin": RoundRobin(),
    "server-range": ServerRange(),
    "average": rocketmq.PerTopic(rocketmq.average),
    "average-by-circle": rocketmq.PerTopic(rocketmq.average_by_circle),
    "consistent-hash": rocketmq.PerTopic(rocketmq.consistent_hash),
    "machine-room": rocketmq.MachineRoomNearby(rocketmq.average),
}
"""Strategies that ignore present owners."""

# For one topic, `balanced` takes fixed partitions and the load of other topics into account. The coordinator does for
# every strategy what distinguishes cooperative-sticky: no consumer starts a partition before its owner has released it.
ONE_TOPIC_ASSIGNORS: Mapping[str, Balanced | OneTopic] = {
    **dict.fromkeys(("balanced", "sticky", "uniform", "cooperative-sticky"), Balanced()),
    **{name: OneTopic(strategy) for name, strategy in STATELESS.items()},
}
