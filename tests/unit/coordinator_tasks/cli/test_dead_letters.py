"""The commands `dead-letters`: what a person and a program read, and what is dropped."""

import json
from pathlib import Path

import pytest

from spark_apps.dead_letters import table
from spark_apps.delivery.database import Database
from tests.letters_bench import letter
from tests.unit.coordinator_tasks.cli.conftest import Run


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/shop.sqlite"
    database = Database(made)
    with database.transaction() as cursor:
        table.prepare(cursor)
        table.put_letters(cursor, [letter("orders", 0, offset) for offset in (3, 7)] + [letter("clicks", 1, 5)])
    database.close()
    return made


def test_a_list_has_a_line_for_each_dead_letter(run: Run, url: str) -> None:
    code, out, _ = run("dead-letters", "list", url)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines[0] == "TOPIC PARTITION OFFSET FAILED AT TRIES STAGE ERROR"
    assert lines[1].startswith("clicks 1 5 2023-11-14T22:13:21.000+00:00 1 store ValueError: no\\nnumber!")
    assert [line.split()[:3] for line in lines[2:]] == [["orders", "0", "3"], ["orders", "0", "7"]]
    assert max(map(len, lines)) < 180
    code, out, _ = run("dead-letters", "list", url, "--topic", "orders", "--limit", "1", "-o", "csv")
    assert out.splitlines()[1].startswith("orders,0,3,")
    assert "1 of 2; --limit shows more" in run("dead-letters", "list", url, "--topic", "orders", "--limit", "1")[1]


def test_one_is_shown_whole_and_harmless(run: Run, url: str) -> None:
    code, out, _ = run("dead-letters", "show", url, "orders", "0", "7")
    assert code == 0
    assert "value        not \\u001b[31m json" in out
    assert "key          k\\xff" in out
    assert "header empty -" in out
    (found,) = json.loads(run("dead-letters", "show", url, "orders", "0", "7", "--json")[1])
    assert (found["offset"], found["headers"], found["release"]) == (7, [["trace", "1"], ["empty", None]], "1.2.3")
    assert (
        run("dead-letters", "show", url, "orders", "0", "7", "-o", "csv")[1].splitlines()[1].startswith("orders,0,7,")
    )
    code, _, err = run("dead-letters", "show", url, "orders", "0", "8")
    assert (code, "there is no dead letter of topic 'orders', partition 0, offset 8" in err) == (2, True)


def test_nothing_is_dropped_without_execute(run: Run, url: str) -> None:
    code, out, err = run("dead-letters", "drop", url, "--topic", "orders", "--partition", "0", "--offset", "3")
    assert (code, out.strip()) == (0, "1 dead letter would be dropped")
    assert "add --execute" in err
    said = json.loads(run("dead-letters", "drop", url, "--topic", "orders", "--json")[1])
    assert said == {"dead_letters": 2, "dropped": False}
    assert run("dead-letters", "drop", url, "--topic", "orders", "--execute")[1].strip() == "2 dead letters dropped"
    assert [one["topic"] for one in json.loads(run("dead-letters", "list", url, "--json")[1])] == ["clicks"]
    code, _, err = run("dead-letters", "drop", url, "--topic", "orders", "--offset", "3")
    assert (code, "give --partition too" in err) == (2, True)


def test_letters_of_another_cluster_stay(run: Run, url: str) -> None:
    of_cluster = ("--cluster", "other")
    assert json.loads(run("dead-letters", "list", url, *of_cluster, "--json")[1]) == []
    assert run("dead-letters", "show", url, "orders", "0", "7", *of_cluster)[0] == 2
    drop = ("dead-letters", "drop", url, "--execute", "--topic")
    assert run(*drop, "orders", *of_cluster)[1].strip() == "0 dead letters dropped"
    assert run(*drop, "")[1].strip() == "0 dead letters dropped", "no topic is not every topic"
    (_, cluster, *_) = run("dead-letters", "show", url, "orders", "0", "7")[1].split()
    assert run(*drop, "orders", "--cluster", cluster)[1].strip() == "2 dead letters dropped"


def test_a_database_without_dead_letters_has_none_and_is_not_changed(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other.sqlite"
    with Database(url).transaction() as cursor:
        cursor.execute("CREATE TABLE other (x TEXT)")
    assert run("dead-letters", "list", url)[1].strip() == "there are no dead letters"
    assert run("dead-letters", "drop", url, "--topic", "x", "--execute")[1].strip() == "0 dead letters dropped"
    with Database(url).transaction() as cursor:
        assert not cursor.has_table(table.TABLE)
    code, _, err = run("dead-letters", "list", f"sqlite:///{tmp_path}/none.sqlite")
    assert (code, "no such file" in err, (tmp_path / "none.sqlite").exists()) == (2, True, False)


def test_a_database_is_named_as_in_the_settings(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run("dead-letters", "list", "shop")
    assert (code, err.startswith("error: KPC-0")) == (2, True)
    for name, value in {"CLUSTER": "main", "ZOOKEEPER": "z:2181", "KAFKA_BOOTSTRAP_SERVERS": "k:9092"}.items():
        monkeypatch.setenv(f"COORDINATOR_{name}", value)
    monkeypatch.setenv("COORDINATOR_DATABASES_SHOP", url)
    assert "clicks" in run("dead-letters", "list", "shop")[1]
    assert "known: shop" in run("dead-letters", "list", "store")[2]


def test_a_row_of_a_later_release_is_told_beside_the_others(run: Run, url: str) -> None:
    with Database(url).transaction() as cursor:
        cursor.execute(f"UPDATE {table.TABLE} SET version = 2 WHERE topic = 'clicks'")
    told = "KPC-093: consumer_dead_letters, topic clicks, partition 1, offset 5: the row has format 2"
    code, out, err = run("dead-letters", "list", url)
    assert (code, "orders" in out, told in err) == (0, True, True)
    code, _, err = run("dead-letters", "show", url, "clicks", "1", "5")
    assert (code, told in err) == (4, True)


def test_large_letters_are_listed_over_several_pages(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_PAGE_BYTES", 1)
    listed = [one["offset"] for one in json.loads(run("dead-letters", "list", url, "--json")[1])]
    monkeypatch.undo()
    assert listed == [one["offset"] for one in json.loads(run("dead-letters", "list", url, "--json")[1])]
    assert len(json.loads(run("dead-letters", "list", url, "--json", "--limit", "2")[1])) == 2
