"""The actions on dead letters: the person's cluster alone, the number that was seen, the fleet's own code, and a record."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coordinator_plugin import letter_actions
from coordinator_plugin.forms import FORMS

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS, AllowedLaunches
from coordinator_tasks.core.errors import InvalidName, Refused, StoreUnavailable
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.service.nodes import action_log
from coordinator_tasks.service.nodes.fleet import set_fleet
from spark_apps.dead_letters import LetterPlace, table
from spark_apps.delivery import Writer
from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from tests import letters_program
from tests.letters_bench import TOKEN, letter
from tests.world.shop import Shop, open_shop

ADA = Actor("airflow", "ada", "drop_dead_letters", "run-1", "drop_dead_letters", 1)
PLACES = (("main", "orders", 0, 7), ("main", "orders", 0, 8), ("main", "orders", 3, 7), ("main", "clicks", 0, 7))
OTHER = ("books", "orders", 0, 7)


@pytest.fixture
def shop() -> Shop:
    return open_shop()


@pytest.fixture
def database(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    url = f"sqlite:///{tmp_path}/shop.sqlite"
    monkeypatch.setenv("COORDINATOR_DATABASES_ROWS", url)
    found = Database(url)
    one = letter("orders", 0, 0)
    clusters = {"main": shop.coordinator.paths.cluster, "books": "books"}
    with found.transaction() as cursor:
        table.prepare(cursor)
        places = [LetterPlace(clusters[c], topic, "id-1", p, offset) for c, topic, p, offset in (*PLACES, OTHER)]
        table.put_letters(cursor, [replace(one, place=place) for place in places])
    return found


def left(database: Database) -> set[tuple[str, int, int]]:
    with database.transaction() as cursor:
        found = table.find(cursor, 100).letters
    assert [one for one in found if one.place.cluster == "books"], "nothing of another cluster is ever dropped"
    return {(one.place.topic, one.place.partition, one.place.offset) for one in found if one.place.cluster != "books"}


def drop(shop: Shop, *, dry_run: bool = False, actor: Actor = ADA, **given: Any) -> list[str]:
    asked = {"database": "rows", "topic": "orders", "partition": "", "offset": "", "why": "", **given}
    return FORMS["drop_dead_letters"].lines(shop.coordinator, asked, actor, dry_run=dry_run)


@pytest.mark.parametrize(
    ("given", "number", "place", "stay"),
    [
        ({}, 3, "", {("clicks", 0, 7)}),
        ({"partition": "0"}, 2, ", partition 0", {("orders", 3, 7), ("clicks", 0, 7)}),
        (
            {"partition": "3", "offset": "7"},
            1,
            ", partition 3, offset 7",
            {("orders", 0, 7), ("orders", 0, 8), ("clicks", 0, 7)},
        ),
    ],
    ids=["topic", "partition", "letter"],
)
def test_the_chosen_letters_are_dropped_and_the_action_is_recorded(
    shop: Shop, database: Database, given: dict[str, str], number: int, place: str, stay: set[Any]
) -> None:
    before = left(database)
    named = f"{number} dead letter{'s' * (number > 1)} of topic orders{place} in the database rows"
    assert drop(shop, dry_run=True, number=number, **given) == [f"{named} would be dropped"]
    assert (left(database), action_log.asked(shop.coordinator)) == (before, ())
    assert drop(shop, number=number, why="agreed with kim", **given)[-1] == f"{named} dropped"
    assert left(database) == stay
    (found,) = action_log.asked(shop.coordinator)
    assert (found.action, found.about, found.actor, found.why) == (
        "drop_dead_letters",
        "orders",
        ADA,
        "agreed with kim",
    )
    (change,) = found.changes
    assert (change.node, change.field, change.before) == ("databases/rows", f"dead letters{place}", str(number))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"number": 2}, "there are now 3 dead letters of topic orders in the database rows, and not 2"),
        ({"number": 1, "topic": "nothing"}, "there are now 0 dead letters of topic nothing"),
        ({"number": 3, "offset": "7"}, "give the partition too"),
        ({"number": 1, "partition": "1 OR 1=1"}, "'1 OR 1=1' is no partition; give a whole number up to 2147483647"),
        ({"number": 1, "partition": "0", "offset": "9" * 19}, "is no offset; give a whole number up to 92233720368547"),
        ({"number": 1, "partition": "٣"}, "is no partition"),
        (
            {"number": 3, "until": "yesterday"},
            "'yesterday' is no time with a zone; give one such as 2026-11-21T08:15:00Z",
        ),
        ({"number": 3, "until": "2026-11-21T08:15:00"}, "is no time with a zone"),
        (
            {"number": 3, "database": "sqlite:////etc/passwd"},
            "no database is named 'sqlite:////etc/passwd' in the settings",
        ),
        ({"number": 3, "database": "gone"}, r"no database is named 'gone' .*known: rows.*for Airflow's workers too"),
        ({"number": 3, "topic": "../orders"}, "orders"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_another_number_or_a_hostile_field_is_refused_and_drops_nothing(
    shop: Shop, database: Database, given: dict[str, Any], says: str, dry_run: bool
) -> None:
    before = left(database)
    with pytest.raises((Refused, InvalidName), match=says):
        drop(shop, dry_run=dry_run, **given)
    assert (left(database), action_log.asked(shop.coordinator)) == (before, ())


def test_letters_that_have_come_since_the_look_stay(shop: Shop, database: Database) -> None:
    with database.transaction() as cursor:
        later = (
            "UPDATE consumer_dead_letters SET failed_at_ms = failed_at_ms + 1 WHERE topic = 'orders' AND \"offset\" = 8"
        )
        cursor.execute(later)
    until = {"until": "2023-11-14T22:13:21.000+00:00"}
    with pytest.raises(Refused, match="there are now 2 dead letters of topic orders, failed until 2023-11-14"):
        drop(shop, number=3, **until)
    drop(shop, number=2, **until)
    assert left(database) == {("orders", 0, 8), ("clicks", 0, 7)}


def test_letters_that_come_between_the_look_and_the_drop_stay_with_all_others(
    shop: Shop, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "count", lambda *_, **__: 2)
    before = left(database)
    with pytest.raises(Refused, match="there are now 3 dead letters"):
        drop(shop, number=2)
    assert left(database) == before


def test_what_cannot_be_recorded_is_not_dropped(
    shop: Shop, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("away")

    before = left(database)
    monkeypatch.setattr(action_log, "note", away)
    with pytest.raises(StoreUnavailable):
        drop(shop, number=3)
    assert left(database) == before


def test_a_second_try_of_the_task_drops_nothing_more(shop: Shop, database: Database) -> None:
    drop(shop, number=3)
    (said,) = drop(shop, number=3, actor=replace(ADA, attempt=2))
    assert said.startswith("another try of this task has done it")
    assert left(database) == {("clicks", 0, 7)}


def test_a_database_without_letters_says_so(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_DATABASES_ROWS", f"sqlite:///{tmp_path}/none.sqlite")
    with pytest.raises(Refused, match="there is no such file of SQLite on this host"):
        drop(shop, number=1)
    Database(f"sqlite:///{tmp_path}/none.sqlite").transaction().__enter__()
    with pytest.raises(Refused, match="there are now 0 dead letters"):
        drop(shop, number=1)


# Replay ---------------------------------------------------------------------------------------------------------------

BILLING = Fleet(
    "billing",
    "app.py",
    ("b-1",),
    ("--pipeline", "orders=shop.orders:{code}", "--pipeline=clicks=shop.clicks:build", "--set", "database=rows"),
    environment={"PIPELINE_mode": "strict"},
    code="v7",
)


@pytest.fixture
def replays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The replays that the host has started; each says that one letter has passed, and another has failed again."""
    set_fleet(shop.coordinator, BILLING)
    monkeypatch.setenv("COORDINATOR_DATABASES_ROWS", "sqlite:////rows")
    monkeypatch.setenv("COORDINATOR_STATUS_TOKEN", "secret")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    started: list[dict[str, Any]] = []

    def run(command: list[str], environ: dict[str, str], *_: float) -> subprocess.CompletedProcess[str]:
        started.append({"command": command[1:], "env": environ})
        return subprocess.CompletedProcess(
            command, 1, "partition 0, offset 8 failed again\n1 replayed, 1 failed again\n", ""
        )

    monkeypatch.setattr(letter_actions, "run_to_end", run)
    return started


