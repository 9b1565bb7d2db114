"""Requests of persons for single partitions: a pause, or another position.

The configuration keeps a pause, and the next plan hands it to the consumers. A reset is written to the topic's node at
once, under the node's next epoch, so that it cannot be performed twice.
"""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from coordinator_tasks.core.errors import BadOffsets, CoordinatorError, KafkaUnavailable, LookAgain, Refused
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, Explanation, Reason, StateOnReset, TopicConfig
from coordinator_tasks.core.names import check_words
from coordinator_tasks.core.ports import committed_of
from coordinator_tasks.core.text.partition_text import agreed, counted, leaderless, named, shown
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.topics import change_config, changeable, chosen_partitions, configuration
from coordinator_tasks.service.offsets.position_rules import Position, PositionKind, before_1970, position
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport

MAX_AT_ONCE = 2_000
"""Maximum partitions of a reset. A reset is one transaction, with the former offset of each partition."""
RESET = "reset offsets"
Place: TypeAlias = str | Position | Mapping[int, int]
"""Target of partitions: one position, also as text, or an offset for each partition."""
_STATES = {StateOnReset.KEEP: "state kept", StateOnReset.RESET: "state reset"}
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shift:
    """The reset of a partition. `before`: the committed offset, if any. `target`: the next offset.

    `asked`: the requested offset if it is outside of the log; then the target is the log's nearest end.
    """

    partition: int
    before: int | None
    target: int
    asked: int | None = None

    @property
    def text(self) -> str:
        """Return the text for a person. It names the former offset, so that the reset can be undone."""
        was = "" if self.before is None else f"was at {self.before}: "
        return f"partition {self.partition} continues at {self.target}, {was}{self.effect}"

    @property
    def would(self) -> str:
        """Return the text for a dry run."""
        return self.text.replace(" continues at ", " would continue at ").replace(self.effect, self.would_effect)

    @property
    def would_effect(self) -> str:
        effect = re.sub(r"\b(is|are) (?=left out|read again)", "would be ", self.effect)
        return effect.replace("no change", "nothing would change")

    @property
    def effect(self) -> str:
        if self.asked is None:
            return self._in_between()
        end = "begins" if self.asked < self.target else "ends"
        return f"{self._in_between()}; {self.asked} was asked for, the log {end} at {self.target}"

    def _in_between(self) -> str:
        if self.before is None:
            return "nothing was committed"
        change = self.target - self.before
        done = "left out" if change > 0 else "read again"
        effect = f"{counted(abs(change), 'offset')} {agreed(abs(change), 'is', 'are')} {done}"
        return effect if change else "no change"


@dataclass(frozen=True, slots=True)
class WantedReset:
    """A reset of a topic. Empty `partitions` mean all, or the partitions named by `place`.

    `state`: what happens to the partitions' state; `None` = as the pipeline declares, refused for partitions with state.
    """

    topic: str
    place: Place
    partitions: tuple[int, ...] = ()
    state: StateOnReset | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """The result for one topic. `shifts` are empty if another try of this task has done the reset."""

    topic: str
    group: str
    shifts: tuple[Shift, ...]


def preview(
    c: Coordinator, topic: str, to: Place, partitions: Collection[int] = (), state: StateOnReset | None = None
) -> tuple[Shift, ...]:
    """Return the shifts that `reset` would make. Empty `partitions` mean all.

    Raises `BadOffsets` as `reset`, `NotManaged`, the `Unavailable` kinds. While a partition moves, `reset` raises
    `LookAgain`, but the preview shows the effect after the move.
    """
    shifts = shifts_to(c, topic, to, partitions)
    report = transitions.preview_seek(c, topic, {one.partition: one.target for one in shifts}, state)
    if report.outcome is TopicOutcome.HELD:
        raise _refused(report)
    return shifts


