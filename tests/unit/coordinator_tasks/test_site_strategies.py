"""A site's own strategies: discovery, input, and every possible fault."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from coordinator_tasks import site_strategies
from coordinator_tasks.core.assignors import ASSIGNORS, Problem, Strategies
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Member, TopicConfig
from coordinator_tasks.site_strategies import GROUP, strategies_of
from tests.world.scene import CONFIG, Scene, stable

Call = Callable[[Problem], Any]


def by_tier(problem: Problem) -> Mapping[int, str]:
    """All partitions to the members with the attribute `tier` = `gold`, in turn; fixed partitions stay."""
    gold = sorted(m for m, one in problem.members.items() if one.attributes.get("tier") == "gold")
    free = [p for p in problem.partitions if p not in problem.fixed]
    return {p: gold[i % len(gold)] for i, p in enumerate(free)} | {**problem.fixed}


class _Holder:
    @staticmethod
    def nested(problem: Problem) -> Mapping[int, str]:
        return by_tier(problem)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An importable package of the site."""
    made = ModuleType("site_rules")
    monkeypatch.setitem(sys.modules, "site_rules", made)
    made.__dict__.update(by_tier=by_tier, Holder=_Holder, number=7)
    return made


def with_strategy(call: Call, *consumers: str, **more: Any) -> Scene:
    """A Stable topic under `balanced`, then with the site's strategy `mine`."""
    scene = stable(*consumers, **more)
    known = {**ASSIGNORS, "mine": site_strategies.SiteStrategy("mine", "site_rules:mine", call)}
    scene.policy = replace(scene.policy, strategies=Strategies(known))
    scene.config = replace(scene.config, strategy="mine")
    return scene


def test_a_strategy_named_in_the_settings_decides_by_the_members_free_attributes(module: ModuleType) -> None:
    found = strategies_of("balanced", {}, {"by-tier": "site_rules:by_tier", "nested": "site_rules:Holder.nested"})
    scene = Scene(policy=Policy(strategies=found), config=replace(CONFIG, strategy="by-tier"))
    scene.joins("a").joins("b", "c", attributes={"tier": "gold"}).settles()
    assert scene.owned == {"b": [0, 2], "c": [1, 3]}
    assert found.known["nested"].assign(Problem("t", (0,), {"g": Member("g", 1, "", "", attributes={"tier": "gold"})}))


def test_an_entry_point_is_a_strategy_and_replaces_none(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def registered(group: str) -> list[EntryPoint]:
        assert group == GROUP
        return [EntryPoint(name, "site_rules:by_tier", group) for name in ("by-tier", "balanced", "both")]

    monkeypatch.setattr(site_strategies, "entry_points", registered)
    found = strategies_of("by-tier", {"a": "b"}, {"both": "site_rules:Holder.nested"})
    assert isinstance(found.known["by-tier"], site_strategies.SiteStrategy)
    assert found.known["balanced"] is ASSIGNORS["balanced"]
    assert found.known["both"].source == "site_rules:Holder.nested"  # type: ignore[attr-defined]
    assert (found.default, found.parameters) == ("by-tier", {"a": "b"})


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("site_rules", "'site_rules', which cannot be imported: ValueError: this is not package.module:name"),
        (":by_tier", "this is not package.module:name"),
        ("site_rules:", "this is not package.module:name"),
        ("nowhere.rules:f", "cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("site_rules:missing", "cannot be imported: AttributeError: module 'site_rules' has no attribute 'missing'"),
        ("site_rules:number", "which is no callable but int"),
    ],
)
def test_a_strategy_that_cannot_be_imported_holds_its_own_topics_only(
    module: ModuleType, source: str, said: str
) -> None:
    found = strategies_of("balanced", {}, {"mine": source})
    scene = Scene(policy=Policy(strategies=found)).joins("a")
    assert scene.decide().outcome is TopicOutcome.WRITTEN
    scene.config = replace(CONFIG, strategy="mine")
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.HELD
    assert said in decision.reason
    assert "(topic orders)" in decision.reason
    with pytest.raises(Refused, match="strategy 'mine' is to be"):
        found.check(scene.config)


def raises(problem: Problem) -> Mapping[int, str]:
    raise KeyError("rack\nof " + problem.topic)


class Wordless(Exception):
    """An error with a failing text."""

    def __str__(self) -> str:
        return f"no rack {self.args[0]}"


def raises_wordless(_: Problem) -> Mapping[int, str]:
    raise Wordless


WRONG: list[Any] = [
    pytest.param(raises, "failed on topic orders with KeyError: 'rack\\nof orders' (test_site_strategies.py, line", id="raises"),
    pytest.param(raises_wordless, "failed on topic orders with Wordless, whose own text fails (test_site_strategies.py", id="and has no text"),
    pytest.param(lambda _: sys.exit(2), "failed on topic orders with SystemExit: 2", id="exits"),
    pytest.param(lambda _: None, "answered for topic orders with NoneType, not with a mapping", id="nothing"),
    pytest.param(lambda _: [(0, "a")], "with list, not with a mapping of partition to member", id="a list"),
    pytest.param(lambda _: {"0": "a"}, "with '0': 'a', which is no partition number", id="numbers as texts"),
    pytest.param(lambda _: {True: "a"}, "with True: 'a'", id="a truth for a number"),
    pytest.param(lambda _: {0: None}, "with 0: None", id="no member"),
    pytest.param(lambda p: dict.fromkeys(p.partitions, "zoe"), "to 'zoe', which is no live member that subscribes to", id="foreign"),
    pytest.param(lambda p: dict.fromkeys((*p.partitions, 99), "a"), "assigned partition 99, which the topic does not have", id="unknown"),
    pytest.param(lambda p: {0: "a"}, "left partitions [1, 2, 3] without an owner", id="not every partition"),
    pytest.param(lambda p: p.owned.clear(), "failed on topic orders with AttributeError", id="tries to change what it is given"),
    pytest.param(lambda p: p.members["a"].attributes.update(x="y"), "failed on topic orders with AttributeError", id="or a member"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "said"), WRONG)
