"""The joint plan of all topics. The stored nodes and observations are the same as for the decision on each topic.

The plan is not stored. If a run ends after some topics were written, the next run computes the remainder of the same
plan, because partitions in flight count at their takers.

- A topic without a question counts as fixed load: the topic is frozen, held, in flight, waiting for stable membership,
  or has no movable partitions. In a topic with a question, each unmovable partition counts as fixed load.
- Strategies for a single topic answer first. Strategies that share by number (`Sharing`) then answer jointly, and take
  the load of the first answers into account. Strategies that measure (`Measuring`) answer last, in the order of topic
  names. Each sees only earlier answers, so two strategies cannot chase each other.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum

from coordinator_tasks.core.assignors import Measuring, Sharing
from coordinator_tasks.core.assignors.weights import Measure, measured
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine import machine
from coordinator_tasks.core.machine.question import PlanQuestion, SharedAnswer
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import State


@dataclass(slots=True)
class _Part:
    """A topic whose partitions stay. `held`: partition → owner or taker. `measures`: its strategy measures loads."""

    view: TopicView
    held: Mapping[int, str]
    measures: bool

    @property
    def then(self) -> Mapping[int, str]:
        """Return partition → owner after the plan."""
        return self.held


@dataclass(slots=True)
class _Asking(_Part):
    """A topic with a question, and the answer or the refusal."""

    question: PlanQuestion
    answer: Mapping[int, str] | None = None
    error: Refused | None = None

    @property
    def then(self) -> Mapping[int, str]:
        return self.answer if self.answer is not None else self.held

    @property
    def shares(self) -> bool:
        return isinstance(self.question.strategy, Sharing)

    @property
    def measure(self) -> Measure:
        strategy = self.question.strategy
        return strategy.measure(self.view.config.parameters) if isinstance(strategy, Measuring) else Measure.PARTITIONS

    def keep(self, answers: list[Mapping[int, str]] | None = None) -> None:
        """Keep these answers, or with `None` the strategy's own answer. A refusal is kept too, and holds the topic."""
        try:
            self.answer = self.question.answered() if answers is None else self.question.checked(answers)
        except Refused as error:
            self.error = error