def preview_all(c: Coordinator, wishes: Collection[WantedReset]) -> list[Reset]:
    """Return the resets of `reset_all`. Raises as `preview`, for the first topic that cannot be reset."""
    found: list[Reset] = []
    for one in wishes:
        group = configuration(c, one.topic).group_id
        found.append(Reset(one.topic, group, preview(c, one.topic, one.place, one.partitions, one.state)))
    return found


def reset_all(c: Coordinator, wishes: Collection[WantedReset], *, why: str, actor: Actor) -> list[Reset]:
    """Check all topics, then reset topic by topic. Raises as `reset`; the text names the finished resets."""
    groups = {one.topic: one.group for one in preview_all(c, wishes)}
    done: list[Reset] = []
    for one in wishes:
        try:
            shifts = reset(c, one.topic, one.place, one.partitions, one.state, why=why, actor=actor)
        except CoordinatorError as error:
            if not done:
                raise
            names = shown(written.topic for written in done)
            raise LookAgain(f"{error}; {names}: done, so ask again without it") from error
        done.append(Reset(one.topic, groups[one.topic], shifts))
    return done


def shifts_to(c: Coordinator, topic: str, to: Place, partitions: Collection[int]) -> tuple[Shift, ...]:
    """Return each partition with committed offset and target. Raises as `preview`."""
    config = configuration(c, topic)
    place = position(to) if isinstance(to, str) else to
    wanted = chosen_partitions(c, config, partitions if isinstance(place, Position) else place.keys(), BadOffsets)
    if len(wanted) > MAX_AT_ONCE:
        raise BadOffsets(f"{len(wanted)} partitions are too many for one reset; name at most {MAX_AT_ONCE} at once")
    answer = c.kafka.committed({config.group_id: {topic: wanted}})[config.group_id]
    committed = committed_of(answer, topic)
    before = {p: committed[p].offset if p in committed else None for p in wanted}
    bounds = c.kafka.bounds(topic, wanted)
    if unled := [p for p in wanted if p not in bounds]:
        raise KafkaUnavailable(f"{leaderless(topic, unled)}, or name other partitions")
    targets = _asked(c, topic, place, before, bounds) if isinstance(place, Position) else place
    return tuple(_inside(p, before[p], targets[p], bounds[p]) for p in wanted)


def _asked(
    c: Coordinator, topic: str, place: Position, before: Mapping[int, int | None], bounds: Mapping[int, tuple[int, int]]
) -> Mapping[int, int]:
    """Return partition → the requested offset, which may be outside of the log."""
    kind, ends = place.kind, {p: bound[1] for p, bound in bounds.items()}
    if kind is PositionKind.EARLIEST:
        return {p: bound[0] for p, bound in bounds.items()}
    if kind is PositionKind.LATEST:
        return ends
    if kind is PositionKind.CURRENT:
        return {p: ends[p] if at is None else at for p, at in before.items()}
    if kind is PositionKind.OFFSET:
        return dict.fromkeys(before, place.number)
    if kind is PositionKind.SHIFT:
        if unknown := [p for p, at in before.items() if at is None]:
            raise BadOffsets(
                f"{named(unknown)} of topic {topic!r} cannot be shifted by {place.text}: nothing is committed; "
                "name the other partitions, or give a position that needs no committed offset"
            )
        return {p: at + place.number for p, at in before.items() if at is not None}
    at_ms = place.number if kind is PositionKind.TIME else int(c.clock.now() * 1000) - place.number
    if at_ms < 0:
        raise before_1970(f"{place.text} before now")
    return ends | dict(c.kafka.at_times(topic, dict.fromkeys(before, at_ms)))  # the end, if no record is that late


def _inside(partition: int, before: int | None, asked: int, bounds: tuple[int, int]) -> Shift:
    """Return the shift to the nearest offset of the log, as in Kafka's tool."""
    target = min(max(asked, bounds[0]), bounds[1])
    return Shift(partition, before, target, asked if asked != target else None)


