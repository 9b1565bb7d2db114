"""Written values are read back equal; everything else is an error with the path."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import pytest

from coordinator_tasks.core.codecs import codec, member_codec, status_codec
from coordinator_tasks.core.codecs.history_codec import (
    decode_asked,
    decode_record,
    encode_asked,
    encode_record,
    with_pauses,
)
from coordinator_tasks.core.codecs.upgrade_codec import decode_upgrade, encode_upgrade
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.fleet.upgrade import Outage, Rule, Upgrade, UpgradeEvent, UpgradeMark, UpgradePhase
from coordinator_tasks.core.model import (
    Absence,
    ActionRecord,
    Actor,
    Ago,
    Approval,
    Cause,
    CauseKind,
    Committed,
    Condition,
    ConsumerStatus,
    Directive,
    Draining,
    DrainKind,
    DrainOwner,
    Ending,
    Explanation,
    Failure,
    FieldChange,
    Fleet,
    FleetVersion,
    Handoff,
    IdClaim,
    Isolation,
    LastPass,
    Member,
    Move,
    MoveKind,
    Overwritten,
    Pause,
    Pauses,
    PlannedRestart,
    Reason,
    Record,
    Release,
    Rollback,
    RunningPartition,
    Seek,
    Split,
    Stall,
    StartRule,
    State,
    StateOnReset,
    StateSize,
    Taken,
    Token,
    TopicConfig,
    TopicNode,
    TopicState,
    TopicStatus,
    Unmoved,
)
from coordinator_tasks.core.text.json_fields import MAX_BYTES

PATH = "/consumers/shop/x"
TOKEN = Token(7, 2, "gen")
NODE = TopicNode(
    "h:9092",
    "g",
    9,
    "gen",
    "id",
    assignments={45: "a"},
    since={45: 3},
    handoff={46: Handoff("a", "b", 7)},
    incarnations={"a": 1, "b": 2},
    guarded=frozenset({45}),
    supersedes={"old": 12},
    start=StartRule.LATEST,
    initial_partitions=47,
    paused=frozenset({1}),
    removed=True,
    properties={"fetch.min.bytes": "1"},
    seeks={45: Seek(5, 8)},
)
CONFIG = TopicConfig(
    "orders",
    "id",
    "h:9092",
    "g",
    "range",
    {"x": "1"},
    StartRule.NONE,
    3,
    {"fetch.min.bytes": "1"},
    {1: "a"},
    frozenset({2}),
    frozen=True,
    removed=True,
    rollback=Rollback("7-de8cc71b", {1: "a"}, {"a": 4}, "kim", "slow", 5.5, 60.0),
)


@dataclass(frozen=True)
class Case:
    value: Any
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


TOLD = (Cause(CauseKind.TOLD, why="b joined"),)
CASES = {
    "topic node": Case(NODE, codec.encode_node, lambda raw: codec.decode_node(PATH, raw)),
    "release": Case(
        Release(7, "a", 4, 1234, "gen", TOKEN, Ago(0.5, 0.25, 0.125)),
        codec.encode_release,
        lambda raw: codec.decode_release(PATH, raw),
    ),
    "state": Case(
        TopicState(
            State.CLOSING,
            {"b": (46,)},
            {"a": (46,)},
            {46: 7},
            "r1",
            5.5,
            4.0,
            "b joined",
            {"a": 1},
            "digest",
            {"a": 2},
            {"b": (7.5, 9.0)},
            TOLD,
        ),
        codec.encode_state,
        lambda raw: codec.decode_state(PATH, raw),
    ),
    "config": Case(CONFIG, codec.encode_config, lambda raw: codec.decode_config(PATH, raw)),
    "member": Case(
        Member(
            "a", 4, "http://h:1", "boot", "r", 2.5, ("orders",), False, {"k": "v"}, process="pid:[1]/7", formats=("x",)
        ),
        member_codec.encode_member,
        lambda raw: member_codec.decode_member(PATH, raw),
    ),
    "claim": Case(
        IdClaim(
            consumer="a",
            incarnation=4,
            address="http://h:1",
            boot_id="boot",
            direct=False,
            answered=3,
            ended={2: Ending.REAPED},
            reasons={2: "exit code 1: killed"},
            failed_at={2: 4.5},
            absence=Absence(3, 5.0, 6.0),
            registrations=(1.5,),
            registered=3,
            process="x/7",
        ),
        member_codec.encode_claim,
        lambda raw: member_codec.decode_claim(PATH, raw, "a", -1),
    ),
    "directive": Case(
        Directive(
            "a",
            Isolation("ada", "why", 5.0, 2, 9.0, readmit=True),
            Draining("bob", "up", 6.0, 1, 3, DrainOwner(DrainKind.ITSELF)),
        ),
        member_codec.encode_directive,
        lambda raw: member_codec.decode_directive(PATH, raw, "a", -1),
    ),
    "fleet": Case(
        Fleet("etl", "app.py", ("a", "b"), ("--x",), {"k": "v"}),
        member_codec.encode_fleet,
        lambda raw: member_codec.decode_fleet(PATH, raw, "etl", -1),
    ),
    "record": Case(
        Record(
            "orders",
            State.STABLE,
            State.CLOSING,
            9,
            "gen",
            "r1",
            "b joined",
            Actor("airflow", "ada", "rebalance", "run", "plan", 2),
            5.0,
            1.0,
            2.0,
            (Move(1, "", "a", MoveKind.START), Move(46, "a", "b", MoveKind.HANDOFF)),
            {"a": (46,)},
            {"assigned": 3},
            "digest",
            incarnations={"a": 1},
            plan=Explanation("weighted", "00ff", "one move", (Reason("a was too full", (46,)),)),
            pauses=Pauses(
                (
                    Pause(1, None, None, 100.25, 7, None, 0.0125, 0.002, least=True),
                    Pause(46, 99.5, 99.75, 100.0, 3, 240, 0.5, 0.0015),
                    Pause(47),
                ),
                2,
                Unmoved(5, 0.004, 3, "c", 0.003),
                ("b lies",),
            ),
            causes=TOLD,
        ),
        encode_record,
        lambda raw: decode_record(PATH, raw, -1),
    ),
    "status": Case(
        ConsumerStatus(
            "a",
            "shop",
            4,
            "boot",
            "ok",
            {
                "orders": TopicStatus(
                    "gen",
                    9,
                    running={
                        1: RunningPartition(5, TOKEN, True, True, 3, 12.5, 80.0, Taken(4, 1.5, 0.25, 0.5)),
                        2: RunningPartition(0, TOKEN, False),
                    },
                    held={1: 9},
                    query_alive=False,
                    reports=("slow",),
                    last_batch={"records": 3.0},
                    stalls={9: Stall(0.004, 3, 5, 0.003)},
                )
            },
            ("one",),
        ),
        status_codec.encode_status,
        lambda raw: status_codec.decode_status(PATH, raw),
    ),
}

NOT_STORED = {
    "ConsumerStatus.answered_s",
    "ConsumerStatus.asked_s",
    "Directive.consumer",
    "Directive.version",
    "Explanation.stays",
    "Explanation.states",
    "Explanation.waits",
    "Fleet.app",
    "Fleet.problem",
    "Fleet.version",
    "IdClaim.consumer",
    "IdClaim.version",
    "Member.problem",
    "Member.registered_at",
    "Record.sequence",
    "ActionRecord.sequence",
}
"""Fields known from the node's name, the version or the reader, or not stored."""

