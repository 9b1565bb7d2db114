from dataclasses import replace

import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.codecs.member_codec import encode_directive
from coordinator_tasks.core.errors import InvalidName, LookAgain, Refused
from coordinator_tasks.core.model import Directive, Ending, Fleet, Isolation
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.nodes.directives import drain, isolate
from coordinator_tasks.service.nodes.fleet import fleets, launch_of, missing, record_end, set_fleet
from coordinator_tasks.service.nodes.observe import PLATFORM
from coordinator_tasks.service.watch import overview
from tests.fakes.cluster import Cluster

ETL = Fleet("etl", "app.py", ("a", "b"), ("--fast",), {"spark.x": "1"})


@pytest.fixture
def shop() -> Cluster:
    cluster = Cluster()
    set_fleet(cluster.coordinator, ETL)
    return cluster


def absent(cluster: Cluster) -> list[str]:
    return [launch.consumer for launch in missing(cluster.coordinator)]


def test_a_fleet_is_kept_and_the_same_again_changes_nothing(shop: Cluster) -> None:
    assert set_fleet(shop.coordinator, ETL).version == 0
    assert fleets(shop.coordinator)[0] == replace(ETL, version=0)
    assert set_fleet(shop.coordinator, replace(ETL, consumers=("a",))).version == 1


def test_a_fleet_changed_by_somebody_else_is_not_overwritten_by_its_version(shop: Cluster) -> None:
    seen = fleets(shop.coordinator)[0]
    set_fleet(shop.coordinator, replace(ETL, consumers=("c",)))
    with pytest.raises(LookAgain):
        set_fleet(shop.coordinator, replace(seen, consumers=("d",)))


def test_one_id_belongs_to_one_fleet(shop: Cluster) -> None:
    with pytest.raises(Refused, match="consumer 'b' is in the fleet of 'etl' already"):
        set_fleet(shop.coordinator, Fleet("ml", "app.py", ("b",)))
    with pytest.raises(Refused, match="names a consumer twice"):
        set_fleet(shop.coordinator, Fleet("ml", "app.py", ("x", "x")))
    with pytest.raises(InvalidName):
        set_fleet(shop.coordinator, Fleet("ml", "app.py", ("x/y",)))


def test_two_fleets_that_take_the_same_id_at_once_do_not_both_get_it(shop: Cluster) -> None:
    set_fleet(shop.coordinator, Fleet("ml", "app.py", ()))
    shop.server.before_next(lambda: set_fleet(shop.coordinator, Fleet("ml", "app.py", ("n",))), lambda *_: True)
    with pytest.raises(Refused, match="consumer 'n' is in the fleet of 'ml' already"):
        set_fleet(shop.coordinator, replace(ETL, consumers=("n",)))


def test_consumers_that_never_ran_are_missing_with_all_that_a_launch_needs(shop: Cluster) -> None:
    assert absent(shop) == ["a", "b"]
    launch = missing(shop.coordinator)[0]
    assert (launch.app, launch.application, launch.arguments, dict(launch.conf)) == (
        "etl",
        "app.py",
        ("--fast",),
        {"spark.x": "1"},
    )


def test_a_consumer_isolated_by_the_platform_is_launched_again_without_a_known_end(shop: Cluster) -> None:
    shop.join("a")
    shop.server.sessions[-1].close()
    assert absent(shop) == ["b"]
    isolated = Directive("a", Isolation(PLATFORM, "absent and silent", 1.0, incarnation=1, readmit=True))
    shop.zk.transact([Create(shop.paths.directive("a"), encode_directive(isolated))])
    assert absent(shop) == ["a", "b"]
    shop.join("a")
    shop.server.sessions[-1].close()
    assert absent(shop) == ["b"], "the isolation was of the life before"


def test_a_draining_or_isolated_consumer_is_not_launched(shop: Cluster) -> None:
    for consumer in ("a", "b"):
        shop.join(consumer)
        shop.server.sessions[-1].close()
        record_end(shop.coordinator, consumer, 1, Ending.LEFT)
    isolate(shop.coordinator, "b", by="ada", why="x")
    assert absent(shop) == ["a"]
    drain(shop.coordinator, "a", "ada", "x")
    set_fleet(shop.coordinator, ETL)
    assert absent(shop) == []


def test_a_reason_is_added_to_a_known_end_and_the_first_one_stays(shop: Cluster) -> None:
    shop.join("a")
    record_end(shop.coordinator, "a", 1, Ending.LEFT)
    claim = record_end(shop.coordinator, "a", 1, Ending.REAPED, "exit code 1: ModuleNotFoundError: no x")
    assert (claim.ended, claim.reasons) == ({1: Ending.LEFT}, {1: "exit code 1: ModuleNotFoundError: no x"})
    assert record_end(shop.coordinator, "a", 1, Ending.REAPED, "something else").reasons == claim.reasons


def test_a_fleet_that_is_not_allowed_is_named_and_all_others_are_launched(shop: Cluster) -> None:
    evil = Fleet("evil", "/tmp/evil.py", ("x",))
    set_fleet(shop.coordinator, evil)  # by somebody who writes to ZooKeeper
    strict = replace(shop.coordinator, allowed=AllowedLaunches(applications="app.py", conf="spark.x"))
    problems: list[str] = []
    assert [one.consumer for one in missing(strict, problems)] == ["a", "b"]
    (said,) = problems
    assert "this site does not allow the application '/tmp/evil.py'" in said
    assert launch_of(strict, "a") is not None
    with pytest.raises(Refused, match="does not allow the application"):
        launch_of(strict, "x")
    assert [one.problem for one in fleets(strict)] == ["", said]
    told = {one.consumer: one.problem for one in overview.consumers(strict)}
    assert told.pop("x") == said
    assert all(problem.startswith("it has never registered: ") for problem in told.values())


def test_a_fleet_that_is_not_allowed_is_not_set_and_can_be_emptied(shop: Cluster) -> None:
    strict = replace(shop.coordinator, allowed=AllowedLaunches())
    with pytest.raises(Refused, match=r"allowed\.applications"):
        set_fleet(strict, ETL)
    shop.join("a")
    assert drain(strict, "a", "ada", "x").draining is not None
    assert fleets(strict)[0].consumers == ("b",)
    assert set_fleet(strict, replace(ETL, consumers=())).consumers == ()
    assert missing(strict) == ()
