"""What the audit of ownership finds when ZooKeeper, the consumers and the commits in Kafka do not agree."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.machine.audit import (
    ALARMS,
    Committer,
    Finding,
    FindingKind,
    committers,
    findings,
    old_code,
    suspicious,
    traces,
)
from coordinator_tasks.core.machine.confirm import blockers
from coordinator_tasks.core.model import (
    Committed,
    Directive,
    Failure,
    Fleet,
    Overwritten,
    PlannedRestart,
    RunningPartition,
    Token,
)
from tests.world.scene import TOPIC, Scene, member, running, stable

CLUSTER = "shop"


def audited(first: Scene, second: Scene | None = None, subscribers: tuple[str, ...] = ()) -> list[Finding]:
    """The findings of two looks; the same twice if there is only one scene."""
    looks = [traces(one.view(), one.world(), one.policy, CLUSTER, subscribers) for one in (first, second or first)]
    return findings(TOPIC, *looks)


def committing(scene: Scene) -> Scene:
    """Every owner's commit is in Kafka."""
    node = scene.node
    scene.committed = {
        p: Committed(10, Token(node.since[p], node.incarnations[owner], node.generation), owner, CLUSTER, "id-1")
        for p, owner in node.assignments.items()
    }
    return scene


def commit(scene: Scene, partition: int, **changes: Any) -> Scene:
    assert scene.committed is not None
    scene.committed = {**scene.committed, partition: replace(scene.committed[partition], **changes)}
    return scene


@pytest.fixture
def scene() -> Scene:
    return committing(stable("a", "b"))


def kinds(found: list[Finding]) -> list[FindingKind]:
    return [FindingKind(one.code) for one in found]


def test_two_consumers_that_run_one_partition_are_both_named(scene: Scene) -> None:
    (taken, *_) = scene.owned["a"]
    own = scene.node.since[scene.owned["b"][0]]
    scene.says(
        "b", running=running({**dict.fromkeys(scene.owned["b"], own), taken: 1}, generation=scene.node.generation)
    )
    (one,) = audited(scene)
    assert (one.code, one.partitions, one.who, one.alarm) == ("KPC-080", (taken,), "a, b", True)
    assert "both run it, and ZooKeeper names a" in one.says
    assert one.told.startswith("KPC-080: partition ")
    assert one.told.endswith("isolate the consumer that ZooKeeper does not name, and end its process")


@pytest.mark.parametrize(("epoch", "kind"), [(1, FindingKind.STALE), (0, FindingKind.INTRUDER)])
def test_an_old_token_that_the_owner_alone_met_is_found(scene: Scene, epoch: int, kind: FindingKind) -> None:
    (mine, *_) = scene.owned["a"]
    clean = committing(stable("a", "b"))
    status = scene.answers["a"].topics[TOPIC].running  # type: ignore[union-attr]
    over = replace(status[mine], overwritten=Overwritten("zombie", epoch, 42.0))
    scene.says("a", running={**status, mine: over})
    for looks in ((scene, clean), (clean, scene)):
        (one,) = audited(*looks)
        assert (one.code, one.partitions, one.who, one.alarm) == (kind, (mine,), "zombie", True)
        assert "over a within the last minutes" in one.says


def test_a_disbelieved_consumer_is_detected_for_any_false_epoch(scene: Scene) -> None:
    (taken, *_) = scene.owned["a"]
    later = committing(stable("a", "b"))
    for one, epoch in ((scene, 1), (later, 2)):
        one.joins("liar").acts("liar", runs=())
        one.says("liar", running=running({taken: epoch}, generation=one.node.generation))
    assert ("KPC-080", (taken,), "a, liar") in [(one.code, one.partitions, one.who) for one in audited(scene, later)]
    for one in (scene, later):
        one.says("liar", running={}, acted_epoch=2**50)
    (said,) = [one for one in audited(scene, later) if one.who == "liar"]
    assert (said.code, said.alarm, "which it cannot have reached" in said.says) == ("KPC-082", True, True)


