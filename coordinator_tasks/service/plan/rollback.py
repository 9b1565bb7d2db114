"""Roll back: return a topic to its assignment before an earlier rebalance, as far as the consumers still exist.

The request is a write to the topic's configuration, and the next plan follows it. A roll back holds until the next
change of membership, or for a time. The plan that ends a roll back removes it from the configuration.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from coordinator_tasks.core.codecs.codec import encode_config
from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.machine import machine, rollback, what_if
from coordinator_tasks.core.machine.what_if import ClusterMoment
from coordinator_tasks.core.model import Actor, Record, Rollback, TopicConfig
from coordinator_tasks.core.names import check_words
from coordinator_tasks.core.text.partition_text import agreed, named, shown
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import growth_store, history
from coordinator_tasks.service.nodes.fleet import fleets
from coordinator_tasks.service.nodes.topics import change_config, configuration, not_removed
from coordinator_tasks.service.plan.approvals import earlier_moves
from coordinator_tasks.service.plan.cluster_view import site_of
from coordinator_tasks.service.plan.preview import Preview, priced, with_budget

MAX_NAME_CHARS = 100  # maximum of a rebalance's name; our own names have some thirty
MAX_FOR_S = 366 * 86_400.0
_SEARCHED = 1_000  # records searched in each other topic if the given topic has no such rebalance
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """A roll back, and its moves. `standing`: the same roll back is already in force.

    Some partitions do not move: `gone` lists them by former owner if the owner gets no partitions, `newer` lists
    partitions that had no owner, and `pinned` lists partitions pinned to another consumer. `growing`: fleets that read
    the topic and that growth may change.
    """

    wanted: Rollback
    preview: Preview
    gone: Mapping[str, tuple[int, ...]]
    newer: tuple[int, ...]
    pinned: tuple[int, ...]
    standing: bool
    growing: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the text: moves, partitions left out, and duration."""
        holds = (f"it would hold {rollback.until(self.wanted)}", *self._ends) if self.kept else ()
        return (*self.preview.lines, *(f"{self.preview.topic}:   {one}" for one in (*self.left_out, *holds)))

    @property
    def kept(self) -> bool:
        """Return whether the roll back is, or would be, in force. Without moves it needs a time."""
        return self.standing or bool(self.preview.moves or self.wanted.for_s)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return sentences about partitions that are not rolled back, with the reasons."""
        texts = [f"{who} is gone or may not have them: {named(which)} would stay" for who, which in self.gone.items()]
        if self.newer:
            texts.append(f"nobody had {named(self.newer)} then: {agreed(len(self.newer), 'it', 'they')} would stay")
        if self.pinned:
            are = agreed(len(self.pinned), "is", "are")
            texts.append(f"{named(self.pinned)} {are} pinned to others, and would stay")
        return tuple(texts)

    @property
    def _ends(self) -> Iterator[str]:
        """Yield sentences about causes that may soon move partitions again."""
        for app in self.growing:
            yield (
                f"the growth of {app} acts: its moves come before this roll back, and a change of its size may end it; to keep "
                f"it, `set-growth {app}` without --act first"
            )


def preview(c: Coordinator, topic: str, rebalance: str, *, for_s: float = 0.0, by: str = "", why: str = "") -> Way:
    """Return the roll back that `roll_back` would request. Raises as `roll_back`."""
    if len(rebalance) > MAX_NAME_CHARS:
        raise NotManaged(f"{rebalance[:20]!r}... is no rebalance; `history {topic}` lists those there are")
    if not 0 <= for_s <= MAX_FOR_S:
        raise Refused(
            f"a roll back cannot hold for {for_s:g} s; give 0 to {MAX_FOR_S:.0f}, where 0 = until membership changes"
        )
    config = configuration(c, topic)
    _check(config)
    site, left_out = site_of(c)
    if topic in left_out:
        raise Refused(f"topic {topic!r} cannot be rolled back: {left_out[topic]}")
    view = site.topics[topic]
    if view.node is None:
        raise Refused(f"topic {topic!r} is not planned yet, so there is nothing to roll back")
    able = machine.able(view, what_if.world_of(site, topic), c.policy)
    now_at = what_if.due_owners(view)
    then = rollback.before(now_at, undone(c, topic, rebalance))
    assignments, gone, newer = dict[int, str](), dict[str, tuple[int, ...]](), list[int]()
    for partition in view.partitions:
        owner = then.get(partition, "")
        if owner not in able:
            if owner:
                gone[owner] = (*gone.get(owner, ()), partition)
            else:
                newer.append(partition)
            owner = now_at.get(partition, "")
        if owner in able:
            assignments[partition] = owner
    if not any(then.get(p) == owner for p, owner in assignments.items()):
        raise Refused(_nothing(topic, rebalance, then))
    wanted = Rollback(rebalance, assignments, able, by, why, c.clock.now(), for_s)
    pinned = tuple(p for p, who in sorted(config.pins.items()) if who in able and assignments.get(p, who) != who)
    held = config.rollback
    standing = held is not None and rollback.ended(held, able, c.clock.now()) is None and _same(held, wanted)
    wanted = held if held is not None and standing else wanted
    shown, growing = _priced(c, site, topic, wanted), _growing(c, assignments.values())
    return Way(wanted, shown, dict(sorted(gone.items())), tuple(newer), pinned, standing, growing)


def _growing(c: Coordinator, owners: Collection[str]) -> tuple[str, ...]:
    acting = {one.app for one in growth_store.readable(c) if one.limits.act}
    return tuple(one.app for one in fleets(c) if one.app in acting and not set(owners).isdisjoint(one.consumers))


def _check(config: TopicConfig) -> None:
    not_removed(config)
    if config.split is not None:
        raise Refused(
            f"topic {config.topic!r} is part of the upgrade of {config.split.app!r}, which says who has what; wait for it, or "
            f"roll it back with `roll-back-upgrade {config.split.app}`"
        )
    if config.frozen:
        raise Refused(f"topic {config.topic!r} is frozen, so no roll back would move anything; unfreeze it first")


def _nothing(topic: str, rebalance: str, then: Mapping[int, str]) -> str:
    if not then:
        return f"nobody owned a partition of topic {topic!r} before rebalance {rebalance}; choose a later rebalance"
    who = shown(sorted(set(then.values())))
    return (
        f"none of the consumers that had topic {topic!r} before rebalance {rebalance} ({who}) may have partitions now; "
        "start one of them, or choose a later rebalance"
    )


def _same(one: Rollback, other: Rollback) -> bool:
    """Return whether both requests have the same effect. Author, reason and time do not matter."""
    return replace(one, by="", why="", at=0.0) == replace(other, by="", why="", at=0.0)


def _priced(c: Coordinator, site: ClusterMoment, topic: str, wanted: Rollback) -> Preview:
    view = site.topics[topic]
    changed = replace(view, config=replace(view.config, rollback=wanted))
    _, outcomes = what_if.replay(replace(site, topics={**site.topics, topic: changed}), c.policy)
    found = next(priced(one, site, earlier_moves(c, topic)) for one in outcomes if one.topic == topic)
    return with_budget(c, site, found)


def roll_back(c: Coordinator, topic: str, rebalance: str, *, for_s: float = 0.0, why: str, actor: Actor) -> Way:
    """Request the assignment before this rebalance. The next plan moves the difference. Repeating changes nothing.

    Raises `NotManaged`, `Malformed` for an unreadable record, and the `Unavailable` kinds. Raises `Refused` if the
    rebalance is unknown, pruned or of another topic, if the topic is frozen or removed, or if no former owner exists.
    """
    by, why = check_words(actor.who or actor.dag_name or actor.kind, "name"), check_words(why, "reason")
    way = preview(c, topic, rebalance, for_s=for_s, by=by, why=why)
    if way.standing or not way.kept:
        return way

    def change(config: TopicConfig) -> TopicConfig:
        _check(config)
        changed = replace(config, rollback=way.wanted)
        size = len(encode_config(changed))
        if size > c.policy.max_write_bytes:
            raise Refused(
                f"the assignment of topic {topic!r} takes {size} bytes, more than the {c.policy.max_write_bytes} that a "
                "write may have; pin the partitions in question instead"
            )
        return changed

    change_config(c, topic, change)
    with about(topic=topic):
        log.info("topic %s is %s", topic, rollback.said(way.wanted))
    return way


def undone(c: Coordinator, topic: str, rebalance: str) -> list[Record]:
    """Return the records since the begin of this rebalance, newest first. Raises `Refused` if a record is missing."""
    found: list[Record] = []
    whole = False
    for record in history.backwards(c, topic):
        if found and found[-1].rebalance == rebalance != record.rebalance:
            return found
        found.append(record)
        whole = record.rebalance == rebalance and rollback.begun(record)
    if whole:
        return found
    if found and found[-1].rebalance == rebalance:
        raise Refused(
            f"the first records of rebalance {rebalance} of topic {topic!r} are pruned; choose a later rebalance"
        )
    raise NotManaged(_unknown(c, topic, rebalance, found))


def _unknown(c: Coordinator, topic: str, rebalance: str, found: list[Record]) -> str:
    for other in history.recorded(c):
        if other != topic and any(one.rebalance == rebalance for one in history.records(c, other, _SEARCHED)):
            return f"rebalance {rebalance} is one of topic {other!r}, not of {topic!r}; name that topic, or another rebalance"
    if not found:
        return f"topic {topic!r} has no history, so there is nothing to go back to; wait for its first plan"
    oldest = found[-1]
    pruned = f": what came before {oldest.rebalance} is pruned" if oldest.sequence > 0 else ""
    return f"the history of topic {topic!r} has no rebalance {rebalance!r}{pruned}; `history {topic}` lists those there are"
