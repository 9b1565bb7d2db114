"""Samples of the lag over the last hour in ZooKeeper: a ring of nodes with one sample per minute.

`reconcile` and the plain loop write the samples. Pages and metrics read them, so that both agree, also after a restart.
"""

from collections.abc import Collection, Iterator

from coordinator_tasks.core.codecs.lag_moment_codec import decode_lag_moment, encode_lag_moment
from coordinator_tasks.core.errors import CoordinatorError, NoAccess
from coordinator_tasks.core.machine.life import interfaces
from coordinator_tasks.core.measure.lag_moments import (
    EVERY_S,
    FRESH_S,
    JUDGED_BY,
    KEPT,
    LagMoment,
    PartitionMoment,
    judged,
    slot_of,
    stand,
    tracks,
)
from coordinator_tasks.core.model import ConsumerStatus
from coordinator_tasks.core.protocol.znodes import find_decoded, put, written
from coordinator_tasks.core.text.json_fields import MAX_BYTES
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.cluster import ClusterObservation
from coordinator_tasks.service.nodes.observe import load_claims, load_members
from coordinator_tasks.service.watch.group_commits import commits
from coordinator_tasks.service.watch.topic_metrics import figures, figures_of


def keep(c: Coordinator, managed: Collection[str], observed: ClusterObservation | None = None) -> Iterator[str]:
    """Write this minute's sample unless it exists; yield a line for each problem. Raises the `Unavailable` kinds.

    `observed`: an observation of the managed topics to use.
    """
    now = c.clock.now()
    if read(c, now, 0):
        return  # one sample per minute is enough
    problems: dict[str, str] = {}
    past = read(c, now, JUDGED_BY, problems)
    yield from problems.values()
    path = c.paths.lag(slot_of(now))
    if path in problems or not managed:
        return
    there = c.zk.find(path)
    unknown: dict[str, str] = {}
    topics = figures(c, managed) if observed is None else figures_of(c, observed.topics)
    seen = list(commits(c, topics, unknown))
    before = tracks(past)
    moment = judged(now, seen, before, _told(c, stand(seen, before), observed), c.policy.lag_partitions)
    if moment.left_out:
        yield f"the lags of {moment.left_out:,} partitions are not kept, beyond policy.lag_partitions ({c.policy.lag_partitions:,})"
    raw = encode_lag_moment(moment)
    yield from (f"the lag of group {group} is not known: {why}" for group, why in unknown.items())
    if len(raw) > MAX_BYTES:
        yield (
            f"the lags of this minute are not kept: they take {len(raw)} bytes, and a node has at most {MAX_BYTES}; lower "
            "policy.lag_partitions"
        )
        return
    try:
        c.zk.ensure(c.paths.lags)
        # Another process may have written the sample.
        written(c.zk, [put(path, raw, there.stat.version if there is not None else -1)])
    except NoAccess as error:
        yield f"the lags of this minute are not kept: {error}"


def read(c: Coordinator, now: float, most: int = KEPT, problems: dict[str, str] | None = None) -> list[LagMoment]:
    """Return the last `most` samples and this minute's, oldest first. `problems` gets path → why unreadable."""
    paths = [c.paths.lag(slot_of(now - EVERY_S * back)) for back in range(min(most + 1, KEPT))]
    unread = dict[str, CoordinatorError]()
    found = find_decoded(
        c.zk, {path: path for path in paths}, lambda at, node: decode_lag_moment(at, node.data), unread
    )
    if problems is not None:
        problems |= {path: error.told for path, error in unread.items()}
    oldest = now - EVERY_S * (most + 1)
    return sorted((one for one in found.values() if oldest < one.at <= now), key=lambda one: one.at)


def newest(c: Coordinator) -> LagMoment | None:
    """Return the last sample if it is recent."""
    now = c.clock.now()
    return next((one for one in reversed(read(c, now, 3)) if one.at > now - FRESH_S), None)


def _told(
    c: Coordinator, standing: Collection[PartitionMoment], observed: ClusterObservation | None
) -> set[tuple[str, int]]:
    """Return the given partitions that their owners report as running. Only owners are asked, each once."""
    unclear: dict[str, str] = {}
    owners = sorted({one.owner for one in standing if one.owner})
    if not owners:
        return set()
    if observed is not None:
        answers = observed.snapshot.world.answers
    else:
        members, claims = load_members(c, unclear), load_claims(c, owners, unclear)
        answers = c.statuses.ask(interfaces(owners, members, claims))
    running = {
        (who, topic, partition)
        for who, answer in answers.items()
        if isinstance(answer, ConsumerStatus)
        for topic, said in answer.topics.items()
        for partition in said.running
    }
    return {(one.topic, one.partition) for one in standing if (one.owner, one.topic, one.partition) in running}
