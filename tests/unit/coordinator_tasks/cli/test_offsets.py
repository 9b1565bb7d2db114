"""The commands for committed offsets, as a person types them who knows `kafka-consumer-groups`."""

import csv
import io
import json
from pathlib import Path

import pytest

from coordinator_tasks import show
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.topics import add_topic
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON
from tests.unit.coordinator_tasks.cli.conftest import Run
from tests.world.shop import Shop
from tests.world.site import stable_site


def test_describe_has_the_columns_of_kafkas_tool_in_its_order(run: Run) -> None:
    code, out, err = run("offsets", "describe")
    assert (code, err) == (0, "")
    header, *rows = [line.split() for line in out.splitlines()]
    assert header == (
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    )
    assert rows == [
        ["g", "orders", "0", "80", "100", "20", "a-1", "/a", "a"],
        ["g", "orders", "1", "90", "100", "10", "a-1", "/a", "a"],
        ["g", "orders", "2", "-", "100", "-", "a-1", "/a", "a"],
    ]


def test_describe_takes_topics_partitions_and_a_group(run: Run, shop: Shop) -> None:
    shop.kafka.create_topic("clicks", 1)
    add_topic(shop.coordinator, "clicks", "web", actor=PERSON)
    listed = json.loads(run("offsets", "describe", "--json")[1])
    assert [(one["group"], one["topic"], one["partition"]) for one in listed[2:]] == [
        ("g", "orders", 2),
        ("web", "clicks", 0),
    ]
    assert (listed[3]["current_offset"], listed[3]["lag"], listed[3]["log_end_offset"]) == (None, None, 0)
    some = json.loads(run("offsets", "describe", "--topic", "orders:0,2", "--json")[1])
    assert [one["partition"] for one in some] == [0, 2]
    assert len(json.loads(run("offsets", "describe", "--group", "web", "--json")[1])) == 1


@pytest.mark.parametrize("broken", ["unreadable", "denied", "plan unreadable", "plan denied", "gone from Kafka"])
def test_describe_names_unreadable_topics_and_shows_the_others(run: Run, shop: Shop, broken: str) -> None:
    shop.kafka.create_topic("clicks", 1)
    add_topic(shop.coordinator, "clicks", "web", actor=PERSON)
    path = shop.paths.topic("clicks") if broken.startswith("plan") else shop.paths.config("clicks")
    if broken.endswith("unreadable"):
        shop.zk.transact([SetData(path, b"{")])
    elif broken.endswith("denied"):
        shop.zk.denied.add(path)
    else:
        shop.kafka.delete_topic("clicks")
    code, out, err = run("offsets", "describe", "--json")
    assert (code, {one["topic"] for one in json.loads(out)}) == (1, {"orders"})
    assert err.startswith("left out: clicks: KPC-0")
    assert run("offsets", "describe", "--topic", "clicks")[0] in (2, 4)
    assert run("offsets", "describe", "--group", "g")[0] in (0, 1)


def test_a_reset_of_partitions_that_kafka_has_got_since_says_who_lists_them(run: Run, shop: Shop) -> None:
    shop.kafka.add_partitions("orders", 1)
    assert len(run("offsets", "describe")[1].splitlines()) == 5
    code, _, err = run("offsets", "reset", "--all-topics", "--to-latest", "--execute")
    assert (code, err) == (
        2,
        "error: KPC-017: the offsets of topic 'orders' cannot be reset: partition 3 is not in its list yet; `reconcile` or "
        "`run` finds it in Kafka within a minute: ask again then, or name other partitions\n",
    )
    assert run("offsets", "reset", "--topic", "orders:0,1,2", "--to-latest", "--execute")[0] == 0


def test_the_history_says_where_a_reset_has_sent_partitions_that_nobody_has() -> None:
    site = stable_site("a")
    site.dies("a")
    site.settles()
    positions.reset(site.coordinator, "orders", "latest", [0, 2], why="late", actor=PERSON)
    found = history.rebalances(site.coordinator, ["orders"], 1)
    why = " / ".join(f"partition {p} continues at 0, was at 0: no change" for p in (0, 2))
    assert show.history(found).splitlines()[-2:] == ["  nothing moved", f"  why 0,2: {why}"]
    (row,) = csv.DictReader(io.StringIO(show.history_rows(found).csv))
    assert (row["partitions"], row["from"], row["kind"], row["why"]) == ("0,2", "", "", why)


