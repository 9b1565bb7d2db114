"""Topics that are linked by consumers of few topics each: the shortcuts lead to the optimum of the plain search."""

import random
import time

import numpy as np
import pytest

from coordinator_tasks.core.assignors import flow, linked
from coordinator_tasks.core.assignors.cycles import Flags


def ring(members: int, topics: int, each: int) -> Flags:
    """Every member wants some neighbouring topics."""
    wants = np.zeros((members, topics), np.bool_)
    for member in range(members):
        wants[member, [(member + step) % topics for step in range(each)]] = True
    return wants


def mixed(members: int, topics: int, each: int) -> Flags:
    """Every member wants up to `each` topics, some none."""
    wants, chance = np.zeros((members, topics), np.bool_), random.Random(members + each)
    for member in range(members):
        wants[member, chance.sample(range(topics), chance.randint(0, each))] = True
    return wants


def joined(wants: Flags, before: int, per_member: int = 20) -> flow.Flow:
    """The problem when members join those who have planned alone."""
    counts = np.full(wants.shape[1], len(wants) * per_member // wants.shape[1], np.int32)
    counts[~wants[:before].any(axis=0)] = 0
    former = np.zeros(wants.shape, np.int32)
    first = flow.Flow(wants[:before], former[:before], counts)
    first.solve()
    former[:before] = first.x
    return flow.Flow(wants, former, counts)


@pytest.mark.parametrize(
    ("wants", "before"),
    [
        (ring(400, 40, 2), 360),
        (ring(395, 40, 2), 357),
        (ring(300, 30, 3), 250),
        (mixed(200, 30, 2), 150),
        (mixed(200, 30, 4), 190),
    ],
)
def test_the_shortcuts_find_the_loads_and_the_moves_of_the_plain_search(
    wants: Flags, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, short = joined(wants, before), joined(wants, before)
    plain.solve()
    monkeypatch.setattr(linked, "MIN_SIZE", 1)
    monkeypatch.setattr(flow, "MOST_ROUNDS", 1)
    monkeypatch.setattr(flow, "MOST_CYCLE_ROUNDS", 1)
    short.solve()
    assert sorted(short.loads) == sorted(plain.loads)
    assert short.moves == plain.moves
    assert (short.x >= 0).all()
    assert not short.x[~wants].any()
    assert (short.x.sum(axis=0) == plain.x.sum(axis=0)).all()
    assert (short.x.sum(axis=1) == short.loads).all()


def test_small_problems_and_members_of_many_topics_take_no_shortcut() -> None:
    assert linked.graph_of(ring(1_000, 40, 2)) is None
    assert linked.graph_of(ring(5_000, 200, 20)) is None
    assert linked.graph_of(ring(5_000, 200, 2)) is not None


def test_a_ring_of_200_topics_is_planned_within_seconds() -> None:
    problem = joined(ring(5_000, 200, 2), 4_500)
    began_s = time.process_time()
    problem.solve()
    assert problem.even
    assert time.process_time() - began_s < 20
