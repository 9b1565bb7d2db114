"""The coordinator's strategies by name."""

from collections.abc import Mapping
from functools import partial

from coordinator_tasks.core.assignors import balanced, rocketmq
from coordinator_tasks.core.assignors.group import GroupAssignor
from coordinator_tasks.core.assignors.one_topic import OneTopic
from coordinator_tasks.core.assignors.range_assignor import client_range, server_range
from coordinator_tasks.core.assignors.roundrobin import round_robin
from coordinator_tasks.core.assignors.weighted.strategy import Weighted

STATELESS: Mapping[str, GroupAssignor] = {
    "range": client_range,
    "roundrobin": round_robin,
    "server-range": server_range,
    "average": partial(rocketmq.per_topic, rocketmq.average),
    "average-by-circle": partial(rocketmq.per_topic, rocketmq.average_by_circle),
    "consistent-hash": partial(rocketmq.per_topic, rocketmq.consistent_hash),
    "machine-room": rocketmq.machine_room,
}
"""Strategies that ignore present owners."""

ASSIGNORS: Mapping[str, balanced.Balanced | OneTopic | Weighted] = {
    **dict.fromkeys(balanced.NAMES, balanced.Balanced()),
    **{name: OneTopic(strategy) for name, strategy in STATELESS.items()},
    "weighted": Weighted(),
}