SPLIT_CONFIG = replace(CONFIG, split=Split("billing", ("c", "d"), frozenset({45})))
_VERSION = FleetVersion("b.py", ("--x",), {"spark.cores.max": "2"}, {"TZ": "UTC"}, "1.5")
UPGRADE = Upgrade(
    "billing",
    replace(_VERSION, code="1.4"),
    _VERSION,
    "v1",
    "v2",
    ("a", "b"),
    ("c", "d"),
    ("orders",),
    (5, 100),
    60.0,
    600.0,
    Rule(30.0, 1, 0.5, "prices"),
    "ada",
    "prices",
    100.0,
    120.0,
    UpgradePhase.HOLDING,
    1,
    {"orders": (45, 46)},
    UpgradeMark(130.0, {"orders": {45: 7}}),
    {"orders": {45: 2.5}},
    {"c": 3},
    "too slow",
    "by ada",
    (UpgradeEvent(120.0, "step 1"),),
    4,
)
CAUSES = (
    Cause(CauseKind.JOINED, ("b",)),
    Cause(CauseKind.GONE, ("c",), by="ada", why="kernel", ending=Ending.REAPED),
    Cause(CauseKind.PINNED, ("a",), (1, 2, 46)),
    Cause(CauseKind.MORE, amount=3.0),
)


def later(kind: str, **changes: Any) -> Case:
    """The case of `CASES` with other values."""
    return replace(CASES[kind], value=replace(CASES[kind].value, **changes))


