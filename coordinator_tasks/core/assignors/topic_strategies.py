"""The coordinator's strategies by name."""

from collections.abc import Mapping

from coordinator_tasks.core.assignors import balanced, rocketmq
from coordinator_tasks.core.assignors.group import GroupAssignor
from coordinator_tasks.core.assignors.one_topic import OneTopic
from coordinator_tasks.core.assignors.range_assignor import RangeAssignor, ServerRange
from coordinator_tasks.core.assignors.roundrobin import RoundRobin
from coordinator_tasks.core.assignors.weighted.strategy import Weighted

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

ASSIGNORS: Mapping[str, balanced.Balanced | OneTopic | Weighted] = {
    **dict.fromkeys(balanced.NAMES, balanced.Balanced()),
    **{name: OneTopic(strategy) for name, strategy in STATELESS.items()},
    "weighted": Weighted(),
}
