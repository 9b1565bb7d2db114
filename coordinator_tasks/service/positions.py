"""What a person asks of single partitions: a pause, or another position.

A pause is kept in the configuration, and the next plan hands it to the consumers. A reset is written to the topic's node
at once, under the node's next epoch, so that it cannot be performed twice.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from coordinator_tasks.core.errors import LookAgain, Refused
from coordinator_tasks.core.model import Actor, Committed, Explanation, Reason, TopicConfig
from coordinator_tasks.core.names import check_words
from coordinator_tasks.core.partition_text import counted
from coordinator_tasks.service import history, transitions
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.topics import change_config, chosen_partitions, configuration
from coordinator_tasks.service.transitions import Outcome, TopicReport

EARLIEST, LATEST = "earliest", "latest"
MAX_AT_ONCE = 2_000
"""Partitions of one reset: it is one transaction, with the former offset of each partition."""
MAX_TEXT = 40
"""Characters of a position: no offset or time is longer."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RESET = "reset offsets"
_SAYS = "give earliest, latest, an offset, or a time with its zone such as 2026-11-21T08:15:00Z"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shift:
    """One partition: `before` is the committed offset (`None` = none), `target` where it continues."""

    partition: int
    before: int | None
    target: int

    @property
    def text(self) -> str:
        """For a person; it names the former offset, so that the reset can be undone."""
        who = f"partition {self.partition} continues at {self.target}"
        if self.before is None:
            return f"{who}, nothing was committed"
        change = self.target - self.before
        done = "left out" if change > 0 else "read again"
        effect = f"{counted(abs(change), 'offset')} {'is' if abs(change) == 1 else 'are'} {done}"
        return f"{who}, was at {self.before}: {effect if change else 'no change'}"


def preview(c: Coordinator, topic: str, to: str, partitions: Collection[int] = ()) -> tuple[Shift, ...]:
    """What `reset` would do; none = all partitions. Raises `Refused` as `reset` does, `NotManaged`, the `Unavailable` kinds.

    While a partition moves, `reset` raises `LookAgain`; the preview says what it does after the move.
    """
    shifts = _shifts(c, topic, to, partitions)
    report = transitions.preview_seek(c, topic, {one.partition: one.target for one in shifts})
    if report.outcome is Outcome.HELD:
        raise _refused(report)
    return shifts


def _shifts(c: Coordinator, topic: str, to: str, partitions: Collection[int]) -> tuple[Shift, ...]:
    config = configuration(c, topic)
    wanted = chosen_partitions(c, config, partitions)
    committed = c.kafka.committed({config.group_id: {topic: wanted}})[config.group_id]
    if not isinstance(committed, Mapping):
        raise committed
    targets = _targets(c, topic, to, wanted)
    return tuple(Shift(p, _before(committed, topic, p), target) for p, target in sorted(targets.items()))


def reset(
    c: Coordinator, topic: str, to: str, partitions: Collection[int] = (), *, why: str, actor: Actor
) -> tuple[Shift, ...]:
    """Let the owners stop these partitions, commit, and start them again at `to`: `earliest`, `latest`, offset or time.

    Raises what `preview` raises, and `LookAgain` while one of them moves. A task of Airflow resets once, however often it
    is tried, also at the same time: every other try returns nothing.
    """
    by, why = check_words(actor.who or actor.dag or actor.kind, "name"), check_words(why, "reason")
    if _done(c, topic, actor):
        return ()
    shifts = _shifts(c, topic, to, partitions)
    reasons = tuple(Reason(one.text, (one.partition,)) for one in shifts)
    said = f"{RESET} of {counted(len(shifts), 'partition')} to {to} (by {by}{f': {why}' if why else ''})"
    plan = Explanation(RESET, "", said, reasons)
    targets = {one.partition: one.target for one in shifts}
    report = transitions.seek(c, topic, targets, plan, actor, done=lambda: _done(c, topic, actor))
    if report.outcome is Outcome.UNCHANGED:
        return ()
    if report.outcome is Outcome.WAITING:
        raise LookAgain(report.reason)
    if report.outcome is not Outcome.WRITTEN:
        raise _refused(report)
    log.info("topic %s: %s", topic, said)
    return shifts


def _refused(report: TopicReport) -> Refused:
    return Refused(f"the offsets of topic {report.topic!r} cannot be reset: {report.reason}")


def would_pause(c: Coordinator, topic: str, partitions: Collection[int], *, paused: bool) -> tuple[int, ...]:
    """The partitions that `set_paused` would change."""
    config = configuration(c, topic)
    return tuple(p for p in chosen_partitions(c, config, partitions) if (p in config.paused) != paused)


def set_paused(c: Coordinator, topic: str, partitions: Collection[int], *, paused: bool, actor: Actor) -> TopicConfig:
    """Pause partitions, or resume them; none = all. They stay with their owner, which still commits them."""
    wanted = chosen_partitions(c, configuration(c, topic), partitions)

    def change(config: TopicConfig) -> TopicConfig:
        return replace(config, paused=config.paused | set(wanted) if paused else config.paused - set(wanted))

    changed = change_config(c, topic, change)
    log.info("topic %s has %d paused partitions, asked by %s %s", topic, len(changed.paused), actor.kind, actor.who)
    return changed


def _targets(c: Coordinator, topic: str, to: str, partitions: Sequence[int]) -> dict[int, int]:
    if len(partitions) > MAX_AT_ONCE:
        raise Refused(f"{len(partitions)} partitions are too many for one reset; name at most {MAX_AT_ONCE} at once")
    bounds = c.kafka.bounds(topic, partitions)
    text = to.strip().lower()
    if text in (EARLIEST, LATEST):
        return {p: bounds[p][text == LATEST] for p in partitions}
    if text.isascii() and text.isdigit() and len(text) <= MAX_TEXT:
        return {p: _inside(topic, p, int(text), bounds[p]) for p in partitions}
    at = c.kafka.at_times(topic, dict.fromkeys(partitions, _time_ms(to)))
    return {p: at.get(p, bounds[p][1]) for p in partitions}  # no record that late: the end


def _inside(topic: str, partition: int, offset: int, bounds: tuple[int, int]) -> int:
    if not bounds[0] <= offset <= bounds[1]:
        raise Refused(
            f"partition {partition} of topic {topic!r} has offsets {bounds[0]} to {bounds[1]}, and not {offset}; "
            "name one of these, or only the partitions that have it"
        )
    return offset


def _time_ms(text: str) -> int:
    """Milliseconds since 1970. An earlier time is negative, which Kafka takes for `latest` or refuses."""
    shown = repr(text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "...")
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise Refused(f"{shown} is no position; {_SAYS}") from error
    if at.tzinfo is None:
        raise Refused(f"the time {shown} has no zone; {_SAYS}")
    since = at - EPOCH  # exact, and for every year, unlike `timestamp()`
    if since < timedelta(0):
        raise Refused(f"the time {shown} lies before 1970, where Kafka's times begin; give a later one, or earliest")
    return since // timedelta(milliseconds=1)


def _before(committed: Mapping[str, Mapping[int, Committed]], topic: str, partition: int) -> int | None:
    found = committed.get(topic, {}).get(partition)
    return found.offset if found is not None else None


def _done(c: Coordinator, topic: str, actor: Actor) -> bool:
    """Whether another try of this task has done the reset."""
    if actor.kind != "airflow":
        return False
    same = (actor.dag, actor.run, actor.task)
    return any(
        record.plan is not None
        and record.plan.strategy == RESET
        and (record.actor.dag, record.actor.run, record.actor.task) == same
        for record in history.records(c, topic)
    )
