"""Topics that need a person: stuck, without an owner, flapping or disputed; and when to ask.

The first question comes after `policy.stuck_after_s`. A topic flaps if it has `FLAPS` unrequested rebalances within
`policy.flap_window_s`.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, TypeVar

from coordinator_plugin.steps import held_up
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import UNREADABLE, NotManaged
from coordinator_tasks.core.machine.audit import Finding, FindingKind
from coordinator_tasks.core.model import State
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.core.protocol.znodes import find_many
from coordinator_tasks.core.text.partition_text import by_reason, joined, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, store
from coordinator_tasks.service.watch import audit, overview
from coordinator_tasks.service.watch.audit import Audit

ASK_AGAIN_S = 900.0
MAX_QUESTIONS = 20
GRAVEST = MAX_QUESTIONS // 2
"""Number of questions that are reserved for the most severe problems."""
FLAPS = 6
Q = TypeVar("Q")


@dataclass(frozen=True, slots=True)
class StuckTopic:
    """A topic that has not been Stable for too long, and a consumer that holds it up.

    `consumer` is empty if partitions have no owner or the topic flaps. `audit`: two consumers have the same partition,
    or a consumer commits for a partition of another.
    """

    topic: str
    consumer: str
    sentence: str
    run_id: str
    audit: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the arguments of the run that asks: only names, because the run reads the facts itself."""
        about = {"audit": True} if self.audit else {}
        return {"trigger_run_id": self.run_id, "conf": {"topic": self.topic, "consumer": self.consumer, **about}}


def questions(c: Coordinator, due: Sequence[str]) -> Iterator[StuckTopic]:
    """Yield a question for each stuck topic and each consumer that holds it up."""
    stuck = _overdue(c, due)
    if not stuck:
        return
    for topic, missing in held_up(c, tuple(stuck)).items():
        for consumer, sentence in missing.items():
            yield StuckTopic(topic, consumer, sentence, _run_id(topic, consumer, *stuck[topic]))


def questions_of_unowned(c: Coordinator, unowned: Collection[str]) -> Iterator[StuckTopic]:
    """Yield a question for each topic that is Stable, but has had partitions without an owner for too long."""
    for topic, overdue in _overdue(c, unowned, stable=True).items():
        yield StuckTopic(topic, "", "", _run_id(topic, "", *overdue))


def questions_of_audit(c: Coordinator, found: Audit) -> Iterator[StuckTopic]:
    """Yield a question for each topic with an alarm of the ownership audit, the worst kind first.

    Partitions without an owner have questions of their own. Only a new kind of alarm or a new culprit makes a new
    question, because the partitions and epochs of a consumer that commits repeatedly change from minute to minute.
    """
    told: dict[str, list[Finding]] = {}
    for one in sorted(disputes(found), key=lambda one: one.code):
        told.setdefault(one.topic, []).append(one)
    for topic, disputed in told.items():
        about = sorted({f"{one.code} {one.who}" for one in disputed})
        digest = hashlib.sha256("\n".join([topic, *about]).encode()).hexdigest()[:8]
        run_id = f"audit__{topic[:60]}__{digest}__{int(c.clock.now() // ASK_AGAIN_S)}"
        yield StuckTopic(topic, "", joined(one.told for one in disputed), run_id, audit=True)


def disputes(found: Audit) -> list[Finding]:
    """Return the alarms about partitions whose holder or committer contradicts ZooKeeper."""
    return [one for one in found.alarms if one.code != FindingKind.NO_OWNER]


def questions_of_flapping(c: Coordinator, topics: Collection[str]) -> Iterator[StuckTopic]:
    """Yield a question for each flapping topic."""
    for topic, sentence in flapping(c, topics).items():
        yield StuckTopic(topic, "", sentence, _run_id(topic, "", "flaps", c.clock.now()))