def replay(shop: Shop, *, dry_run: bool = False, **given: Any) -> list[str]:
    asked = {"app": "billing", "topic": "orders", "partition": "", "offset": "", "why": "", **given}
    return FORMS["replay_dead_letters"].lines(shop.coordinator, asked, ADA, dry_run=dry_run)


def test_letters_go_through_the_pipeline_of_the_fleet_and_the_action_is_recorded(
    shop: Shop, replays: list[dict[str, Any]]
) -> None:
    said = replay(shop, partition="0", offset="8")
    assert said[-2:] == ["partition 0, offset 8 failed again", "1 replayed, 1 failed again"]
    (started,) = replays
    cluster = shop.coordinator.paths.cluster
    chosen = ["--pipeline=orders=shop.orders:v7", "--set=database=rows", "--partition=0", "--offset=8"]
    assert started["command"] == ["-m", "spark_apps.replay", "--cluster", cluster, *chosen]
    assert (started["env"]["PIPELINE_mode"], started["env"]["COORDINATOR_DATABASES_ROWS"]) == (
        "strict",
        "sqlite:////rows",
    )
    assert "secret" not in started["env"].values()
    (found,) = action_log.asked(shop.coordinator)
    (change,) = found.changes
    assert (found.actor, change.after) == (ADA, "1 replayed, 1 failed again")


