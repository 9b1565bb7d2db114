"""The form that replays dead letters, with a Spark of its own as on Airflow's worker."""

from dataclasses import replace

import pytest
from coordinator_plugin.forms import FORMS

from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.service.nodes.fleet import set_fleet
from spark_apps.dead_letters import table
from spark_apps.delivery.database import Database
from tests.integration.test_replay import TOPIC, Stage, at_least_once, stage
from tests.world.shop import open_shop

__all__ = ["stage"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_a_form_replays_the_letters_by_the_pipeline_of_a_fleet(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = open_shop()
    cluster = shop.coordinator.paths.cluster
    letters = [replace(one, place=replace(one.place, cluster=cluster)) for one in stage.put(b"text", b"bad", b"text")]
    with Database(stage.url).transaction() as cursor:
        table.put_letters(cursor, letters)
    arguments = (f"--pipeline={TOPIC}={at_least_once.__module__}:at_least_once", "--set=database=rows")
    set_fleet(shop.coordinator, Fleet("billing", "app.py", ("b-1",), arguments))
    monkeypatch.setenv("COORDINATOR_DATABASES_ROWS", stage.url)
    given = {"app": "billing", "topic": TOPIC, "partition": "", "offset": "", "why": ""}
    said = FORMS["replay_dead_letters"].lines(shop.coordinator, given, Actor("airflow", "ada"), dry_run=False)
    assert said[-1] == "2 dead letters replayed, 1 failed again"
    assert [row[2] for row in stage.stored()] == ["text", "text"]
