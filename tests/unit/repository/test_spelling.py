"""An action has one spelling for persons, that of its command; its stored name stands in no text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks import show
from coordinator_tasks.core.model import Actor, Asked
from coordinator_tasks.core.names import COMMANDS, spelled
from coordinator_tasks.service.actions.declarations import ACTIONS
from dags.actions import build
from tests.guide import guide

ROOT = Path(__file__).parents[3]
STORED = re.compile(rf"\b({'|'.join(name for name in ACTIONS if '_' in name)})\b")
FOLDERS = ("coordinator_tasks", "plugins", "dags", "spark_apps")
RUN = Actor("airflow", "ada", "kafka_set_fleet", "manual__1", "set_fleet", 2)


def texts(path: Path) -> Iterator[str]:
    """Each text of a module, without its docstrings; a text that is only a name is an id."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_text_has_a_stored_name(folder: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {text[:80]}"
        for path in (ROOT / folder).rglob("*.py")
        for text in texts(path)
        if STORED.search(text) and not STORED.fullmatch(text)
    }
    assert found == set()


def test_the_guide_names_no_form_by_its_stored_name() -> None:
    assert STORED.findall(re.sub(r"\]\([^)]*\)", "", guide())) == []


@pytest.mark.parametrize("action", [one for one in ACTIONS.values() if one.form], ids=lambda one: one.name)
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
        ("import_offsets", "offsets reset"),
        ("reject", "reject"),
        ("of_a_newer_release", "of-a-newer-release"),
    ],
)
def test_a_stored_name_is_shown_as_its_command(stored: str, shown: str) -> None:
    assert spelled(stored) == shown


def test_each_special_command_is_of_an_action() -> None:
    assert COMMANDS.keys() <= ACTIONS.keys()


@pytest.mark.parametrize(
    ("actor", "shown"),
    [
        (RUN, "kafka_set-fleet"),
        (Actor("airflow", "", "undo_offsets", "manual__1", "undo_offsets", 1), "offsets undo"),
        (Actor("airflow", "", "rebalance__far_away", "manual__1", "plan", 1), "rebalance__far_away"),
        (Actor("airflow", "", "of_a_site", "manual__1"), "of_a_site"),
    ],
)
def test_the_dag_of_a_run_is_named_as_airflow_shows_it(actor: Actor, shown: str) -> None:
    assert actor.dag_name == shown
    assert actor.named in ("ada", f"{shown} manual__1")


def test_what_was_asked_for_has_the_spelling_in_both_forms() -> None:
    one = Asked("set_fleet", "billing", RUN, 0.0)
    assert "set-fleet billing, by ada (kafka_set-fleet/manual__1)" in show.asked([one])
    assert not STORED.search(str(show.asked_rows([one])))
