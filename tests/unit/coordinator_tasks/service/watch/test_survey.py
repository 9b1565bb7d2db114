"""What metrics show of a cluster: what is now, what has happened since the first look, and how far groups are behind."""

from collections.abc import Collection, Mapping

import pytest

from coordinator_tasks.core.codecs.history_codec import with_pauses
from coordinator_tasks.core.errors import KafkaUnavailable, StoreUnavailable
from coordinator_tasks.core.model import Pause, Pauses, Silence, State, Unmoved
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.nodes.topics import add_topic
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import survey, topic_metrics
from coordinator_tasks.service.watch.group_commits import commits
from coordinator_tasks.service.watch.survey import AUDIT_EVERY_S, PartitionLag, Surveyor
from tests.fakes.cluster import PERSON
from tests.fakes.kafka import FakeKafka
from tests.world.site import LOOP, Site, stable_site


@pytest.fixture
def site() -> Site:
    return stable_site("a", "b")


def surveyor(site: Site) -> Surveyor:
    made = Surveyor(site.coordinator)
    made.look()
    return made


def fails(one: Surveyor, monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> None:
    """A look during which ZooKeeper goes away at this call."""

    def away(*_: object) -> None:
        raise StoreUnavailable("ZooKeeper does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(place, name, away)
        with pytest.raises(StoreUnavailable):
            one.look()


def measured(site: Site, found: Pauses) -> None:
    """Somebody measures the pauses of the last rebalance."""
    path = site.paths.record("orders", site.history()[-1].sequence)
    site.zk.transact([SetData(path, with_pauses(path, site.zk.get(path).data, found))])


# What is now ---------------------------------------------------------------------------------------------------------


def test_a_topic_on_its_way_says_how_long_it_takes_and_what_moves(site: Site) -> None:
    site.starts("c")
    site.clock.advance(2)
    figures_before = surveyor(site).look()
    transitions.step(site.coordinator, ["orders"], LOOP)
    site.clock.advance(7)
    (one,) = topic_metrics.figures(site.coordinator)
    assert one.state is State.CLOSING
    assert (one.not_stable_s, one.moving, one.handoffs) == (7.0, 1, 1)
    assert figures_before.topics[0].handoffs == 0


# What has happened ---------------------------------------------------------------------------------------------------


def test_moves_count_from_the_first_look_on(site: Site) -> None:
    one = surveyor(site)
    before = one.look().happened["orders"]
    assert (before.rebalances, sum(before.moves.values())) == (0, 0), "the first plan was before"
    site.starts("c")
    site.settles()
    after = one.look().happened["orders"]
    assert (after.rebalances, dict(after.moves)) == (1, {"handoff": 1})
    assert one.look().happened["orders"].rebalances == 1, "another look counts nothing twice"


def test_moves_count_also_if_zookeeper_goes_away_at_a_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    one = surveyor(site)
    site.starts("c")
    site.settles()
    fails(one, monkeypatch, survey, "find_many")
    after = one.look().happened["orders"]
    assert (after.rebalances, dict(after.moves)) == (1, {"handoff": 1})


def test_a_pause_counts_once_it_is_measured_and_only_once(site: Site) -> None:
    one = surveyor(site)
    site.starts("c")
    site.settles()
    assert one.look().happened["orders"].pauses.total == 0
    first = Pause(0, wait_s=0.02, records=7)
    measured(site, Pauses((first,), missing=3))
    assert one.look().happened["orders"].pauses.total == pytest.approx(0.02)
    more = (first, Pause(1, wait_s=3.0, records=1, least=True), Pause(2), Pause(3, wait_s=0.5, records=2))
    measured(site, Pauses(more, unmoved=Unmoved(3, 0.004, 2, "a", 0.003)))
    for _ in range(2):
        happened = one.look().happened["orders"]
    assert happened.pauses.total == pytest.approx(0.52)
    assert dict(happened.pauses.cumulative())["0.02"] == 1
    assert (happened.at_least, happened.idle, happened.waited) == (1, 1, 10)
    assert happened.stalls.total == pytest.approx(0.004)


def test_a_record_that_may_not_be_read_keeps_no_later_one_from_being_counted(site: Site) -> None:
    one = surveyor(site)
    site.starts("c")
    site.settles()
    site.zk.denied.add(site.paths.record("orders", site.history()[-2].sequence))
    one.look()
    site.dies("c")
    site.settles()
    assert one.look().happened["orders"].rebalances == 2


def test_seconds_without_an_owner_count_before_a_failed_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    one = surveyor(site)
    site.dies("a")
    site.dies("b")
    site.settles()
    before_s = one.look().happened["orders"].unowned_s
    site.clock.advance(10)
    fails(one, monkeypatch, survey._Events, "look")
    site.clock.advance(10)
    assert one.look().happened["orders"].unowned_s - before_s == pytest.approx(4 * 20)


def test_partitions_without_an_owner_add_up_seconds(site: Site) -> None:
    one = surveyor(site)
    site.dies("a")
    site.dies("b")
    site.settles()
    found = one.look()
    assert found.topics[0].unowned == (0, 1, 2, 3)
    assert found.oldest_unowned_s == {"orders": 0.0}
    before_s = found.happened["orders"].unowned_s
    site.clock.advance(5)
    found = one.look()
    assert found.happened["orders"].unowned_s - before_s == 20.0
    assert found.oldest_unowned_s == {"orders": 5.0}
    site.starts("c")
    site.settles()
    assert one.look().oldest_unowned_s == {}


def test_the_audit_is_made_again_when_it_is_due(site: Site) -> None:
    one = surveyor(site)
    first = one.look()
    site.kafka.members["g"] = ("tool at 10.0.0.7",)
    site.clock.advance(AUDIT_EVERY_S - 1)
    assert one.look().audited is first.audited
    site.clock.advance(1)
    later = one.look()
    assert later.audited.counts["intruder"] == 1
    assert first.audited_at < later.audited_at == site.clock.now()


def test_consumers_are_counted_by_what_is_known_of_them(site: Site) -> None:
    one = surveyor(site)
    site.dies("a", how=None)
    found = {consumer.consumer: consumer.presence for consumer in one.look().consumers}
    assert found == {"a": "absent", "b": "live"}


# How far the groups are behind ---------------------------------------------------------------------------------------


def lag_of(found: tuple[PartitionLag, ...], partition: int) -> PartitionLag:
    (one,) = [one for one in found if one.partition == partition]
    return one


def test_the_lag_is_that_of_the_commits_in_kafka(site: Site) -> None:
    site.kafka.append("orders", 0, 100)
    site.commit(0, 60)
    lag = lag_of(Surveyor(site.coordinator).look().lags, 0)
    owner = site.node().assignments[0]
    assert (lag.group, lag.offset, lag.end, lag.lag, lag.owner, lag.told) == ("g", 60, 100, 40, owner, True)
    assert (lag.lag_s, lag.status) == (None, None)


def test_the_lag_of_a_silent_owner_is_told_here_in_seconds_too(site: Site) -> None:
    site.kafka.append("orders", 0, 100)
    site.commit(0, 90)
    one = surveyor(site)
    site.processes[site.node().assignments[0]].silence = Silence.SILENT
    for _ in range(12):
        site.clock.advance(10.0)
        site.kafka.append("orders", 0, 10)
        found = lag_of(one.look().lags, 0)
    assert not found.told
    assert found.lag_s is not None
    assert found.lag_s >= 120.0


def test_a_silent_kafka_is_not_waited_for_in_each_of_many_groups(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def silent(_: FakeKafka, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        asked.append(topic)
        site.clock.sleep(10.0)
        raise KafkaUnavailable(
            f"Kafka does not answer within 10 s for {len(partitions)} partitions; check that it runs"
        )

    for number in range(15):
        site.kafka.create_topic(f"topic-{number:02d}", 1)
        add_topic(site.coordinator, f"topic-{number:02d}", f"group-{number:02d}", actor=PERSON)
    monkeypatch.setattr(FakeKafka, "bounds", silent)
    unknown: dict[str, str] = {}
    assert not list(commits(site.coordinator, topic_metrics.figures(site.coordinator), unknown))
    assert len(asked) == 3
    assert len(unknown) == 16, "each group is named"
