"""The effects of a change: the moves, and for each move the reason, the backlog and the pause.

The planner itself computes the moves, with consumers that confirm every step at once. Writes nothing.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from coordinator_tasks.core.machine import causes, what_if
from coordinator_tasks.core.machine.draft import draft_of
from coordinator_tasks.core.machine.what_if import ClusterMoment, PredictedTopic, SiteChange
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.budget import counted_moves, why_over
from coordinator_tasks.core.measure.pause_prediction import MIN_MOVES, PastMove, Prediction, predict
from coordinator_tasks.core.model import Move, MoveKind
from coordinator_tasks.core.text.move_ways import HOW, way
from coordinator_tasks.core.text.partition_text import counted, named, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.store import not_managed
from coordinator_tasks.service.plan import operations_under_way
from coordinator_tasks.service.plan.approvals import earlier_moves, ending
from coordinator_tasks.service.plan.cluster_view import site_of

SHOWN_MOVES = 200  # moves of a topic in a text; a program gets all moves


@dataclass(frozen=True, slots=True)
class PricedMove:
    """A move and its cost. `backlog`: the partition's unread records. `pause`: predicted; `None` if unknown."""

    partition: int
    giver: str
    taker: str
    kind: MoveKind
    reason: str
    backlog: int | None = None
    pause: Prediction | None = None

    @property
    def text(self) -> str:
        behind = "unknown backlog" if self.backlog is None else f"{counted(self.backlog, 'record')} behind"
        return f"partition {self.partition} {way(self.giver, self.taker, self.kind, 1)}: {behind}, {self.pause_text}"

    @property
    def pause_text(self) -> str:
        if self.kind is MoveKind.STOP:
            return "nobody reads on"
        if self.pause is None:
            return "pause unknown"
        return f"roughly {self.pause.text}" if self.pause.rough else self.pause.text