NEXT = {
    "packed topic node": replace(
        later("topic node", seeks={45: Seek(5, 8, StateOnReset.RESET), 46: Seek(6, 8)}),
        write=partial(codec.encode_node, pack_over=0),
    ),
    "config": Case(
        replace(SPLIT_CONFIG, approval=Approval("0123abcd", True, "ada", "calm", 7.0)),
        codec.encode_config,
        CASES["config"].read,
    ),
    "member": later("member", release="0.3.0", spark_ui="http://h:4040", application_id="app-1"),
    "claim": later("claim", refused_at=7.5),
    "release": later("release", ago=Ago(0.5, 0.25, None, 0.125)),
    "state": later("state", cause="joined: b", causes=CAUSES),
    "record": later(
        "record",
        cause="joined: b",
        causes=CAUSES,
        unasked=True,
        plan=Explanation("reset offsets", "id", "to 5", (Reason("was at 9", (46,)),), was_at={46: 9}, undoes="r0"),
        pauses=Pauses((Pause(1, wait_s=0.5, least=True, most_s=2.25, usual_s=0.25), Pause(2, wait_s=0.5))),
    ),
    "status": later(
        "status",
        topics={
            "orders": TopicStatus(
                "gen",
                9,
                running={
                    1: RunningPartition(
                        5,
                        TOKEN,
                        True,
                        taken=Taken(4, 1.5, last_pass=LastPass(7, 12.5, 0.25)),
                        overwritten=Overwritten("z", 3, 1.5),
                        state=StateSize(12, 345, 6_789),
                    )
                },
                failures=(Failure((3,), "a bad record", 4, 12.5, 3.5), Failure((), "no such table", away=True)),
            )
        },
        condition=Condition.FAILING,
    ),
    "directive": later(
        "directive",
        draining=Draining("billing", "up", 6.0, owner=DrainOwner(DrainKind.UPGRADE, "billing", "v2")),
        restart=PlannedRestart(
            "ada", "kernel", 5.0, 605.0, 3, True, {"orders": frozenset({1, 46})}, 2.0, "r1", {"zone": "z"}
        ),
    ),
    "fleet": later(
        "fleet",
        environment={"TZ": "UTC"},
        code="1.4",
        replaced={"a": 3},
        name="v1",
        versions={"v2": _VERSION},
        runs={"b": "v2"},
    ),
    "upgrade": Case(
        replace(UPGRADE, outage=Outage(140.0, "no broker", 150.0), suspected_at=160.0, away_at=140.0),
        encode_upgrade,
        lambda raw: decode_upgrade(PATH, raw, "billing", 4),
    ),
    "asked": Case(
        ActionRecord(
            "pause",
            "orders",
            Actor("command", "ada"),
            5.0,
            "why",
            (FieldChange("config/orders", "paused", "[]", "[1]"),),
        ),
        encode_asked,
        lambda raw: decode_asked(PATH, raw, -1),
    ),
}
"""Fields and kinds unknown to the last release, and absent in its examples."""
EVERY: list[Case] = [*CASES.values(), *NEXT.values()]


@pytest.fixture(params=range(len(EVERY)), ids=[*CASES, *(f"next {name}" for name in NEXT)])
def case(request: pytest.FixtureRequest) -> Case:
    index: int = request.param
    return EVERY[index]


def test_what_is_written_is_read_back_the_same(case: Case) -> None:
    found = case.read(case.write(case.value))
    assert found == case.value
    assert asdict(found) == asdict(case.value)  # also fields that comparisons ignore


def parts_of(value: Any) -> Iterator[Any]:
    """The value, and all instances of our classes in the value."""
    if isinstance(value, Mapping | tuple):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from parts_of(one)
    elif is_dataclass(value):
        yield value
        for one in fields(value):
            yield from parts_of(getattr(value, one.name))


def test_every_field_has_a_value_above_that_is_not_its_default() -> None:
    given: dict[str, bool] = {}
    for part in parts_of(tuple(case.value for case in EVERY)):
        for one in fields(part):
            default = one.default if one.default_factory is MISSING else one.default_factory()
            name, value = f"{type(part).__name__}.{one.name}", getattr(part, one.name)
            given[name] = given.get(name, False) or (bool(value) if default is MISSING else value != default)
    missing = {name for name, there in given.items() if not there} - NOT_STORED
    assert not missing, f"give {sorted(missing)} another value in CASES: the codec has to write and read it"


def test_fields_of_a_later_release_are_ignored(case: Case) -> None:
    raw = json.loads(case.write(case.value))
    if case.value is NODE:
        return  # there any further text is a consumer property
    assert case.read(json.dumps({**raw, "later": {"x": 1}}).encode()) == case.read(case.write(case.value))


