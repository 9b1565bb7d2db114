"""The command line on the fakes: text for a person, output for a program, exit codes."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks import __version__, installed
from coordinator_tasks.adapters.discovery import claim_incarnation
from coordinator_tasks.cli import main
from coordinator_tasks.cli.base import user
from coordinator_tasks.core.codecs.member_codec import encode_claim, encode_directive, encode_fleet
from coordinator_tasks.core.machine.unread import NO_OWNER
from coordinator_tasks.core.model import (
    Condition,
    ConsumerStatus,
    Directive,
    Ending,
    Failure,
    Fleet,
    IdClaim,
    Isolation,
    Silence,
    StartRule,
    StateSize,
    Unreachable,
)
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.core.protocol.fence import Bounds, NoStart, start_position
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.fleet import record_end
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run import loop
from tests.unit.coordinator_tasks.cli.conftest import Run
from tests.world.site import Site


@pytest.fixture
def shop() -> Site:
    site = Site("site")
    site.kafka.create_topic("orders", 6)
    return site


@pytest.fixture
def site(shop: Site) -> Site:
    return shop


def stable(run: Run, site: Site, *consumers: str) -> None:
    assert run("add-topic", "orders", "--group", "g")[0] == 0
    site.starts(*consumers)
    site.settles()


def says(site: Site, consumer: str, change: Callable[[ConsumerStatus], ConsumerStatus]) -> None:
    """Change the consumer's answers from now on."""
    answer = site.processes[consumer].answer
    site.statuses.answers[consumer] = lambda member: change(answer(member))


def the_json(answer: tuple[int, str, str]) -> Any:
    code, out, err = answer
    assert (code, err) == (0, "")
    return json.loads(out)


def nobody_reads(partitions: str, topic: str) -> str:
    return f"nobody reads {partitions} of topic {topic}: {NO_OWNER}"


def test_a_topic_is_added_planned_and_listed(run: Run, site: Site) -> None:
    code, out, _ = run("add-topic", "orders", "--group", "g")
    added = "topic orders is managed with 6 partitions; the next plan assigns those without an owner"
    assert (code, out.strip()) == (0, added)
    site.starts("consumer-a", "consumer-b")
    site.clock.advance(10)

    code, out, _ = run("plan", "--dry-run")
    assert code == 0
    assert "orders: Initial -> Starting, would be written" in out
    assert "consumer-a" in out
    code, out, err = run("topics", "--json")
    assert (code, err) == (1, f"{nobody_reads('partitions 0-5', 'orders')}\n")
    assert json.loads(out)[0]["state"] == "Initial", "a dry run writes nothing"

    assert run("plan")[0] == 0
    site.settles()
    (topic,) = the_json(run("topics", "--json"))
    assert (topic["state"], topic["owners"]) == ("Stable", {"consumer-a": 3, "consumer-b": 3})
    assert (topic["moving"], topic["unowned"]) == ([], [])
    assert run("add-topic", "orders", "--group", "g")[1].strip() == added, "true of a topic that is Stable as well"


