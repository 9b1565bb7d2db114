"""The form of an action, filled in from the row that links to the form. The form itself changes nothing.

Airflow's own trigger form takes no values from its address. So this form has the same fields, from the same
declaration, and its button requests a run from Airflow's API. Airflow checks permission and fields, and records the
person's name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from coordinator_plugin.clusters import dag_id
from coordinator_plugin.forms import FORMS

from coordinator_tasks.core.errors import NotManaged
from coordinator_tasks.service.actions.action import Action
from coordinator_ui.pages.choices import OFFERED, REBALANCES, Choices

MOST_OFFERS = 1_000
"""Maximum choices of a field. The others are counted, and can be typed."""
MOST_VALUE = 2_000
MOST_QUERY = 4_000
"""Maximum characters of an address that browsers and proxies take unchanged."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `kind`: the kind of its JSON value. `value`: the value as text, lists by line and objects as JSON.

    `long`: several lines. `offers`: choices with remarks; other values can be typed. `choices`: the only allowed
    values. `past`: the page itself fetches the choices, the topic's rebalances. `left_out`: number of further choices.
    """

    name: str
    title: str
    description: str
    kind: str
    items: str
    value: str
    choices: tuple[str, ...] = ()
    optional: bool = False
    long: bool = False
    offers: Mapping[str, str] = field(default_factory=dict)
    past: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an action. `dag`: id of the DAG that runs the action; `dag_name`: its name in Airflow.

    `reads`: the action changes nothing, and so has no dry run.
    """

    action: str
    title: str
    text: str
    dag: str
    dag_name: str
    fields: tuple[Field, ...]
    reads: bool
    destructive: str


def form_of(name: str, given: Mapping[str, str], choices: Choices) -> Form:
    """Return the form of an action. Values without a field are ignored. Raises `NotManaged` for an unknown action."""
    action = FORMS.get(name)
    if action is None:
        raise NotManaged(f"there is no action {name[:40]!r} with a form; the pages link to those that there are")
    fields = tuple(
        _field(one.name, one.form, given.get(one.name, ""), _offers(action, one.name, choices))
        for one in action.parameters
        if one.form is not None
    )
    return Form(
        name, action.words, action.form, dag_id(name), dag_id(action.words), fields, action.reads, action.destructive
    )


def query_of(name: str, conf: Mapping[str, Any]) -> str:
    """Return the query of a form that is filled in as in an earlier run; empty if too long."""
    fields = {one.name for one in FORMS[name].parameters if one.form is not None}
    given = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in conf.items()
        if key in fields and value is not None
    }
    try:
        query = urlencode(given)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON allows and an address does not
        return ""
    fits = len(query) <= MOST_QUERY and all(len(value) <= MOST_VALUE for value in given.values())
    return query if fits else ""


def _lines(given: str) -> str:
    """Return the members of a list, one per line. `given`: JSON of a run, or text with commas of a row's address."""
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        found = None
    return "\n".join(map(str, found)) if isinstance(found, list) else given.replace(",", "\n")


def _offers(action: Action, name: str, choices: Choices) -> Mapping[str, str]:
    """Return the choices of a field. A topic to add cannot be one that is managed already."""
    return choices.get(OFFERED.get(name, -1), {}) if (action.name, name) != ("add_topic", "topic") else {}


def _field(name: str, form: Mapping[str, Any], given: str, offers: Mapping[str, str]) -> Field:
    kind, default = str(form["type"]), form.get("default", "")
    match kind:
        case "object":
            value = given or json.dumps(default or {})
        case "array":
            value = _lines(given) if given else "\n".join(map(str, default or ()))
        case _:
            value = given or str(default)
    optional = "default" in form
    items = str(form.get("items", {}).get("type", ""))
    choices = tuple(map(str, form.get("enum", ())))
    long = kind in ("array", "object") or form.get("format") == "multiline"
    title, text = str(form["title"]), str(form["description"])
    offers = offers or dict.fromkeys(form.get("examples", ()), "")
    shown, left_out = dict(islice(offers.items(), MOST_OFFERS)), max(0, len(offers) - MOST_OFFERS)
    past = OFFERED.get(name) == REBALANCES
    return Field(name, title, text, kind, items, value[:MOST_VALUE], choices, optional, long, shown, past, left_out)
