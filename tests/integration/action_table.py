"""Every action of an operator, with arguments that do something, what shows it, and what it refuses.

The table is for a site of topics, consumers and fleets that are named after the action which they are for (`ActionSite`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS

Nodes: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Path below the cluster → the fields of the znode."""
APPLICATION = OWN_APPLICATIONS[0]
BUDGET_MOVES = 3
"""What a plan of the site may move without an approval: only the plan of the topic `approved` moves more."""
WHY = "a test"
NOBODY = "has never seen a consumer 'zoe'"
NO_TOPIC = "topic 'nothing' is not managed"
NO_FLEET = "has no fleet 'nobody'"
NO_UPGRADE = "the fleet 'nobody' has no upgrade"


@dataclass(frozen=True, slots=True)
class Bad:
    """Bad input: what differs from the row's arguments, and the sentence of the action or of the form's schema that refuses it.

    `later`: it is bad only once the action is done. Commands refuse more in `tests/unit/coordinator_tasks/cli`.
    """

    given: Mapping[str, Any]
    says: str
    later: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One action. `given`: its parameters; a text `{name}` is a word of the site. A reason is added where there is a field for it.

    - `turn`: actions of one turn are done at once, those of a later one rely on earlier ones.
    - `shows`: how its effect is seen; `before` and `after` it.
    - `changed`: the node and the field that the history names; `was`: the value before. Without them it changes nothing.
    - `reset`: the topic in whose own history it stands, with the former offsets `was`.
    - `again`: the sentence that refuses a second call; empty = it is done again, and changes nothing.
    - `renews`: a second call is a request of its own.
    - `back`: the arguments by which the same action takes it back.
    - `says`: a part of what an action that only reads says.
    """

    given: Mapping[str, Any]
    turn: int
    shows: Callable[[Nodes], Any] = lambda _: None
    before: Any = None
    after: Any = None
    changed: tuple[str, str] = ("", "")
    was: Any = None
    reset: str = ""
    again: str = ""
    renews: bool = False
    back: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
    bad: tuple[Bad, ...] = ()


def of(path: str, name: str) -> Callable[[Nodes], Any]:
    """A field of a node."""
    return lambda nodes: nodes.get(path, {}).get(name)


def owners(topic: str) -> Callable[[Nodes], list[str]]:
    """Who owns something of a topic."""
    return lambda nodes: sorted(set(nodes.get(f"assignments/{topic}", {}).get("assignments", {}).values()))


def offsets(topic: str) -> Callable[[Nodes], dict[str, int]]:
    """Where partitions were sent by the last reset."""
    found = of(f"assignments/{topic}", "seeks")
    return lambda nodes: {p: one["offset"] for p, one in (found(nodes) or {}).items()}


def why(consumer: str, directive: str) -> Callable[[Nodes], Any]:
    """The reason of a directive, if there is one."""
    found = of(f"directives/{consumer}", directive)
    return lambda nodes: (found(nodes) or {}).get("why")


def all_of(*parts: Callable[[Nodes], Any]) -> Callable[[Nodes], tuple[Any, ...]]:
    return lambda nodes: tuple(one(nodes) for one in parts)


def upgrade(app: str) -> Callable[[Nodes], tuple[Any, ...]]:
    """Where an upgrade stands, whether it is paused, and who is wanted in its fleet."""
    phase, paused = of(f"upgrades/{app}", "phase"), of(f"upgrades/{app}", "paused")
    wanted = of(f"fleet/{app}", "consumers")
    return lambda nodes: (phase(nodes), bool(paused(nodes)), wanted(nodes))


def _limits(nodes: Nodes) -> Any:
    found = nodes.get("history/:growth/grown", {}).get("limits", {})
    return found.get("min"), found.get("max"), found.get("act")


def _replaced(nodes: Nodes) -> list[str]:
    return sorted(of("fleet/redeployed", "replaced")(nodes) or {})


_UPGRADE = {"app": "upgraded", "version": "v2", "code": "v2", "steps": [50, 100]}
_LIMITS = {"app": "grown", "least": 2, "most": 3, "act": True}
_UPGRADED = ["u-1", "u-2"]
_NOBODY_ASKED = "does not wait for an answer: nobody is asked"
TABLE: Mapping[str, Row] = {
    # Topics
    "add_topic": Row(
        {"topic": "added", "group_id": "{group}"},
        2,
        all_of(of("config/added", "group.id"), owners("added")),
        (None, []),
        ("{group}", ["a", "b"]),
        ("config/added", "group.id"),
        bad=(
            Bad({"topic": "nothing"}, "there is no topic 'nothing' in Kafka"),
            Bad({"topic": "../x"}, "does not match"),
            Bad({"group_id": "g\x1b[2J"}, "has characters that cannot be shown"),
            Bad({"topic": "paused", "group_id": "another"}, "topic 'paused' is managed by cluster"),
        ),
    ),
    "remove_topic": Row(
        {"topic": "removed"},
        2,
        all_of(of("config/removed", "removed"), owners("removed")),
        (False, ["a", "b"]),
        (True, []),
        ("config/removed", "removed"),
        was=False,
        bad=(Bad({"topic": "nothing"}, NO_TOPIC),),
    ),
    "set_strategy": Row(
        {"topic": "strategy", "strategy": "weighted", "parameters": {"measure": "lag"}},
        2,
        all_of(of("config/strategy", "strategy"), of("config/strategy", "parameters")),
        ("", {}),
        ("weighted", {"measure": "lag"}),
        ("config/strategy", "strategy"),
        was="",
        back={"strategy": "", "parameters": {}},
        bad=(Bad({"parameters": {"measure": "luck"}}, "'luck'"),),
    ),
    "pause": Row(
        {"topic": "paused", "partitions": [1]},
        2,
        all_of(of("config/paused", "paused"), of("assignments/paused", "paused")),
        ([], []),
        ([1], [1]),
        ("config/paused", "paused"),
        was=[],
        bad=(Bad({"partitions": [9]}, "has partitions 0 to 1; name some of these"),),
    ),
    "resume": Row(
        {"topic": "paused", "partitions": [1]},
        3,
        all_of(of("config/paused", "paused"), of("assignments/paused", "paused")),
        ([1], [1]),
        ([], []),
        ("config/paused", "paused"),
        was=[1],
        bad=(Bad({"topic": "nothing"}, NO_TOPIC),),
    ),
    "freeze": Row(
        {"topic": "frozen"},
        2,
        of("config/frozen", "frozen"),
        False,
        True,
        ("config/frozen", "frozen"),
        was=False,
        bad=(
            Bad({"why": "a\x1b[2Jb"}, "has characters that cannot be shown"),
            Bad({"why": "x" * 501}, "Invalid input for param why"),
        ),
    ),
    "unfreeze": Row(
        {"topic": "frozen"},
        3,
        of("config/frozen", "frozen"),
        True,
        False,
        ("config/frozen", "frozen"),
        was=True,
        bad=(Bad({"topic": "a/b"}, "does not match"),),
    ),
    "pin": Row(
        {"topic": "pinned", "consumer": "p-2", "partitions": [0, 1]},
        2,
        all_of(of("config/pinned", "pins"), owners("pinned")),
        ({}, ["p-1", "p-2"]),
        ({"0": "p-2", "1": "p-2"}, ["p-2"]),
        ("config/pinned", "pins"),
        was={},
        bad=(Bad({"consumer": "zoe"}, NOBODY), Bad({"partitions": []}, "should be non-empty")),
    ),
    "unpin": Row(
        {"topic": "pinned", "partitions": []},
        3,
        all_of(of("config/pinned", "pins"), owners("pinned")),
        ({"0": "p-2", "1": "p-2"}, ["p-2"]),
        ({}, ["p-1", "p-2"]),
        ("config/pinned", "pins"),
        was={"0": "p-2", "1": "p-2"},
        bad=(Bad({"partitions": [7]}, "partition 7 of topic 'pinned' has no pin"),),
    ),
    "approve": Row(
        {"topic": "approved", "digest": "{digest}"},
        2,
        owners("approved"),
        ["c-1"],
        ["c-1", "c-2"],
        ("config/approved", "approval"),
        again=_NOBODY_ASKED,
        bad=(Bad({"digest": "0" * 16}, _NOBODY_ASKED),),
    ),
    "reset_offsets": Row(
        {"topic": "reset", "to": "earliest", "partitions": [0]},
        2,
        offsets("reset"),
        {},
        {"0": 0},
        reset="reset",
        was={"0": 80},
        renews=True,
        bad=(
            Bad({"to": "2.7"}, "'2.7' is no position"),
            Bad({"to": "2026-11-21T08:15:00"}, "the time '2026-11-21T08:15:00' has no zone"),
        ),
    ),
    "undo_offsets": Row(
        {"topic": "reset"},
        3,
        offsets("reset"),
        {"0": 0},
        {"0": 80},
        reset="reset",
        was={"0": 80},
        again="has taken back",
        bad=(Bad({"topic": "paused"}, "has no reset of offsets"),),
    ),
    "import_offsets": Row(
        {"offsets": "imported,0,20\nimported,1,5000\n"},
        2,
        offsets("imported"),
        {},
        {"0": 20, "1": 100},
        reset="imported",
        was={"0": 80, "1": 80},
        renews=True,
        bad=(
            Bad({"offsets": "imported,7,1\n"}, "has no partition 7; it has partitions 0 to 1"),
            Bad({"offsets": "[" * 100_000}, "line 1 of the offsets: it has 1 field"),
        ),
    ),
    "roll_back": Row(
        {"topic": "back", "rebalance": "{rebalance}"},
        3,
        owners("back"),
        ["c-1", "c-2"],
        ["c-1"],
        ("config/back", "rollback"),
        bad=(
            Bad({"rebalance": "../9"}, "has no rebalance '../9'"),
            Bad({"minutes": 1e9}, "is greater than the maximum"),
        ),
    ),
    "preview": Row(
        {"topics": ["grown"], "join": 1, "leave": ["g-1"]},
        2,
        says="grown: 2 partitions would move",
        bad=(Bad({"leave": ["zoe"]}, "consumer 'zoe' is not registered"),),
    ),
    # Consumers
    "isolate": Row(
        {"consumer": "i-1"},
        2,
        all_of(why("i-1", "isolated"), owners("isolated")),
        (None, ["i-1", "t"]),
        (WHY, ["t"]),
        ("directives/i-1", "isolated"),
        bad=(Bad({"consumer": "../i-1"}, "does not match"),),
    ),
    "readmit": Row(
        {"consumer": "i-1"},
        3,
        all_of(why("i-1", "isolated"), owners("isolated")),
        (WHY, ["t"]),
        (None, ["i-1", "t"]),
        ("directives/i-1", "isolated"),
        was={"why": WHY, "readmit": False},
        bad=(Bad({"consumer": "zoe"}, NOBODY),),
    ),
    "drain": Row(
        {"consumer": "d-1"},
        2,
        all_of(why("d-1", "draining"), of("fleet/drained", "consumers"), owners("drained")),
        (None, ["d-1"], ["d-1", "s"]),
        (WHY, [], ["s"]),
        ("fleet/drained", "consumers"),
        was=["d-1"],
        bad=(Bad({"consumer": "zoe"}, NOBODY),),
    ),
    "undrain": Row(
        {"consumer": "d-1", "app": "drained"},
        3,
        all_of(why("d-1", "draining"), of("fleet/drained", "consumers"), owners("drained")),
        (WHY, [], ["s"]),
        (None, ["d-1"], ["d-1", "s"]),
        ("directives/d-1", "draining"),
        was={"why": WHY},
        bad=(Bad({"app": "nobody"}, NO_FLEET),),
    ),
    "expect_restart": Row(
        {"consumer": "e-1", "within": 10},
        2,
        why("e-1", "restart"),
        None,
        WHY,
        ("directives/e-1", "restart"),
        renews=True,
        back={"within": 0},
        bad=(Bad({"within": 1_441}, "1441"),),
    ),
    # Fleets
    "set_fleet": Row(
        {
            "app": "made",
            "application": APPLICATION,
            "consumers": ["m-1", "m-2"],
            "arguments": ["--topics=made"],
            "code": "1.4",
        },
        2,
        all_of(of("fleet/made", "consumers"), of("fleet/made", "code")),
        (None, None),
        (["m-1", "m-2"], "1.4"),
        ("fleet/made", "consumers"),
        bad=(
            Bad({"consumers": ["u-1"]}, "consumer 'u-1' is in the fleet of 'upgraded' already"),
            Bad({"application": "/opt/other.py"}, "/opt/other.py"),
            Bad({"consumers": ["m/1"]}, "'m/1' cannot be a consumer id"),
        ),
    ),
    "scale": Row(
        {"app": "scaled", "count": 3},
        2,
        of("fleet/scaled", "consumers"),
        ["sc-1"],
        ["sc-1", "sc-2", "sc-3"],
        ("fleet/scaled", "consumers"),
        was=["sc-1"],
        back={"count": 1},
        bad=(Bad({"app": "nobody"}, NO_FLEET), Bad({"count": 2.7}, "2.7 is not of type 'integer'")),
    ),
    "redeploy": Row(
        {"app": "redeployed"},
        2,
        _replaced,
        [],
        ["rd-1", "rd-2"],
        ("fleet/redeployed", "replaced"),
        again="the fleet 'redeployed' is being redeployed",
        bad=(Bad({"app": "upgraded"}, "u-1 is the only live consumer of the fleet"),),
    ),
    "set_growth": Row(
        _LIMITS,
        0,
        _limits,
        (None, None, None),
        (2, 3, True),
        ("history/:growth/grown", "limits"),
        bad=(
            Bad({"least": 5}, "a fleet cannot grow from 5 to 3 consumers"),
            Bad({"most": 2.7}, "2.7 is not of type 'integer'"),
        ),
    ),
    "autoscale": Row(
        {"app": "grown"},
        1,
        of("fleet/grown", "consumers"),
        ["g-1"],
        ["g-1", "g-2"],
        ("fleet/grown", "consumers"),
        was=["g-1"],
    ),
    # Upgrades
    "upgrade": Row(
        _UPGRADE,
        2,
        upgrade("upgraded"),
        (None, False, ["u-1"]),
        ("Starting", False, _UPGRADED),
        ("fleet/upgraded", "consumers"),
        was=["u-1"],
        again="the fleet 'upgraded' is being upgraded to 'v2'",
        bad=(
            Bad({"steps": [0, 100]}, "0 is less than the minimum of 1"),
            Bad({"steps": [50, 20]}, "the steps 50, 20 cannot be"),
            Bad({"rule": "luck"}, "the settings have no rule 'luck'"),
            Bad({"version": "v3", "code": "v3"}, "is being upgraded to 'v2'", later=True),
        ),
    ),
    "pause_upgrade": Row(
        {"app": "upgraded"},
        3,
        upgrade("upgraded"),
        ("Starting", False, _UPGRADED),
        ("Starting", True, _UPGRADED),
        ("upgrades/upgraded", "paused"),
        bad=(Bad({"app": "nobody"}, NO_UPGRADE),),
    ),
    "upgrade_report": Row(
        {"app": "upgraded"},
        3,
        says="upgrade of upgraded to v2, asked by ",
        bad=(Bad({"app": "nobody"}, NO_UPGRADE),),
    ),
    "continue_upgrade": Row(
        {"app": "upgraded"},
        4,
        upgrade("upgraded"),
        ("Starting", True, _UPGRADED),
        ("Starting", False, _UPGRADED),
        ("upgrades/upgraded", "paused"),
        was="{paused}",
        bad=(Bad({"app": "nobody"}, NO_UPGRADE),),
    ),
    "roll_back_upgrade": Row(
        {"app": "upgraded"},
        5,
        upgrade("upgraded"),
        ("Starting", False, _UPGRADED),
        ("RolledBack", False, ["u-1"]),
        ("upgrades/upgraded", "reason"),
        again="was rolled back",
        bad=(Bad({"app": "nobody"}, NO_UPGRADE),),
    ),
}
