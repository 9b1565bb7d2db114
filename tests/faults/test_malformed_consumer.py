"""Garbage in what a consumer reads, in the middle of owning and of hand-offs: its picture stays, and it says where that is."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from coordinator_tasks.core.codecs.codec import encode_node, encode_release
from coordinator_tasks.core.codecs.member_codec import encode_directive
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.model import Directive, Handoff, Isolation, Release, Token
from coordinator_tasks.core.ports import Create, SetData
from spark_apps.records.batches import Range
from tests.fakes.kafka import perform_due
from tests.unit.spark_apps.agent.process.test_agent import PATHS, Stage

GARBAGE = (b"{", b"[]", b'{"version":99}')
KEPT, GIVEN, TAKEN, NEW = range(4)
STRANGER = "unwanted"


def busy() -> Stage:
    """One partition is kept, one is being given away, both with a batch under way, and a third is awaited from `b`."""
    stage = Stage()
    stage.own(KEPT, GIVEN)
    stage.step()
    ownership = stage.topics.ownerships["t"]
    ownership.batches.hand_out(1, [Range(p, 0, 5, 1) for p in (KEPT, GIVEN)])
    stage.write(assignments={KEPT: "a"}, since={KEPT: 1}, handoff=moves(2))
    stage.directive(Directive("a"))
    stage.step()
    assert stage.runs == {KEPT, GIVEN}
    assert ownership.grants.awaited().keys() == {TAKEN}
    return stage


def releasing() -> Stage:
    """The batch has passed: what is given away is closed, and its release is to be written on a node that is garbage."""
    stage = busy()
    put(stage, PATHS.partition("t", GIVEN), b"{")
    stage.topics.ownerships["t"].batches.cover(1)
    stage.step()
    assert stage.runs == {KEPT}
    assert stage.topics.ownerships["t"].releasing.outbox.keys() == {GIVEN}
    return stage


def moves(epoch: int) -> dict[int, Handoff]:
    return {GIVEN: Handoff("a", "b", epoch), TAKEN: Handoff("b", "a", epoch)}


def put(stage: Stage, path: str, raw: bytes) -> None:
    found = stage.site.find(path)
    stage.site.transact([Create(path, raw) if found is None else SetData(path, raw)])


def assigned_more(stage: Stage) -> bytes:
    """The next topic node, which gives us one partition more."""
    stage.write(assignments={KEPT: "a", NEW: "a"}, since={KEPT: 1, NEW: 3})
    return encode_node(stage.node)


def released(_: Stage) -> bytes:
    return encode_release(Release(2, "b", 1, 7, "g1", Token(1, 1, "g1")))


def isolated(_: Stage) -> bytes:
    return encode_directive(Directive("a", Isolation("ann", "test", 0.0)))


def everything(stage: Stage) -> object:
    """What a consumer has, does and has committed; not how long ago, which changes by itself."""
    ownership = stage.topics.ownerships["t"]
    status = stage.agent.status()
    return (
        ownership.holdings.accepted,
        {partition: replace(one, taken=None) for partition, one in status.topics["t"].running.items()},
        status.topics["t"].held,
        status.health,
        (ownership.batches.outstanding, dict(ownership.releasing.outbox), ownership.grants.awaited()),
        stage.topics.names(),
        stage.offsets.committed("t", range(4)),
    )


def tree(stage: Stage) -> dict[str, bytes]:
    """Everything that is stored."""
    return {path: node.data for path, node in stage.server._nodes.items()}


@dataclass(frozen=True)
class Place:
    """Where garbage is put, in what situation; `good` is what is put there at last, `runs` what runs when all has passed."""

    path: str
    good: Callable[[Stage], bytes]
    runs: frozenset[int]
    situation: Callable[[], Stage] = busy


PLACES = {
    "topic node": Place(PATHS.topic("t"), assigned_more, frozenset({KEPT, NEW})),
    "node of a topic without an ownership": Place(
        PATHS.topic(STRANGER), lambda stage: encode_node(stage.node), frozenset({KEPT})
    ),
    "release that is awaited": Place(PATHS.partition("t", TAKEN), released, frozenset({KEPT, TAKEN})),
    "node for our own release": Place(PATHS.partition("t", GIVEN), lambda _: b"", frozenset({KEPT}), releasing),
    "directive": Place(PATHS.directive("a"), isolated, frozenset()),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_cannot_be_read_is_named_and_changes_nothing(name: str) -> None:
    place = PLACES[name]
    stage = place.situation()
    before = everything(stage)
    for raw in GARBAGE:
        put(stage, place.path, raw)
        stored = tree(stage)
        stage.step(0.01)
        assert everything(stage) == before
        assert tree(stage) == stored, "nothing is written"
        assert stage.reported(place.path)
    put(stage, place.path, place.good(stage))
    stage.step(1.0)
    stage.topics.ownerships["t"].batches.cover(1)
    stage.step()
    stage.step()
    assert not stage.reported(place.path)
    assert stage.runs == place.runs
    assert (stage.release(GIVEN) is None) == (name == "directive"), "an isolated consumer releases nothing"


@pytest.mark.parametrize("name", ["node of a topic without an ownership", "node for our own release", "directive"])
def test_what_cannot_be_read_keeps_nothing_else_waiting(name: str) -> None:
    place = PLACES[name]
    stage = place.situation()
    put(stage, place.path, b"{")
    put(stage, PATHS.partition("t", TAKEN), released(stage))
    stage.step()
    assert TAKEN in stage.runs


def test_a_topic_node_that_is_posted_and_cannot_be_read_is_refused_and_changes_nothing() -> None:
    stage = busy()
    before = everything(stage)
    for raw in GARBAGE:
        with pytest.raises(Malformed, match=PATHS.topic("t")):
            stage.agent.posted("t", raw)
        assert everything(stage) == before
    assert stage.agent.posted("t", assigned_more(stage))
    perform_due(stage.topics.ownerships["t"], stage.offsets)
    assert stage.runs == {KEPT, GIVEN, NEW}
