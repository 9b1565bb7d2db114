"""The steps of a decision in order, and the write that results."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from coordinator_tasks.core.machine import causes, churn, packing, restarts, rollback
from coordinator_tasks.core.machine.confirm import (
    blockers,
    not_running,
    why_not_all_started,
    why_not_closed,
    why_not_started,
)
from coordinator_tasks.core.machine.decision import Decision, Step, TopicOutcome
from coordinator_tasks.core.machine.draft import Draft, by_consumer, draft_of, label, node_of, unless_same
from coordinator_tasks.core.machine.planning import Planning, finish, patience_s, shares, stop_vanished
from coordinator_tasks.core.machine.presence import is_awaited, presence, targets
from coordinator_tasks.core.machine.question import PlanQuestion
from coordinator_tasks.core.machine.recovery import noted
from coordinator_tasks.core.machine.table import Signal, next_state, signal_of_plan
from coordinator_tasks.core.machine.world import LOST, Policy, Presence, TopicView, World
from coordinator_tasks.core.model import (
    PACKED,
    PROPERTIES,
    SEEK_STATE,
    SEEKS,
    Actor,
    Cause,
    CauseKind,
    Ending,
    Member,
    MoveKind,
    Record,
    State,
    TopicState,
)
from coordinator_tasks.core.text.cause_text import listed, said
from coordinator_tasks.core.text.partition_text import agreed, joined


class Deciding:
    """One call of `decide` for a topic that is not held: the draft and the steps.

    `plans`: False means that a plan for all partitions needs a person's approval first.
    """

    def __init__(
        self,
        view: TopicView,
        world: World,
        policy: Policy,
        actor: Actor,
        draft: Draft | None = None,
        *,
        plans: bool = True,
    ) -> None:
        self.view, self.world, self.policy, self.actor = view, world, policy, actor
        self.plans = plans
        self.state = view.state or TopicState(State.INITIAL)
        self.draft = draft or draft_of(view, world.fresh)
        self.relies_on: frozenset[str] = frozenset()
        self.ended: Cause | None = None  # set if this plan ends a roll back

    def run(self, steps: frozenset[Step]) -> Decision:
        decision = self._lost_or_unowned()
        if decision is None and Step.START in steps:
            decision = self._closed()
        if decision is None and Step.SETTLE in steps:
            decision = self._started()
        if decision is None and Step.PLAN in steps:
            decision = self._plan()
        return decision or self._rest()

    def drop_lost(self) -> tuple[set[int], frozenset[str]]:
        """Take all partitions from lost consumers, and pending closes and starts from awaited consumers.

        Return the changed partitions and the lost consumers.
        """
        held, world, policy = self.draft.incarnations, self.world, self.policy
        known = {c: presence(c, i, world, policy) for c, i in held.items()}
        lost = frozenset(c for c, how in known.items() if how in LOST) & self.draft.holders()
        awaited = frozenset(c for c in self.draft.movers() & held.keys() if is_awaited(c, held[c], world, policy))
        ended = (c for c in lost | awaited if known[c] is not Presence.ISOLATED)
        over = {c for c in ended if self._ending(c) in (Ending.LEFT, Ending.REAPED)}
        self.relies_on = lost | awaited
        return self.draft.drop_lost(lost, over, awaited), lost

    def _ending(self, consumer: str) -> Ending | None:
        claim = self.world.claims.get(consumer)
        return claim.ended.get(self.draft.incarnations[consumer]) if claim is not None else None

    def able(self) -> dict[str, int]:
        """Return consumer → incarnation for consumers that may get partitions now."""
        holders = self.draft.holders()
        held = {c: i for c, i in self.draft.incarnations.items() if c in holders}
        candidates = targets(self.view.topic, held, self.world, self.policy)
        return {c: i for c, i in candidates.items() if self._reads_node(self.world.members[c], owns=c in holders)}

    def _reads_node(self, member: Member, *, owns: bool) -> bool:
        """Return whether the member's release can read the topic's node.

        A release refuses a node with an unknown field. The consumer then keeps its partitions and gets no others.
        """
        seeks = not self.draft.seeks or SEEKS in member.formats
        states = SEEK_STATE in member.formats or all(seek.state is None for seek in self.draft.seeks.values())
        packed = PACKED in member.formats or not packing.needs_packing(self.view, self.policy)
        return seeks and states and packed and (owns or not self.view.config.properties or PROPERTIES in member.formats)

    def planning(self, able: Mapping[str, int]) -> Planning:
        return Planning(self.draft, self.view, self.world, self.policy, able)

    def _lost_or_unowned(self) -> Decision | None:
        touched, lost = self.drop_lost()
        able = self.able()
        self._leave_former_topic()
        stop_vanished(self.draft, self.view)
        self.planning(able).place()
        if not touched and not self.draft.moves:
            return None
        found = causes.of_placement(self.view, self.world, self.draft, self.relies_on)
        # After a planned restart the consumer gets its former partitions back. They were not shared among all
        # consumers.
        restarted = restarts.back({c: able[c] for c in lost if c in able}, self.world)
        # Without `moves`, a plan counts the absent consumer as present, so the consumer's return does not change
        # membership.
        same = {c: able[c] for c, one in restarted.items() if c in self.state.targets and not one.moves}
        kept = {c: i for c, i in self.state.targets.items() if c not in lost} | same
        counted = kept or {c: able[c] for c in restarted} or able
        if not kept and not restarted:
            planned = self._digest_if_whole(able)
        else:
            planned = self.state.planned if counted.keys() <= self.state.targets.keys() else ""
        # The stored node names the ended incarnation; the draft may already grant partitions to the successor.
        granted = self.view.node.incarnations if self.view.node is not None else {}
        ended = [(c, granted.get(c, 0)) for c in self.relies_on]
        joined = () if ended else {move.taker for move in self.draft.moves}
        unasked = churn.unasked(joined, ended, self.world, self.policy)
        return self.write(self._signal_of_loss(), found, targets=counted, planned=planned, unasked=unasked)

    def _leave_former_topic(self) -> None:
        """Restart the pending hand-offs of a recreated topic without their old offsets."""
        node, config = self.view.node, self.view.config
        if node is None or config.removed or node.topic_id == config.topic_id:
            return
        self.draft.seeks.clear()
        for partition, entry in sorted(self.draft.handoff.items()):
            self.draft.move(partition, entry.taker)

    def _digest_if_whole(self, able: Mapping[str, int]) -> str:
        """Return the plan's digest if the plan placed every partition that now has an owner or taker.

        Otherwise only partitions without an owner were placed. Return an empty digest, so that a plan for all is due.
        """
        placed = {move.partition for move in self.draft.moves}
        whole = self.draft.assignments.keys() | self.draft.handoff.keys() | self.draft.in_flight() <= placed
        return causes.digest(self.view, self.world, able) if whole else ""

    def _signal_of_loss(self) -> Signal:
        before, after = self.state.state, label(self.draft)
        if not self.draft.assignments and after is State.STABLE:
            return Signal.NOBODY_LEFT
        if before is State.CLOSING and after is State.STARTING:
            return Signal.ALL_CLOSED
        if before is State.CLOSING and after is State.STABLE:
            return Signal.CLOSED_FOR_GOOD
        if before is State.STARTING and after is State.STARTING:
            return Signal.OWNER_LOST
        return signal_of_plan(self.draft)

    def _closed(self) -> Decision | None:
        node = self.view.node
        if node is None:
            return None
        free: dict[int, set[str]] = {}
        for partition, owners in sorted(self.draft.to_close.items()):
            epoch = self.draft.epochs.get(partition, node.epoch)
            if self._goes_to_one_on_its_way_out(partition):
                continue
            if not any(why_not_closed(c, partition, self.view.topic, node, epoch, self.world) for c in owners):
                free[partition] = owners
        everything = len(free) == len(self.draft.to_close)
        urgent = not free.keys() <= self.draft.handoff.keys()
        late = self.world.now - self.state.since_at >= self.policy.settle_max_s
        if not free or not (everything or urgent or late):
            return None
        for partition, owners in free.items():
            self.draft.close_confirmed(partition, owners)
        signal = Signal.SOME_CLOSED
        if everything:
            signal = Signal.ALL_CLOSED if self.draft.to_start else Signal.CLOSED_FOR_GOOD
        confirmed = by_consumer([(c, p) for p, owners in free.items() for c in owners])
        return self.write(signal, self.state.causes, confirmed=confirmed)

    def _goes_to_one_on_its_way_out(self, partition: int) -> bool:
        """Return whether the taker closes its partitions for a planned restart.

        The taker does not own this partition yet. So another consumer gets the partition when the taker ends.
        """
        taker = self.draft.to_start.get(partition, "")
        return bool(self.world.life(taker, self.draft.incarnations.get(taker, 0)).kept_until)

    def _started(self) -> Decision | None:
        node = self.view.node
        if node is None or self.draft.to_close or not self.draft.to_start:
            return None
        waiting, starts = self._waiting(), defaultdict[tuple[str, int], list[int]](list)
        for partition, consumer in self.draft.to_start.items():
            if partition not in waiting:
                starts[consumer, self.draft.epochs.get(partition, node.epoch)].append(partition)
        for (consumer, epoch), partitions in starts.items():
            if why_not_all_started(consumer, partitions, self.view.topic, node, epoch, self.world):
                return None
        confirmed = by_consumer([(c, p) for p, c in self.draft.to_start.items() if p not in waiting])
        self.draft.to_start.clear()
        self.draft.epochs.clear()
        return self.write(Signal.ALL_STARTED, self.state.causes, confirmed=confirmed, same_node=True)

    def _waiting(self) -> set[int]:
        """Return the partitions whose start waits for a planned restart. The next process starts them.

        Guarded partitions and partitions with a seek do not wait, because guard and seek end with the confirmed start.
        """
        away, draft = restarts.away(self.view, self.world), self.draft
        kept = draft.guarded | draft.seeks.keys()
        return {p for p, c in draft.to_start.items() if c in away and draft.assignments.get(p) == c} - kept

    def _plan(self) -> Decision | None:
        able = self.able()
        due = self._due(able) if self.plans else None
        if due is None:
            return self._restart() or self._plain_again() or (self._drifted(able) if self.plans else self._tell())
        wait_s = causes.settling(due, self.world, self.policy)
        if wait_s > 0:
            return Decision(TopicOutcome.WAITING, f"{due.text}; waiting until membership is still", wake_in_s=wait_s)
        if self.world.doubted or self.world.unclear:
            self._leave_started()
        complete = self.planning(able).rebalance()
        planned = causes.digest(self.view, self.world, able) if complete else ""
        if self.view.config.removed:
            finish(self.draft)
        moved = bool(self.draft.moves)
        away = restarts.away(self.view, self.world)
        waited = {c: i for c, i in self.state.targets.items() if c in away}
        counted = dict(self.state.targets) if self.view.config.frozen else waited | able
        same = not moved and self.ended is None and counted == self.state.targets
        same = same and unless_same(self.view.node, node_of(self.draft, self.view.config), True) is None
        if same and not self._is_noted(planned):
            return self._restart() or self._plain_again()  # the plan would equal the present assignment
        left = [(c, self.state.targets.get(c, self.draft.incarnations.get(c, 0))) for c in due.left]
        written = self.write(
            signal_of_plan(self.draft),
            due.causes,
            targets=counted,
            planned=planned,
            restarts={},
            same_node=not moved,
            unasked=churn.unasked(due.joined, left, self.world, self.policy),
        )
        return replace(written, may_wait=True)

    def _is_noted(self, planned: str) -> bool:
        """Return whether to store the digest of a plan that moves nothing.

        Without a stored digest, every check would plan again, and changed loads would never cause a plan.
        """
        if planned in ("", self.state.planned):
            return False
        return not self.state.planned or patience_s(self.view, self.policy) is not None

    def _tell(self) -> Decision | None:
        """Write a change without moves (such as a pause) at once, while a plan waits for approval."""
        told = causes.reconfigured(self.view)
        return self.write(signal_of_plan(self.draft), told) if told else None

    def _plain_again(self) -> Decision | None:
        """Write a packed node in the plain form if a registered consumer cannot read the packed form.

        Plans leave isolated consumers out, so no plan would write the plain form for an isolated consumer. Yet such a
        consumer is readmitted only after it has acted on the node.
        """
        older = packing.read_plain_only(self.view, self.world)
        packed = self.view.packed and self.state.state is State.STABLE
        if not packed or not older or packing.needs_packing(self.view, self.policy):
            return None
        return self.write(signal_of_plan(self.draft), (Cause(CauseKind.PLAIN, tuple(older)),))

    def _due(self, able: Mapping[str, int]) -> causes.Due | None:
        """Return the trigger of a plan. An expired roll back leaves the configuration; its expiry is a trigger."""
        config = self.view.config
        if config.rollback is not None and self.view.node is not None and not config.removed:
            self.ended = rollback.ended(config.rollback, able, self.world.now)
        if self.ended is None:
            return causes.of_plan(self.view, self.world, self.draft, self.state, able)
        self.view = replace(self.view, config=replace(config, rollback=None))
        due = causes.of_plan(self.view, self.world, self.draft, self.state, able)
        if due is None or due.causes == (Cause(CauseKind.CHANGED),):
            return causes.Due((self.ended,))
        return replace(due, causes=(*due.causes, self.ended))

    def _leave_started(self) -> None:
        """Let a plan move started partitions while other partitions have not started yet."""
        node = self.view.node
        for partition, consumer in list(self.draft.to_start.items()):
            epoch = self.draft.epochs.get(partition)
            if node is None or epoch is None or partition in self.draft.to_close:
                continue
            if not why_not_started(consumer, partition, self.view.topic, node, epoch, self.world):
                del self.draft.to_start[partition], self.draft.epochs[partition]

    def _may_drift(self, able: Mapping[str, int]) -> bool:
        """Return whether to ask the strategy although the topic has not changed."""
        config, settled = self.view.config, self.state.state is State.STABLE and self.view.node is not None
        if not settled or not able or config.frozen or config.removed or restarts.away(self.view, self.world):
            return False
        patience = 0.0 if shares(self.view, self.policy) else patience_s(self.view, self.policy)
        return patience is not None and self.world.now - self.state.since_at >= patience

    def _drifted(self, able: Mapping[str, int]) -> Decision | None:
        """Return a plan because of changed loads or an uneven share over all topics; `None` if nothing moves."""
        if not self._may_drift(able):
            return None
        together, shared = self.world.together, shares(self.view, self.policy)
        if shared and (together is None or not together.moves(self.view.topic)):
            return None
        complete = self.planning(able).rebalance()
        if not self.draft.moves:
            return None
        planned = causes.digest(self.view, self.world, able) if complete else ""
        summary = self.draft.explanation.summary if self.draft.explanation is not None else ""
        cause = Cause(CauseKind.UNEVEN if shared else CauseKind.LOADS, why=summary)
        # A joint plan follows a change in another topic, whose record already says whether the change was requested.
        written = self.write(signal_of_plan(self.draft), (cause,), targets=able, planned=planned, unasked=not shared)
        return replace(written, may_wait=True)

    def question(self, *, always: bool = False) -> tuple[dict[int, str], PlanQuestion | None]:
        """Return the owner or taker of each partition, and the question for the strategy. Raises `Refused`.

        `always`: ask as if a plan for all partitions were due.
        """
        touched, _ = self.drop_lost()
        able = self.able()
        self._leave_former_topic()
        stop_vanished(self.draft, self.view)
        held = self.draft.targets(self.view.partitions)
        placement = self.planning(able).placement()
        if placement is not None or touched or self.draft.moves:
            return held, placement
        due = None if always else self._due(able)
        waits = causes.settling(due, self.world, self.policy) > 0 if due is not None else not self._may_drift(able)
        if self.view.config.frozen or not able or (waits and not always):
            return held, None
        if self.world.doubted or self.world.unclear:
            self._leave_started()
        return held, self.planning(able).rebalancing()

    def _restart(self) -> Decision | None:
        """Order owners again to start what does not run. In Starting, first wait for half of `stuck_after_s`."""
        node, stable = self.view.node, self.state.state is State.STABLE
        late = self.world.now - self.state.since_at >= self.policy.stuck_after_s / 2  # before a person is asked
        if node is None or not (stable or (late and self.state.state is State.STARTING)):
            return None
        restarts = dict(self.state.restarts)
        tired: dict[str, str] = {}
        for consumer in sorted(set(node.assignments.values())):
            missing = not_running(consumer, self.view.topic, node, self.world)
            if missing and restarts.get(consumer, 0) >= self.policy.max_restarts:
                tired[consumer] = (
                    f"{consumer} was told {restarts[consumer]} times to start {list(missing)} and does not"
                )
            elif missing:
                restarts[consumer] = restarts.get(consumer, 0) + 1
                for partition in missing:
                    self.draft.restart(partition)
        if self.draft.moves:
            idle = Cause(CauseKind.NOT_RUNNING, tuple(sorted({m.taker for m in self.draft.moves})))
            signal = Signal.NOT_RUNNING if stable else Signal.PLANNED_STARTS
            return self.write(signal, (idle,), restarts=restarts, unasked=True)
        return Decision(TopicOutcome.HELD, joined(tired.values()), blockers=tired) if tired and stable else None

    def _rest(self) -> Decision:
        """Return a decision without a write. Its reason says what the topic waits for."""
        missing = blockers(self.view, self.world)
        if missing:
            return Decision(TopicOutcome.WAITING, joined(missing.values()), blockers=missing)
        held = self.draft.targets(self.view.partitions)
        unowned = [p for p in self.view.partitions if p not in held]
        if unowned and self.able() and self.view.node is not None and not self.view.config.removed:
            limits = f"strategy {self.view.config.strategy!r} may give them to none of the live consumers"
            return Decision(
                TopicOutcome.HELD,
                f"{listed(unowned)} {agreed(len(unowned), 'has', 'have')} no owner: {limits}; start one that may have them, or change "
                "its limits, bans or zones",
            )
        if self.view.node is None:
            return Decision(TopicOutcome.WAITING, "no live consumer is there to take partitions")
        removed = self.view.config.removed
        homeless = "" if removed else causes.homeless(self.view.partitions, unowned)
        kept = causes.undrained(self.view, self.world, self.draft)
        absent = causes.absences(self.view.node, self.world, self.policy)
        reasons = "; ".join(text for text in (homeless, kept, absent) if text)
        outcome = TopicOutcome.HELD if homeless else TopicOutcome.UNCHANGED
        settled = not (reasons or removed)
        return Decision(outcome, reasons or (causes.REMOVED if removed else causes.SETTLED), settled=settled)

    def write(
        self,
        signal: Signal,
        found: tuple[Cause, ...],
        *,
        confirmed: Mapping[str, tuple[int, ...]] | None = None,
        targets: Mapping[str, int] | None = None,
        planned: str | None = None,
        restarts: Mapping[str, int] | None = None,
        same_node: bool = False,
        objectors: frozenset[str] = frozenset(),
        unasked: bool = False,
    ) -> Decision:
        """Return the decision to write the draft. `unasked`: nobody requested the cause. Raises `TableBroken`."""
        before, now, cause = self.state, self.world.now, said(found)
        node = node_of(self.draft, self.view.config)
        written = unless_same(self.view.node, node, same_node)
        fresh = before.state in (State.INITIAL, State.STABLE) or not before.rebalance
        flight = self.draft.in_flight()
        state = TopicState(
            state=next_state(before.state, signal, self.draft),
            to_start=by_consumer([(c, p) for p, c in self.draft.to_start.items()]),
            to_close=by_consumer([(c, p) for p, owners in self.draft.to_close.items() for c in owners]),
            epochs={p: e for p, e in sorted(self.draft.epochs.items()) if p in flight},
            rebalance=f"{node.epoch}-{self.world.fresh[:8]}" if fresh else before.rebalance,
            since_at=now,
            began_at=now if fresh else before.began_at,
            cause=cause,
            causes=found,
            targets=dict(sorted((targets if targets is not None else before.targets).items())),
            planned=planned if planned is not None else before.planned,
            restarts=dict(restarts if restarts is not None else before.restarts),
            recovered=noted(self.view, self.world, self.policy, objectors),
        )
        current = written or self.view.node
        record = Record(
            topic=self.view.topic,
            source=before.state,
            target=state.state,
            epoch=current.epoch if current is not None else 0,
            generation=node.generation,
            rebalance=state.rebalance,
            cause=state.cause,
            causes=state.causes,
            actor=self.actor,
            at=state.since_at,
            lasted_s=max(0.0, state.since_at - before.since_at) if before.since_at else 0.0,
            rebalance_s=max(0.0, state.since_at - state.began_at),
            moves=tuple(sorted(self.draft.moves, key=lambda m: m.partition)),
            confirmed=dict(confirmed or {}),
            counts=_counts(self.draft),
            digest=state.planned,
            incarnations=node.incarnations,
            plan=self.draft.kept,
            unasked=unasked,
        )
        return Decision(
            TopicOutcome.WRITTEN,
            cause,
            state,
            written,
            record,
            self.relies_on,
            explanation=self.draft.explanation,
            ends_rollback=self.ended is not None,
            pack_over=packing.pack_over(self.view, self.world, self.draft, self.policy),
        )


def _counts(draft: Draft) -> dict[str, int]:
    counts = {"assigned": len(draft.assignments), "handoff": len(draft.handoff), "closing": len(draft.to_close)}
    kinds = {kind: sum(1 for m in draft.moves if m.kind is kind) for kind in MoveKind}
    return counts | {kind.value: n for kind, n in kinds.items() if n}