def test_an_owner_under_a_planned_restart_is_restarting_until_its_time_is_over(scene: Scene) -> None:
    mine = tuple(scene.owned["a"])
    scene.vanishes("a")
    restart = PlannedRestart("ada", "patch", scene.now, scene.now + 300, 1)
    scene.directives["a"] = Directive("a", restart=restart)
    (one,) = audited(scene)
    assert (one.code, one.partitions, one.alarm) == ("KPC-085", mine, False)
    assert "a, its owner, is restarting, expected until " in one.says
    assert "asked by ada: patch" in one.says
    scene.now += 301
    assert [one.code for one in audited(scene)] == ["KPC-081"]


def test_what_two_looks_do_not_both_find_is_a_hand_off_and_no_finding(scene: Scene) -> None:
    later = committing(stable("a", "b"))
    (taken, *_) = scene.owned["a"]
    scene.says("b", running=running(dict.fromkeys((*scene.owned["b"], taken), 1)))
    assert suspicious(traces(scene.view(), scene.world(), scene.policy, CLUSTER))
    assert audited(scene, later) == audited(later, scene) == []


def test_a_partition_that_its_owner_cannot_process_is_found_however_many_seconds_a_look_counts(scene: Scene) -> None:
    (taken, *_) = scene.owned["a"]
    later = committing(stable("a", "b"))
    for one, seconds in ((scene, 700.0), (later, 705.0)):
        one.says("a", failures=(Failure((taken,), "no such table", 9, seconds),))
    (found,) = audited(scene, later)
    assert (found.code, found.partitions, found.who) == ("KPC-081", (taken,), "a")
    assert "since 705 s: no such table" in found.says


def test_a_consumer_that_follows_each_plan_a_little_later_is_not_stale(scene: Scene) -> None:
    (taken, *_) = scene.owned["a"]
    later = committing(stable("a", "b"))
    for one, epoch in ((scene, 5), (later, 6)):
        one.committed = None
        one.node = replace(one.node, epoch=epoch + 1, since={**one.node.since, taken: epoch + 1})
        one.says(
            "a", running={**running(dict.fromkeys(one.owned["a"], 1)), **running({taken: epoch})}, acted_epoch=epoch + 1
        )
    assert [one for one in audited(scene, later) if one.code == "KPC-083"] == []
    assert "KPC-083" in [one.code for one in audited(scene)]


def test_a_consumer_running_a_partition_without_a_grant_is_an_intruder(scene: Scene) -> None:
    mine, theirs = scene.owned["a"], scene.owned["b"]
    scene.says("a", running=running(dict.fromkeys(mine, 1)))
    scene.says("b", running=running(dict.fromkeys(theirs[1:], 1)))
    scene.joins("c").acts("c", runs=theirs[:1])
    found = audited(scene)
    assert [(one.code, one.partitions, one.who) for one in found if one.who == "c"] == [("KPC-082", (theirs[0],), "c")]


def test_a_giver_and_a_consumer_that_is_asked_to_close_may_run_what_moves(scene: Scene) -> None:
    scene.joins("c")
    scene.step()
    assert scene.node.handoff
    assert kinds(audited(scene)) == [FindingKind.NO_WORD, FindingKind.NO_WORD], "the givers have not read the plan yet"
    for giver in ("a", "b"):
        scene.says(giver, acted_epoch=scene.node.epoch)
    assert audited(scene) == []


def test_partitions_without_an_owner_are_found_and_those_in_flight_are_not(scene: Scene) -> None:
    scene.node = replace(scene.node, assignments={p: c for p, c in scene.node.assignments.items() if p != 2})
    (one,) = [one for one in audited(scene) if one.who == ""]
    assert (one.code, one.partitions) == ("KPC-081", (2,))
    assert one.says.startswith("partition 2 of orders: no owner; start a consumer")
    assert "what its owner" not in one.mend, "there is none"
    scene.state = replace(scene.state, to_start={"a": (2,)})
    assert [one for one in audited(scene) if one.who == ""] == []


