"""What `reconcile` does every minute. Correctness relies on it, since no event is certain to arrive."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from coordinator_plugin.steps import held_up
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import Malformed, NotManaged
from coordinator_tasks.core.model import Actor, State
from coordinator_tasks.core.partition_text import named
from coordinator_tasks.service import fleet, overview, store, transitions, upkeep
from coordinator_tasks.service.coordinator import Coordinator

ASK_AGAIN_S = 900.0
MAX_QUESTIONS = 20


@dataclass(frozen=True, slots=True)
class Question:
    """A topic that has not become Stable for too long, and one consumer that holds it up; none = it is not owned."""

    topic: str
    consumer: str
    sentence: str
    run_id: str

    def plain(self) -> dict[str, Any]:
        """Arguments of the run that asks: only names, since it looks itself what is missing."""
        return {"trigger_run_id": self.run_id, "conf": {"topic": self.topic, "consumer": self.consumer}}


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found: due topics, consumers to launch, questions to people, and lines for the log."""

    due: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    lines: list[str] = field(default_factory=list)


def reconcile(c: Coordinator, actor: Actor) -> Findings:
    """Do the upkeep, and find what is due.

    What one of these cannot read is said, and keeps no other waiting. Raises `StoreUnavailable` and the like.
    """
    managed = transitions.topics(c)
    lines = list(upkeep.upkeep(c, managed, actor))
    due = tuple(transitions.due(c, managed))
    lines.extend(f"{topic} is due" for topic in due)
    missing, said = _missing(c)
    lines.extend(said)
    unowned = overview.unowned(c)
    lines.extend(f"{topic}: nobody owns {named(partitions)}" for topic, partitions in unowned.items())
    found = (*questions(c, due), *questions_of_unowned(c, unowned))
    lines.extend(f"{one.topic} is held up by {one.consumer}: {one.sentence}" for one in found if one.consumer)
    return Findings(due, missing, found[:MAX_QUESTIONS], lines)


def _missing(c: Coordinator) -> tuple[tuple[str, ...], list[str]]:
    """Whom to launch, and what to say of it."""
    problems: list[str] = []
    missing = tuple(launch.consumer for launch in fleet.missing(c, problems))
    return missing, [*problems, *(f"{consumer} is missing" for consumer in missing)]


def questions(c: Coordinator, due: Sequence[str]) -> Iterator[Question]:
    """One for each topic that is stuck and each consumer that holds it up."""
    stuck = _overdue(c, due)
    if not stuck:
        return
    for topic, missing in held_up(c, tuple(stuck)).items():
        for consumer, sentence in missing.items():
            yield Question(topic, consumer, sentence, _run_id(topic, consumer, *stuck[topic]))


def questions_of_unowned(c: Coordinator, unowned: Collection[str]) -> Iterator[Question]:
    """One for each topic that has been Stable for long and has partitions that nobody owns."""
    for topic, overdue in _overdue(c, unowned, stable=True).items():
        yield Question(topic, "", "", _run_id(topic, "", *overdue))


def still_asked(c: Coordinator, topic: str, consumer: str) -> bool:
    """Whether this topic is still to be asked about: it is stuck or, without a consumer, has partitions without an owner.

    Raises `Malformed` and the like where the topic cannot be read: then it is not known.
    """
    return _stuck_since(c, topic) is not None if consumer else bool(unowned_of(c, topic))


def unowned_of(c: Coordinator, topic: str) -> tuple[int, ...]:
    """The topic's partitions that nobody owns; none where it is not managed. Raises `Malformed` and the like."""
    try:
        return overview.unowned_in(store.load(c.zk, c.paths, topic).view)
    except NotManaged:
        return ()


def _overdue(c: Coordinator, topics: Collection[str], *, stable: bool = False) -> dict[str, tuple[str, float]]:
    """`_stuck_since` of each of these topics that is stuck and can be read."""
    found: dict[str, tuple[str, float]] = {}
    for topic in topics:
        with suppress(Malformed):
            if (stuck := _stuck_since(c, topic, stable=stable)) is not None:
                found[topic] = stuck
    return found


def _stuck_since(c: Coordinator, topic: str, *, stable: bool = False) -> tuple[str, float] | None:
    """The rebalance of a topic that is stuck, or `stable` and not owned, and for how long it is overdue (s)."""
    path = c.paths.state(topic)
    node = c.zk.find(path)
    state = codec.decode_state(path, node.data) if node is not None else None
    if state is None or (state.state is State.STABLE) is not stable:
        return None
    began_at = state.since_at if stable else state.began_at or state.since_at
    overdue_s = c.clock.now() - began_at - c.policy.stuck_after_s
    return (state.rebalance, overdue_s) if overdue_s >= 0 else None


def _run_id(topic: str, consumer: str, rebalance: str, overdue_s: float) -> str:
    """The id of a question's run. It stays the same for `ASK_AGAIN_S`, so the question is asked once."""
    digest = hashlib.sha256(f"{topic} {consumer} {rebalance}".encode()).hexdigest()[:8]
    return f"stuck__{topic[:60]}__{consumer}__{digest}__{int(overdue_s // ASK_AGAIN_S)}"


def runs(
    findings: Findings, dag_ids: Mapping[str, str], *, active_rebalances: int, active_launches: int
) -> list[dict[str, Any]]:
    """The runs to start, each as arguments of its trigger. A run that is under way looks itself what is due.

    `dag_ids`: this cluster's DAGs by their plain name.
    """
    found: list[dict[str, Any]] = []
    if findings.due and not active_rebalances:
        found.append({"trigger_dag_id": dag_ids["rebalance"], "trigger_run_id": None, "conf": {}})
    if findings.missing and not active_launches:
        found.append({"trigger_dag_id": dag_ids["consumers"], "trigger_run_id": None, "conf": {}})
    asked = [{"trigger_dag_id": dag_ids["stuck_topic"], **question.plain()} for question in findings.questions]
    return found + asked
