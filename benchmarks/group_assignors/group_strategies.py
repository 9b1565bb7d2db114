"""The strategies for whole groups, by name. The import loads numpy; of the plans of one topic only `weighted` needs it."""

from collections.abc import Mapping

from benchmarks.group_assignors.cooperative import CooperativeSticky
from benchmarks.group_assignors.optimum import GroupBalanced
from coordinator_tasks.core.assignors.group import GroupAssignor
from coordinator_tasks.core.assignors.topic_strategies import STATELESS

_BALANCED = GroupBalanced()

GROUP_ASSIGNORS: Mapping[str, GroupAssignor] = {
    "balanced": _BALANCED,
    "sticky": _BALANCED,
    "uniform": _BALANCED,
    "cooperative-sticky": CooperativeSticky(),
    **STATELESS,
}
