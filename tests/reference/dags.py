"""The DAGs, with the fields of their forms."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from coordinator_tasks.service.action import Action
from coordinator_tasks.service.actions import ACTIONS
from tests.reference.form import ROOT, page, table


def dags() -> str:
    parts = [
        "Each cluster has `rebalance`, `reconcile`, `consumers` and `stuck_topic` of its own. The forms exist once, and ask for the cluster "
        "as well. A form that changes something begins with a dry run.\n"
    ]
    for path in sorted((ROOT / "dags").glob("*.py")):
        if path.stem != "actions":
            tree = ast.parse(path.read_text())
            parts.append(f"## {path.stem}\n\n{ast.get_docstring(tree)}\n{_docs_of(tree)}")
    parts.append("## Forms\n")
    parts += [f"### {one.name}\n\n{_form(one)}" for one in ACTIONS.values() if one.form]
    return page("DAGs and forms", *parts)


def _docs_of(tree: ast.Module) -> str:
    """The text that Airflow shows of the DAG, without its heading."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOCS":
            text = str(ast.literal_eval(node.value)).strip()
            return "\n" + re.sub(r"^### .*\n", "", text) + "\n"
    return ""


def _form(action: Action) -> str:
    rows = [
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
    about = f"{action.form} Command: `{action.words}`." + (" It changes nothing." if action.reads else "")
    return f"{about}\n\n" + table(("field", "title", "value", "default", "meaning"), rows)


def _field_kind(form: Mapping[str, Any]) -> str:
    if "enum" in form:
        return ", ".join(f"`{one}`" for one in form["enum"])
    kind = form["type"]
    return kind if isinstance(kind, str) else " or ".join(kind)


def _field_default(form: Mapping[str, Any]) -> str:
    if "default" not in form:
        return "required"
    return "–" if form["default"] in (None, "", [], {}) else f"`{form['default']}`"