def test_a_dry_run_of_a_replay_names_the_pipeline_and_starts_nothing(shop: Shop, replays: list[dict[str, Any]]) -> None:
    (said,) = replay(shop, dry_run=True, topic="clicks", partition="2")
    assert said == "all dead letters of topic clicks, partition 2 would go through shop.clicks:build of fleet billing"
    assert (replays, action_log.asked(shop.coordinator)) == ([], ())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"app": "nosuch"}, "there is no fleet 'nosuch' with consumers"),
        ({"topic": "refunds"}, "name no pipeline for topic 'refunds'"),
        ({"offset": "7"}, "give the partition too"),
        ({"partition": "--set=database=x"}, "is no partition"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_replay_without_a_pipeline_or_with_a_hostile_field_starts_nothing(
    shop: Shop, replays: list[dict[str, Any]], given: dict[str, Any], says: str, dry_run: bool
) -> None:
    with pytest.raises((Refused, InvalidName), match=says):
        replay(shop, dry_run=dry_run, **given)
    assert replays == []


def test_code_that_the_host_does_not_allow_is_not_run(shop: Shop, replays: list[dict[str, Any]]) -> None:
    shop.coordinator = replace(shop.coordinator, allowed=AllowedLaunches(applications="app.py", settings="*"))
    with pytest.raises(Refused, match=r"allowed\.code"):
        replay(shop)
    assert replays == []


# Replay by a program --------------------------------------------------------------------------------------------------


@pytest.fixture
def numbers(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A fleet of consumers without Spark, and dead letters with the values `one`, `two` and `three`."""
    url, cluster = f"sqlite:///{tmp_path}/numbers.sqlite", shop.coordinator.paths.cluster
    set_fleet(shop.coordinator, Fleet("sums", letters_program.__file__, ("s-1",), ("orders", url, "words")))
    monkeypatch.setenv("COORDINATOR_CLUSTERS", cluster)
    monkeypatch.setenv("AIRFLOW_CONN_ZOOKEEPER_DEFAULT", json.dumps({"conn_type": "generic", "host": "nowhere:1"}))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "host": "nowhere:1"}))
    found, values = Database(url), (b"one", b"two", b"three")
    places = [LetterPlace(cluster, "orders", "id-1", 0, at) for at in range(3)]
    letters = [replace(letter("orders", 0, 0), place=p, value=v) for p, v in zip(places, values, strict=True)]
    with found.transaction() as cursor:
        table.prepare(cursor)
        table.put_letters(cursor, letters)
    sink = DatabaseSink(found, letters_program.AMOUNTS.prepare, letters_program.store)
    sink.claim(Writer(cluster, "orders", "id-1", "s-1"), {0: TOKEN}, {})
    return found


def test_letters_go_through_the_program_of_a_fleet_without_spark(shop: Shop, numbers: Database) -> None:
    (said,) = replay(shop, app="sums", dry_run=True)
    assert said == f"all dead letters of topic orders would go through {letters_program.__file__} of fleet sums"
    failed, last = replay(shop, app="sums")[-2:]
    assert failed.startswith("partition 0, offset 2 failed again: ValueError: invalid literal for int()")
    assert last == "2 dead letters replayed, 1 failed again"
    with numbers.transaction() as cursor:
        assert cursor.query('SELECT "offset", number FROM amounts ORDER BY 1') == [(0, 1), (1, 2)]
    (found,) = action_log.asked(shop.coordinator)
    assert found.changes[0].after == last


TELLING = f"""
import os, runpy, sys
settings = open(os.environ["COORDINATOR_SETTINGS"]).read()
if "words" not in sys.argv:
    raise ValueError(settings)
print(settings)
runpy.run_path({letters_program.__file__!r}, run_name="__main__")
"""


@pytest.mark.parametrize("words", ["words", ""])
def test_what_a_program_says_of_its_secrets_is_hidden(
    shop: Shop, numbers: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    kafka = {"conn_type": "kafka", "host": "nowhere:1", "login": "ada", "password": "hush-1"}
    kafka["extra"] = json.dumps({"security.protocol": "SASL_SSL"})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("COORDINATOR_DATABASES_OTHER", "postgresql://ada:hush-2@db/other")
    program = tmp_path / "telling.py"
    program.write_text(TELLING)
    url = f"sqlite:///{tmp_path}/numbers.sqlite"
    set_fleet(shop.coordinator, Fleet("sums", str(program), ("s-1",), ("orders", url, words)))
    try:
        said = "".join(replay(shop, app="sums"))
    except Refused as error:
        said = str(error)
    assert "sasl.password" in said
    assert "[hidden]" in said
    assert "hush" not in f"{said} {action_log.asked(shop.coordinator)}"


def test_our_application_without_a_pipeline_of_the_topic_is_no_program(shop: Shop) -> None:
    set_fleet(shop.coordinator, Fleet("sums", OWN_APPLICATIONS[0], ("s-1",), ("--pattern", "r.*=a:b")))
    with pytest.raises(Refused, match="name no pipeline for topic 'orders'"):
        replay(shop, app="sums")
