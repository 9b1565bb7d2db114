"""Holdings whose positions the sink keeps: a token is put there first, then the position that stands there counts. Pure."""

from collections.abc import Iterable, Mapping

from coordinator_tasks.core.model import Token, TopicNode
from spark_apps.agent.ownership.held import Held, Phase
from spark_apps.delivery import Standing


def unclaimed(held: Mapping[int, Held], node: TopicNode | None) -> dict[int, Token]:
    """The tokens that the sink has to know before these holdings go on."""
    if node is None:
        return {}
    waiting = {p: h for p, h in held.items() if h.phase is Phase.CLAIMING}
    return {p: h.token for p, h in sorted(waiting.items()) if h.topic_id == node.topic_id}


def superseded(tokens: Mapping[int, Token], node: TopicNode) -> dict[int, int]:
    """Partition → epoch of its seek: then the sink's position counts only if it was written under as new a token."""
    return {p: seek.epoch for p, seek in node.seeks.items() if p in tokens}


def settle(mine: Iterable[tuple[int, Held]], found: Mapping[int, Standing], consumer: str) -> dict[int, Standing]:
    """Begin at the positions that stand in the sink, or look for one where none does; returns who was refused.

    A partition that the sink left out stays as it is, and is asked for again.
    """
    refused: dict[int, Standing] = {}
    for partition, held in mine:
        standing = found.get(partition)
        if held.phase is not Phase.CLAIMING or standing is None:
            continue
        if standing.refuses(held.token, consumer):
            refused[partition] = standing
        elif standing.offset is None:
            held.phase = Phase.LOOKING
        else:
            held.place(standing.offset)
            held.settled = True
    return refused
