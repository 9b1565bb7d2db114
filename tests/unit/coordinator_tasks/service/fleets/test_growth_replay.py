"""A policy of growth acts on a cluster in a file: it grows, shrinks, moves and gives up as on the cluster itself."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.machine.what_if import ClusterMoment, due_owners
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.pause_prediction import PastMove
from coordinator_tasks.core.model import ConsumerStatus, MoveKind
from coordinator_tasks.service.fleets.growth_replay import Growing, Replayed, replayed
from coordinator_tasks.service.plan.cluster_view import site_of
from tests.world.site import stable_site

LIMITS = Limits(least=1, most=4, start_up_s=60.0)


def shop(rates: Mapping[int, float], lags: Mapping[int, int] | None = None) -> ClusterMoment:
    """Consumers a and b share the four partitions of `orders`: a has 0 and 1."""
    site, _ = site_of(stable_site("a", "b").coordinator)
    answers = {}
    for consumer, answer in site.world.answers.items():
        assert isinstance(answer, ConsumerStatus)
        running = {
            p: replace(one, rate=rates.get(p), lag_records=(lags or {}).get(p, 0))
            for p, one in answer.topics["orders"].running.items()
        }
        answers[consumer] = replace(answer, topics={"orders": replace(answer.topics["orders"], running=running)})
    return replace(site, world=replace(site.world, answers=answers))


def even(rate: float) -> dict[int, float]:
    return dict.fromkeys(range(4), rate)


def counts(site: ClusterMoment) -> dict[str, int]:
    owners = due_owners(site.topics["orders"])
    return {one: list(owners.values()).count(one) for one in sorted(set(owners.values()))}


def test_a_fleet_grows_for_a_load_that_it_cannot_read_and_catches_up_once_the_new_consumers_read() -> None:
    after, found = replayed(shop(even(150.0)), Growing(LIMITS, 500.0, load=2.0, minutes=30), Policy(), {})
    assert counts(after) == {"a": 1, "b": 1, "new-1": 1, "new-2": 1}
    grown, read = found.happened[:2]
    assert (grown.after_s, grown.what.partition(":")[0], grown.topics) == (60.0, "grow to 4 consumers", ())
    assert (read.after_s, read.what) == (120.0, "the new consumers read")
    assert [move.taker for move in read.topics[0].moves] == ["new-1", "new-2"]
    assert (found.consumers, found.moves, found.lag) == (4, 2, 0)
    assert found.worst_lag > 20_000
    assert found.worst_after_s == 115.0, "until the new ones read, 200 records/s pile up"
    assert found.lines[1] == "after 2 min: the new consumers read"
    assert found.lines[2].startswith("  orders: 2 partitions would move; then a 1, b 1, new-1 1, new-2 1")


@pytest.mark.parametrize("stays", [{"pins": {0: "a", 1: "a"}}, {"frozen": True}])
def test_what_is_pinned_or_frozen_in_the_snapshot_does_not_move(stays: dict[str, Any]) -> None:
    uneven = shop({0: 300.0, 1: 300.0, 2: 10.0, 3: 10.0})
    view = uneven.topics["orders"]
    uneven = replace(uneven, topics={"orders": replace(view, config=replace(view.config, **stays))})
    _, found = replayed(uneven, Growing(replace(LIMITS, least=2), 700.0, minutes=5), Policy(), {})
    assert (found.happened, found.moves) == ((), 0)


def test_the_lines_say_what_moved_its_predicted_pauses_and_the_end_with_whole_numbers() -> None:
    past = {"orders": [PastMove(MoveKind.HANDOFF, 0.02)] * 9}
    _, found = replayed(shop(even(300.0)), Growing(replace(LIMITS, most=4), 500.0, minutes=125), Policy(), past)
    moved = [line for line in found.lines if " by hand-off: pause total 20 ms (20 ms to 20 ms)" in line]
    assert moved
    assert found.lines[-1].startswith("in the end: ")
    assert "e+" not in "".join(found.lines)
    huge = Replayed((), 1, 0, 1_235_967_969, 1_235_967_969, 86_400.0)
    assert huge.lines == (
        "in the end: 1 consumer, 1,235,967,969 records behind; at most 1,235,967,969 records behind, after 1440 min; 0 moves",
    )


@pytest.mark.parametrize(
    ("growing", "said"),
    [
        (Growing(LIMITS, 0.0), "a consumer cannot read 0 records/s; give what one reads as capacity=1000"),
        (Growing(LIMITS, 10.0, load=-1.0), "the rates cannot come -1 times"),
        (Growing(LIMITS, 10.0, minutes=0), "0 minutes cannot be replayed; give 1 to 1440"),
        (Growing(LIMITS, 10.0, minutes=1_441), "1441 minutes cannot be replayed"),
        (Growing(replace(LIMITS, least=5), 10.0), "a fleet cannot grow from 5 to 4 consumers"),
    ],
)
def test_what_cannot_be_replayed_is_refused(growing: Growing, said: str) -> None:
    with pytest.raises(Refused, match=said):
        replayed(shop(even(1.0)), growing, Policy(), {})


def test_a_snapshot_without_rates_is_refused() -> None:
    with pytest.raises(Refused, match="the snapshot has no rates of records, so growth cannot be replayed"):
        replayed(shop({}), Growing(LIMITS, 10.0), Policy(), {})