def test_a_drain_moves_everything_and_the_history_says_why(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a", "consumer-b")
    code, out, _ = run("drain", "consumer-b", "--why", "new host", "--by", "kim")
    assert (code, out.splitlines()) == (
        0,
        ["consumer-b is draining", "consumer-b will give away 3 partitions of orders"],
    )
    site.clock.advance(10)

    out = run("plan", "--dry-run")[1]
    assert f"draining: consumer-b (by kim, as user {user()}: new host)" in out
    assert "hand-off: its one possible owner releases it" in out
    assert run("plan")[0] == 0
    site.settles()
    assert run("step")[0] == 0

    (newest, *_) = the_json(run("history", "orders", "--json"))
    assert {(m["giver"], m["taker"]) for m in newest["moves"]} == {("consumer-b", "consumer-a")}
    out = run("history")[1]
    assert f"draining: consumer-b (by kim, as user {user()}: new host)" in out
    assert "command " in out
    assert "consumer-b  consumer-a  handoff" in out
    assert "3 partitions moved; 3 not measured" in out, "these consumers say nothing of it"
    assert max(map(len, out.splitlines())) <= 120


def test_a_consumer_is_drained_although_the_configuration_of_a_topic_cannot_be_read(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a", "consumer-b")
    site.zk.transact([SetData(site.paths.config("orders"), b"{broken", -1)])
    code, out, _ = run("drain", "consumer-b", "--why", "new host", "--by", "kim")
    keeps = "consumer-b will keep 3 partitions of orders until the topic's configuration can be read"
    assert (code, out.splitlines()) == (0, ["consumer-b is draining", keeps])


def test_a_record_that_cannot_be_read_hides_nothing_of_other_topics_and_requests(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a")
    clicks, asked = site.paths.record("clicks", 0), f"{site.paths.asked}/0000000009"
    site.zk.ensure(site.paths.history("clicks"))
    site.zk.transact([Create(clicks, b"{"), Create(asked, b"{")])
    for arguments, path in ((("history",), clicks), (("history", "--actions"), asked)):
        code, out, err = run(*arguments, "--json")
        assert (code, len(json.loads(out)), err.startswith("left out: ")) == (1, 1, True)
        assert path in err
    assert run("history", "clicks")[0] == 4


def test_a_list_of_which_everything_is_left_out_is_not_called_empty(run: Run, site: Site) -> None:
    empty = ("nothing has happened yet\n", "nobody has asked for anything yet\n")
    assert (run("history")[1], run("history", "--actions")[1]) == empty
    for folder in (site.paths.history("orders"), site.paths.asked):
        site.zk.ensure(folder)
        site.zk.transact([Create(f"{folder}/0000000000", b"{")])
    assert run("history")[:2] == (1, "no rebalance could be shown\n")
    assert run("history", "--actions")[:2] == (1, "no request could be shown\n")
    site.zk.transact([Create(site.paths.config("orders"), b"{")])
    assert run("offsets", "describe")[:2] == (1, "no topic could be shown\n")


@pytest.mark.parametrize("command", ["topics", "status"])
def test_partitions_without_an_owner_have_their_own_exit_code(run: Run, site: Site, command: str) -> None:
    stable(run, site, "consumer-a")
    assert run(command)[0] == 0
    run("isolate", "consumer-a", "--why", "wrong disk", "--yes")
    assert run("step")[0] == 0
    code, out, err = run(command, "--json")
    assert (code, err) == (1, f"{nobody_reads('partitions 0-5', 'orders')}\n")
    assert json.loads(out), "a program reads the rest all the same"
    assert run("step")[0] == 1, "it is held: no live consumer is there"
    assert run("remove-topic", "orders", "--yes")[0] == 0
    assert run(command)[0] == 0, "a topic that was removed misses nobody"


def test_status_shows_consumers_and_their_partitions(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a", "consumer-b", "consumer-c", "consumer-d")
    run("set-fleet", "sales", "--application", "app.py", "--consumer", "consumer-e", "--argument=--topics=sales")
    run("isolate", "consumer-b", "--why", "wrong disk", "--yes")
    run("drain", "consumer-c", "--why", "new host")
    site.statuses.answers["consumer-a"] = Unreachable(Silence.SILENT, "no answer within 2 s")
    site.dies("consumer-d", None)
    run("set-fleet", "tax", "--application", "app.py", "--consumer", "consumer-f", "--argument=--topics=tax")
    claim = encode_claim(IdClaim("consumer-f", 7))
    site.zk.transact([Create(site.paths.id("consumer-f"), claim)])

    found = {one["consumer"]: one for one in the_json(run("status", "--json"))}

    assert {consumer: one["presence"] for consumer, one in found.items()} == {
        "consumer-a": "live",
        "consumer-b": "isolated",
        "consumer-c": "draining",
        "consumer-d": "absent",
        "consumer-e": "not started",
        "consumer-f": "starting",
    }
    assert found["consumer-a"]["problem"] == "no answer within 2 s"
    assert found["consumer-d"]["problem"].startswith("incarnation 1 is absent: it keeps its partitions until")
    assert found["consumer-e"]["problem"].startswith(
        "it has never registered: the launcher or the DAG `consumers` starts"
    )
    out = run("status")[1]
    assert "wrong disk" in out
    assert "new host" in out


def test_status_names_unread_topics_and_void_registrations_of_a_consumer(run: Run, site: Site) -> None:
    site.starts("consumer-a", topics=("(?=orders).*", "other"))
    said = "topic other may be assigned to this consumer, but none of its pipelines matches"
    says(site, "consumer-a", lambda status: replace(status, reports=(said,)))
    (found,) = the_json(run("status", "--json"))
    assert found["reports"][0].startswith("registered for topics: '(?=orders).*' is no pattern of topics: ")
    assert found["reports"][1] == said
    assert said in run("status")[1]


def test_what_a_consumer_cannot_process_is_told_of_the_topic_and_of_the_consumer(run: Run, site: Site) -> None:
    """The topic is Stable: every partition has an owner, and one partition makes no progress."""
    stable(run, site, "consumer-a")
    why = "partition 3 waits at offset 5: ValueError: bad record (failed 4 times; tried again)"

    def fails(status: ConsumerStatus) -> ConsumerStatus:
        failures = (Failure((3,), "ValueError: bad record", 4, 12.0, 3.0),)
        orders = replace(status.topics["orders"], failures=failures, reports=(why,))
        health = f"failing: topic orders: {why}"
        return replace(status, health=health, condition=Condition.FAILING, topics={"orders": orders})

    says(site, "consumer-a", fails)
    told = "consumer-a cannot process partition 3 of topic orders for 12 s: ValueError: bad record"
    for command in ("topics", "status"):
        code, out, error = run(command)
        assert (code, out.count("ValueError: bad record"), error) == (1, 1, f"{told}\n")
    assert "is where it should be" not in run("topics")[1]
    (found,) = json.loads(run("topics", "--json")[1])
    assert found["failing"] == [told]
    waits = r"waits 3: consumer-a cannot process it at offset \d+: ValueError: bad record \(failed 4 times; the next try is in 3 s\)"
    assert re.search(waits, run("explain", "orders")[1])
    assert re.search(waits, run("explain", "orders", "--partition", "3")[1])
    assert "waits" not in run("explain", "orders", "--partition", "2")[1]
    assert "waits,3,consumer-a cannot process it" in run("explain", "orders", "-o", "csv")[1]


def test_the_state_of_a_partition_is_told_by_explain_and_by_status(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a")

    def keeps(status: ConsumerStatus) -> ConsumerStatus:
        orders = status.topics["orders"]
        running = {3: replace(orders.running[3], state=StateSize(1_200, 5_000, 1_700_000_000_000))}
        return replace(status, topics={"orders": replace(orders, running={**orders.running, **running})})

    says(site, "consumer-a", keeps)
    told = "1,200 rows, 5,000 bytes, earliest timer 2023-11-14 22:13:20 UTC"
    assert f"state 3: {told}" in run("explain", "orders")[1]
    assert "state" not in run("explain", "orders", "--partition", "2")[1]
    (found,) = json.loads(run("status", "--json")[1])
    assert found["topics"][0]["states"] == {
        "3": {"rows": 1_200, "value_bytes": 5_000, "first_timer_ms": 1_700_000_000_000}
    }


@pytest.mark.parametrize("command", ["topics", "status"])
def test_an_outage_of_the_sink_is_told_once_for_all_consumers_and_topics(run: Run, site: Site, command: str) -> None:
    site.kafka.create_topic("refunds", 2)
    assert run("add-topic", "refunds", "--group", "g")[0] == 0
    stable(run, site, "consumer-a", "consumer-b")

    def fails(status: ConsumerStatus) -> ConsumerStatus:
        why, claims = f"SinkUnavailable: no route from {status.consumer}", "the database takes no claims"
        failures = (Failure((), why, 2, 400.0, away=True), Failure((0,), claims, 1, 1.0, away=True))
        reports = (f"the topic is not read: {why} (failed 2 times; it is tried again)", claims)
        topics = {topic: replace(one, failures=failures, reports=reports) for topic, one in status.topics.items()}
        health = f"failing: topic orders: {reports[0]}"
        return replace(status, health=health, condition=Condition.FAILING, topics=topics)

    for consumer in ("consumer-a", "consumer-b"):
        says(site, consumer, fails)
    code, out, error = run(command)
    outage = "the sink does not answer for 400 s (consumer-a, consumer-b, 8 partitions of 2 topics)"
    assert (code, error) == (1, f"{outage}: SinkUnavailable: no route from consumer-a\n")
    assert ("no route" in out, "claims" in out) == (False, False)
    assert out.count("the sink does not answer") == {"topics": 2, "status": 4}[command]


def test_a_fleet_that_is_being_started_is_told_instead_of_asking_for_a_consumer(run: Run, site: Site) -> None:
    run("add-topic", "orders", "--group", "g", "--why", "x")
    fleet = ("set-fleet", "sales", "--application", "app.py", "--argument=--topics=orders", "--why", "x")
    run(*fleet, "--consumer", "consumer-a", "--consumer", "consumer-b")
    site.settles()
    starts = "consumer-a, consumer-b of fleet sales are being started: see the runs of the DAG `consumers`"
    code, out, error = run("topics")
    assert (code, starts in out, starts in error, "start a consumer" in error) == (1, True, True, False)
    assert f"no owner; {starts}" in run("status")[2]
    claim_incarnation(site.server.connect(), site.paths, "consumer-a", 1)
    record_end(site.coordinator, "consumer-a", 1, Ending.REAPED, "exit code 1: no such file")
    assert "consumer-b of fleet sales is being started" in run("topics")[1]
    site.starts("consumer-b")
    site.settles()
    assert "being started" not in "".join(map(str, run("topics")))


def test_a_crash_loop_tells_its_reason_how_often_and_when_the_next_process_gets_something(run: Run, site: Site) -> None:
    """Shown with the topic and with the consumers; between two processes, and in one process."""
    run("add-topic", "orders", "--group", "g", "--why", "x")
    run("set-fleet", "sales", "--application", "app.py", "--consumer", "consumer-a", "--why", "x")
    why = "exit code 1: ModuleNotFoundError: no x"
    for life in range(1, 6):
        site.starts("consumer-a")
        site.clock.advance(10)
        if life < 5:
            site.dies("consumer-a", None)
            record_end(site.coordinator, "consumer-a", life, Ending.REAPED, why)
    site.settles()
    loop = f"incarnation 4 has ended: {why} (4 times in a row); its id gets partitions again at "
    for command in ("status", "topics"):
        assert loop in run(command)[1]
    (found,) = json.loads(run("status", "--json")[1])
    assert (found["exits"]["count"], found["exits"]["reason"]) == (4, why)
    assert found["exits"]["next_at"] > site.clock.now()
    site.kafka.create_topic("clicks", 1)
    run("add-topic", "clicks", "--group", "g", "--why", "x")
    run("set-fleet", "web", "--application", "app.py", "--consumer", "w", "--argument=--topics=clicks", "--why", "x")
    site.dies("consumer-a", None)
    record_end(site.coordinator, "consumer-a", 5, Ending.REAPED, why)
    for command in ("status", "topics"):
        assert f"incarnation 5 has ended: {why} (5 times in a row)" in run(command)[1]
    fleet = ("set-fleet", "sales", "--application", "app.py", "--consumer", "consumer-a", "--why", "x")
    run(*fleet, "--argument=--topics=orders")
    rows = {one["topic"]: one["reason"] for one in json.loads(run("topics", "--json")[1])}
    assert (why in rows["orders"], why in rows["clicks"]) == (True, False), "the fleet of clicks has not crashed"


def test_a_topic_is_frozen_and_that_is_shown(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a")
    assert "is frozen" in run("freeze", "orders")[1]
    site.settles()
    assert "frozen: nothing moves" in run("topics")[1]
    site.starts("consumer-b")
    explained = run("explain", "orders")[1]
    assert explained.startswith("  frozen: what has an owner stays where it is; once it is unfrozen, balanced: 3 of 6 ")
    assert "is not frozen" in run("unfreeze", "orders")[1]
    assert "frozen" not in run("topics")[1] + run("explain", "orders")[1]


def test_the_remedy_for_a_partition_without_a_start_is_a_command_that_gives_it_one(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a")
    with pytest.raises(NoStart) as refused:
        start_position(1, None, None, "", StartRule.NONE, 3, Bounds(0, 50))
    command = str(refused.value).partition("choose its first offset: ")[2]
    code, _, error = run(*command.replace("TOPIC", "orders").replace("WHY", "new").split())
    assert (code, error) == (0, "")
    assert {p: seek.offset for p, seek in site.node().seeks.items()} == {1: 0}


def test_who_asked_is_the_systems_user_too(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    stable(run, site, "consumer-a")
    run("freeze", "orders")
    run("drain", "consumer-a", "--why", "new disk", "--by", "kim")
    drained, frozen, added = the_json(run("history", "--actions", "--json"))
    assert [one["actor"]["who"] for one in (frozen, drained)] == [user(), f"kim, as user {user()}"]
    assert "mallory" not in user()
    assert (frozen["about"], frozen["changes"]) == (
        "orders",
        [{"node": "config/orders", "field": "frozen", "before": "false", "after": "true"}],
    )
    assert (drained["about"], drained["why"], added["action"]) == ("consumer-a", "new disk", "add_topic")
    shown = run("history", "orders", "--actions")[1]
    assert f"{user()} (command)" in shown
    assert "consumer-a" not in shown


def test_a_fleet_is_scaled_and_its_size_is_checked(run: Run, site: Site) -> None:
    run("set-fleet", "sales", "--application=app.py", "--consumer=s-1", "--env=TZ=UTC", "--conf=a=b", "--code=1.4")
    assert run("scale", "sales", "3", "--dry-run")[1].splitlines()[:2] == ["s-2 would join", "s-3 would join"]
    assert the_json(run("fleet", "--json"))[0]["consumers"] == ["s-1"]
    assert run("scale", "sales", "3")[1].endswith("sales will have 3 consumers: s-1, s-2, s-3\n")
    (found,) = the_json(run("fleet", "--json"))
    assert (found["code"], found["environment"], found["conf"]) == ("1.4", {"TZ": "UTC"}, {"a": "b"})
    for words, says in (
        (("scale", "nosuch", "3"), "KPC-012: cluster 'site' has no fleet 'nosuch'"),
        (("scale", "sales", "x"), "KPC-002: Invalid value"),
        (
            ("set-fleet", "sales", "--application", "{code}.py", "--consumer", "a"),
            "KPC-019: the fleet of 'sales' names",
        ),
        (
            ("upgrade", "sales", "v2"),
            "KPC-024: the fleet 'sales' has no version 'v2' (it has: 1.4); say what it runs",
        ),
        (("upgrade", "sales", "v2", "--step", "50", "--step", "5"), "KPC-024: the steps 50, 5 cannot be"),
        (("upgrade", "sales", "v2", "--rule", "mine"), "KPC-025: the settings have no rule 'mine'"),
        (("upgrade-report", "sales"), "KPC-012: the fleet 'sales' has no upgrade"),
    ):
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert says in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("add-topic", "orders/x", "--group", "g"), "cannot be a topic name"),
        (("add-topic", "", "--group", "g"), "the topic name is empty"),
        (("add-topic", "orders"), "Missing option '--group'"),
        (("add-topic", "orders", "--group", ""), "the consumer group is empty"),
        (("add-topic", "orders", "--group", "g" * 256), "the consumer group has 256 characters, more than 255"),
        (("add-topic", "orders", "--group", "g\x1b[2J"), "has characters that cannot be shown"),
        (
            ("add-topic", "orders", "--group", "g", "--parameter", "measure=lag", "--parameter", "measure=bytes"),
            "--parameter gives 'measure' twice; give it once",
        ),
        (("add-topic", "orders", "--group", "g", "--property", "x"), "--property 'x' is not name=value"),
        (("add-topic", "orders", "--group", "g", "--property", "group.id=x"), "'group.id' is no property of a topic"),
        (
            ("add-topic", "orders", "--group", "g", "--strategy", "weighted", "--parameter", "floor=2"),
            "'floor' of strategy",
        ),
        (("set-strategy", "orders"), "topic 'orders' is not managed by cluster 'site'"),
        (("plan", "orders"), "is not managed by cluster 'site' (it manages: none); correct the name, or add the topic"),
        (("history", "--limit", "9" * 20), "Input should be less than or equal to 1000000"),
        (("plan", "x" * 100_000), " ... "),
        (("topics", "--output", "x" * 100_000), " ... "),
        (("set-fleet", "f", "--application", "a\x1b[2J", "--consumer", "a"), "has characters that cannot be shown"),
        (("set-fleet", "f", "--application", "app.py", "--argument", "\udcff", "--consumer", "a"), "not UTF-8"),
        (("isolate", "a\x07b", "--why", "x"), "cannot be a consumer id"),
        (("nosuch",), "No such command 'nosuch'"),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], says: str) -> None:
    ended, out, err = run(*arguments)
    assert (ended, out) == (2, "")
    assert says in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.rstrip("\n").isprintable()
    assert len(err) < 1_100


def test_what_others_wrote_cannot_command_the_terminal(run: Run, site: Site) -> None:
    fleet = Fleet("shop", "/opt/a.py", ("b",), ("\x1b[2J\u202e\nx",))
    site.zk.ensure(site.paths.fleets)
    site.zk.transact([Create(site.paths.fleet("shop"), encode_fleet(fleet))])
    assert r"\u001b[2J\u202e\nx" in run("fleet")[1]
    assert "\x1b" not in run("fleet", "--output", "csv")[1]
    (found,) = json.loads(run("fleet", "--json")[1])
    assert found["arguments"] == ["\x1b[2J\u202e\nx"]
    assert "\u202e" not in run("fleet", "--json")[1]


def test_foreign_text_cannot_command_the_terminal_of_run(run: Run, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    stable(run, site, "consumer-a", "consumer-b")
    isolated = Directive("consumer-b", Isolation("mallory\x1b[2J", "disk", site.clock.now()))
    site.zk.transact([Create(site.paths.directive("consumer-b"), encode_directive(isolated))])

    def looped(c: Coordinator, _stop: object, _who: str, tell: Callable[[TopicReport], None]) -> None:
        for report in transitions.preview(c, ["orders"]):
            tell(report)

    monkeypatch.setattr(loop, "run", looped)
    code, out, _ = run("run")
    assert code == 0
    assert r"mallory\u001b[2J" in out
    assert "\x1b" not in out


def test_neighbours_that_do_not_answer_have_their_own_exit_code(run: Run, site: Site) -> None:
    site.kafka.down = True
    assert run("add-topic", "orders", "--group", "g")[0] == 3
    site.kafka.down = False
    site.server.stop()
    code, _, err = run("topics")
    assert code == 3
    assert err.count("\n") == 1


def test_topics_without_kafka_begins_with_the_outage_and_exits_non_zero(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a")
    site.kafka.down = True
    code, out, err = run("topics")
    assert (code, err.splitlines()) == (
        1,
        [
            "without Kafka, by what ZooKeeper and the consumers say: KPC-042: Kafka does not answer within 10 s; "
            "check that it runs"
        ],
    )
    assert "Kafka does not answer; every partition is where it should be" in out
    assert run("topics", "--json")[0] == 1


def test_an_unreadable_node_hides_no_other_topic_and_is_named(run: Run, site: Site) -> None:
    stable(run, site, "consumer-a")
    site.kafka.create_topic("other", 1)
    run("add-topic", "other", "--group", "g2")
    path = site.paths.topic("orders")
    site.zk.transact([SetData(path, b"{broken")])
    code, out, err = run("topics", "--json")
    unowned, *left_out = err.splitlines()
    assert (code, unowned) == (1, nobody_reads("partition 0", "other"))
    assert [one.startswith(f"left out: orders: KPC-050: {path}: ") for one in left_out] == [True]
    assert run("status")[::2] == (1, err)
    found = {one["topic"]: one for one in json.loads(out)}
    assert path in found["orders"]["problem"]
    assert found["other"]["partitions"] == 1
    assert run("step")[0] == 1, "a topic is held"
    run("remove-topic", "other", "--yes")
    for command in ("topics", "status"):
        code, _, err = run(command)
        assert (code, err.startswith(f"left out: orders: KPC-050: {path}: ")) == (1, True)
    assert site.zk.get(path).data == b"{broken"


@pytest.mark.parametrize(
    ("secret", "says"), [("", "COORDINATOR_ZOOKEEPER"), ('{"cluster": "shop"}', "no ZooKeeper address is set")]
)
def test_missing_settings_are_named_also_those_of_a_variable_as_in_a_pod(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, secret: str, says: str
) -> None:
    for name in ("COORDINATOR_SETTINGS", "COORDINATOR_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COORDINATOR_SETTINGS_SECRET", secret)
    with pytest.raises(SystemExit) as ended:
        main(["topics"])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_version_says_what_is_installed_and_which_formats_are_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "PACKAGES", ("kazoo", "no-such-package"))
    found = json.loads(run("version", "--json")[1])
    assert found["coordinator"] == __version__
    assert set(found["packages"]) == {"kazoo", "librdkafka"}
    assert (found["format"], found["fields"]) == (1, ["seeks", "properties", "packed", "seek_state"])
    shown = run("version")[1]
    assert "format 1; topic nodes also with seeks and properties" in shown
    assert f"librdkafka   {found['packages']['librdkafka']}" in shown
