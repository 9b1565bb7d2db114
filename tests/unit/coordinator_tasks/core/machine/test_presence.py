"""Who is there: what is known of one incarnation, and who may be given partitions."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine.life import with_leave
from coordinator_tasks.core.machine.presence import (
    in_backoff,
    note_absence,
    note_refusal,
    presence,
    subscribes,
    targets,
)
from coordinator_tasks.core.machine.restarts import returning
from coordinator_tasks.core.machine.world import Policy, Presence, World
from coordinator_tasks.core.model import (
    Absence,
    Answer,
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    IdClaim,
    Isolation,
    Member,
    PlannedRestart,
    Silence,
    Unreachable,
)
from coordinator_tasks.core.protocol import claims

POLICY = Policy()
NOW = 1_000.0
REFUSED = Unreachable(Silence.REFUSED, "refused")
SILENT = Unreachable(Silence.SILENT, "no answer")


def member(incarnation: int = 1, **more: object) -> Member:
    return Member("a", incarnation, "http://a:1", "boot", **more)  # type: ignore[arg-type]


def claim(**more: object) -> IdClaim:
    return replace(IdClaim("a", 1, "http://a:1", "boot", answered=1, version=3), **more)  # type: ignore[arg-type]


def says(incarnation: int) -> ConsumerStatus:
    return ConsumerStatus("a", "c", incarnation, "boot", "ok")


def world(
    live: Member | None = None,
    known: IdClaim | None = None,
    answer: Answer = SILENT,
    directive: Directive | None = None,
) -> World:
    return World(
        NOW,
        {"a": live} if live else {},
        {"a": known} if known else {},
        {"a": directive} if directive else {},
        {"a": answer},
    )


def isolated(incarnation: int) -> Directive:
    return Directive("a", Isolation("ann", "odd", 1.0, incarnation))


ENDED = claim(ended={1: Ending.REAPED})


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(world(member()), Presence.LIVE, id="registered is live, silent or not"),
        pytest.param(world(member(), claim(ended={1: Ending.LEFT})), Presence.LIVE, id="registered is never gone"),
        pytest.param(
            world(member(2)), Presence.ABSENT, id="another incarnation's registration says nothing of this one"
        ),
        pytest.param(world(), Presence.ABSENT, id="nothing is known"),
        pytest.param(world(None, claim()), Presence.ABSENT, id="silent and not registered"),
        pytest.param(world(None, claim(), says(1)), Presence.DETACHED, id="not registered but it answers"),
        pytest.param(world(None, claim(), says(2)), Presence.ABSENT, id="another incarnation answers"),
        pytest.param(world(None, claim(), REFUSED), Presence.ABSENT, id="one refusal proves nothing"),
        pytest.param(world(None, ENDED), Presence.GONE, id="its end is known by number"),
        pytest.param(world(member(2), ENDED), Presence.GONE, id="its end is known and a successor registered"),
        pytest.param(world(None, claim(ended={2: Ending.LEFT})), Presence.ABSENT, id="another one's end says nothing"),
        pytest.param(
            world(None, claim(ended={1: Ending.LEFT}), says(1)), Presence.GONE, id="it left, and still answers"
        ),
        pytest.param(
            world(None, claim(ended={1: Ending.REFUSED}), says(1)),
            Presence.DETACHED,
            id="its port had refused, and now it answers: it was not over",
        ),
        pytest.param(world(member(), directive=isolated(0)), Presence.ISOLATED, id="isolated though registered"),
        pytest.param(world(member(), directive=isolated(1)), Presence.ISOLATED, id="isolated by number"),
        pytest.param(world(member(), directive=isolated(2)), Presence.LIVE, id="another incarnation is isolated"),
        pytest.param(world(None, ENDED, directive=isolated(0)), Presence.ISOLATED, id="isolated and gone"),
    ],
)
def test_presence(seen: World, expected: Presence) -> None:
    assert presence("a", 1, seen, POLICY) is expected


@pytest.mark.parametrize(
    ("absence", "live", "expected"),
    [
        pytest.param(Absence(1, NOW - 9), None, Presence.ABSENT, id="within the grace its partitions wait"),
        pytest.param(Absence(1, NOW - 10), None, Presence.GONE, id="after the grace they do not"),
        pytest.param(Absence(2, NOW - 9), None, Presence.GONE, id="the absence of another incarnation is no grace"),
        pytest.param(None, None, Presence.GONE, id="no absence was noted"),
        pytest.param(Absence(1, NOW - 9), member(2), Presence.GONE, id="the id has come back"),
        pytest.param(Absence(1, NOW + 86_400), None, Presence.GONE, id="a clock that was a day ahead noted it"),
    ],
)
def test_rejoin_grace(absence: Absence | None, live: Member | None, expected: Presence) -> None:
    seen = world(live, replace(ENDED, absence=absence))
    assert presence("a", 1, seen, Policy(rejoin_grace_s=10)) is expected


@pytest.mark.parametrize(
    ("draining", "expected"),
    [
        pytest.param(Draining("p", "", 1.0), Presence.GONE, id="no process of this id would be given them"),
        pytest.param(Draining("a", "", 1.0, 1), Presence.ABSENT, id="it was asked to end, the next one is not"),
    ],
)
def test_partitions_do_not_wait_for_one_that_is_drained(draining: Draining, expected: Presence) -> None:
    seen = world(None, replace(ENDED, absence=Absence(1, NOW - 9)), directive=Directive("a", draining=draining))
    assert presence("a", 1, seen, Policy(rejoin_grace_s=10)) is expected


@pytest.mark.parametrize(
    ("draining", "expected"),
    [
        (None, False),
        (Draining("p", "", 1.0), True),
        (Draining("p", "", 1.0, 1), True),
        (Draining("p", "", 1.0, 2), False),
    ],
    ids=["not asked", "any incarnation", "this incarnation", "an earlier process's own wish"],
)
def test_draining(draining: Draining | None, expected: bool) -> None:
    found = world(directive=Directive("a", None, draining)).life("a", 1).draining
    assert (found is not None) is expected


@pytest.mark.parametrize(
    ("live", "known", "answer", "held", "expected"),
    [
        pytest.param(member(), claim(), SILENT, {}, True, id="it has answered once"),
        pytest.param(member(), claim(answered=0), says(1), {}, True, id="it answers for the first time"),
        pytest.param(member(), claim(answered=0), says(2), {}, False, id="something else answers"),
        pytest.param(member(2), claim(answered=1), SILENT, {}, False, id="only its predecessor has answered"),
        pytest.param(member(), None, SILENT, {}, False, id="nothing is known of it"),
        pytest.param(member(2), claim(answered=2), SILENT, {"a": 1}, False, id="its predecessor may still run"),
        pytest.param(member(2), claim(answered=2), SILENT, {"a": 2}, True, id="it holds something already"),
        pytest.param(None, claim(), says(1), {}, False, id="it answers and is not registered"),
        pytest.param(None, claim(), says(1), {"a": 1}, False, id="it is not registered, and holds something"),
    ],
)
def test_who_is_a_target(
    live: Member | None, known: IdClaim | None, answer: Answer, held: dict[str, int], expected: bool
) -> None:
    assert ("a" in targets("orders", held, world(live, known, answer), POLICY)) is expected


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ((), True),
        (("order",), False),
        (("(", "ord.*"), True),
    ],
)
def test_subscription_by_name_or_by_an_expression_that_matches_all(topics: tuple[str, ...], expected: bool) -> None:
    assert subscribes(member(topics=topics), "orders") is expected


def flapping(*ages: float) -> IdClaim:
    """The claim after registrations that long ago."""
    return claim(registrations=tuple(NOW - age for age in ages))


def crashed(*ages: float | None) -> IdClaim:
    """The claim after failed ends that long ago, the oldest first; `None` = at an unknown time."""
    known = claim(incarnation=100)
    for number, age in enumerate(ages, 1):
        known = claims.ended(known, number, Ending.REAPED, "exit code 1", 0.0 if age is None else NOW - age)
    return known


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (flapping(), 0.0),
        (flapping(1, 2, 3), 0.0),
        (flapping(1, 2, 3, 4), 14.0),
        (flapping(0, 1, 2, 3), 15.0),
        (flapping(15, 20, 30, 40), 0.0),
        (flapping(1, 2, 3, 4, 5), 29.0),
        (flapping(1, 2, 3, 4, 5, 6), 59.0),
        (flapping(1, 2, 3, 600), 0.0),
        (flapping(1, 2, 3, 599), 14.0),
        (crashed(1), 0.0),
        (crashed(20, 1), 14.0),
        (crashed(20, 16), 0.0),
        (crashed(30, 20, 1), 29.0),
        (crashed(600, 1), 0.0),
        (crashed(599, 1), 14.0),
        (crashed(None, 1), 0.0),
        (crashed(None, None, None), 0.0),
        (crashed(5, -1), 0.0),
    ],
)
def test_an_id_that_flaps_or_ends_with_errors_is_left_out_for_longer_each_time(known: IdClaim, expected: float) -> None:
    assert in_backoff("a", world(member(), known), POLICY) == expected
    assert ("a" in targets("orders", {}, world(member(), known), POLICY)) is (expected == 0)
    assert "a" in targets("orders", {"a": 1}, world(member(), known), POLICY), "what it holds it keeps"


def test_a_crash_loop_waits_from_its_last_registration_on_and_ends_with_an_end_without_an_error() -> None:
    known = replace(crashed(20, 10), registrations=(NOW - 2,))
    assert in_backoff("a", world(member(), known), POLICY) == 13.0
    assert in_backoff("a", world(member(), claims.ended(known, 9, Ending.LEFT)), POLICY) == 0.0
    patient = replace(POLICY, flap_registrations=1000)
    assert in_backoff("a", world(member(), known), patient) == 0.0


def absent(since_at: float, refused_at: float = 0.0, **more: object) -> IdClaim:
    return claim(absence=Absence(1, since_at, refused_at), **more)


@pytest.mark.parametrize(
    ("known", "answer", "same_boot", "expected", "gone"),
    [
        pytest.param(claim(), SILENT, True, Absence(1, NOW), False, id="first seen absent"),
        pytest.param(claim(), REFUSED, True, Absence(1, NOW, NOW), False, id="first seen absent, and refused"),
        pytest.param(claim(), says(1), True, None, False, id="it answers: detached, not absent"),
        pytest.param(absent(5.0), says(1), True, None, False, id="it answers again"),
        pytest.param(claim(), says(2), True, Absence(1, NOW), False, id="its successor answers at its address"),
        pytest.param(absent(5.0), SILENT, True, Absence(1, 5.0), False, id="absent since then"),
        pytest.param(claim(absence=Absence(2, 5.0)), SILENT, True, Absence(1, NOW), False, id="another was absent"),
        pytest.param(absent(5.0, NOW - 9), REFUSED, True, Absence(1, 5.0, NOW - 9), False, id="not long enough"),
        pytest.param(absent(5.0, NOW - 10), REFUSED, True, Absence(1, 5.0, NOW - 10), True, id="long enough"),
        pytest.param(absent(5.0, NOW - 99), SILENT, True, Absence(1, 5.0), False, id="the row of refusals broke"),
        pytest.param(absent(NOW + 9e4), SILENT, True, Absence(1, NOW), False, id="noted by a clock that jumped"),
        pytest.param(absent(5.0, NOW + 9e4), REFUSED, True, Absence(1, 5.0, NOW), False, id="refused by such a clock"),
        pytest.param(absent(5.0, NOW - 99), REFUSED, False, Absence(1, 5.0), False, id="loopback, other boot"),
        pytest.param(absent(5.0, NOW - 99, direct=False), REFUSED, True, Absence(1, 5.0), False, id="a proxy"),
        pytest.param(
            absent(5.0, NOW - 99, answered=0), REFUSED, True, Absence(1, 5.0), False, id="never answered there"
        ),
    ],
)
def test_noted_absences(known: IdClaim, answer: Answer, same_boot: bool, expected: Absence | None, gone: bool) -> None:
    assert note_absence(known, 1, answer, same_boot, NOW, NOW, 10.0) == (expected, gone)


@pytest.mark.parametrize(
    ("known", "since_at"),
    [
        pytest.param(claim(registered=1, refused_at=NOW - 3), NOW - 3, id="since before its session ended"),
        pytest.param(claim(registered=1, refused_at=NOW - 20), NOW - 20, id="a session that ended late"),
        pytest.param(claim(registered=1, refused_at=NOW - 20.1), NOW, id="it refused, and lived"),
        pytest.param(claim(registered=2, refused_at=NOW - 3), NOW, id="another one of the id refused"),
        pytest.param(claim(registered=1, refused_at=NOW + 3), NOW, id="noted by a clock that jumped"),
        pytest.param(
            claim(registered=1, refused_at=NOW - 4, absence=Absence(1, NOW - 2)), NOW - 4, id="it went before this look"
        ),
    ],
)
def test_refusals_count_as_long_as_a_session_outlives_its_process(known: IdClaim, since_at: float) -> None:
    note, gone = note_absence(known, 1, REFUSED, True, NOW, NOW, 10.0)
    assert (note.refused_at, gone) == (since_at, NOW - since_at >= 10.0)


@pytest.mark.parametrize(
    ("known", "answer", "expected"),
    [
        pytest.param(claim(registered=1), REFUSED, NOW, id="the first"),
        pytest.param(claim(registered=1, refused_at=NOW - 3), REFUSED, NOW - 3, id="again"),
        pytest.param(claim(registered=1, refused_at=NOW + 3), REFUSED, NOW, id="noted by a clock that jumped"),
        pytest.param(claim(registered=1, refused_at=NOW - 3), SILENT, 0.0, id="silence is no refusal"),
        pytest.param(claim(registered=1, refused_at=NOW - 3), says(1), 0.0, id="it answers again"),
        pytest.param(claim(registered=1, direct=False), REFUSED, 0.0, id="a proxy"),
        pytest.param(claim(registered=1, answered=0), REFUSED, 0.0, id="it has never answered us there"),
    ],
)
def test_noting_the_refusal_of_a_registered_consumer(known: IdClaim, answer: Answer, expected: float) -> None:
    assert note_refusal(known, member(), answer, True, NOW) == expected
    assert not note_refusal(known, member(), answer, False, NOW), "loopback, other boot"
    assert not note_refusal(known, member(incarnation=2), answer, True, NOW), "another incarnation"


def test_a_registration_elsewhere_takes_back_that_this_address_has_answered() -> None:
    old = claim()
    again = claims.registered(old, member(), NOW)
    assert again.answered == 1, "the same process at the same address, in a new session"
    assert claims.registered(old, replace(member(), address="http://a:2"), NOW).answered == 0
    assert claims.registered(old, member(2), NOW).answered == 0


def test_a_registration_takes_back_its_absence_and_its_end() -> None:
    old = claim(absence=Absence(1, 5.0), ended={1: Ending.REFUSED, 7: Ending.LEFT})
    again = claims.registered(old, member(), NOW)
    assert again.absence is None
    assert again.ended == {7: Ending.LEFT}
    assert again.registrations == (NOW,)
    assert claims.registered(old, member(9), NOW).incarnation == 9


def test_the_first_knowledge_of_an_end_stays() -> None:
    assert claims.ended(claims.ended(claim(), 1, Ending.LEFT), 1, Ending.REAPED).ended == {1: Ending.LEFT}


def test_the_reason_of_an_end_is_one_bounded_line_and_goes_with_a_registration() -> None:
    hostile = "Type\x1b[31mError:\r\nno; such \u202e thing" + "x" * 10_000
    known = claims.ended(claim(), 1, Ending.LEFT, hostile)
    assert known.reasons[1].startswith("Type [31mError: no, such thingx")
    assert len(known.reasons[1]) == claims.MAX_REASON
    assert claims.ended(claim(), 1, Ending.LEFT).reasons == {}
    assert claims.registered(known, member(), NOW).reasons == {}
    for number in range(claims.MAX_REASONS + 2):
        known = claims.ended(known, number, Ending.REAPED, "exit code 1")
    assert list(known.reasons) == list(range(2, claims.MAX_REASONS + 2))


def test_the_time_of_a_failed_end_is_that_of_its_first_reason_and_goes_with_the_reason() -> None:
    known = claims.ended(claim(), 1, Ending.REFUSED, "", 5.0)
    assert known.failed_at == {}, "the reason is unknown"
    known = claims.ended(known, 1, Ending.REAPED, "exit code 1", 6.0)
    assert claims.ended(known, 1, Ending.REAPED, "exit code 2", 7.0).failed_at == {1: 6.0}
    assert claims.registered(known, member(), NOW).failed_at == {}
    for number in range(claims.MAX_REASONS + 2):
        known = claims.ended(known, number, Ending.REAPED, "exit code 1", 8.0)
    assert known.failed_at.keys() == known.reasons.keys()


def test_only_so_many_ends_and_registrations_are_kept() -> None:
    known = claim()
    for number in range(1, claims.MAX_ENDED + 3):
        known = claims.ended(known, number, Ending.LEFT)
    assert list(known.ended) == list(range(3, claims.MAX_ENDED + 3))
    for number in range(claims.MAX_REGISTRATIONS + 2):
        known = claims.registered(known, member(), float(number))
    assert known.registrations == tuple(float(n) for n in range(2, claims.MAX_REGISTRATIONS + 2))


@pytest.mark.parametrize(("counter", "seen", "step", "expected"), [(0, 0, 1, 1), (4, 0, 7, 11), (4, 9, 1, 10)])
def test_an_incarnation_is_above_every_number_met(counter: int, seen: int, step: int, expected: int) -> None:
    assert claims.drawn(IdClaim("a", counter), step, seen).incarnation == expected


def test_no_incarnation_is_drawn_that_could_not_be_read_again() -> None:
    with pytest.raises(Refused, match="consumer 'a' has no incarnation left above 9007199254740991"):
        claims.drawn(IdClaim("a", 2**53 - 1), 1)


def test_a_consumer_whose_answers_are_not_believed_gets_no_partition() -> None:
    registered = world(member(), claim(), says(1))
    assert targets("orders", {}, registered, POLICY) == {"a": 1}
    assert targets("orders", {}, replace(registered, doubted={"a": "odd"}), POLICY) == {}


def test_a_request_to_leave_counts_only_for_a_named_incarnation() -> None:
    directive = Directive("a")
    assert with_leave(directive, Draining("a", "", 1.0, incarnation=0)) == directive
    assert with_leave(directive, Draining("a", "", 1.0, incarnation=2)).draining == Draining(
        "a", "", 1.0, incarnation=2
    )


RESTART = PlannedRestart("ann", "", NOW - 10, NOW + 50, 1)


def test_a_silent_consumer_on_its_way_out_for_a_planned_restart_gets_no_partition() -> None:
    assert targets("orders", {}, world(member(), claim()), POLICY) == {"a": 1}
    assert targets("orders", {}, world(member(), claim(), SILENT, Directive("a", restart=RESTART)), POLICY) == {}


@pytest.mark.parametrize(("now", "holds"), [(NOW, True), (NOW + 50, False), (NOW - 100, False)])
def test_a_planned_restart_holds_until_its_time_but_not_if_a_clock_far_ahead_wrote_it(now: float, holds: bool) -> None:
    assert RESTART.holds(now) is holds


def test_of_two_planned_restarts_the_earlier_has_the_last_word() -> None:
    later = replace(RESTART, at=NOW - 5)
    directives = {"a": Directive("a", restart=RESTART), "b": Directive("b", restart=later)}
    both = replace(world(), directives=directives)
    found = list(returning("orders", {"a": 2, "b": 2}, {0: "a", 1: "b"}, {0, 1}, both))
    assert [placed.owners for placed in found] == [{1: "b"}, {0: "a"}]


@pytest.mark.parametrize(("answered", "kept"), [(1, NOW + 50), (2, 0.0)])
def test_partitions_wait_for_a_planned_restart_until_the_next_process_has_answered(answered: int, kept: float) -> None:
    known = claim(incarnation=2, answered=answered, ended={1: Ending.LEFT})
    back = world(member(2), known, SILENT, Directive("a", restart=RESTART))
    assert back.life("a", 1).kept_until == kept