@pytest.mark.parametrize(
    "raw",
    [b"{", b"[]", b"null", b"7", b'"x"', b"\xff", b"NaN", b'{"version":0}', b'{"version":"1"}', b"[" * 100_000],
    ids=["half", "list", "null", "number", "text", "no UTF-8", "NaN", "version 0", "version as text", "deep"],
)
def test_what_is_no_object_of_ours_is_malformed(case: Case, raw: bytes) -> None:
    with pytest.raises(Malformed, match=f"^{PATH}: ") as raised:
        case.read(raw)
    assert raised.value.path == PATH
    assert "\n" not in str(raised.value)


def test_half_a_character_is_malformed_since_it_could_never_be_written_again(case: Case) -> None:
    raw = json.loads(case.write(case.value)) | {"\ud800": "\udfff"}
    with pytest.raises(Malformed, match="surrogates not allowed"):
        case.read(json.dumps(raw).encode())
    whole = json.loads(case.write(case.value)) | {"later": "\U0001f600"}
    assert b"\\ud83d" in json.dumps(whole).encode()
    case.read(json.dumps(whole).encode())


def test_an_oversized_node_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(Malformed, match=f"^{PATH}: has {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"):
        codec.decode_node(PATH, b" " * (MAX_BYTES + 1))


def read_or_malformed(case: Case, raw: bytes) -> Any:
    """Every error has to begin with the path."""
    try:
        return case.read(raw)
    except Malformed as error:
        if not str(error).startswith(f"{PATH}: "):
            raise AssertionError(f"the error does not name its path: {error}") from error
        return None


ODD: list[Any] = [None, True, -1, 1.5, "", [[]], {"": [None]}, 10**309, 10**310, 2**63 - 1, 1e300]


def test_an_odd_value_in_any_field_is_malformed_or_can_be_written_again(case: Case) -> None:
    """Every field, and every field of the objects in the value."""
    plain = json.loads(case.write(case.value))
    within = [(key, name) for key, inner in plain.items() if isinstance(inner, dict) for name in inner]
    for odd in ODD:
        changed = [{**plain, key: odd} for key in plain]
        changed += [{**plain, key: {**plain[key], name: odd}} for key, name in within]
        for raw in changed:
            found = read_or_malformed(case, json.dumps(raw).encode())
            assert found is None or case.read(case.write(found)) == found


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"epoch": True}, "field 'epoch' is True"),
        ({"epoch": 2**53}, "field 'epoch' is 9007199254740992, not a whole number from 0 to 9007199254740991"),
        ({"since": {"45": 2**63 - 1}}, r"field 'since\.45' is 9223372036854775807"),
        (
            {"handoff": {"46": {"from": "a", "to": "b", "epoch": 2**53}}},
            r"field 'handoff\.46\.epoch' is 9007199254740992",
        ),
        ({"supersedes": {"g": 2**53}}, r"field 'supersedes\.g' is 9007199254740992"),
        ({"incarnations": {"a": 2**53}}, r"field 'incarnations\.a' is 9007199254740992"),
        ({"generation": "g" * 65}, "field 'generation' has 65 characters, more than 64"),
        ({"guarded": [2**31]}, "field 'guarded' is 2147483648"),
        ({"assignments": {"2147483648": "a"}}, "is not a partition number"),
        ({"group.id": None}, "field 'group.id' is None"),
        ({"assignments": {"01": "a"}}, r"field 'assignments\.01' is not a partition number"),
        ({"assignments": {"45": 7}}, r"field 'assignments\.45' is 7, not a string"),
        ({"assignments": {"46": "a"}}, r"names partitions \[46\] that are assigned as well"),
        ({"since": {}}, r"misses the assigned partitions \[45\]"),
        ({"handoff": {"46": {"from": "a", "to": "b"}}}, r"field 'handoff\.46\.epoch' is missing"),
        ({"guarded": [1, 1]}, "field 'guarded'"),
        ({"properties": None}, "field 'properties' is None, not an object"),
        ({"startingOffsets": "newest"}, "none of the known values"),
    ],
)
def test_a_topic_node_is_read_strictly(changes: dict[str, Any], problem: str) -> None:
    raw = {**json.loads(codec.encode_node(NODE)), **changes}
    with pytest.raises(Malformed, match=problem):
        codec.decode_node(PATH, json.dumps(raw).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, number) for key in "ei" for number in (2**53, 2**63 - 1, 10**310)),
        *(("o", owner) for owner in ("", "a/b", "x" * 65, "\ud800")),
        *((key, MISSING) for key in "geioctv"),
    ],
)
def test_metadata_that_cannot_be_ours_is_foreign(key: str, value: object) -> None:
    data = json.loads(status_codec.encode_metadata(Committed(5, TOKEN, "a", "shop", "id")))
    data = {name: old for name, old in data.items() if name != key} | ({} if value is MISSING else {key: value})
    assert status_codec.decode_metadata(5, json.dumps(data)) == Committed(5)


