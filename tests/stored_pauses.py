"""The pauses that the history of a topic keeps."""

from coordinator_tasks.core.model import Pause
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history

REBALANCES = 20


def stored_pauses(c: Coordinator, topic: str) -> tuple[Pause, ...]:
    """Of the partitions that moved in the last rebalances, newest first."""
    found = history.rebalances(c, [topic], REBALANCES)
    return tuple(one for rebalance in found if rebalance.pauses is not None for one in rebalance.pauses.measured)