def in_turn(found: Sequence[Q], now: float) -> tuple[Q, ...]:
    """Return at most `MAX_QUESTIONS`, the most severe first. The other places rotate, so that every question comes."""
    gravest, others = found[:GRAVEST], found[GRAVEST:]
    most = MAX_QUESTIONS - GRAVEST
    begin = int(now // ASK_AGAIN_S) * most % len(others) if len(others) > most else 0
    return (*gravest, *(*others[begin:], *others[:begin])[:most])


def flapping(c: Coordinator, topics: Collection[str]) -> dict[str, str]:
    """Return flapping topic → sentence about its last rebalances. Unreadable topics are left out.

    Rebalances that a person or a policy requested do not count: drains, redeployments, upgrades, planned restarts,
    growth.
    """
    since = c.clock.now() - c.policy.flap_window_s
    found: dict[str, str] = {}
    for topic, node in find_many(
        c.zk, {topic: c.paths.state(topic) for topic in topics if is_topic(topic)}, {}
    ).items():
        with suppress(*UNREADABLE):
            if codec.decode_state(c.paths.state(topic), node.data).since_at < since:
                continue
            all_recent = takewhile(lambda one: one.began_at >= since, history.newest(c, topic))
            recent = [*islice((one for one in all_recent if one.unasked), FLAPS)]
            if len(recent) == FLAPS:
                minutes = c.policy.flap_window_s / 60
                found[topic] = (
                    f"{FLAPS} rebalances within {minutes:g} minutes that nobody asked for; the cause of the last: {recent[0].cause}"
                )
    return found


def sentences(c: Coordinator) -> Iterator[str]:
    """Yield a line, with the reason, for each topic that is unreadable, stuck, flapping, disputed or partly unowned."""
    found = overview.topics(c)
    for topic, sentence in flapping(c, [one.topic for one in found]).items():
        yield f"{topic} flaps: {sentence}"
    stuck = _overdue(c, [one.topic for one in found])
    for one in found:
        if one.problem:
            yield f"{one.topic} cannot be read: {one.problem}"
        elif one.topic in stuck:
            held = f" [waits for {shown(one.blockers)}]" if one.blockers else ""
            yield f"{one.topic} is stuck in {one.state}: {one.reason}{held}"
        elif one.unowned:
            yield from (f"nobody reads {said} of {one.topic}: {why}" for why, said in by_reason(one.unread))
    yield from (one.told for one in disputes(audit.audit(c, always=False)))


def still_asked(c: Coordinator, topic: str, consumer: str) -> bool:
    """Return whether the topic is still stuck. With an empty `consumer`: whether it flaps or lacks an owner.

    Raises `Malformed` and other errors if the topic cannot be read.
    """
    if consumer:
        return _stuck_since(c, topic) is not None
    return bool(unowned_of(c, topic) or flapping(c, [topic]))


def unowned_of(c: Coordinator, topic: str) -> Mapping[int, str]:
    """Return partition → reason for the topic's partitions that nobody reads; empty for an unmanaged topic.

    Raises `Malformed` and other errors if the topic cannot be read.
    """
    try:
        store.load(c.zk, c.paths, topic)
    except NotManaged:
        return {}
    return overview.unowned(c).get(topic, {})


def _overdue(c: Coordinator, topics: Collection[str], *, stable: bool = False) -> dict[str, tuple[str, float]]:
    """Return topic → result of `_stuck_since` for topics that are stuck, without unreadable topics."""
    found: dict[str, tuple[str, float]] = {}
    for topic in filter(is_topic, topics):
        with suppress(*UNREADABLE):
            if (stuck := _stuck_since(c, topic, stable=stable)) is not None:
                found[topic] = stuck
    return found


def _stuck_since(c: Coordinator, topic: str, *, stable: bool = False) -> tuple[str, float] | None:
    """Return rebalance id and seconds overdue of a topic not Stable (`stable`: Stable) for too long; else `None`."""
    path = c.paths.state(topic)
    node = c.zk.find(path)
    state = codec.decode_state(path, node.data) if node is not None else None
    if state is None or (state.state is State.STABLE) is not stable:
        return None
    began_at = state.since_at if stable else state.began_at or state.since_at
    overdue_s = c.clock.now() - began_at - c.policy.stuck_after_s
    return (state.rebalance, overdue_s) if overdue_s >= 0 else None


def _run_id(topic: str, consumer: str, rebalance: str, overdue_s: float) -> str:
    """Return the id of a question's run.

    The id is the same for `ASK_AGAIN_S`, so the question comes once in this time.
    """
    digest = hashlib.sha256(f"{topic} {consumer} {rebalance}".encode()).hexdigest()[:8]
    return f"stuck__{topic[:60]}__{consumer}__{digest}__{int(overdue_s // ASK_AGAIN_S)}"
