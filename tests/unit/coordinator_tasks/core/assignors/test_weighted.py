"""`weighted`: invariants (Hypothesis), and assignments with reasons in small cases (tables)."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_tasks.core.assignors import Problem, validate
from coordinator_tasks.core.assignors.weighted.load_account import LoadAccount
from coordinator_tasks.core.assignors.weighted.parameters import rules_of
from coordinator_tasks.core.assignors.weighted.partitions_by_weight import PartitionsByWeight
from coordinator_tasks.core.assignors.weighted.strategy import Weighted
from coordinator_tasks.core.assignors.weighted.table import NOBODY
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Member

SHARP = {"tolerance": "0", "hysteresis": "0", "min.gain": "0", "floor": "0", "partition.weight": "0"}


def members(*names: str, **capacities: float) -> dict[str, Member]:
    """`a/r1` is a member `a` in rack `r1`."""
    split = [name.partition("/") for name in names]
    return {n: Member(n, 1, "", "", rack=rack, capacity=capacities.get(n, 1.0)) for n, _, rack in split}


def problem(weights: list[float], who: Mapping[str, Member], owned: str = "", **more: Any) -> Problem:
    """`owned` names the owner of each partition by one letter, `.` = no owner."""
    owners = {p: m for p, m in enumerate(owned) if m != "."}
    known = {"weights": dict(enumerate(weights)), "parameters": SHARP, **more}
    return Problem("orders", tuple(range(len(weights))), who, owners, **known)


def letters(question: Problem, **parameters: str) -> str:
    """The answer as `owned` is written."""
    named = {name.replace("_", "."): text for name, text in parameters.items()}
    question = replace(question, parameters={**question.parameters, **named})
    answer = Weighted().assign(question)
    validate(question, answer, "weighted", partial=True)
    return "".join(answer.get(p, ".") for p in question.partitions)


def carried(question: Problem, answer: Mapping[int, str]) -> dict[str, float]:
    """The load per capacity of each member."""
    account = LoadAccount(replace(question, owned=answer), rules_of(question.parameters))
    return {m: account.ratio(m) for m in account.seats}


def moved(question: Problem, answer: Mapping[int, str]) -> set[int]:
    return {p for p, m in question.owned.items() if answer.get(p) != m}


# What is never broken ------------------------------------------------------------------------------------------------

SHARES = st.sampled_from(["0", "0.01", "0.05", "0.3"])
WEIGHTS = st.one_of(st.integers(0, 50).map(float), st.floats(0, 1e6))


@st.composite
def problems(draw: st.DrawFn, *, free: bool = False) -> Problem:
    """`free`: nothing is fixed, banned, limited or near."""
    count, names = draw(st.integers(0, 12)), "abcde"[: draw(st.integers(1, 5))]
    everybody = {
        m: Member(
            m, 1, "", "", rack=draw(st.sampled_from(["", "r1", "r2"])), capacity=draw(st.sampled_from([1.0, 2.0]))
        )
        for m in names
    }
    numbers = st.integers(0, max(0, count - 1))
    owned = draw(st.dictionaries(numbers, st.sampled_from(names), max_size=count)) if count else {}
    parameters = {
        name: draw(SHARES) for name in ("tolerance", "hysteresis", "min.gain", "floor") if draw(st.booleans())
    }
    if draw(st.booleans()):
        parameters["partition.weight"] = "0"
    fixed: dict[int, str] = {}
    zones: dict[int, tuple[str, ...]] = {}
    if count and not free:
        fixed = draw(st.dictionaries(numbers, st.sampled_from([*names, "x"]), max_size=3))
        zones = draw(st.dictionaries(numbers, st.sampled_from([("r1",), ("r2",), ("r1", "r2"), ("r9",)])))
        parameters |= draw(restrictions(names, numbers))
    return Problem(
        "orders",
        tuple(range(count)),
        everybody,
        owned,
        fixed,
        draw(st.dictionaries(st.sampled_from(names), st.integers(0, 3))),
        parameters,
        draw(st.dictionaries(numbers, WEIGHTS)) if count else {},
        draw(st.dictionaries(st.sampled_from(names), WEIGHTS)),
        zones,
    )


@st.composite
def restrictions(draw: st.DrawFn, names: str, numbers: st.SearchStrategy[int]) -> dict[str, str]:
    found = {"zones": draw(st.sampled_from(["off", "prefer", "require"]))}
    bans = draw(st.lists(st.tuples(st.sampled_from(names), st.one_of(st.just("*"), numbers.map(str))), max_size=4))
    if bans:
        found["bans"] = "; ".join(f"{m}: {what}" for m, what in bans)
    if draw(st.booleans()):
        found["max.partitions"] = f"{draw(st.integers(0, 6))}; {names[0]}: {draw(st.integers(0, 6))}"
    return found


@settings(max_examples=200)
@given(problems())
def test_every_answer_is_valid_and_keeps_to_bans_limits_zones_and_what_is_fixed(question: Problem) -> None:
    answer = Weighted().assign(question)
    validate(question, answer, "weighted", partial=True)
    rules = rules_of(question.parameters)
    given_away = {p: m for p, m in answer.items() if p not in question.fixed}
    account = LoadAccount(replace(question, owned=answer), rules)
    assert all(m in account.seats for m in given_away.values())
    assert all(account.may_have(m, p) for p, m in given_away.items())
    for member in set(given_away.values()):
        assert account.count[member] <= rules.limit_of(member)


@settings(max_examples=200)
@given(problems(free=True))
def test_no_move_is_below_the_minimum_gain(question: Problem) -> None:
    """A taker ends well below the former load of a giver; a giver is relieved by the gain, or feeds the floor."""
    question = replace(question, owned={**dict.fromkeys(question.partitions, min(question.members)), **question.owned})
    answer = Weighted().assign(question)
    before, after = carried(question, question.owned), carried(question, answer)
    rules, level = rules_of(question.parameters), LoadAccount(question, rules_of(question.parameters)).level
    gain = rules.min_gain * level * (1 - 1e-6)
    if moved(question, answer):
        assert max(before.values()) - max(after[m] for m in after if after[m] > before[m]) >= gain
    for member in after:
        if after[member] < before[member] and rules.floor == 0:
            assert before[member] - after[member] >= gain


@settings(max_examples=200)
@given(problems(free=True))
def test_nobody_within_the_tolerance_gives_anything_away(question: Problem) -> None:
    """Joins and leaves; a member with a new unowned partition may pass another partition on."""
    question = replace(question, parameters={**question.parameters, "floor": "0"})
    account, answer = LoadAccount(question, rules_of(question.parameters)), Weighted().assign(question)
    gained = {m for p, m in answer.items() if question.owned.get(p) != m}
    for partition in moved(question, answer):
        giver = question.owned[partition]
        assert giver in gained or account.ratio(giver) > account.top


# Who gets what -------------------------------------------------------------------------------------------------------

AB, ABC = members("a", "b"), members("a", "b", "c")


@pytest.mark.parametrize(
    ("question", "parameters", "expected"),
    [
        pytest.param(problem([5, 3, 2], AB), {}, "abb", id="the heaviest first, to whoever carries least"),
        pytest.param(problem([1, 1, 1, 1], members("a", "b", a=3.0)), {}, "aaab", id="by capacity"),
        pytest.param(problem([1] * 4, members("a", "b", a=3.0)), {"tolerance": "1"}, "aaab", id="by capacity at once"),
        pytest.param(problem([1, 1], AB, carried={"a": 5.0}), {}, "bb", id="what other topics weigh counts"),
        pytest.param(problem([1, 1], members("a", "b", a=0.0)), {}, "bb", id="without capacity nothing"),
        pytest.param(problem([4, 4], AB, "a", fixed={0: "x"}), {}, "xa", id="what is fixed elsewhere is nobody's load"),
        pytest.param(problem([8, 1, 1], AB, fixed={0: "a"}), {}, "abb", id="what is fixed counts"),
        pytest.param(problem([5, 5, 5, 5], AB, "aaaa"), {}, "baab", id="half of it moves"),
        pytest.param(problem([6, 2, 2, 2], AB, "aaaa"), {}, "baaa", id="one move if one is enough"),
        pytest.param(problem([6, 5], AB, "ab"), {"tolerance": "0.1"}, "ab", id="within the tolerance"),
        pytest.param(problem([3, 3, 2, 2], AB, "aaab"), {"tolerance": "0.1"}, "baab", id="above the tolerance"),
        pytest.param(
            problem([3, 3, 2, 2], AB, "aaab"), {"tolerance": "0.1", "hysteresis": "0.6"}, "aaab", id="the hysteresis waits"
        ),
        pytest.param(problem([10, 9], AB, "aa"), {"min_gain": "0.1"}, "ab", id="worth it"),
        pytest.param(problem([10, 1], AB, "aa"), {"min_gain": "0.2"}, "aa", id="not worth it"),
        pytest.param(problem([1] * 6, ABC, "aaabbb"), {"tolerance": "0.6"}, "aaabbb", id="without a floor a joiner gets none"),
        pytest.param(
            problem([1] * 6, ABC, "aaabbb"), {"tolerance": "0.6", "floor": "0.5"}, "caabbb", id="a floor gives it something"
        ),
        pytest.param(
            problem([1] * 6, ABC, "aaabbb"), {"tolerance": "0.6", "floor": "1"}, "aaccbb", id="a floor of one its share"
        ),
        pytest.param(problem([5, 5], ABC, "ab"), {"floor": "1"}, "ab", id="more members than partitions"),
        pytest.param(problem([1] * 6, AB, "aaaaaa"), {"max_moves": "2"}, "aaaabb", id="a budget"),
        pytest.param(problem([1, 1, 1], AB, "a.."), {"max_moves": "0"}, "aba", id="unowned ones are no moves"),
        pytest.param(problem([1] * 4, AB, "aaaa"), {"max_partitions": "3"}, "bbaa", id="a limit that balance keeps"),
        pytest.param(problem([9, 1, 1, 1], AB, "abbb"), {"max_partitions": "2"}, "aabb", id="a limit against balance"),
        pytest.param(problem([1] * 3, AB, "aab"), {"max_partitions": "1"}, ".ab", id="too little room leaves one unowned"),
        pytest.param(
            problem([1] * 3, AB, "aab", loads={"a": 4}), {"max_partitions": "5; b: 9"}, "bab", id="other topics' partitions count"
        ),
        pytest.param(problem([1, 1], AB, "aa"), {"bans": "a: *"}, "bb", id="banned from everything"),
        pytest.param(problem([1, 1], AB, "ab"), {"bans": "a: 0"}, "ba", id="banned from one"),
        pytest.param(problem([1], AB, "a"), {"bans": "a: 0; b: *"}, ".", id="nobody may have it"),
        pytest.param(problem([1], AB, "a"), {"bans": "a: 0; b: *", "floor": "1"}, ".", id="nobody, whatever the floor"),
        pytest.param(problem([1, 1], AB, fixed={0: "a"}), {"bans": "a: *"}, "ab", id="a pin goes before a ban"),
        pytest.param(
            problem([1, 1, 1], ABC, "ab"), {"bans": "c: 2; b: 2", "max_partitions": "1"}, "cba", id="a chain makes room"
        ),
        pytest.param(
            problem([1] * 4, AB, "..aa"), {"bans": "b: 0,1", "max_partitions": "2"}, "aabb", id="room is made twice"
        ),
        pytest.param(problem([1, 8], members("a", "b", a=2.0)), {}, "ba", id="fresh, the larger one takes the heavier"),
        pytest.param(
            problem([1, 8], members("a", "b", a=2.0), "ab"), {}, "ba", id="who was relieved takes from whoever relieved it"
        ),
        pytest.param(problem([6, 6], AB, "aa", carried={"b": 5.0}), {}, "ba", id="above the level if it is lower than before"),
        pytest.param(
            problem([4, 4], ABC, "aa", carried={"b": 1.0}), {"bans": "c: 0,1"}, "ab", id="past a lighter one that is banned"
        ),
        pytest.param(problem([5, 5], AB), {"weights": "0: 1; 1: 100"}, "ba", id="weights by a person"),
        pytest.param(
            problem([5, 5, 5], AB, "aab"), {"weights": "0: 9; 1-2: 1"}, "abb", id="go before what was measured"
        ),
        pytest.param(problem([0, 0, 0, 0], AB, "aaaa"), {"partition_weight": "1"}, "baab", id="idle ones are spread"),
    ],
)  # fmt: skip
def test_who_gets_what(question: Problem, parameters: Mapping[str, str], expected: str) -> None:
    assert letters(question, **parameters) == expected


RACKS = members("a/r1", "b/r2")
NEAR_B = {0: ("r2",), 1: ("r2",)}


@pytest.mark.parametrize(
    ("question", "zones", "expected"),
    [
        pytest.param(problem([3, 2], RACKS, zones={0: ("r2",), 1: ("r1",)}), "prefer", "ba", id="near if it fits"),
        pytest.param(problem([3, 2], RACKS, zones={0: ("r2",), 1: ("r1",)}), "off", "ab", id="off"),
        pytest.param(problem([2, 2], RACKS, zones=NEAR_B), "prefer", "ba", id="not at the price of balance"),
        pytest.param(problem([2, 2], RACKS, zones=NEAR_B), "require", "bb", id="at any price"),
        pytest.param(problem([2, 2], RACKS, "ab", zones=NEAR_B), "require", "bb", id="what is far moves"),
        pytest.param(problem([2, 2], RACKS, "ab", zones=NEAR_B), "prefer", "ab", id="what is far may stay"),
        pytest.param(problem([2, 2], RACKS, zones={0: ("r9",)}), "require", "ab", id="nobody is near"),
        pytest.param(
            problem([1, 1, 1, 1], RACKS, "aaaa", zones={0: ("r1",), 1: ("r1",), 2: ("r2",), 3: ("r2",)}),
            "prefer",
            "aabb",
            id="what comes near goes first",
        ),
        pytest.param(
            problem([1, 1], RACKS, "bb", zones={0: ("r2",), 1: ("r9",)}), "prefer", "ba", id="then what is near nobody"
        ),
        pytest.param(
            problem([2, 2], RACKS, "aa", zones={0: ("r1",), 1: ("r1",)}), "prefer", "ba", id="then what is near"
        ),
    ],
)
def test_racks(question: Problem, zones: str, expected: str) -> None:
    assert letters(question, zones=zones, tolerance="0.3") == expected


def test_an_unknown_weight_counts_as_the_mean_of_the_known_ones() -> None:
    question = replace(problem([0] * 4, AB), weights={0: 10.0, 1: 20.0})
    account = LoadAccount(question, rules_of(SHARP))
    assert [account.weight(p) for p in range(4)] == [10, 20, 15, 15]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf"), 2e300])
def test_an_invalid_weight_is_refused_with_its_partition(weight: float) -> None:
    with pytest.raises(Refused, match=r"partition 1 of topic orders weighs .*, which is no number from 0 on"):
        Weighted().assign(problem([1, weight], AB))


@pytest.mark.parametrize(
    ("need", "room", "order"),
    [
        pytest.param(2, 9, [1, 2, 0], id="the smallest that is enough, then larger, then smaller ones"),
        pytest.param(2, 4, [1, 0], id="none above the room"),
        pytest.param(5, 3, [1, 0], id="none is enough: the largest that fits"),
        pytest.param(0, 9, [3, 0, 1, 2], id="no need: the smallest, even one that weighs nothing"),
    ],
)
def test_the_order_in_which_partitions_are_offered(need: float, room: float, order: list[int]) -> None:
    assert list(PartitionsByWeight([3, 0, 1, 2], [0.0, 1.0, 3.0, 5.0]).picks(need, room)) == order


def test_the_account_is_the_same_after_moves_as_if_it_were_made_anew() -> None:
    question = problem([3, 4, 5, 6], ABC, "aabb", loads={"c": 1}, carried={"c": 2.0})
    account = LoadAccount(question, rules_of(SHARP))
    account.read(["a"])
    for partition, taker in ((0, "c"), (2, "a"), (3, NOBODY), (0, "b"), (3, "c")):
        account.move(partition, taker)
    again = LoadAccount(replace(question, owned=account.placed), account.rules)
    assert ({m: account.ratio(m) for m in "abc"}, account.lightest()) == (
        {m: again.ratio(m) for m in "abc"},
        again.lightest(),
    )
    assert [account.by_weight(m).partitions for m in "abc"] == [again.by_weight(m).partitions for m in "abc"]
    assert account.moved == {0, 2, 3}


# Parameters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tolerence", "0.1", "has no parameter 'tolerence'; the known ones are bans, floor,"),
        ("tolerance", "5%", "'tolerance' of strategy 'weighted' is '5%': it has to be a share from 0 to 1"),
        ("tolerance", "nan", "share from 0 to 1"),
        ("hysteresis", "-0.1", "share from 0 to 1"),
        ("floor", "1.5", "share from 0 to 1"),
        ("min.gain", "", "share from 0 to 1"),
        ("max.moves", "-1", "a whole number from 0 on"),
        ("max.moves", "1" * 10, "a whole number from 0 on"),
        ("max.partitions", "10; a: x", "'10; a: x': it has to be a whole number from 0 on"),
        ("measure", "size", "'size': it has to be one of partitions, lag, records, bytes"),
        ("zones", "on", "one of off, prefer, require"),
        ("bans", "consumer-a", "such as 'consumer-a: 0-3,7; consumer-b: \\*'"),
        ("bans", "a: 5-3", "partitions such as 0-3,7"),
        ("bans", "a: 0-99999999", "up to 1000000"),
        ("weights", "0-3", "such as '0-3,7: 500; 8: 20'"),
        ("weights", "0: -1", "partitions: weight from 0 on"),
        ("partition.weight", "x", "a weight from 0 on"),
        ("interval.s", "soon", "seconds from 0 on"),
    ],
)
def test_a_wrong_parameter_is_refused_in_one_line(name: str, text: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        Weighted().check({name: text})
    begins = (f"parameter '{name}' of strategy 'weighted' is '", "strategy 'weighted' has no parameter")
    assert str(caught.value).startswith(begins)
    assert "\n" not in str(caught.value)


def test_a_coordinator_without_a_plan_by_weight_does_not_wait_for_numpy() -> None:
    code = "import coordinator_tasks.wiring, sys; print('numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "False"


@pytest.mark.parametrize(
    "extreme",
    [
        pytest.param(problem([5e-324], AB, "a", carried={"a": 5e-324}), id="hardly anything"),
        pytest.param(problem([2e-104, 1e-50, 1e-104, 3.0], AB, "abab", fixed={3: "b"}), id="far apart"),
        pytest.param(problem([5e-324, 0.0], AB, carried={"a": 3.0, "b": 50.0}), id="nothing beside other topics"),
    ],
)
def test_weights_too_small_to_be_noticed_come_to_an_end_and_move_nothing_twice(extreme: Problem) -> None:
    quiet = replace(extreme, parameters={**extreme.parameters, "partition.weight": "0"})
    first = Weighted().assign(quiet)
    assert first.keys() == set(extreme.partitions)
    assert Weighted().assign(replace(quiet, owned=first)) == first
