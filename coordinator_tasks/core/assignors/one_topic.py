"""Lets a group strategy answer the coordinator's question about one topic."""

from collections.abc import Mapping

from coordinator_tasks.core.assignors.group import Group, GroupAssignor, GroupMember
from coordinator_tasks.core.assignors.problem import Problem


class OneTopic:
    """Adapts a group strategy that ignores present owners to one topic.

    All members subscribe to the topic, and are ordered by id. The group strategy plans the whole topic; fixed
    partitions then stay in place, without shifting a range. Only `assign` is passed on. A test names every further
    method in use.
    """

    def __init__(self, strategy: GroupAssignor) -> None:
        self._strategy = strategy

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return partition → member. Without members, return only fixed partitions. As fast as the group strategy."""
        partitions = sorted(problem.partitions)
        topic = frozenset({problem.topic})
        members = {m: GroupMember(topic, rack=value.rack or None) for m, value in problem.members.items()}
        racks = {problem.topic: [problem.zones.get(p, ()) for p in partitions]} if problem.zones else {}
        answer = self._strategy.assign(Group({problem.topic: len(partitions)}, members, racks))
        given = {partitions[i]: m for m, topics in answer.items() for i in topics.get(problem.topic, ())}
        listed = frozenset(partitions)
        return given | {p: m for p, m in problem.fixed.items() if p in listed}