def test_an_import_reads_no_configuration_of_a_topic_outside_the_file(run: Run, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("g,orders,0,20")
    shop.zk.transact([Create(shop.paths.config("clicks"), b"{")])
    assert run("offsets", "reset", "--from-file", str(file))[0] == 0
    file.write_text("g,clicks,0,20")
    code, _, err = run("offsets", "reset", "--from-file", str(file))
    assert (code, shop.paths.config("clicks") in err) == (4, True)


def test_a_reset_is_shown_first_and_done_with_execute(run: Run, shop: Shop) -> None:
    before = shop.server.zxid
    asked = ("offsets", "reset", "--group", "g", "--topic", "orders:0,1", "--to-earliest")
    code, out, err = run(*asked)
    assert (code, shop.server.zxid, err) == (0, before, "nothing was changed; add --execute to do it\n")
    header, *rows = [line.split(maxsplit=4) for line in out.splitlines()]
    assert header == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "EFFECT"]
    assert rows == [
        ["g", "orders", "0", "10", "70 offsets would be read again"],
        ["g", "orders", "1", "10", "80 offsets would be read again"],
    ]
    code, out, err = run(*asked, "--execute", "--why", "wrong prices")
    assert (code, err) == (0, "")
    assert [line.split(maxsplit=4)[4] for line in out.splitlines()[1:]] == [
        "70 offsets are read again",
        "80 offsets are read again",
    ]
    assert {p: one.offset for p, one in shop.node.seeks.items()} == {0: 10, 1: 10}


def test_an_undo_is_shown_first_and_done_with_execute(run: Run, shop: Shop) -> None:
    run("offsets", "reset", "--topic", "orders:0", "--to-earliest", "--execute")
    shop.settle()
    before = shop.server.zxid
    code, out, err = run("offsets", "undo", "orders")
    assert (code, shop.server.zxid) == (0, before)
    assert "partition 0 would continue at 80" in out
    assert err == "nothing was changed; add --execute to do it\n"
    assert run("offsets", "undo", "orders", "--execute", "--why", "it was right")[0] == 0
    assert shop.node.seeks[0].offset == 80


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--topic", "orders"), "give exactly one of --to-earliest"),
        (("--topic", "orders", "--to-latest", "--dry-run"), "--dry-run and --execute contradict each other"),
        (("--topic", "orders", "--to-latest", "--to-offset", "3"), "given are --to-latest and --to-offset"),
        (("--to-latest",), "say which topics"),
        (("--to-latest", "--topic", "orders:0-2"), "'0-2' are no partitions"),
        (("--to-latest", "--topic", "orders:0", "--topic", "orders:1"), "--topic names 'orders' twice"),
        (("--to-latest", "--topic", "or/ders"), "cannot be a topic name"),
        (("--to-latest", "--all-topics", "--group", "h"), "manages no topic for group 'h' (its groups: g)"),
        (("--to-latest", "--topic", "orders", "--group", "h"), "is managed for group 'g', not for 'h'"),
        (("--to-offset", "-5", "--topic", "orders"), "an offset is a whole number from 0"),
        (("--by-duration", "1h", "--topic", "orders"), "a duration is written as"),
        (("--to-datetime", "noon", "--topic", "orders"), "'noon' is no position"),
        (
            ("--from-file", "/nowhere/x.csv"),
            "/nowhere/x.csv cannot be read: No such file or directory; name a file with",
        ),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(run: Run, shop: Shop, arguments: tuple[str, ...], says: str) -> None:
    before = shop.server.zxid
    code, out, err = run("offsets", "reset", *arguments, "--execute")
    assert (code, out, err.count("\n"), shop.server.zxid) == (2, "", 1, before)
    assert says in err


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("orders,3,5", "topic 'orders' has no partition 3; it has partitions 0 to 2; name some of these"),
        ("clicks,0,5", "line 1 of the offsets: topic 'clicks' is not managed here"),
        ('"orders,0,5', "it has 1 field; write topic,partition,offset"),
        ("[" * 200_000, "line 1 of the offsets is no CSV; write lines of topic,partition,offset"),
        ("orders,0,5\n" * 200_000, "has more than 2000000 bytes, which is too large; name a file with lines of"),
    ],
)
def test_a_file_for_other_topics_is_refused(run: Run, shop: Shop, tmp_path: Path, lines: str, says: str) -> None:
    file, before = tmp_path / "offsets.csv", shop.server.zxid
    file.write_text(lines)
    code, _, err = run("offsets", "reset", "--from-file", str(file), "--execute")
    assert (code, err.count("\n"), shop.server.zxid) == (2, 1, before)
    assert says in err


def test_a_file_that_is_no_text_is_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(b"orders,0,5\n\xff\xfe")
    said = run("offsets", "reset", "--from-file", str(file))[2]
    assert said == f"error: KPC-017: {file} is not text in UTF-8 from byte 11 on; save it as UTF-8\n"


def test_an_export_of_several_groups_names_them_and_is_read_again(run: Run, shop: Shop, tmp_path: Path) -> None:
    shop.kafka.create_topic("clicks", 1)
    add_topic(shop.coordinator, "clicks", "h,1", actor=PERSON)
    transitions.plan(shop.coordinator, ["clicks"], PERSON)
    exported = run("offsets", "reset", "--all-topics", "--to-latest", "--export")[1]
    assert exported.splitlines()[:2] == ['"h,1",clicks,0,0', "g,orders,0,100"]
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    assert run("offsets", "reset", "--from-file", str(file), "--export")[1] == exported
