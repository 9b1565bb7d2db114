"""`decide` is total: for any stored state and observation a decision, no exception, and one valid write."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator_tasks.core.machine import invariants
from coordinator_tasks.core.machine.decision import ALL_STEPS, Decision, Step, TopicOutcome
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import (
    Absence,
    Committed,
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    Handoff,
    IdClaim,
    Isolation,
    Member,
    Release,
    RunningPartition,
    Silence,
    State,
    Token,
    TopicDescription,
    TopicNode,
    TopicState,
    TopicStatus,
    Unreachable,
)
from tests.world.node_steps import of_step
from tests.world.scene import ACTOR, CONFIG, TOPIC

CONSUMERS = st.sampled_from(["a", "b", "c"])
PARTITIONS = st.integers(0, 4)
EPOCHS = st.integers(0, 6)
INCARNATIONS = st.integers(0, 3)
GENERATIONS = st.sampled_from(["g1", "g2"])
TOKENS = st.builds(Token, EPOCHS, INCARNATIONS, GENERATIONS)
POLICY = Policy(settle_s=0.0)


@st.composite
def nodes(draw: st.DrawFn) -> TopicNode:
    """Valid nodes: no partition twice, every assignment with a `since`, no `since` above the epoch."""
    epoch = draw(EPOCHS)
    assignments = draw(st.dictionaries(PARTITIONS, CONSUMERS))
    handoff = draw(st.dictionaries(PARTITIONS, st.builds(Handoff, CONSUMERS, CONSUMERS, EPOCHS), max_size=2))
    return TopicNode(
        "h",
        "g",
        epoch,
        draw(GENERATIONS),
        "id-1",
        assignments=assignments,
        since={p: min(epoch, draw(EPOCHS)) for p in assignments},
        handoff={p: h for p, h in handoff.items() if p not in assignments},
        incarnations=draw(st.dictionaries(CONSUMERS, INCARNATIONS)),
        guarded=frozenset(draw(st.sets(PARTITIONS, max_size=2))),
        supersedes=draw(st.dictionaries(GENERATIONS, EPOCHS, max_size=1)),
        removed=draw(st.booleans()),
    )


LISTS = st.dictionaries(CONSUMERS, st.lists(PARTITIONS, unique=True).map(lambda ps: tuple(sorted(ps))), max_size=2)
STATES = st.builds(
    TopicState,
    st.sampled_from(State),
    to_start=LISTS,
    to_close=LISTS,
    epochs=st.dictionaries(PARTITIONS, EPOCHS),
    since_at=st.floats(0, 2_000),
    targets=st.dictionaries(CONSUMERS, INCARNATIONS),
    planned=st.sampled_from(["", "0123456789abcdef"]),
    restarts=st.dictionaries(CONSUMERS, st.integers(0, 4)),
)
RUNNING = st.dictionaries(PARTITIONS, st.builds(RunningPartition, st.just(1), TOKENS, st.booleans(), st.booleans()))
STATUSES = st.builds(TopicStatus, GENERATIONS, EPOCHS, st.dictionaries(PARTITIONS, EPOCHS), RUNNING, st.booleans())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    def some(values: st.SearchStrategy[Any]) -> dict[str, Any]:
        return {c: draw(values) for c in draw(st.sets(CONSUMERS))}

    answers: dict[str, Any] = {
        c: ConsumerStatus(c, "c", draw(INCARNATIONS), "b", "ok", {TOPIC: s} if s is not None else {})
        for c, s in some(st.none() | STATUSES).items()
    }
    answers |= {c: Unreachable(Silence.SILENT, "x") for c in draw(st.sets(CONSUMERS, max_size=1))}
    ended = st.dictionaries(INCARNATIONS, st.sampled_from(Ending), max_size=2)
    absences = st.none() | st.builds(Absence, INCARNATIONS, st.floats(0, 999))
    return World(
        1_000.0,
        {c: Member(c, i, "http://x", "b") for c, i in some(INCARNATIONS).items()},
        {
            c: IdClaim(c, 3, answered=i, ended=draw(ended), absence=draw(absences))
            for c, i in some(INCARNATIONS).items()
        },
        {
            c: Directive(
                c,
                Isolation("p", "", 1.0, draw(INCARNATIONS)) if kind != "drain" else None,
                Draining("p", "", 1.0, draw(INCARNATIONS)) if kind != "isolate" else None,
            )
            for c, kind in some(st.sampled_from(["drain", "isolate", "both"])).items()
        },
        answers,
        draw(
            st.none()
            | st.dictionaries(
                PARTITIONS, st.builds(Committed, st.just(5), st.none() | TOKENS, CONSUMERS, topic_id=st.just("id-1"))
            )
        ),
        some(st.integers(0, 9)),
        fresh="f00dfeed",
    )


RELEASES = st.dictionaries(
    PARTITIONS, st.builds(Release, EPOCHS, CONSUMERS, INCARNATIONS, st.just(1), GENERATIONS, TOKENS)
)
STEPS = st.sampled_from([ALL_STEPS, *(frozenset({step}) for step in Step)])


@st.composite
def views(draw: st.DrawFn) -> TopicView:
    config = replace(
        CONFIG,
        strategy=draw(st.sampled_from(["balanced", "balanced", "balanced", "magic"])),
        frozen=draw(st.booleans()),
        removed=draw(st.booleans()),
        pins=draw(st.dictionaries(PARTITIONS, CONSUMERS, max_size=2)),
    )
    listed = draw(st.integers(0, 4))
    return TopicView(
        config,
        draw(st.none() | nodes()),
        draw(st.none() | STATES),
        tuple(range(listed)),
        draw(RELEASES),
        draw(st.none() | st.just(TopicDescription(TOPIC, "id-1", listed))),
    )


def check(before: TopicView, decision: Decision) -> None:
    node = decision.node or before.node
    assert invariants.of_topic(node, decision.state) == []
    if before.node is not None and decision.node is not None:
        assert of_step(before.node, decision.node) == []


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(views(), worlds(), STEPS, st.integers())
def test_any_data_in_any_order_gives_a_decision_and_a_valid_write(
    view: TopicView, world: World, steps: frozenset[Step], seed: int
) -> None:
    decision = decide(view, world, POLICY, ACTOR, steps)
    assert decision.reason
    if decision.outcome is TopicOutcome.WRITTEN:
        check(view, decision)
    assert decide(_shuffled(view, seed), _shuffled(world, seed), POLICY, ACTOR, steps) == decision


def _shuffled(value: Any, seed: int) -> Any:
    """The same view or world with every mapping in another order."""
    rng = random.Random(seed)

    def mixed(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
        items = list(mapping.items())
        rng.shuffle(items)
        return dict(items)

    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    inner = {n: _shuffled(v, seed) for n, v in fields.items() if isinstance(v, TopicNode | TopicState)}
    return replace(value, **{n: mixed(v) for n, v in fields.items() if isinstance(v, Mapping)}, **inner)