@pytest.mark.parametrize(
    ("happens", "kind", "says"),
    [
        (lambda scene: scene.dies("a"), FindingKind.NO_OWNER, "a, its owner, has ended"),
        (
            lambda scene: scene.vanishes("a"),
            FindingKind.NO_OWNER,
            "a, its owner, is not registered and does not answer",
        ),
        (lambda scene: scene.is_silent("a"), FindingKind.NO_WORD, "a, its owner, is registered and does not answer"),
        (lambda scene: scene.says("a", running={}), FindingKind.NO_OWNER, "a owns it and does not run it"),
        (lambda scene: scene.says("a", acted_epoch=0), FindingKind.NO_WORD, "does not follow ZooKeeper"),
        (lambda scene: scene.says("a", generation="g0"), FindingKind.NO_WORD, "does not follow ZooKeeper"),
        (lambda scene: scene.joins("a"), FindingKind.NO_WORD, "a, its owner, says nothing of the topic"),
    ],
    ids=["ended", "absent", "silent", "does not run", "older epoch", "older generation", "without the topic"],
)
def test_an_owner_that_does_not_run_is_named_with_all(scene: Scene, happens: Any, kind: FindingKind, says: str) -> None:
    mine = tuple(scene.owned["a"])
    happens(scene)
    (one,) = audited(scene)
    assert (FindingKind(one.code), one.partitions, one.who, one.alarm) == (kind, mine, "a", kind in ALARMS)
    assert says in one.says


def test_a_consumer_that_runs_an_older_holding_than_it_is_granted_is_stale(scene: Scene) -> None:
    (first, *_) = scene.owned["a"]
    scene.node = replace(scene.node, since={**scene.node.since, first: scene.node.since[first] + 1})
    found = [one for one in audited(scene) if one.partitions == (first,)]
    assert kinds(found) == [FindingKind.STALE]
    assert "a runs it under epoch" in found[0].says


@pytest.mark.parametrize(
    ("changes", "kind", "says", "lasting"),
    [
        (
            {"token": None, "owner": "", "cluster": ""},
            FindingKind.INTRUDER,
            "somebody without a token has committed it",
            False,
        ),
        ({"cluster": "other"}, FindingKind.INTRUDER, "of cluster 'other' commits it as well", False),
        (
            {"token": Token(0, 1, "g1"), "owner": "b"},
            FindingKind.STALE,
            "b has committed it under epoch 0, over a",
            True,
        ),
        ({"topic_id": "id-0"}, FindingKind.STALE, "a has committed it for a former topic of this name", True),
        (
            {"token": Token(9, 2, "g1"), "owner": "b"},
            FindingKind.INTRUDER,
            "b has committed it under epoch 9, and a runs",
            True,
        ),
        (
            {"token": Token(2**40, 2, "g1"), "owner": "b"},
            FindingKind.INTRUDER,
            "which the topic cannot have reached",
            True,
        ),
    ],
    ids=["no token", "another cluster", "older token", "former topic", "newer token", "impossible epoch"],
)
def test_a_commit_that_is_not_the_owners_is_named(
    scene: Scene, changes: dict[str, Any], kind: FindingKind, says: str, lasting: bool
) -> None:
    (first, *_) = scene.owned["a"]
    good = committing(stable("a", "b"))
    commit(scene, first, **changes)
    (one,) = audited(scene)
    assert (FindingKind(one.code), one.partitions, one.alarm) == (kind, (first,), True)
    assert says in one.says
    assert len(audited(scene, good)) == len(audited(good, scene)) == (0 if lasting else 1)