class TogetherPlan:
    """The plan of all topics; computed when the first topic asks.

    - `views`: all readable topics.
    - `world_of`: the world for one topic; may raise `Refused`.
    - `members`: the registered consumers.
    - `elsewhere`: member → partitions of unreadable topics.
    - `always`: topics that ask as if a plan were due.
    """

    def __init__(
        self,
        views: Iterable[TopicView],
        world_of: Callable[[str], World],
        policy: Policy,
        members: Collection[str],
        elsewhere: Mapping[str, int] | None = None,
        always: frozenset[str] = frozenset(),
    ) -> None:
        self._views = {view.topic: view for view in sorted(views, key=lambda view: view.topic)}
        self._world_of, self._policy, self._members = world_of, policy, members
        self._elsewhere, self._always = elsewhere or {}, always

    def answer(self, question: PlanQuestion) -> SharedAnswer | None:
        """Return the answer; `None` if the joint plan expects another question of the topic. Raises `Refused`."""
        part = self._parts.get(question.problem.topic)
        if not isinstance(part, _Asking):
            return None
        expected, asked = part.question.problem, question.problem
        if replace(expected, loads=asked.loads, carried=asked.carried) != asked:
            return None
        if part.error is not None:
            raise part.error
        answer = dict(part.answer or {})
        if not part.shares or (len(self._parts) == 1 and not self._elsewhere):
            return SharedAnswer(part.question, answer)
        return SharedAnswer(part.question, answer, *self._counts, self._inputs)

    def moves(self, topic: str) -> bool:
        part = None if self._calm else self._parts.get(topic)
        return isinstance(part, _Asking) and part.answer is not None and part.answer != part.held

    @cached_property
    def _calm(self) -> bool:
        """Return whether no plan is better: every partition has an owner, and no consumers differ by more than one."""
        counts = Counter(self._elsewhere)
        for view in self._views.values():
            node, state = view.node, view.state
            if view.config.removed or self._measures(view):
                continue
            if node is None or state is None or state.state is not State.STABLE:
                return False
            if len(node.assignments) != len(view.partitions):
                return False
            counts.update(node.assignments.values())
        loads = [counts[member] for member in self._members]
        return not loads or max(loads) - min(loads) <= 1

    def _measures(self, view: TopicView) -> bool:
        return isinstance(self._policy.strategies.known.get(view.config.strategy), Measuring)

    @cached_property
    def _parts(self) -> Mapping[str, _Part]:
        parts = {topic: self._part(view) for topic, view in self._views.items()}
        asking = [one for one in parts.values() if isinstance(one, _Asking)]
        for part in asking:
            if not part.measures and not part.shares:
                part.keep()
        self._share([one for one in asking if one.shares], parts.values())
        self._answer_measured([one for one in asking if one.measures], parts.values())
        return parts

    def _part(self, view: TopicView) -> _Part:
        measures = self._measures(view)
        try:
            world = self._world_of(view.topic)
        except Refused:  # the brokers refuse to list the group's offsets, so the topic is held
            return _Part(view, machine.targets_of(view), measures)
        held, question = machine.question(view, world, self._policy, always=view.topic in self._always)
        return _Part(view, held, measures) if question is None else _Asking(view, held, measures, question)

    def _share(self, asking: Sequence[_Asking], parts: Collection[_Part]) -> None:
        """Let the strategy answer for all these topics jointly, beside the fixed load."""
        loads, ties = Counter(self._elsewhere), Counter[str]()
        asked = {part_asking.view.topic for part_asking in asking}
        for part in parts:
            if part.view.topic not in asked:
                (ties if part.measures else loads).update(part.then.values())
        for part in asking:
            part.question = part.question.beside(loads, part.question.problem.carried)
        problems = [side for part in asking for side in part.question.sides]
        strategy: object = asking[0].question.strategy if asking else None
        answers = iter(strategy.share(problems, ties) if isinstance(strategy, Sharing) else ())
        for part in asking:
            part.keep([next(answers) for _ in part.question.sides])

    def _answer_measured(self, asking: Collection[_Asking], parts: Collection[_Part]) -> None:
        """Ask the strategies one topic after the other. Each strategy sees the loads after the earlier answers."""
        if not asking:
            return
        everything, carried = Counter(self._elsewhere), _Carried({topic.measure for topic in asking}, self._world_of)
        for part in parts:
            everything.update(part.then.values())
            carried.add(part)
        for topic in asking:
            loads, before = +(everything - Counter(topic.held.values())), topic.question.problem.carried
            carried_load = carried.then(before, topic.measure)
            if topic.measure is Measure.PARTITIONS:
                carried_load = {m: float(loads[m]) for m in before}
            topic.question = topic.question.beside(loads, carried_load)
            topic.keep()
            everything.subtract(topic.held.values())
            everything.update(topic.then.values())
            carried.add(topic)

    @cached_property
    def _counts(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Return member → partitions before and after the plan, without topics whose strategy measures."""
        before, after = Counter(self._elsewhere), Counter(self._elsewhere)
        for part in self._parts.values():
            if not part.measures:
                before.update(part.held.values())
                after.update(part.then.values())
        return before, after

    @cached_property
    def _inputs(self) -> str:
        """Return 16 hexadecimal digits over all assignments and questions."""
        parts: list[object] = [sorted(self._elsewhere.items())]
        for topic, part in self._parts.items():
            asked = part.question.problem if isinstance(part, _Asking) else None
            facts = [sorted(asked.fixed.items()), sorted(asked.members)] if asked is not None else []
            parts.append([topic, part.view.config.strategy, sorted(part.held.items()), facts])
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


class _Carried:
    """How the answers change the members' loads, for each of some measures."""

    def __init__(self, measures: set[Measure], world_of: Callable[[str], World]) -> None:
        self._world_of = world_of
        self._changed: dict[Measure, dict[str, float]] = {view: {} for view in measures - {Measure.PARTITIONS}}

    def add(self, part: _Part) -> None:
        """Add the moves of this topic's answer, as far as the weights are known."""
        held, then, view = part.held, part.then, part.view
        moved = [p for p in then if held.get(p) != then[p]]
        for measure, changed in self._changed.items() if moved else ():
            world = self._world_of(view.topic)
            loads = measured(view.topic, measure, view.partitions, held, world.answers, world.totals, world.loads)
            mean = fsum(loads.partitions.values()) / max(1, len(loads.partitions))
            for partition in moved:
                weight = loads.partitions.get(partition, mean)
                changed[then[partition]] = changed.get(then[partition], 0.0) + weight
                if (giver := held.get(partition)) is not None:
                    changed[giver] = changed.get(giver, 0.0) - weight

    def then(self, before: Mapping[str, float], measure: Measure) -> dict[str, float]:
        """Return the loads after the added answers."""
        changed = self._changed.get(measure, {})
        return {m: max(0.0, round(load + changed.get(m, 0.0), 6)) for m, load in before.items()}
