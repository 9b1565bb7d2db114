"""The form of a topic's node: packed only if every consumer that acts on the node reads the packed form."""

from collections.abc import Collection

from coordinator_tasks.core.machine.draft import Draft
from coordinator_tasks.core.machine.presence import subscribes
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import PACKED

# Bytes of JSON, for partition numbers of four digits and epochs of up to seven digits.
ENTRY_BYTES = 26  # an assigned partition in the plain form, plus its owner's id
_PACKED_ENTRY_BYTES = 7  # an assigned partition in the packed form, if owners and epochs compress badly
_PACKED_CONSUMER_BYTES = 12  # a consumer in the packed form, plus its id


def pack_over(view: TopicView, world: World, draft: Draft, policy: Policy) -> int | None:
    """Return the number of bytes above which the draft's node is packed; `None` means the plain form at any size.

    A registration lists the forms that a consumer reads. For an unregistered owner, the stored node decides: if it is
    packed and names the owner, the owner reads the packed form.
    """
    if needs_packing(view, policy):
        return 0
    if read_plain_only(view, world):
        return None
    incarnations = draft.incarnations
    all_read = all(_reads(view, world, consumer, incarnations.get(consumer, 0)) for consumer in draft.holders())
    return policy.pack_over_bytes if all_read else None


def read_plain_only(view: TopicView, world: World) -> list[str]:
    """Return the topic's registered consumers that do not read the packed form."""
    registered = [one for one in world.members.values() if not one.problem]
    return sorted(one.consumer for one in registered if PACKED not in one.formats and subscribes(one, view.topic))


def needs_packing(view: TopicView, policy: Policy) -> bool:
    """Return whether the stored node is packed and too large for the plain form.

    If so, a consumer that cannot read the packed form gets no partition of the topic.
    """
    if not view.packed or view.node is None:
        return False
    longest = max(map(len, view.node.incarnations), default=0)
    return len(view.partitions) * (longest + ENTRY_BYTES) > policy.max_write_bytes


def assigned_bytes(partitions: int, longest: int, consumers: Collection[str], over: int | None) -> int:
    """Return the bytes of assigned partitions in a node whose longest id has `longest` characters.

    `over`: the limit from `pack_over`.
    """
    plain = partitions * (longest + ENTRY_BYTES)
    if over is None or plain <= over:
        return plain
    packed = partitions * _PACKED_ENTRY_BYTES + len(consumers) * (longest + _PACKED_CONSUMER_BYTES)
    return min(plain, max(packed, over))


def _reads(view: TopicView, world: World, consumer: str, incarnation: int) -> bool:
    member = world.members.get(consumer)
    if member is not None and member.incarnation == incarnation and not member.problem:
        return PACKED in member.formats
    return view.packed and view.node is not None and view.node.incarnations.get(consumer) == incarnation
