"""Note when each registered consumer first refused a connection, while the session of a dead consumer still exists.

Observations note refusals too. But an observation every second is too expensive, and an answer over a kept connection
does not show whether new connections succeed. So this module only opens a new connection to each consumer.
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
    """Connect to each consumer, note in its claim since when it refuses, and return the consumers that refuse.

    `before`: the result of the last call. Only claims of these consumers and of consumers that refuse now are read;
    without `before`, all claims. Raises `StoreUnavailable`.
    """
    found = c.statuses.unreachable(list(members.values()))
    refused = {consumer: one for consumer, one in found.items() if one.silence is Silence.REFUSED}
    unknown = {consumer for consumer, one in found.items() if one.silence is Silence.UNASKED}
    asked = (members.keys() if before is None else members.keys() & (refused.keys() | before)) - unknown
    for consumer, claim in load_claims(c, sorted(asked), {}).items():
        now = c.clock.now()
        since_at = note_refusal(claim, members[consumer], refused.get(consumer), same_boot(c, claim), now)
        if since_at != claim.refused_at:
            with suppress(NoAccess):  # every observation reports the missing right
                put_claim(c, claim, replace(claim, refused_at=since_at))
    return frozenset(refused.keys() | unknown & (before or frozenset()))
