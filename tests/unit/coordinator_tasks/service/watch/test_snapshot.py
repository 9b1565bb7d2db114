"""A cluster in a file: it comes back the same, holds no secret, and whatever else is read is one error."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_tasks.core.codecs.member_codec import encode_member
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.machine.what_if import SiteChange, changed, replay
from coordinator_tasks.core.model import Approval, ConsumerStatus, Ending, Fleet, Member
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.service.nodes.history import rebalances
from coordinator_tasks.service.plan import preview, rollback
from coordinator_tasks.service.watch import snapshot
from tests.fakes.cluster import PERSON
from tests.world.site import Site, stable_site

SECRET = "hunter2-made-up"


def shop() -> Site:
    site = stable_site("a", "b", names=("orders", "payments"))
    topics.set_strategy(site.coordinator, "payments", "weighted", {"measure": "records"}, PERSON)
    site.settles()
    return site


def taken(site: Site) -> tuple[snapshot.ClusterSnapshot, bytes]:
    found = snapshot.take(site.coordinator)
    return found, snapshot.encode(found)


WHOLE = json.loads(taken(shop())[1])


def test_what_is_taken_is_read_back_the_same() -> None:
    site = shop()
    found, raw = taken(site)
    back = snapshot.decode("shop.json", raw)
    assert snapshot.encode(back) == raw
    assert (back.cluster, back.taken_at, back.left_out) == ("shop", site.clock.now(), {})
    assert back.policy == replace(site.policy, strategies=back.policy.strategies)
    assert back.site.topics["orders"].node == found.site.topics["orders"].node
    assert [one.sequence for one in back.history["orders"]] == [one.sequence for one in found.history["orders"]]


def test_the_newest_records_of_all_topics_share_what_the_file_has_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    site = shop()
    every = taken(site)[0].history
    monkeypatch.setattr(snapshot, "HISTORY_BYTES", 2 * 600)
    found, raw = taken(site)
    assert snapshot.decode("shop.json", raw).history.keys() == {"orders", "payments"}
    for topic, kept in found.history.items():
        written = json.loads(raw)["topics"][topic]["history"]
        assert 0 < len(kept) < len(every[topic])
        assert kept == every[topic][: len(kept)]
        assert len(json.dumps(written, separators=(",", ":"))) < 700


@pytest.mark.parametrize(
    "change",
    [
        SiteChange(join=2),
        SiteChange(leave=("a",)),
        SiteChange(crash=("b",)),
        SiteChange(strategy="range"),
        SiteChange(partitions=9),
    ],
)
def test_a_change_moves_the_same_on_the_file_as_on_the_cluster(change: SiteChange) -> None:
    site = shop()
    back = snapshot.decode("shop.json", taken(site)[1])
    here = preview.preview(site.coordinator, change)
    _, there = preview.previewed(back.site, change, back.policy, {})
    assert [(one.topic, [(m.partition, m.giver, m.taker) for m in one.moves]) for one in here] == [
        (one.topic, [(m.partition, m.giver, m.taker) for m in one.moves]) for one in there
    ]


def planted(site: Site) -> None:
    """The secret, wherever a text that planning does not need can hold it."""
    c = site.coordinator
    fleet.set_fleet(c, Fleet("app", f"/opt/{SECRET}.py", ("a",), (f"--set=password={SECRET}",), {"spark.x": SECRET}))
    site.starts("c")
    site.settles()
    directives.drain(c, "a", by=SECRET, why=SECRET)
    site.settles()
    undone, actor = rebalances(c, ["orders"], 1)[0].rebalance, replace(PERSON, who=SECRET)
    rollback.roll_back(c, "orders", undone, for_s=60.0, why=SECRET, actor=actor)
    directives.isolate(c, "c", by=SECRET, why=SECRET)
    site.settles()
    directives.expect_restart(c, "b", 600.0, moves=False, by=SECRET, why=SECRET)
    answered = Approval("0" * 16, granted=False, by=SECRET, why=SECRET, at=site.clock.now())
    topics.change_config(c, "payments", lambda config: replace(config, approval=answered))
    in_spark = replace(site.processes["b"].member, spark_ui=f"http://{SECRET}:4040", application_id=SECRET)
    site.zk.transact([SetData(site.paths.member("b"), encode_member(in_spark))])
    fleet.record_end(c, "c", site.processes["c"].member.incarnation, Ending.REAPED, f"exit code 1: {SECRET}")
    assert SECRET.encode() in site.zk.get(site.paths.id("c")).data
    for consumer, process in site.processes.items():
        answer = process.answer

        def said(asked: Member, answer: Callable[[Member], Any] = answer) -> Any:
            found = answer(asked)
            if not isinstance(found, ConsumerStatus):
                return found
            said = {n: replace(t, reports=(SECRET,), last_batch={SECRET: 1.0}) for n, t in found.topics.items()}
            return replace(found, health=f"failed: {SECRET}", reports=(SECRET,), boot_id=SECRET, topics=said)

        site.statuses.answers[consumer] = said


def test_no_secret_that_is_planted_anywhere_gets_into_the_file() -> None:
    site = shop()
    planted(site)
    history = b"".join(site.zk.get(site.paths.record("orders", one.sequence)).data for one in site.history())
    assert SECRET.encode() in history, "it is in what is read"
    found, raw = taken(site)
    assert SECRET.encode() not in raw
    assert SECRET in str(found), "and it is only left out when the file is written"
    assert b"http://a:" not in raw, "no address either"
    assert snapshot.decode("x", raw).site.topics.keys() == {"orders", "payments"}


def broken(path: str, value: Any) -> bytes:
    """The file with another value at a path such as `topics.orders.partitions`."""
    whole = json.loads(json.dumps(WHOLE))
    at = whole
    *outer, last = path.split("/")
    for name in outer:
        at = at[name]
    if value is KeyError:
        del at[last]
    else:
        at[last] = value
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "x.json: is not JSON in UTF-8"),
        (b"[]", "x.json: is not a JSON object but list; this is no snapshot, take one with `coordinator snapshot`"),
        (b"{}", "field 'kind' is not 'partition coordinator snapshot'"),
        (b"[" * 100_000, "is not JSON in UTF-8 (it is nested too deeply)"),
        (broken("version", 2), "x.json has format version 2; this release reads 1 to 1; use the release that wrote it"),
        (broken("version", "1"), "field 'version' is '1'"),
        (broken("cluster", "../x"), "field 'cluster'"),
        (broken("takenAt", -1), "field 'takenAt'"),
        (broken("policy/settle_s", "1"), "field 'policy.settle_s'"),
        (broken("policy/max_restarts", 1.5), "field 'policy.max_restarts'"),
        (broken("topics/orders/partitionCount", 2**31), "field 'topics.orders.partitionCount'"),
        (broken("topics/orders/partitions", [2**31 - 1]), "field 'topics.orders.partitions' has more than 100000"),
        (broken("topics/orders/partitions", [1, 1]), "names a partition twice"),
        (broken("topics/orders/config", None), "field 'topics.orders.config'"),
        (broken("topics/orders/config/topic", "payments"), "is not the configuration of this topic"),
        (broken("topics/orders/node/version", 7), "topics.orders.node has format version 7"),
        (broken("topics/orders/history", [{}] * 501), "field 'topics.orders.history' is not a list of at most 500"),
        (broken("topics/orders/racks", {"x": []}), "field 'topics.orders.racks.x' is not a partition number"),
        (broken("topics/..", {}), "is no name that can stand here"),
        (broken("members/a b", {}), "is no name that can stand here"),
        (broken("members/a/incarnation", "1"), "x.json members.a"),
        (broken("answers/a", {"silence": "?"}), "field 'answers.a.silence'"),
        (broken("unclear", [1]), "field 'unclear'"),
        (broken("members", KeyError), "field 'members' is missing"),
    ],
)
def test_a_foreign_file_is_refused_in_one_line(raw: bytes, said: str) -> None:
    with pytest.raises(Refused) as refused:
        snapshot.decode("x.json", raw)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_too_large_is_refused_before_it_is_read_as_json() -> None:
    with pytest.raises(Refused, match="more than 67108864"):
        snapshot.decode("x.json", b" " * (snapshot.MAX_BYTES + 1))


def _places(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        for name, one in value.items():
            found += _places(one, (*at, name))
    return found


@given(
    place=st.sampled_from(_places(WHOLE)), value=st.sampled_from([None, -1, 1e308, "x", [], {}, [[]], {"a": 1}, True])
)
def test_any_odd_value_anywhere_is_refused_or_can_be_replayed(place: tuple[str, ...], value: Any) -> None:
    with suppress(CoordinatorError):
        found = snapshot.decode("x.json", broken("/".join(place), value))
        replay(changed(found.site, SiteChange(join=1), found.policy.strategies), found.policy)