@pytest.mark.parametrize("keeps_state", [True, False])
def test_metadata_tell_whether_the_owner_keeps_state(keeps_state: bool) -> None:
    committed = Committed(5, TOKEN, "a", "shop", "id", None, keeps_state)
    assert status_codec.decode_metadata(5, status_codec.encode_metadata(committed)) == committed


def test_what_a_consumer_says_for_persons_is_cut() -> None:
    long, many = "stuck: " + "x" * 5_000_000, tuple(map(str, range(100_000)))
    status = ConsumerStatus("a", "c", 1, "b", long, {"t": TopicStatus("g", 1, reports=many)}, (long, "short"))
    found = status_codec.decode_status("http://a", status_codec.encode_status(status))
    shown = "stuck: " + "x" * 1_990 + "..."
    assert (found.health, found.reports) == (shown, (shown, "short"))
    assert found.topics["t"].reports == many[:100]


@pytest.mark.parametrize("ago", [[], {"read": -1}, {"passed": 1e300}, {"read": "x"}, 7])
def test_a_measure_that_cannot_be_true_keeps_no_release_from_being_read(ago: object) -> None:
    raw = json.loads(CASES["release"].write(CASES["release"].value))
    found = codec.decode_release(PATH, json.dumps({**raw, "ago": ago}).encode())
    assert found == CASES["release"].value
    assert found.ago is None


@pytest.mark.parametrize(
    ("taken", "stalls"),
    [
        ({"waited": -1}, {"9": {"longest": -1, "partition": 1, "partitions": 1}}),
        ({"waited": 1, "ago": 1e300}, {"x": {}}),
        ("x", []),
        ({"ago": 1}, {"9": {"longest": 1}}),
    ],
)
def test_a_measure_that_cannot_be_true_keeps_no_status_from_being_read(taken: object, stalls: object) -> None:
    raw = json.loads(CASES["status"].write(CASES["status"].value))
    raw["topics"]["orders"]["running"]["1"]["taken"] = taken
    raw["topics"]["orders"]["stalls"] = stalls
    status = status_codec.decode_status(PATH, json.dumps(raw).encode()).topics["orders"]
    assert status.running[1].taken is None
    assert status.stalls == {}
    assert status.running[1].position == 5


def test_pauses_are_added_to_a_record_and_what_else_stands_in_it_stays() -> None:
    record = CASES["record"].value
    raw = {**json.loads(encode_record(replace(record, pauses=None))), "later": 1}
    written = with_pauses(PATH, json.dumps(raw).encode(), record.pauses)
    assert json.loads(written)["later"] == 1
    assert decode_record(PATH, written, -1) == record


@pytest.mark.parametrize("column", ["wait", "records", "last"])
def test_columns_of_pauses_have_an_entry_for_each_partition(column: str) -> None:
    raw = json.loads(encode_record(CASES["record"].value))
    raw["pauses"][column].pop()
    with pytest.raises(Malformed, match="an entry for each partition"):
        decode_record(PATH, json.dumps(raw).encode(), -1)


@pytest.mark.parametrize(
    ("state", "read"),
    [
        ('{"rows": 3, "bytes": 90}', StateSize(3, 90)),
        ('{"rows": 3, "bytes": 90, "firstTimer": 9223372036854775807}', StateSize(3, 90, status_codec.LAST_TIMER_MS)),
        ('{"rows": -1, "bytes": 90}', None),
        ("17", None),
    ],
    ids=["without timers", "a timer that no page can show", "wrong", "another kind"],
)
@pytest.mark.parametrize("health", ["ok", "\\u006fk"], ids=["quickly", "with paths"])
def test_a_size_of_state_is_read_as_far_as_it_is_one(health: str, state: str, read: StateSize | None) -> None:
    token = '{"epoch": 1, "incarnation": 1, "generation": "g"}'
    running = f'{{"0": {{"position": 1, "token": {token}, "started": true, "state": {state}}}}}'
    topic = f'{{"generation": "g", "actedEpoch": 1, "queryAlive": true, "held": {{}}, "reports": [], "lastBatch": {{}}, "running": {running}}}'
    raw = f'{{"version": 1, "consumer": "a", "cluster": "c", "incarnation": 1, "health": "{health}", "reports": [], "topics": {{"t": {topic}}}}}'
    assert status_codec.decode_status(PATH, raw.encode()).topics["t"].running[0].state == read
