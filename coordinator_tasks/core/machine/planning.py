"""From a strategy's answer to moves: a placement of unowned partitions, or a new plan for all partitions."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator_tasks.core.assignors import Assignor, Explaining, Measuring, Problem, Sharing, assignor
from coordinator_tasks.core.assignors.explain import RolledBack, SolvedProblem, explained, shortened
from coordinator_tasks.core.assignors.weights import PARAMETER, Measure, measured
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine import packing, restarts, rollback
from coordinator_tasks.core.machine.churn import why_flaps
from coordinator_tasks.core.machine.draft import Draft
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.machine.packing import ENTRY_BYTES
from coordinator_tasks.core.machine.presence import presence
from coordinator_tasks.core.machine.question import PlanQuestion, SharedAnswer
from coordinator_tasks.core.machine.split import kept, sides
from coordinator_tasks.core.machine.world import Policy, Presence, TopicView, World
from coordinator_tasks.core.model import Explanation, Reason
from coordinator_tasks.core.names import MAX_ID_BYTES

# Bytes of JSON, for partition numbers of five digits and epochs of up to seven digits.
_START_BYTES = 30  # a partition in flight in the state and the record
_HANDOFF_BYTES = 80  # a hand-off in node, state and record, plus the two ids
_CONSUMER_BYTES = 60  # a consumer in the node's incarnations, the state's targets and lists, plus its id in each
_CONSUMER_LISTS = 7


class Planning:
    """The strategy's answer for a draft, and the resulting moves.

    `able`: consumer → incarnation of consumers that may get partitions now.
    """

    def __init__(self, draft: Draft, view: TopicView, world: World, policy: Policy, able: Mapping[str, int]) -> None:
        self.draft, self.view, self.world, self.policy, self.able = draft, view, world, policy, able
        self._targets = draft.targets(view.partitions)
        self._pins = {p: c for p, c in view.config.pins.items() if c in able}
        placed = rollback.placed(view.config, able, world.now)
        wish, split = view.config.rollback, view.config.split
        backs = restarts.returning(view.topic, able, draft.former, set(view.partitions), world)
        self._backs = tuple(backs if split is None else (replace(one, owners=kept(split, one.owners)) for one in backs))
        self._placed = {p: c for one in self._backs for p, c in one.owners.items()} | placed
        if wish is not None:
            self._backs = (RolledBack(placed, rollback.said(wish)), *self._backs)
        self._longest = max((len(c) for c in able), default=MAX_ID_BYTES)

    def placement(self) -> PlanQuestion | None:
        """Return the question for partitions without a target; `None` if there is nothing to place."""
        draft, able, fixed = self.draft, self.able, self._targets
        homeless = {p for p in self.view.partitions if p not in fixed}
        if self.view.config.removed or not able or not homeless:
            return None
        pins = {p: c for p, c in (self._placed | self._pins).items() if p in homeless}
        return self._question({p: c for p, c in draft.former.items() if c in able}, fixed | pins)

    def place(self) -> None:
        """Give every partition without a target to an `able` consumer, if there is any. Move no other partition."""
        question = self.placement()
        if question is None:
            return
        homeless = [p for p in self.view.partitions if p not in self._targets]
        asked = self._ask(question, {**self.draft.former, **self._targets})
        spare = self._spare()
        for partition in homeless[: self._room(spare, _START_BYTES)]:
            if partition in asked.answer:
                self._move(partition, asked.answer[partition])
        self._explain(asked, self._reasons_of(spare), homeless)

    def rebalancing(self) -> PlanQuestion:
        """Return the question for all partitions that may move."""
        return self._question({p: c for p, c in self.draft.assignments.items() if c in self.able}, self._fixed())

    def rebalance(self) -> bool:
        """Move partitions to the strategy's targets. Return False if some moves have to wait for a further plan.

        Partitions in flight stay unless their taker is draining. An absent owner keeps its partitions until its end is
        proven. An owner under a planned restart keeps its partitions until the owner is back.
        """
        if self.view.config.removed or self.view.config.frozen:
            return True
        if not self.able:
            self._stop_leaving()
            return True
        flight = self._flight()
        asked = self._ask(self.rebalancing(), self._targets)
        answer = asked.answer
        wanted = [p for p in self.view.partitions if p in answer and answer[p] != self._targets.get(p)]
        spare = self._spare()
        room = self._room(spare, _HANDOFF_BYTES + 2 * self._longest)
        for partition in wanted[:room]:
            self._move(partition, answer[partition])
        self._explain(asked, self._reasons_of(spare))
        return not flight and len(wanted) <= room

    def why(self) -> Explanation:
        """Return why every partition is at its owner, and how the strategy would move partitions now. Change nothing."""
        return explained(self._ask(self.rebalancing(), self._targets))

    def _move(self, partition: int, taker: str) -> None:
        self.draft.move(partition, taker)
        self.draft.incarnations[taker] = self.able[taker]

    def _question(self, owned: Mapping[int, str], fixed: Mapping[int, str]) -> PlanQuestion:
        """Return the question for the strategy. Raises `Refused`."""
        view, world, able, config = self.view, self.world, self.able, self.view.config
        listed = set(view.partitions)
        strategy = assignor(config.strategy, self.policy.strategies.known)
        measure = _measure(view, strategy)
        paused = view.node.paused if view.node is not None else ()
        weights = measured(
            view.topic, measure, view.partitions, owned, world.answers, world.totals, world.loads, paused=paused
        )
        on_its_side = kept(config.split, owned)
        problem = Problem(
            view.topic,
            view.partitions,
            {c: world.members[c] for c in able},
            owned,
            {p: c for p, c in (on_its_side | dict(fixed)).items() if p in listed},
            world.loads,
            config.parameters,
            weights.partitions,
            {c: weights.carried.get(c, 0.0) for c in able},
            view.description.racks if view.description is not None else {},
        )
        parts = sides(config.split, view.partitions, able)
        of_sides = tuple(_of_side(problem, frozenset(partitions), members) for partitions, members in parts)
        return PlanQuestion(config.strategy, strategy, problem, of_sides, frozenset(on_its_side.keys() - fixed.keys()))

    def _ask(self, question: PlanQuestion, holders: Mapping[int, str]) -> SolvedProblem:
        """Return the strategy's answer, checked. Raises `Refused`."""
        together = self.world.together
        shared = together.answer(question) if together is not None else None
        if shared is None:
            shared = SharedAnswer(question, question.answered())
        question, strategy = shared.question, shared.question.strategy
        lost = set(holders.values()) - self.able.keys() & self.world.members.keys()
        return SolvedProblem(
            question.name,
            question.problem,
            shared.answer,
            holders,
            self._pins,
            strategy.explainer if isinstance(strategy, Explaining) else None,
            self._backs,
            self.view.config.split,
            question.kept,
            {c: why for c in lost if (why := why_flaps(c, self.world, self.policy))},
            shared.before,
            shared.after,
            shared.inputs,
        )

    def _explain(self, asked: SolvedProblem, limit_bytes: int, only: Collection[int] | None = None) -> None:
        """Keep the strategy's reasons for its moves, at most `limit_bytes`. `only`: for these partitions alone."""
        draft = self.draft
        if not draft.moves:
            return
        moved = {move.partition for move in draft.moves}
        whole = explained(asked, only)
        split = [(one.text, [p for p in one.partitions if p in moved], one.partitions) for one in whole.moves]
        later = [(text, tuple(p for p in planned if p not in moved)) for text, _, planned in split]
        full = "moves in a further plan, as this one is full"
        draft.explanation = replace(
            whole,
            moves=tuple(Reason(text, tuple(now)) for text, now, _ in split if now),
            stays=(*whole.stays, *(Reason(f"{full}: {text}", left) for text, left in later if left)),
        )
        draft.kept = shortened(draft.explanation, limit_bytes)

    def _flight(self) -> set[int]:
        flight = self.draft.in_flight()
        takers = self.draft.targets(flight)
        draining = {c for c in set(takers.values()) if self._life(c).draining is not None}
        return {p for p in flight if takers.get(p) not in draining}

    def _fixed(self) -> dict[int, str]:
        """Return partition → owner for partitions that must stay: paused, pinned, in flight, or of an absent owner."""
        fixed = self._paused() | self._placed | self._pins
        staying = {c for c in set(self.draft.assignments.values()) if not self._movable(c)}
        if staying:
            fixed |= {p: c for p, c in self.draft.assignments.items() if c in staying}
        return fixed | self.draft.targets(self._flight())

    def _paused(self) -> dict[int, str]:
        """Return paused partitions with their owners. A move of an idle partition would help no consumer."""
        config = self.view.config
        if config.split is not None or not shares(self.view, self.policy):
            return {}
        return {p: c for p, c in self.draft.assignments.items() if p in config.paused and c in self.able}

    def _movable(self, consumer: str) -> bool:
        life = self._life(consumer)
        return presence(consumer, life.incarnation, self.world, self.policy) is Presence.LIVE and not life.kept_until

    def _life(self, consumer: str) -> Life:
        return self.world.life(consumer, self.draft.incarnations.get(consumer, 0))

    def _stop_leaving(self) -> None:
        """Let a consumer close its partitions if it was asked to end and no consumer can take over.

        If another consumer is absent and may come back, the partitions wait. A draining consumer keeps its partitions.
        """
        absent = [c for c in self.draft.holders() if not self._movable(c)]
        if any(self._life(c).draining is None for c in absent):
            return
        for partition, taker in self.draft.targets(self.view.partitions).items():
            if self._life(taker).leaving:
                self.draft.stop(partition)

    def _spare(self) -> int:
        """Return how many bytes of the transaction are left for moves and reasons."""
        over = packing.pack_over(self.view, self.world, self.draft, self.policy)
        taken = packing.assigned_bytes(len(self.view.partitions), self._longest, self.able, over)
        taken += len(self.draft.in_flight()) * _START_BYTES
        taken += len(self.draft.handoff) * (_HANDOFF_BYTES + 2 * self._longest)
        if self.view.config.rollback is not None:  # a plan that ends the roll back also writes the configuration
            taken += len(self.view.config.pins) * (self._longest + ENTRY_BYTES)
        taken += len(self.able) * (_CONSUMER_LISTS * self._longest + _CONSUMER_BYTES)
        return self.policy.max_write_bytes - taken

    def _reasons_of(self, spare: int) -> int:
        """Return how many of the `spare` bytes the reasons may take; 0 if the moves hardly fit."""
        return max(0, min(self.policy.max_write_bytes // 50, spare - self.policy.max_write_bytes // 10))

    def _room(self, spare: int, each: int) -> int:
        """Return how many more moves of `each` bytes fit in the transaction: at least 1, unless moves are in flight."""
        return max(0 if self.draft.in_flight() else 1, (spare - self._reasons_of(spare)) // each)


def stop_vanished(draft: Draft, view: TopicView) -> None:
    """Close partitions that neither ZooKeeper nor Kafka lists: the topic was recreated with fewer partitions."""
    if view.description is None or view.config.removed or view.config.frozen:
        return
    known = range(max([view.description.partition_count - 1, *view.partitions], default=-1) + 1)
    for partition in sorted((draft.assignments.keys() | draft.handoff.keys() | draft.to_start.keys()) - set(known)):
        draft.stop(partition)


def finish(draft: Draft) -> None:
    """Stop every partition of a removed topic."""
    for partition in sorted(draft.assignments.keys() | draft.handoff.keys() | draft.in_flight()):
        draft.stop(partition)


def shares(view: TopicView, policy: Policy) -> bool:
    """Return whether the topic's strategy plans all topics of the strategy jointly."""
    return isinstance(assignor(view.config.strategy, policy.strategies.known), Sharing)


def patience_s(view: TopicView, policy: Policy) -> float | None:
    """Return how long the topic must be Stable before changed loads alone cause a plan; `None` if loads never do."""
    strategy: object = assignor(view.config.strategy, policy.strategies.known)
    return strategy.patience_s(view.config.parameters) if isinstance(strategy, Measuring) else None


def _of_side(whole: Problem, partitions: Collection[int], members: Mapping[str, int]) -> Problem:
    """Return the problem restricted to these partitions and members."""
    if len(members) == len(whole.members):
        return whole
    return replace(
        whole,
        partitions=tuple(p for p in whole.partitions if p in partitions),
        members={c: whole.members[c] for c in members},
        owned={p: c for p, c in whole.owned.items() if p in partitions and c in members},
        fixed={p: c for p, c in whole.fixed.items() if p in partitions},
        weights={p: weight for p, weight in whole.weights.items() if p in partitions},
        carried={c: whole.carried[c] for c in members},
    )


def _measure(view: TopicView, strategy: Assignor) -> Measure:
    if isinstance(strategy, Measuring):
        return strategy.measure(view.config.parameters)
    named = view.config.parameters.get(PARAMETER, Measure.PARTITIONS)
    try:
        return Measure(named)
    except ValueError:
        known = ", ".join(Measure)
        raise Refused(f"parameter 'measure' of topic {view.topic} is {named!r}; choose one of {known}") from None
