"""Use of a group strategy for one topic at a time."""

from collections.abc import Mapping

from coordinator_tasks.core.assignors.group import Group, GroupAssignor, GroupMember
from coordinator_tasks.core.assignors.problem import Problem


class OneTopic:
    """Adapts a group strategy that ignores present owners to one topic.

    All members subscribe to the topic, and are ordered by id. The group strategy plans the whole topic. Afterwards
    fixed partitions stay in place, and no range is shifted by them.
    """

    def __init__(self, strategy: GroupAssignor) -> None:
        self._strategy = strategy

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return partition → member; only fixed partitions if there are no members. As fast as the group strategy."""
        partitions = sorted(problem.partitions)
        topic = frozenset({problem.topic})
        members = {m: GroupMember(topic, rack=value.rack or None) for m, value in problem.members.items()}
        racks = {problem.topic: [problem.zones.get(p, ()) for p in partitions]} if problem.zones else {}
        answer = self._strategy(Group({problem.topic: len(partitions)}, members, racks))
        given = {partitions[i]: m for m, topics in answer.items() for i in topics.get(problem.topic, ())}
        listed = frozenset(partitions)
        return given | {p: m for p, m in problem.fixed.items() if p in listed}
