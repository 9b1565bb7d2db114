"""An action has one spelling for persons, the command's; no text has the stored name."""

import re

import pytest
from coordinator_plugin.forms import FORMS

from coordinator_tasks import show
from coordinator_tasks.core.model import ActionRecord, Actor
from coordinator_tasks.core.names import spelled
from dags.actions import build

STORED = re.compile(rf"\b({'|'.join(name for name in FORMS if '_' in name)})\b")
RUN = Actor("airflow", "ada", "kafka_set_fleet", "manual__1", "set_fleet", 2)


@pytest.mark.parametrize("action", FORMS.values(), ids=lambda one: one.name)
def test_airflow_shows_a_form_and_its_task_as_the_command_is_typed(
    action: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_DAG_PREFIX", "kafka_")
    form = build(action)  # type: ignore[arg-type]
    name = form.dag_id.removeprefix("kafka_")
    assert form.dag_display_name == f"kafka_{spelled(name)}"
    assert form.task_dict[name].task_display_name == spelled(name)
    assert form.doc_md is not None
    assert form.doc_md.startswith(f"### {spelled(name)}\n")


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("set_fleet", "set-fleet"),
        ("undo_offsets", "offsets undo"),
        ("of_a_newer_release", "of-a-newer-release"),
    ],
)
def test_a_stored_name_is_shown_as_its_command(stored: str, shown: str) -> None:
    assert spelled(stored) == shown


@pytest.mark.parametrize(
    ("actor", "shown"),
    [
        (RUN, "kafka_set-fleet"),
        (Actor("airflow", "", "undo_offsets", "manual__1", "undo_offsets", 1), "offsets undo"),
        (Actor("airflow", "", "of_a_site", "manual__1"), "of_a_site"),
    ],
)
def test_the_dag_of_a_run_is_named_as_airflow_shows_it(actor: Actor, shown: str) -> None:
    assert actor.dag_name == shown
    assert actor.named in ("ada", f"{shown} manual__1")


def test_the_list_of_actions_has_the_commands_spelling_in_both_forms() -> None:
    one = ActionRecord("set_fleet", "billing", RUN, 0.0)
    assert "set-fleet billing, by ada (kafka_set-fleet/manual__1)" in show.asked([one])
    assert not STORED.search(str(show.asked_rows([one])))