def reset(
    c: Coordinator,
    topic: str,
    to: Place,
    partitions: Collection[int] = (),
    state: StateOnReset | None = None,
    *,
    why: str,
    actor: Actor,
) -> tuple[Shift, ...]:
    """Let the owners stop these partitions, commit, and start them again at `to`.

    Raises as `preview`, and `LookAgain` while a partition moves. All tries of a task of Airflow, even concurrent tries,
    reset once; every other try returns nothing.
    """
    if done_by(c, topic, actor):
        return ()
    shifts = shifts_to(c, topic, to, partitions)
    done = partial(done_by, c, topic, actor)
    return write_reset(c, topic, shifts, where=_said(to), state=state, why=why, actor=actor, done=done)


def write_reset(
    c: Coordinator,
    topic: str,
    shifts: tuple[Shift, ...],
    *,
    where: str,
    why: str,
    actor: Actor,
    done: Callable[[], bool],
    state: StateOnReset | None = None,
    undoes: str = "",
) -> tuple[Shift, ...]:
    """Write a reset with its record, unless `done`. `where`: the target in the history's text."""
    by, why = check_words(actor.who or actor.dag_name or actor.kind, "name"), check_words(why, "reason")
    reasons = tuple(Reason(one.text, (one.partition,)) for one in shifts)
    where = f"{where}, {_STATES[state]}" if state is not None else where
    said = f"{RESET} of {counted(len(shifts), 'partition')} {where} (by {by}{f': {why}' if why else ''})"
    was_at = {one.partition: one.before for one in shifts if one.before is not None}
    plan = Explanation(RESET, configuration(c, topic).topic_id, said, reasons, was_at=was_at, undoes=undoes)
    targets = {one.partition: one.target for one in shifts}
    report = transitions.seek(c, topic, targets, plan, actor, done=done, state=state)
    if report.outcome is TopicOutcome.UNCHANGED:
        return ()
    if report.outcome is TopicOutcome.WAITING:
        raise LookAgain(report.reason)
    if report.outcome is not TopicOutcome.WRITTEN:
        raise _refused(report)
    with about(**report.fields):
        log.info("topic %s: %s", topic, said)
    return shifts


def _said(to: Place) -> str:
    if isinstance(to, Mapping):
        return "to given offsets"
    return f"to {to}" if isinstance(to, str) else f"to {to.text}"


def _refused(report: TopicReport) -> Refused:
    return BadOffsets(f"the offsets of topic {report.topic!r} cannot be reset: {report.reason}")


def would_pause(c: Coordinator, topic: str, partitions: Collection[int], *, paused: bool) -> tuple[int, ...]:
    """Return the partitions changed by `set_paused`, or raise the same errors."""
    config = changeable(c, topic)
    return tuple(p for p in chosen_partitions(c, config, partitions) if (p in config.paused) != paused)


def set_paused(c: Coordinator, topic: str, partitions: Collection[int], *, paused: bool, actor: Actor) -> TopicConfig:
    """Pause or resume partitions; empty means all. The partitions stay with the owner, which continues to commit
    offsets.

    Raises `NotManaged`, and `Refused` for missing partitions and for a removed topic.
    """
    wanted = chosen_partitions(c, configuration(c, topic), partitions)

    def change(config: TopicConfig) -> TopicConfig:
        return replace(config, paused=config.paused | set(wanted) if paused else config.paused - set(wanted))

    changed = change_config(c, topic, change)
    with about(topic=topic):
        has = counted(len(changed.paused), "paused partition")
        log.info("topic %s has %s, asked by %s %s", topic, has, actor.kind, actor.who)
    return changed


def done_by(c: Coordinator, topic: str, actor: Actor) -> bool:
    """Return whether another try of this task has done the reset."""
    if actor.kind != "airflow":
        return False
    same = (actor.dag, actor.run, actor.task)
    return any(
        record.plan is not None
        and record.plan.strategy == RESET
        and (record.actor.dag, record.actor.run, record.actor.task) == same
        for record in history.records(c, topic)
    )