def test_a_fault_of_a_strategy_is_one_line_that_holds_the_topic(call: Call, said: str) -> None:
    scene = with_strategy(call, "a", "b")
    node = scene.node
    decision = scene.decide()
    assert (decision.outcome, decision.node, decision.record) == (TopicOutcome.HELD, None, None)
    assert said in decision.reason
    assert "'mine'" in decision.reason
    assert "\n" not in decision.reason
    assert scene.node is node
    scene.policy = replace(scene.policy, strategies=Strategies({**ASSIGNORS, "mine": site_strategies.SiteStrategy("mine", "", lambda p: dict.fromkeys(p.partitions, "a"))}))  # fmt: skip
    scene.settles()
    assert scene.counts() == {"a": 4}


def first_only(problem: Problem) -> Mapping[int, str]:
    """The first partition to the first member; no owner for the others."""
    return {0: min(problem.members)} if problem.members else {}


def test_a_site_strategy_that_is_partial_may_leave_partitions_without_an_owner(module: ModuleType) -> None:
    module.first_only = first_only  # type: ignore[attr-defined]
    for partial, said in ((True, "partitions 1, 2, 3 have no owner"), ("no", "without an owner beside live members")):
        first_only.partial = partial  # type: ignore[attr-defined]
        found = strategies_of("balanced", {}, {"mine": "site_rules:first_only"})
        scene = Scene(policy=Policy(strategies=found), config=replace(CONFIG, strategy="mine")).joins("a", "b")
        if partial is True:
            scene.settles()
            assert scene.owned == {"a": [0]}
        assert scene.decide().outcome is TopicOutcome.HELD
        assert said in scene.decide().reason


def test_a_pinned_partition_that_it_moves_is_a_breach() -> None:
    scene = with_strategy(lambda p: dict.fromkeys(p.partitions, "b"), "a", "b")
    scene.config = replace(scene.config, pins={0: "a"})
    assert "moved partition 0, which is fixed to 'a'" in scene.decide().reason


def test_a_cluster_whose_strategy_does_not_take_its_parameters_does_not_start(module: ModuleType) -> None:
    with pytest.raises(Refused, match="'floor' of strategy 'weighted' is 'lots'"):
        strategies_of("weighted", {"floor": "lots"}, {})
    assert strategies_of("mine", {"floor": "lots"}, {"mine": "site_rules:by_tier"}).parameters == {"floor": "lots"}


# The cluster's default -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "named", "said"),
    [
        ("best", {}, "the setting strategy is 'best'; choose one of average, .*balanced, .*weighted"),
        ("balanced", {"weighted": "a:b"}, "the setting strategies names 'weighted', which is a strategy already"),
    ],
)
def test_settings_that_cannot_be_are_refused(default: str, named: dict[str, str], said: str) -> None:
    with pytest.raises(Refused, match=said):
        strategies_of(default, {}, named)


@pytest.mark.parametrize(
    ("strategy", "parameters", "expected"),
    [
        ("", {}, ("weighted", {"measure": "lag", "floor": "0"})),
        ("", {"floor": "1"}, ("weighted", {"measure": "lag", "floor": "1"})),
        ("weighted", {"zones": "off"}, ("weighted", {"measure": "lag", "floor": "0", "zones": "off"})),
        ("balanced", {}, ("balanced", {})),
    ],
    ids=["the cluster's", "with a parameter of its own", "named, and the same", "another one has none of them"],
)
def test_a_topic_without_a_strategy_has_the_clusters(
    strategy: str, parameters: dict[str, str], expected: tuple[str, dict[str, str]]
) -> None:
    found = Strategies(ASSIGNORS, "weighted", {"measure": "lag", "floor": "0"})
    config = found.effective(replace(CONFIG, strategy=strategy, parameters=parameters))
    assert (config.strategy, config.parameters) == expected


def test_parameters_are_checked_as_they_will_count() -> None:
    wrong = Strategies(ASSIGNORS, "weighted", {"floor": "lots"})
    with pytest.raises(Refused, match="'floor' of strategy 'weighted' is 'lots'"):
        wrong.check(TopicConfig("t", "", "", "", strategy=""))
    wrong.check(TopicConfig("t", "", "", "", strategy="balanced"))
    with pytest.raises(Refused, match="strategy 'range' takes no parameters, and 'floor' is given; leave it out"):
        wrong.check(TopicConfig("t", "", "", "", strategy="range", parameters={"floor": "1"}))
    with pytest.raises(Refused, match="no strategy 'magic'"):
        wrong.check(TopicConfig("t", "", "", "", strategy="magic"))
