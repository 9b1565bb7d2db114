"""A new action: one declaration makes its form and its command, with a dry run and the same effect in both."""

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import typer
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError
from coordinator_plugin.letter_actions import DROP_DEAD_LETTERS
from typer.testing import CliRunner

from coordinator_tasks.cli.actions import add
from coordinator_tasks.cli.base import user
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.actions import parameters
from coordinator_tasks.service.actions.action import Action, ActionResult, Given
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from dags.actions import build
from tests.fakes.cluster import Cluster

GIVEN = {"topic": "orders", "partitions": [1], "why": "new disk"}
TYPED = ["orders", "--partition", "1", "--why", "new disk", "--by", "ada"]


@pytest.fixture
def done() -> list[tuple[Given, Actor]]:
    return []


@pytest.fixture
def rewind(done: list[tuple[Given, Actor]]) -> Action:
    """A throwaway action, as one would add it."""

    def do(_: Coordinator, given: Given, actor: Actor) -> ActionResult:
        done.append((given, actor))
        return ActionResult({"topic": given["topic"]}, "orders is rewound", ("orders: rewound",))

    return Action(
        "rewind_topic",
        "Rewind a topic.",
        "Rewind a topic to where it was.",
        (parameters.TOPIC, parameters.PARTITIONS, parameters.WHY, parameters.DRY_RUN, parameters.BY),
        do=do,
        preview=lambda _, given: ActionResult(
            None, "orders would be rewound", (f"{given['topic']}: would be rewound",)
        ),
        before=lambda _, given: [f"{given['topic']} has 4 partitions"],
    )


@pytest.fixture
def typed(rewind: Action) -> Callable[..., str]:
    commands, cluster = typer.Typer(), Cluster()
    add(commands, rewind)

    def run(*arguments: str) -> str:
        found = CliRunner().invoke(commands, arguments, obj=lambda: nullcontext(cluster.coordinator))
        assert found.exit_code == 0, found.output
        return found.output

    return run


def test_its_form_has_its_title_its_text_its_fields_and_a_dry_run(rewind: Action) -> None:
    form = build(rewind)
    assert (form.dag_id, form.dag_display_name) == ("rewind_topic", "rewind-topic")
    assert form.task_dict["rewind_topic"].task_display_name == "rewind-topic"
    assert form.doc_md == "### rewind-topic\nRewind a topic to where it was.\n\nA dry run says what would happen."
    assert list(form.params) == ["cluster", "topic", "partitions", "why", "dry_run"]
    assert list(form.task_dict) == ["rewind_topic"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_form_and_command_do_the_same(
    rewind: Action, typed: Callable[..., str], done: list[tuple[Given, Actor]], dry_run: bool
) -> None:
    lines = rewind.lines(
        Cluster().coordinator, {**GIVEN, "properties": "no field of its form"}, Actor("airflow", "ada"), dry_run=dry_run
    )
    said = typed(*TYPED, *(["--dry-run"] if dry_run else []))
    result = "would be rewound" if dry_run else "rewound"
    assert lines == ["orders has 4 partitions", f"orders: {result}"]
    assert said.splitlines()[0] == f"orders {result if dry_run else 'is rewound'}"
    assert said.splitlines()[1:] == (["dry run: nothing was changed"] if dry_run else [])
    asked = [(dict(given), actor.who) for given, actor in done]
    assert asked == ([] if dry_run else [(GIVEN, "ada"), (GIVEN, f"ada, as user {user()}")])


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_a_dry_run_of_a_command_has_something_to_say(action: Action) -> None:
    defaults: Any = inspect.signature(Action).parameters
    has_dry_run = parameters.DRY_RUN in action.parameters or parameters.EXECUTE in action.parameters
    says = action.preview is not defaults["preview"].default or action.before is not defaults["before"].default
    assert says or not has_dry_run


@pytest.mark.parametrize("action", [*ACTIONS.values(), DROP_DEAD_LETTERS], ids=lambda one: one.name)
def test_a_parameter_of_an_action_can_be_given_somewhere_and_has_one_meaning(action: Action) -> None:
    names = [one.name for one in action.parameters]
    assert len(names) == len(set(names))
    assert all(one.option is not None or (one.form is not None and action.form) for one in action.parameters)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_no_object_of_a_form_takes_a_number_with_which_airflow_starts_no_task(number: int) -> None:
    every = [one.form for action in ACTIONS.values() for one in action.parameters if one.form is not None]
    objects = [Param(**form) for form in every if form["type"] == "object"]
    assert objects
    for one in objects:
        given = {"a": "x", "b": 2**63 - 1, "c": True, "d": [1]}
        assert one.resolve(given) == given
        with pytest.raises(ParamValidationError):
            one.resolve({"a": number})
