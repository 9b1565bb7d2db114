"""The DAGs, with the fields of their forms."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from coordinator_plugin.forms import FORMS

from coordinator_tasks.service.actions.action import Action
from tests.reference.form import ROOT, Row, common, own_table, page, table

HEAD = ("field", "title", "value", "default", "meaning")
COMMON = "Common fields"


def dags() -> str:
    parts = [
        "Each cluster has `rebalance`, `reconcile`, `consumers` and `stuck_topic` of its own. Each form exists once, asks for the cluster, "
        "and is named like its command. A form that changes something begins with a dry run. Forms take names as text, and check the names "
        "when the run begins, because Airflow evaluates form fields while it parses the DAG. The forms on our pages offer the existing names. A run "
        "of `rebalance` fails after 30 minutes, of `reconcile` after 5, of `consumers` after 60, and of `autoscale` after 10; the next run "
        "does the rest.\n"
    ]
    for path in sorted((ROOT / "dags").glob("*.py")):
        if path.stem != "actions":
            tree = ast.parse(path.read_text())
            parts.append(f"## {path.stem}\n\n{ast.get_docstring(tree)}\n{_docs_of(tree)}")
    forms = [(one, _rows(one)) for one in FORMS.values()]
    shared = common(rows for _, rows in forms)
    parts += [
        "## Forms\n",
        f"### {COMMON}\n\nEach form below names its fields from this list.\n",
        table(HEAD, list(shared.values())),
    ]
    parts += [f"### {one.words}\n\n{_about(one)}\n\n{own_table(HEAD, rows, shared, COMMON)}" for one, rows in forms]
    return page("DAGs and forms", *parts)


def _docs_of(tree: ast.Module) -> str:
    """The text that Airflow shows of the DAG, without its heading."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCS":
            text = str(ast.literal_eval(node.value)).strip()
            return "\n" + re.sub(r"^### .*\n", "", text) + "\n"
    return ""


def _about(action: Action) -> str:
    return f"{action.form} Id of the DAG: `{action.name}`." + (" Changes nothing." if action.reads else "")


def _rows(action: Action) -> list[Row]:
    return [
        (
            f"`{one.name}`",
            str(one.form["title"]),
            _field_kind(one.form),
            _field_default(one.form),
            str(one.form["description"]),
        )
        for one in action.parameters
        if one.form is not None
    ]


def _field_kind(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{one}`" for one in form["enum"])
    kind = form["type"]
    return kind if isinstance(kind, str) else " or ".join(kind)


def _field_default(form: Mapping[str, Any]) -> str:
    if "default" not in form:
        return "required"
    return "–" if form["default"] in (None, "", [], {}) else f"`{form['default']}`"