@dataclass(frozen=True, slots=True)
class Preview:
    """The preview of a topic. `counts`: consumer → future number of partitions.

    - `waits`: why the topic does not become Stable; empty if Stable.
    - `frozen`: owned partitions stay.
    - `over`: how the plan exceeds the budget.
    - `learned_from`: number of earlier moves with a known pause.
    - `problem`: why the topic is left out.
    - `kept`: leaving consumers that keep partitions, and why; empty if there are none.
    """

    topic: str
    moves: tuple[PricedMove, ...] = ()
    counts: Mapping[str, int] | None = None
    unowned: tuple[int, ...] = ()
    summary: str = ""
    waits: str = ""
    frozen: bool = False
    learned_from: int = 0
    problem: str = ""
    over: tuple[str, ...] = ()
    kept: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the text: a line for each move, then the reasons."""
        if self.problem:
            return (f"{self.topic}: left out: {self.problem}",)
        then = shown(f"{consumer} {count}" for consumer, count in (self.counts or {}).items()) or "nobody has any"
        lines = [f"{self.topic}: {self._moved}; then {then}"]
        if self.frozen:
            lines.append(f"{self.topic}:   it is frozen: what has an owner stays there until somebody unfreezes it")
        if self.over:
            lines.append(f"{self.topic}:   it exceeds the budget, so it waits for approval: {'; '.join(self.over)}")
        lines += [f"{self.topic}:   {one.text}" for one in self.moves[:SHOWN_MOVES]]
        if len(self.moves) > SHOWN_MOVES:
            lines.append(f"{self.topic}:   and {counted(len(self.moves) - SHOWN_MOVES, 'more move')}; --json gives all")
        if any(one.kind is not MoveKind.STOP for one in self.moves):
            lines.append(f"{self.topic}:   {self._learned}")
        lines += [f"{self.topic}:   why {named(which)}: {text}" for text, which in _reasons(self.moves).items()]
        lines += [f"{self.topic}:   {named(self.unowned)} would have no owner"] if self.unowned else []
        lines += [f"{self.topic}:   {self.kept}"] if self.kept else []
        lines += [f"{self.topic}:   it would wait: {self.waits}"] if self.waits else []
        return tuple(lines)

    @property
    def _moved(self) -> str:
        """Return the number of partitions that move, and of partitions that get their first owner."""
        begun = sum(1 for one in self.moves if not one.giver)
        moved = len(self.moves) - begun
        parts = [f"{counted(moved, 'partition')} would move"] if moved or not begun else []
        parts += [f"{counted(begun, 'partition')} would start"] if begun else []
        return " and ".join(parts).replace("0 partitions would move", "no partition would move")

    @property
    def _learned(self) -> str:
        measured = f"{counted(self.learned_from, 'measured move')} of this topic" if self.learned_from else "none"
        moving = [one.pause for one in self.moves if one.kind is not MoveKind.STOP]
        if any(one is None for one in moving):
            return (
                f"a pause is predicted from measured moves of the same kind; the history of this topic has {measured}"
            )
        if any(one is not None and one.rough for one in moving):
            return (
                f"roughly: the median of {measured}, with a wide range; from {MIN_MOVES} of the same kind on, the range holds "
                "four of five pauses"
            )
        return f"pauses: the median of {measured}, and the range that holds four of five of them"

    @property
    def pauses(self) -> tuple[str, ...]:
        """Return the predicted pause of each kind of move. Moves of the same kind have the same prediction."""
        found = {one.kind: one.pause_text for one in self.moves}
        numbers = Counter(one.kind for one in self.moves)
        return tuple(f"{counted(numbers[kind], 'move')} by {HOW[kind][0]}: {text}" for kind, text in found.items())


def _reasons(moves: Iterable[PricedMove]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in moves:
        found.setdefault(one.reason, []).append(one.partition)
    return found


def priced(outcome: PredictedTopic, site: ClusterMoment, past: Collection[PastMove]) -> Preview:
    """Return the preview of a topic, with the cost of each move. `past`: earlier moves, newest first."""
    topic = site.topics[outcome.topic]
    known = what_if.loads(site.world.answers, topic)
    pauses = {kind: predict(past, kind) for kind in {one.kind for one in outcome.moves}}
    moves = list[PricedMove]()
    for one in outcome.moves:
        backlog = known[one.partition].lag_records if one.partition in known else None
        pause = pauses[one.kind] if one.giver and one.taker else None
        moves.append(PricedMove(one.partition, one.giver, one.taker, one.kind, one.reason, backlog, pause))
    frozen = topic.config.frozen and not topic.config.removed
    facts = outcome.counts, outcome.unowned, outcome.summary, outcome.waits
    return Preview(outcome.topic, tuple(moves), *facts, frozen, len(past))


def previewed(
    site: ClusterMoment,
    change: SiteChange,
    policy: Policy,
    past: Mapping[str, Collection[PastMove]],
    topics: Collection[str] = (),
) -> tuple[ClusterMoment, tuple[Preview, ...]]:
    """Return the cluster after the change, and the previews of these topics (all if empty). Raises `Refused`."""
    after, wanted = _replayed(site, change, policy, topics)
    return after, tuple(_with_kept(after, priced(one, site, past.get(one.topic, ()))) for one in wanted)


def _with_kept(after: ClusterMoment, found: Preview) -> Preview:
    """Return the preview with the leaving consumers that keep partitions in the end.

    While the topic waits, such a consumer may still leave, so none is listed.
    """
    if found.waits:
        return found
    view, world = after.topics[found.topic], what_if.world_of(after, found.topic)
    return replace(found, kept=causes.undrained(view, world, draft_of(view, "")))


def _replayed(
    site: ClusterMoment, change: SiteChange, policy: Policy, topics: Collection[str]
) -> tuple[ClusterMoment, list[PredictedTopic]]:
    changed = what_if.changed(site, change, policy.strategies, tuple(topics))
    after, outcomes = what_if.replay(changed, policy)
    return after, [one for one in outcomes if not topics or one.topic in topics]


def preview(c: Coordinator, change: SiteChange, topics: Collection[str] = ()) -> tuple[Preview, ...]:
    """Return the moves of these topics (all if empty) that this change causes in the present state.

    Raises `NotManaged`, `Refused` for an impossible change, and the `Unavailable` kinds.
    """
    site, left_out = site_of(c)
    for topic in topics:
        if topic not in site.topics and topic not in left_out:
            raise not_managed(c.zk, c.paths, topic)
    chosen = [topic for topic in topics if topic in site.topics]
    problems = tuple(Preview(t, problem=why) for t, why in left_out.items() if not topics or t in topics)
    if topics and not chosen:
        return problems
    after, wanted = _replayed(site, change, c.policy, chosen)
    # Read no history for a topic without moves: a cluster may have hundreds of topics.
    found = [priced(one, site, earlier_moves(c, one.topic) if one.moves else ()) for one in wanted]
    return (*(with_budget(c, site, _with_kept(after, one)) for one in found), *problems)


def with_budget(c: Coordinator, site: ClusterMoment, found: Preview) -> Preview:
    """Return the preview with how the plan exceeds the budget. Raises the `Unavailable` kinds."""
    moves = [Move(one.partition, one.giver, one.taker, one.kind) for one in found.moves]
    moves = counted_moves(moves, ending(site.world))
    partitions = sum((found.counts or {}).values()) + len(found.unowned)
    over = why_over(c.budget, moves, partitions, {one.kind: one.pause for one in found.moves}, site.world.now)
    if not over or operations_under_way.is_step(c, site.topics[found.topic], site.world, moves):
        return found
    return replace(found, over=over)
