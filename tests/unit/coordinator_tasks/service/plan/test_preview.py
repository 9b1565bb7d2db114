"""What would happen if something were different, on a whole cluster: what a person reads, and that nothing is written."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.machine.what_if import SiteChange
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.measure.pause_prediction import learned
from coordinator_tasks.core.model import MoveKind, Pause, Pauses, Silence, TopicStatus
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.plan import approvals, operations_under_way, overrides, preview, transitions
from coordinator_tasks.service.plan.cluster_view import site_of
from coordinator_tasks.show import preview_rows
from tests.fakes.cluster import PERSON
from tests.world.site import Site, stable_site


@pytest.fixture
def shop() -> Site:
    return stable_site("a", "b", names=("orders", "payments"))


def behind(site: Site, consumer: str, lags: dict[int, int]) -> None:
    """The consumer says that its partitions are so far behind."""

    def said(one: TopicStatus) -> TopicStatus:
        return replace(one, running={p: replace(each, lag_records=lags.get(p)) for p, each in one.running.items()})

    site.tells(consumer, said)


def test_a_preview_has_moves_reasons_and_backlogs_and_writes_nothing(shop: Site) -> None:
    for consumer in shop.processes:
        behind(shop, consumer, {0: 1_200, 1: 1, 2: 30, 3: 7})
    zxid = shop.server.zxid
    (found,) = preview.preview(shop.coordinator, SiteChange(join=1), ["orders"])
    assert shop.server.zxid == zxid
    (move,) = found.moves
    lag = {0: 1_200, 1: 1, 2: 30, 3: 7}[move.partition]
    assert (move.taker, move.kind, move.backlog, move.pause) == ("new-1", MoveKind.HANDOFF, lag, None)
    behind_text = "1 record behind" if lag == 1 else f"{lag} records behind"
    assert found.lines[:3] == (
        f"orders: 1 partition would move; then {', '.join(f'{who} {n}' for who, n in (found.counts or {}).items())}",
        f"orders:   partition {move.partition} from {move.giver} to new-1 by hand-off: {behind_text}, pause unknown",
        "orders:   a pause is predicted from measured moves of the same kind; the history of this topic has none",
    )
    assert found.lines[3] == f"orders:   why partition {move.partition}: {move.reason}"


def test_a_frozen_topic_is_told_as_frozen(shop: Site) -> None:
    overrides.set_frozen(shop.coordinator, "orders", frozen=True, actor=PERSON)
    orders, payments = preview.preview(shop.coordinator, SiteChange(join=1))
    assert orders.moves == ()
    assert orders.lines[1:] == ("orders:   it is frozen: what has an owner stays there until somebody unfreezes it",)
    assert not payments.frozen


def test_a_plan_that_exceeds_the_budget_is_said_to_wait_for_approval(shop: Site) -> None:
    within = preview.preview(shop.coordinator, SiteChange(join=2))
    shop.coordinator = replace(shop.coordinator, budget=Budget(moves=1))
    assert not any(one.over for one in preview.preview(shop.coordinator, SiteChange(join=1)))
    over = preview.preview(shop.coordinator, SiteChange(join=2))
    says = "it exceeds the budget, so it waits for approval: 2 partitions would move, and the budget is 1"
    assert [set(one.lines) - set(before.lines) for one, before in zip(over, within, strict=True)] == [
        {f"{one.topic}:   {says}"} for one in over
    ]
    shop.starts("new-1")
    shop.starts("new-2")
    shop.settles()
    assert shop.counts("orders") == {"a": 2, "b": 2}, "it waits"
    assert preview.preview(shop.coordinator, SiteChange())[0].lines[1:2] == (f"orders:   {says}",)


def test_a_step_of_what_a_person_has_begun_is_not_said_to_wait(shop: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.coordinator = replace(shop.coordinator, budget=Budget(moves=1))
    monkeypatch.setattr(operations_under_way, "is_step", lambda *_: True)
    assert not any(one.over for one in preview.preview(shop.coordinator, SiteChange(join=2)))


def test_it_is_what_then_really_happens_to_all_topics(shop: Site) -> None:
    found = {one.topic: one for one in preview.preview(shop.coordinator, SiteChange(join=1))}
    shop.starts("new-1")
    shop.settles()
    assert {topic: shop.counts(topic) for topic in ("orders", "payments")} == {
        t: one.counts for t, one in found.items()
    }


def test_what_nobody_takes_over_is_told_as_stopped_with_the_reason() -> None:
    site = stable_site("a", partitions=1)
    directives.isolate(site.coordinator, "a", by="ada", why="old disk")
    (found,) = preview.preview(site.coordinator, SiteChange(), ["orders"])
    assert found.lines[1] == "orders:   partition 0 stops on a: unknown backlog, nobody reads on"
    assert found.pauses == ("1 move by stop: nobody reads on",)
    assert "pause" not in "".join(found.lines)
    assert "orders:   why partition 0: isolated: a (by ada: old disk)" in found.lines
    assert "orders:   partition 0 would have no owner" in found.lines


def test_a_leaving_consumer_that_keeps_partitions_is_reported_with_the_reason(shop: Site) -> None:
    everybody = SiteChange(leave=("a", "b"))
    (found,) = preview.preview(shop.coordinator, everybody, ["orders"])
    why = "no other consumer is there that may take them"
    kept = f"a drains and keeps partitions 0, 1: {why}; b drains and keeps partitions 2, 3: {why}"
    assert found.lines == ("orders: no partition would move; then a 2, b 2", f"orders:   {kept}")
    assert preview_rows([found]).csv.splitlines()[1] == f'orders,,,,,,,,"{kept}"'
    (simulated,) = preview.previewed(site_of(shop.coordinator)[0], everybody, shop.policy, {}, ["orders"])[1]
    assert simulated.kept == kept
    (moves,) = preview.preview(shop.coordinator, SiteChange(leave=("a",)), ["orders"])
    assert (len(moves.moves), moves.kept) == (2, "")
    shop.processes["b"].silence = Silence.SILENT
    (waits,) = preview.preview(shop.coordinator, SiteChange(leave=("a",)), ["orders"])
    assert (bool(waits.waits), waits.kept) == (True, "")


def test_an_unreadable_topic_is_left_out_and_says_why(shop: Site) -> None:
    shop.server.overwrite(shop.paths.topic("payments"), b"{")
    orders, payments = preview.preview(shop.coordinator, SiteChange(join=1))
    assert (orders.topic, bool(orders.moves), orders.problem) == ("orders", True, "")
    (said,) = payments.lines
    assert said.startswith(f"payments: left out: {shop.paths.topic('payments')}: is not JSON")
    assert preview.preview(shop.coordinator, SiteChange(), ["payments"]) == (payments,)


def test_what_is_not_there_is_refused(shop: Site) -> None:
    with pytest.raises(NotManaged, match="topic 'nothing' is not managed by cluster 'shop'"):
        preview.preview(shop.coordinator, SiteChange(), ["nothing"])
    with pytest.raises(Refused, match="consumer 'x' is not registered"):
        preview.preview(shop.coordinator, SiteChange(leave=("x",)))


def test_pauses_are_learned_from_the_record_that_ends_a_rebalance() -> None:
    """With ten measured hand-offs, the next hand-off has a median and an interval."""
    site = stable_site("a", "b", partitions=30)
    site.starts("c")
    site.settles()
    end = site.history()[-1]
    moves = [move for one in site.history() if one.rebalance == end.rebalance for move in one.moves]
    pauses = Pauses(tuple(Pause(move.partition, wait_s=0.1 + 0.01 * n) for n, move in enumerate(moves)))
    record = encode_record(replace(end, pauses=pauses))
    site.zk.transact([SetData(site.paths.record("orders", end.sequence), record)])
    past = approvals.earlier_moves(site.coordinator, "orders")
    assert [one.kind for one in past] == [MoveKind.HANDOFF] * 10
    (found,) = preview.preview(site.coordinator, SiteChange(join=1))
    assert found.learned_from == 10
    pause = found.moves[0].pause
    assert (pause.total.low_s, pause.total.high_s, pause.moves) == (0.1, 0.19, 10)
    learned_from = "the median of 10 measured moves of this topic, and the range that holds four of five of them"
    assert f"orders:   pauses: {learned_from}" in found.lines


def test_a_wait_that_is_not_known_from_both_sides_teaches_nothing(shop: Site) -> None:
    plan, *_, end = [one for one in shop.history("orders") if one.rebalance == shop.history("orders")[-1].rebalance]
    moved = [replace(move, giver="z") for move in plan.moves]
    plan = replace(plan, moves=tuple(moved))
    told = {one.partition: wait for one, wait in zip(moved, (0.5, None, 0.25), strict=False)}
    pauses = Pauses(tuple(Pause(p, wait_s=wait, least=wait == 0.25) for p, wait in told.items()))
    (found,) = learned([replace(end, pauses=pauses), plan])
    assert found.pause_s == 0.5
    assert learned([end, plan]) == ()


def test_a_cluster_without_topics_has_nothing_to_preview() -> None:
    site = Site()
    done = ACTIONS["preview"].run(site.coordinator, {}, PERSON, dry_run=False)
    assert (done.found, done.text) == ((), "no topic is managed, so nothing would move")
    assert transitions.topics(site.coordinator) == ()
