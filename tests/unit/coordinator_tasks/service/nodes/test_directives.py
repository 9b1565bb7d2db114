from dataclasses import replace

import pytest

from coordinator_tasks.adapters.discovery import claim_incarnation, read_claim, write_claim
from coordinator_tasks.core.codecs.codec import encode_node
from coordinator_tasks.core.codecs.member_codec import encode_leave
from coordinator_tasks.core.errors import InvalidName, NotManaged, Refused
from coordinator_tasks.core.model import (
    ConsumerStatus,
    Draining,
    DrainKind,
    DrainOwner,
    Ending,
    Fleet,
    Isolation,
    Member,
    RunningPartition,
    Token,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.core.protocol.znodes import put
from coordinator_tasks.service.nodes.directives import (
    complete_readmissions,
    drain,
    isolate,
    read_directive,
    readmit,
    undrain,
)
from coordinator_tasks.service.nodes.fleet import fleets, record_end, set_fleet
from coordinator_tasks.service.nodes.observe import load_directives
from tests.fakes.cluster import Cluster

NODE = TopicNode("broker:9092", "g", 7, "gen", "id-1", incarnations={"a": 1})


def status(incarnation: int = 1, acted: int = 7, generation: str = "gen", running: bool = False) -> ConsumerStatus:
    partitions = {0: RunningPartition(5, Token(3, incarnation), started=True)} if running else {}
    topics = {"orders": TopicStatus(generation, acted, running=partitions)}
    return ConsumerStatus("a", "shop", incarnation, "boot", "ok", topics)


@pytest.fixture
def shop() -> Cluster:
    """Consumer a is registered and has a grant of one topic, at epoch 7."""
    cluster = Cluster()
    cluster.join("a")
    cluster.zk.transact([Create(cluster.paths.topic("orders"), encode_node(NODE))])
    return cluster


def readmits(cluster: Cluster) -> None:
    """A person isolates and readmits consumer a."""
    isolate(cluster.coordinator, "a", by="ada", why="x")
    readmit(cluster.coordinator, "a", "ada")


def isolated(cluster: Cluster) -> Isolation | None:
    return read_directive(cluster.coordinator, "a").isolation


@pytest.mark.parametrize("until_at", [float("inf"), float("nan"), 1e308])
def test_an_isolation_without_end_is_asked_for_by_no_number(shop: Cluster, until_at: float) -> None:
    before = shop.server.zxid
    with pytest.raises(Refused, match="lasts 366 days at most"):
        isolate(shop.coordinator, "a", by="ada", why="x", until_at=until_at)
    assert shop.server.zxid == before


def test_an_isolation_says_who_and_why_and_stands_once(shop: Cluster) -> None:
    first = isolate(shop.coordinator, "a", by="ada", why="wrong results")
    shop.clock.advance(5)
    assert isolate(shop.coordinator, "a", by="ada", why="wrong results").isolation == first.isolation
    assert shop.zk.get(shop.paths.directive("a")).stat.version == 0
    assert first.isolation == Isolation("ada", "wrong results", shop.clock.now() - 5)


def test_readmission_waits_for_the_consumers_own_word(shop: Cluster) -> None:
    isolate(shop.coordinator, "a", by="ada", why="x")
    shop.statuses.answers["a"] = status()
    assert complete_readmissions(shop.coordinator) == ()  # no request for a directive
    readmit(shop.coordinator, "a", "bob")
    assert complete_readmissions(shop.coordinator) == ("a",)
    assert isolated(shop) is None
    assert complete_readmissions(shop.coordinator) == ()


@pytest.mark.parametrize(
    "answer",
    [
        status(running=True),
        status(acted=6),
        status(generation="older"),
        status(incarnation=2),
        replace(status(), topics={}),
        None,
    ],
    ids=["runs something", "older epoch", "other generation", "other incarnation", "does not know the topic", "silent"],
)
def test_what_confirms_nothing_readmits_nobody(shop: Cluster, answer: ConsumerStatus | None) -> None:
    readmits(shop)
    if answer is not None:
        shop.statuses.answers["a"] = answer
    assert complete_readmissions(shop.coordinator) == ()
    assert isolated(shop) is not None


@pytest.mark.parametrize(
    ("granted", "acted", "confirms"),
    [({}, None, True), ({"a": 1}, None, False), ({}, 6, False), ({}, 7, True)],
    ids=["started after the removal", "may not have read it yet", "knows it as it was", "knows that it is removed"],
)
def test_a_removed_topic_is_confirmed_by_who_has_never_had_it_as_well(
    shop: Cluster, granted: dict[str, int], acted: int | None, confirms: bool
) -> None:
    removed = encode_node(replace(NODE, incarnations=granted, removed=True))
    shop.zk.transact([Create(shop.paths.topic("removed"), removed)])
    readmits(shop)
    known = {} if acted is None else {"removed": TopicStatus("gen", acted)}
    shop.statuses.answers["a"] = replace(status(), topics={**status().topics, **known})
    assert complete_readmissions(shop.coordinator) == (("a",) if confirms else ())


@pytest.mark.parametrize("what", ["topic", "id", "directive"])
def test_a_readmission_is_guarded_by_all_that_it_was_concluded_from(shop: Cluster, what: str) -> None:
    readmits(shop)
    shop.statuses.answers["a"] = status()
    path = {"topic": shop.paths.topic("orders"), "id": shop.paths.id("a"), "directive": shop.paths.directive("a")}[what]
    write = SetData(path, shop.zk.get(path).data)
    shop.server.before_next(
        lambda: shop.server.connect().transact([write]),
        lambda _, operations: operations[-1].path == shop.paths.directive("a"),
    )
    assert complete_readmissions(shop.coordinator) == ()
    assert isolated(shop) is not None
    assert complete_readmissions(shop.coordinator) == ("a",)


def test_the_known_end_of_all_that_was_granted_is_a_confirmation_too(shop: Cluster) -> None:
    readmits(shop)
    record_end(shop.coordinator, "a", 1, Ending.REAPED)
    assert complete_readmissions(shop.coordinator) == ("a",)


@pytest.mark.parametrize("ended", [True, False], ids=["whose end is known", "which may still wait"])
def test_a_second_process_that_was_refused_its_id_says_nothing_of_the_first(shop: Cluster, ended: bool) -> None:
    moved = encode_node(replace(NODE, incarnations={}))
    shop.zk.transact([SetData(shop.paths.topic("orders"), moved)])
    refused = claim_incarnation(shop.zk, shop.paths, "a", 1)
    if ended:
        record_end(shop.coordinator, "a", refused, Ending.REAPED)
    readmits(shop)
    shop.statuses.answers["a"] = status(running=True)
    assert complete_readmissions(shop.coordinator) == (), "it still runs something"
    shop.statuses.answers["a"] = status()
    assert complete_readmissions(shop.coordinator) == ("a",)


def test_the_end_of_a_second_process_does_not_stand_for_the_life_that_is_absent_and_has_answered(shop: Cluster) -> None:
    moved = encode_node(replace(NODE, incarnations={}))
    answered = replace(read_claim(shop.zk, shop.paths, "a"), answered=1)
    shop.zk.transact([SetData(shop.paths.topic("orders"), moved), write_claim(shop.paths, answered)])
    refused = claim_incarnation(shop.zk, shop.paths, "a", 1)
    record_end(shop.coordinator, "a", refused, Ending.REAPED)
    shop.server.sessions[-1].close()
    readmits(shop)
    assert complete_readmissions(shop.coordinator) == (), "nobody knows what it runs"
    record_end(shop.coordinator, "a", 1, Ending.REAPED)
    assert complete_readmissions(shop.coordinator) == ("a",)


def test_an_end_in_an_older_list_is_not_that_of_a_new_process(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    older = shop.coordinator.discovery.members()
    shop.server.sessions[-1].close()
    shop.join("a")
    record_end(shop.coordinator, "a", 1, Ending.REAPED)
    shop.zk.transact([SetData(shop.paths.topic("orders"), encode_node(replace(NODE, incarnations={})))])
    readmits(shop)
    shop.statuses.answers["a"] = status(incarnation=2)
    with monkeypatch.context() as patch:
        patch.setattr(type(shop.coordinator.discovery), "members", lambda _: older)
        shop.statuses.answers["a"] = status(incarnation=2, running=True)
        assert complete_readmissions(shop.coordinator) == ()
    shop.statuses.answers["a"] = status(incarnation=2)
    assert complete_readmissions(shop.coordinator) == ("a",)


def test_a_detached_consumer_is_asked_at_its_last_address(shop: Cluster) -> None:
    shop.server.sessions[-1].close()
    readmits(shop)
    asked: list[Member] = []

    def answer(member: Member) -> ConsumerStatus:
        asked.append(member)
        return status()

    shop.statuses.answers["a"] = answer
    assert complete_readmissions(shop.coordinator) == ("a",)
    assert [(one.address, one.incarnation) for one in asked] == [("http://a:9001", 1)]


def test_draining_takes_the_consumer_out_of_its_fleet_in_the_same_transaction(shop: Cluster) -> None:
    set_fleet(shop.coordinator, Fleet("etl", "app.py", ("a", "b")))
    directive = drain(shop.coordinator, "a", "ada", "upgrade")
    assert directive.draining is not None
    assert fleets(shop.coordinator)[0].consumers == ("b",)
    directive_stat, fleet_stat = (
        shop.zk.get(path).stat for path in (shop.paths.directive("a"), shop.paths.fleet("etl"))
    )
    assert directive_stat.modified_zxid == fleet_stat.modified_zxid
    before = shop.server.zxid
    shop.clock.advance(1)
    assert drain(shop.coordinator, "a", "ada", "upgrade").draining == directive.draining
    assert shop.server.zxid == before
    assert drain(shop.coordinator, "a", "bob", "again").draining == replace(directive.draining, by="bob", why="again")


@pytest.mark.parametrize("act", ["isolate", "readmit", "drain", "undrain"])
def test_an_unknown_consumer_is_refused_and_the_known_ones_are_listed(shop: Cluster, act: str) -> None:
    acts = {
        "isolate": lambda name: isolate(shop.coordinator, name, by="ada", why="x"),
        "readmit": lambda name: readmit(shop.coordinator, name, "ada"),
        "drain": lambda name: drain(shop.coordinator, name, "ada", "x"),
        "undrain": lambda name: undrain(shop.coordinator, name),
    }
    with pytest.raises(NotManaged, match=r"never seen a consumer 'z' \(it knows: a\); correct the id"):
        acts[act]("z")
    with pytest.raises(InvalidName):
        acts[act]("../a")


def say_leave(shop: Cluster, data: bytes) -> None:
    shop.zk.transact([put(shop.paths.leave("a"), data, -1)])


def loaded(shop: Cluster) -> tuple[Draining | None, dict[str, str]]:
    """The draining of consumer a as seen by plans, and the unreadable nodes."""
    unclear: dict[str, str] = {}
    found = load_directives(shop.coordinator, unclear).get("a")
    return found.draining if found is not None else None, unclear


def test_a_consumer_asks_for_its_own_end_in_a_node_of_its_own(shop: Cluster) -> None:
    say_leave(shop, encode_leave(Draining("somebody", "asked to end", 5.0, incarnation=1)))
    assert loaded(shop) == (Draining("a", "asked to end", 5.0, 1, owner=DrainOwner(DrainKind.ITSELF)), {})
    drain(shop.coordinator, "a", "ada", "upgrade")
    found, _ = loaded(shop)
    assert (found.by, found.incarnation, found.leaving) == ("ada", 0, 1)
    assert read_directive(shop.coordinator, "a").draining == replace(found, leaving=0), "nothing was written"


def test_a_wish_to_leave_that_cannot_be_read_is_named_and_leaves_the_directive(shop: Cluster) -> None:
    say_leave(shop, b"{")
    _, unclear = loaded(shop)
    assert list(unclear) == ["a"]
    assert shop.paths.leave("a") in unclear["a"]
