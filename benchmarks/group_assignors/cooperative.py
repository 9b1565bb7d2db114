"""Kafka's `cooperative-sticky`.

The balanced target without partitions that other live members still have to give up (KIP-429).

Two rebalances make a move: in the first no member gets the partition, and its owner learns of the revocation; in the
second no member owns it any more. Any live member's claim counts, whatever its generation and whether or not the taker
claims the partition too: a member that missed a generation may still be reading.
"""

from benchmarks.group_assignors.optimum import GroupBalanced
from coordinator_tasks.core.assignors.group import Assignment, Group


class CooperativeSticky:
    """See the module. Applied until no revocation is left, it ends in the answer of `balanced`."""

    def assign(self, group: Group) -> Assignment:
        """As `balanced`, plus O(claims)."""
        target = GroupBalanced().assign(group)
        claimants: dict[tuple[str, int], set[str]] = {}
        for member, value in group.members.items():
            for topic, partitions in value.owned.items():
                for partition in partitions:
                    claimants.setdefault((topic, partition), set()).add(member)
        return {
            member: {
                topic: allowed
                for topic, partitions in topics.items()
                if (allowed := [p for p in partitions if claimants.get((topic, p), {member}) == {member}])
            }
            for member, topics in target.items()
        }
