"""Records of earlier versions, which hold sentences in place of values."""

import json

import pytest

from coordinator_tasks.core.codecs.former import former_causes
from coordinator_tasks.core.codecs.member_codec import decode_directive, decode_leave, encode_directive
from coordinator_tasks.core.codecs.status_codec import decode_status
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.model import Cause, CauseKind, Condition, Directive, Draining, DrainKind, DrainOwner, Ending
from coordinator_tasks.core.text import cause_text


def stored(by: str, why: str, incarnation: int = 0) -> bytes:
    draining = {"by": by, "why": why, "at": 5.0, "incarnation": incarnation, "leaving": 0}
    return json.dumps({"version": 1, "isolated": None, "draining": draining}).encode()


def owner_of(raw: bytes) -> DrainOwner:
    draining = decode_directive("/d", raw, "a", 0).draining
    return draining.owner


@pytest.mark.parametrize(
    ("by", "why", "owner"),
    [
        ("ada", "a new host", DrainOwner(DrainKind.PERSON)),
        ("billing", "upgrade of billing to v2", DrainOwner(DrainKind.UPGRADE, "billing", "v2")),
        ("billing", "redeployment", DrainOwner(DrainKind.REDEPLOYMENT, "billing")),
        ("ada", "shrink to 3 consumers: 2 are idle", DrainOwner(DrainKind.GROWTH)),
        ("ada", "upgrade of billing to v2", DrainOwner(DrainKind.PERSON)),
    ],
)
def test_the_owner_of_a_draining_of_an_earlier_version_is_known(by: str, why: str, owner: DrainOwner) -> None:
    assert owner_of(stored(by, why)) == owner


@pytest.mark.parametrize("why", ["upgrade of billing to v2", "redeployment", "shrink to 3 consumers: 2 are idle"])
def test_the_words_of_a_person_name_no_other_owner(why: str) -> None:
    assert owner_of(encode_directive(Directive("a", draining=Draining("billing", why, 5.0)))) == DrainOwner()


def test_a_wish_to_end_is_of_the_incarnation_whatever_the_consumer_has_written() -> None:
    assert owner_of(stored("a", "redeployment", 7)) == DrainOwner(DrainKind.ITSELF)
    claimed = {"by": "a", "why": "", "at": 5.0, "incarnation": 7, "owner": {"kind": "redeployment", "fleet": "billing"}}
    assert decode_leave("/l", json.dumps(claimed).encode()).owner == DrainOwner(DrainKind.ITSELF)


def test_an_unknown_kind_of_owner_is_refused() -> None:
    raw = stored("ada", "").replace(b'"leaving": 0', b'"leaving": 0, "owner": {"kind": "tide"}')
    with pytest.raises(Malformed, match="tide"):
        owner_of(raw)


ADA = {"by": "ada", "why": "a host"}


@pytest.mark.parametrize(
    ("cause", "causes"),
    [
        ("joined: a, b", (Cause(CauseKind.JOINED, ("a", "b")),)),
        ("draining: a (by ada: a host)", (Cause(CauseKind.DRAINING, ("a",), **ADA),)),
        ("isolated: a (by ada: a host)", (Cause(CauseKind.ISOLATED, ("a",), **ADA),)),
        ("gone: a (left: full)", (Cause(CauseKind.GONE, ("a",), why="full", ending=Ending.LEFT),)),
        ("gone: a (unknown, restart planned by ada: a host)", (Cause(CauseKind.GONE, ("a",), **ADA),)),
        ("joined: a; and 3 more", (Cause(CauseKind.JOINED, ("a",)), Cause(CauseKind.TOLD, why="and 3 more"))),
        ("first plan", (Cause(CauseKind.TOLD, why="first plan"),)),
        ("", ()),
    ],
)
def test_the_causes_of_an_earlier_version_are_told_by_their_words(cause: str, causes: tuple[Cause, ...]) -> None:
    assert former_causes(cause) == causes
    assert cause_text.said(causes) == cause


def test_a_plan_of_an_earlier_version_that_goes_on_is_told_in_new_words() -> None:
    causes = former_causes("goes on: no longer a target: a")
    assert causes == (Cause(CauseKind.CONTINUED), Cause(CauseKind.DROPPED, ("a",)))
    assert cause_text.said(causes) == "a rebalance under way goes on (no longer a target: a)"


@pytest.mark.parametrize(
    ("health", "more", "condition"),
    [
        ("ok", {}, Condition.OK),
        ("leaving", {}, Condition.LEAVING),
        ("failed: topic orders: no progress", {}, Condition.FAILED),
        ("stuck: failed: no executor", {}, Condition.STUCK),
        ("tired", {}, Condition.STUCK),
        ("the driver has failed", {"condition": "failed"}, Condition.FAILED),
        ("leaving", {"condition": "of a later version"}, Condition.LEAVING),
    ],
)
def test_the_condition_by_another_version_is_known(health: str, more: dict[str, str], condition: Condition) -> None:
    raw = {"version": 1, "consumer": "a", "cluster": "c", "incarnation": 1, "health": health, **more}
    found = decode_status("http://a", json.dumps(raw).encode())
    assert (found.condition, found.leaves) == (condition, condition in (Condition.LEAVING, Condition.FAILED))


@pytest.mark.parametrize("kind", CauseKind)
def test_each_kind_of_cause_has_words_also_where_a_stored_one_lacks_its_names(kind: CauseKind) -> None:
    assert isinstance(cause_text.of_one(Cause(kind)), str)
