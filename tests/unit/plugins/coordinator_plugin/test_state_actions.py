"""The form that moves state after partitions were added: the fleet's own database, a dry run first, and a record."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coordinator_plugin.forms import FORMS

from coordinator_tasks.adapters.partitioners import partitioners
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.service.nodes import action_log
from coordinator_tasks.service.nodes.fleet import set_fleet
from spark_apps.state.rehash import StateNotSettled
from tests.fakes.cluster import Cluster
from tests.stateful_bench import OLD, Bench

ADA = Actor("airflow", "ada", "rehash_state", "run-1", "rehash_state", 1)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MURMUR2 = partitioners()["murmur2"]
MOVING = sum(MURMUR2(one.encode(), 2) != MURMUR2(one.encode(), 3) for one in LETTERS)


@pytest.fixture
def site() -> Cluster:
    made = Cluster()
    arguments = ("--pipeline", "orders=shop.sums:build", "--set", "database=sums")
    set_fleet(made.coordinator, Fleet("billing", "app.py", ("b-1",), arguments))
    return made


@pytest.fixture
def bench(site: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """State of each letter in the topic's two partitions; then Kafka has three."""
    monkeypatch.setenv("COORDINATOR_DATABASES_SUMS", f"sqlite:///{tmp_path}/sums.sqlite")
    with closing(Bench(f"sqlite:///{tmp_path}/sums.sqlite")) as made:
        made.cluster, made.partition_count = site.name, 2
        site.kafka.create_topic("orders", 2)
        made.claim("a", OLD, 0, 1)
        made.write("a", OLD, [(MURMUR2(one.encode(), 2) or 0, {"key": one}) for one in LETTERS])
        for partition, end in made.offsets.items():
            site.kafka.append("orders", partition, end)
        site.kafka.add_partitions("orders", 1)
        yield made


def rehash(site: Cluster, *, dry_run: bool = False, attempt: int = 1, **given: Any) -> list[str]:
    asked = {"app": "billing", "topic": "orders", "partitioner": "", "why": "", **given}
    return FORMS["rehash_state"].lines(site.coordinator, asked, replace(ADA, attempt=attempt), dry_run=dry_run)


def partitions_of(bench: Bench) -> set[int]:
    return {row[0] for row in bench.stored('"partition"')}


def test_the_dry_run_changes_nothing_and_the_action_moves_the_state_and_is_recorded(
    site: Cluster, bench: Bench
) -> None:
    before = bench.stored()
    (said,) = rehash(site, dry_run=True)
    assert said == (f"operator state, 2 → 3 partitions: {MOVING} of 26 keys would move, by murmur2; 0 without key stay")
    assert (bench.stored(), action_log.asked(site.coordinator)) == (before, ())
    assert rehash(site)[-1] == said.replace("would move", "moved")
    assert partitions_of(bench) >= {0, 1, 2}
    (found,) = action_log.asked(site.coordinator)
    assert (found.actor, found.changes[0].node, found.changes[0].after) == (
        ADA,
        "databases/sums",
        said.replace("would move", "moved"),
    )
    nothing = rehash(site, dry_run=True)
    assert nothing == ["the topic has no more partitions than when its state began"]


def test_a_second_try_of_the_task_moves_nothing_more(site: Cluster, bench: Bench) -> None:
    rehash(site)
    (said,) = rehash(site, attempt=2)
    assert said.startswith("another try of this task has done it")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"app": "nosuch"}, "there is no fleet 'nosuch' with consumers"),
        ({"topic": "refunds"}, "Kafka has no topic 'refunds'"),
        ({"partitioner": "random"}, "there is no partitioner 'random'"),
        ({"partitioner": "fnv1a"}, "no known partitioner sends them"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_cannot_move_is_refused(
    site: Cluster, bench: Bench, given: dict[str, Any], says: str, dry_run: bool
) -> None:
    before = bench.stored()
    with pytest.raises(Refused, match=says):
        rehash(site, dry_run=dry_run, **given)
    assert (bench.stored(), action_log.asked(site.coordinator)) == (before, ())


def test_records_that_are_not_processed_hold_the_state(site: Cluster, bench: Bench) -> None:
    site.kafka.append("orders", 0, 1)
    with pytest.raises(StateNotSettled, match="1 offset of partition 0 is not processed"):
        rehash(site)


@pytest.mark.parametrize("database", ["another", "postgresql://writer:secret@db/sums", ""])
def test_a_database_that_the_host_does_not_name_is_refused(site: Cluster, bench: Bench, database: str) -> None:
    set_fleet(site.coordinator, Fleet("billing", "app.py", ("b-1",), ("--set", f"database={database}")))
    with pytest.raises(Refused, match=r"is not in the settings of this task's host \(known: sums\)") as refused:
        rehash(site)
    assert "secret" not in str(refused.value)


def test_a_file_of_sqlite_and_a_variable_name_the_database_too(site: Cluster, bench: Bench) -> None:
    set_fleet(site.coordinator, Fleet("billing", "app.py", ("b-1",), ("--set", f"database={bench.url}")))
    (by_file,) = rehash(site, dry_run=True)
    set_fleet(site.coordinator, Fleet("billing", "app.py", ("b-1",), environment={"PIPELINE_database": "sums"}))
    assert rehash(site, dry_run=True) == [by_file]
