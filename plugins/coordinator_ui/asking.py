"""The form of an action with its fields filled in, as the row that it is asked from says them. It does nothing.

Airflow's own trigger form takes nothing from its address. So the fields stand here, made from the same declaration, and a press
of the button asks Airflow's own API for a run: Airflow checks the permission and the fields, and keeps who asked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_plugin.clusters import dag_id

from coordinator_tasks.core.errors import NotManaged
from coordinator_tasks.service.action import Action
from coordinator_tasks.service.actions import ACTIONS

MOST_VALUE = 2_000


@dataclass(frozen=True, slots=True)
class Field:
    """One field; `kind`: of its JSON value; `value`: as text, lists one per line and objects as JSON."""

    name: str
    title: str
    description: str
    kind: str
    items: str
    value: str
    choices: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """The form of one action; `dag`: whose run does it; `reads`: it changes nothing and has no dry run."""

    action: str
    title: str
    text: str
    dag: str
    fields: tuple[Field, ...]
    reads: bool
    destructive: str


def form_of(name: str, given: Mapping[str, str]) -> Form:
    """The form of an action. Values that are no fields of it are left out. Raises `NotManaged` for an unknown action."""
    action = ACTIONS.get(name)
    if action is None or not action.form:
        raise NotManaged(f"there is no action {name[:40]!r} with a form; the pages link to those that there are")
    fields = tuple(
        _field(one.name, one.form, given.get(one.name, "")) for one in action.parameters if one.form is not None
    )
    return Form(name, _title(action), action.form, dag_id(name), fields, action.reads, action.destructive)


def _title(action: Action) -> str:
    return action.name.replace("_", " ").capitalize()


def _field(name: str, form: Mapping[str, Any], given: str) -> Field:
    kind, default = str(form["type"]), form.get("default", "")
    match kind:
        case "object":
            value = given or json.dumps(default or {})
        case "array":
            value = given.replace(",", "\n") if given else "\n".join(map(str, default or ()))
        case _:
            value = given or str(default)
    optional = "default" in form or kind in ("integer", "number")
    items = str(form.get("items", {}).get("type", ""))
    choices = tuple(map(str, form.get("enum", ())))
    return Field(name, str(form["title"]), str(form["description"]), kind, items, value[:MOST_VALUE], choices, optional)
