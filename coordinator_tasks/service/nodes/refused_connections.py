"""When each registered consumer first refused connections, noted while a dead consumer's session still runs.

Every observation notes refusals as well. But an observation each second is too expensive, and an answer on a kept
connection says nothing of new connections. So this module only opens a new connection to each consumer.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from coordinator_tasks.core.errors import NoAccess
from coordinator_tasks.core.machine.presence import note_refusal
from coordinator_tasks.core.model import Member, Silence
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.observe import load_claims, put_claim, same_boot


def note(c: Coordinator, members: Mapping[str, Member], before: frozenset[str] | None = None) -> frozenset[str]:
    """Connect to each consumer, note the begin of refusals in its claim, and return the refusing consumers.

    `before`: the last call's result. Only the claims of these and of the present refusals are read; without `before`
    all claims. Raises `StoreUnavailable`.
    """
    found = c.statuses.unreachable(list(members.values()))
    refused = {consumer: one for consumer, one in found.items() if one.silence is Silence.REFUSED}
    unknown = {consumer for consumer, one in found.items() if one.silence is Silence.UNASKED}
    asked = (members.keys() if before is None else members.keys() & (refused.keys() | before)) - unknown
    for consumer, claim in load_claims(c, sorted(asked), {}).items():
        now = c.clock.now()
        since_at = note_refusal(claim, members[consumer], refused.get(consumer), same_boot(c, claim), now)
        if since_at != claim.refused_at:
            with suppress(NoAccess):  # each look at the consumers reports it
                put_claim(c, claim, replace(claim, refused_at=since_at))
    return frozenset(refused.keys() | unknown & (before or frozenset()))