def test_an_owner_that_has_started_and_has_no_commit_is_named(scene: Scene) -> None:
    (first, *_) = scene.owned["a"]
    del scene.committed[first]
    (one,) = audited(scene)
    assert (one.code, one.says) == (
        "KPC-085", f"partition {first} of orders: nothing is committed, though a says that its start is",
    )  # fmt: skip


def test_a_commit_says_nothing_before_the_owner_has_committed_its_start(scene: Scene) -> None:
    (first, *_) = scene.owned["a"]
    commit(scene, first, token=None)
    one = RunningPartition(10, Token(scene.node.since[first], 1, scene.node.generation), started=False)
    rest = dict.fromkeys(scene.owned["a"][1:], 1)
    starting = {**running(rest, generation=scene.node.generation), first: one}
    scene.says("a", running=starting)
    assert audited(scene) == []
    scene.says("a", running={**starting, first: replace(one, started=True, closing=True)})
    assert audited(scene) == []


def test_a_partition_that_waits_for_a_forged_owner_is_the_intruder_s(scene: Scene) -> None:
    (taken, *_) = scene.owned["b"]
    commit(scene, taken, owner="zz", token=Token(99, 7, "g1"))
    scene.step()
    assert taken in scene.state.to_close["zz"]
    (one,) = (found for found in audited(scene) if found.who == "zz")
    assert (one.code, one.partitions, one.alarm) == ("KPC-082", (taken,), True)
    assert "a commit names zz as the owner, ZooKeeper knows no such consumer" in one.says
    assert "ZooKeeper knows no consumer of this id" in blockers(scene.view(), scene.world())["zz"]
    unreadable = replace(scene.world(), unclear={"zz": "its node in ids cannot be read"})
    assert blockers(scene.view(), unreadable)["zz"] == "zz is not registered and was not asked"
    assert not [found for found in traces(scene.view(), unreadable, scene.policy, CLUSTER) if found.who == "zz"]
    scene.joins("zz")
    assert not [found for found in audited(scene) if "no such consumer" in found.says]


def test_a_removed_topic_is_not_audited_and_one_without_a_plan_has_no_owners(scene: Scene) -> None:
    planned = scene.node
    scene.node = None
    assert [one.partitions for one in audited(scene)] == [(0, 1, 2, 3)]
    scene.node = planned
    scene.dies("a")
    scene.config = replace(scene.config, removed=True)
    assert audited(scene) == []


def test_committers_are_counted_by_what_changed_between_the_looks() -> None:
    own = Token(3, 1, "g1")
    first = {0: Committed(10, own, "a"), 1: Committed(5, own, "a"), 2: Committed(7)}
    second = {0: Committed(14, own, "a"), 1: Committed(5, own, "a"), 2: Committed(2), 3: Committed(1, own, "b")}
    assert committers("orders", first, second) == [
        Committer("orders", "a", (0, 1), 1, 4),
        Committer("orders", "b", (3,), 1, 0),
        Committer("orders", "nobody with a token", (2,), 1, 0),
    ]


def test_consumers_of_another_release_or_version_of_the_code_are_named() -> None:
    members = {
        "a": member("a", release="0.3.0", attributes={"code": "v2"}),
        "b": member("b", release="0.2.0", attributes={"code": "v1"}),
        "c": member("c"),
        "d": replace(member("d"), problem="cannot be read"),
        "e": member("e", release="0.3.0"),
        "f": member("f", release="0.3.0", attributes={"code": "v3"}),
    }
    fleets = [Fleet("app", "app.py", ("a", "b", "e", "f"), code="v2", replaced={"e": 1}, runs={"f": "v3"})]
    found = old_code(members, fleets, "0.3.0", "code")
    assert [one.says for one in found] == [
        "b runs release 0.2.0, and the coordinator release 0.3.0",
        "b runs code v1, and its fleet app asks for v2",
        "c runs a release that does not say its number, and the coordinator release 0.3.0",
    ]
    assert not any(one.alarm for one in found)
