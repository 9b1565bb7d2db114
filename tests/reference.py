"""Pages of the reference that are made from the code: `python -m tests.reference` writes them into `docs/reference/`.

A test compares the committed pages with these functions: commands with the text of `--help`, DAGs with the fields of their
forms, the nodes in ZooKeeper with who may write them, and the HTTP routes.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import EnumType
from pathlib import Path
from typing import Any, TypeAlias, get_args, get_origin

from typer.main import get_command

from coordinator_tasks.cli import app
from coordinator_tasks.cli.metrics import METRICS_PATH, TARGETS_PATH
from coordinator_tasks.core import node_rights
from coordinator_tasks.core.names import Paths
from coordinator_tasks.service.action import Action
from coordinator_tasks.service.actions import ACTIONS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
MADE = "Made from the code by `python -m tests.reference`; a test compares it.\n"


def page(title: str, *parts: str) -> str:
    return "\n".join([f"# {title}\n", MADE, *parts]).rstrip() + "\n"


def row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join([row(*head), "|" + "---|" * len(head), *(row(*one) for one in rows)]) + "\n"


# Commands ------------------------------------------------------------------------------------------------------------


def commands() -> str:
    parts = [
        "Type them as `.venv/bin/python -m coordinator_tasks COMMAND`, or `coordinator COMMAND` where the package is installed.\n"
    ]
    for words, command in sorted(_commands(get_command(app))):
        arguments = [one for one in command.params if one.name != "help"]
        usage = " ".join(
            [words, *(f"[{one.name}]" if not one.required else str(one.name) for one in _positional(arguments))]
        )
        parts.append(f"## {words}\n\n`{usage}`\n\n{(command.help or '').strip()}\n")
        if arguments:
            rows = [(_names(one), _kind(one), _default(one), _help(one)) for one in arguments]
            parts.append(table(("option", "value", "default", "meaning"), rows))
    return page("Commands", *parts)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        words = f"{before}{name}"
        if hasattr(command, "commands"):
            yield from _commands(command, f"{words} ")
        elif not command.hidden:
            yield words, command


def _positional(params: list[Any]) -> list[Any]:
    return [one for one in params if one.param_type_name == "argument"]


def _names(param: Any) -> str:
    return ", ".join(f"`{name}`" for name in param.opts + param.secondary_opts)


def _kind(param: Any) -> str:
    """What its value is: a kind of value, or every value that it may have."""
    if getattr(param, "is_flag", False):
        return "–"
    kind = param.type_descriptor.annotation
    inner = (get_args(kind) or (kind,))[0]
    values = ", ".join(f"`{one.value}`" for one in list[Any](inner)) if isinstance(inner, EnumType) else KINDS[inner]
    return f"{values}, repeatable" if get_origin(kind) is list else values


KINDS: Mapping[Any, str] = {str: "text", int: "number", float: "number", bool: "–", Path: "path"}


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default() if callable(param.default) else param.default
    return "–" if value in (None, "", False, (), []) else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))


def _help(param: Any) -> str:
    return str(getattr(param, "help", None) or "")


# DAGs ----------------------------------------------------------------------------------------------------------------


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


# Nodes ---------------------------------------------------------------------------------------------------------------

WORDS = {"r": "read", "w": "write", "c": "create", "d": "delete"}


def znodes() -> str:
    paths = Paths("CLUSTER")
    nodes = {
        "topic": paths.topic("TOPIC"),
        "partition": paths.partition("TOPIC", 0),
        "state": paths.state("TOPIC"),
        "member": paths.member("CONSUMER"),
        "id": paths.id("CONSUMER"),
        "directive": paths.directive("CONSUMER"),
        "leave": paths.leave("CONSUMER"),
        "fleet": paths.fleet("APP"),
        "config": paths.config("TOPIC"),
        "history": paths.history("TOPIC"),
        "record": paths.record("TOPIC", 0),
        "asked": f"{paths.asked}/0000000000",
        "growth": paths.growth("APP"),
        "lag": paths.lag(0),
    }
    every = [*paths.folders(), *nodes.values()]
    rows = [
        (
            f"`{one}`",
            "consumer" if node_rights.is_created_by_consumers(one) else "coordinator",
            ", ".join(WORDS[letter] for letter in node_rights.of_consumers(one)) or "none",
        )
        for one in sorted(every)
    ]
    about = (
        "The fields of each node, and why they are there: [architecture](../architecture.md#the-znodes). The last column holds with "
        "[separate accounts](../operations.md#separate-zookeeper-accounts); the rights to create and to delete are those on the node's children.\n"
    )
    return page("Nodes in ZooKeeper", about, table(("node", "created by", "rights of the consumers' account"), rows))


# HTTP ----------------------------------------------------------------------------------------------------------------


def http() -> str:
    return page(
        "HTTP routes",
        "## Pages in Airflow\n\nBelow `/coordinator` of Airflow's address. All are GET, and none answers without Airflow's own check of the user. "
        "[Which page answers which question](../data-api.md#what-a-person-finds-where).\n",
        _table_of(_routes("router")),
        "## Data of the pages\n\nJSON, with the same check of the user. Its [fields, filters and bounds](../data-api.md#the-data).\n",
        _table_of(_routes("data_router", DATA_PREFIX)),
        "## A consumer's interface\n\nHow it is protected: [security](../security.md). Its fields: [architecture](../architecture.md).\n",
        _table_of(CONSUMER_ROUTES),
        "## `coordinator metrics`\n\nAt the address of `--listen`; on another address than loopback only with the token. "
        "[How to set it up](../metrics.md#set-it-up).\n",
        _table_of(METRICS_ROUTES),
    )


Route: TypeAlias = tuple[str, str, str]


def _table_of(routes: Iterable[Route]) -> str:
    rows = sorted(routes, key=lambda one: one[1])
    return table(("method", "path", "what"), [(method, f"`{path}`", what) for method, path, what in rows])


DATA_PREFIX = "/api/v1"
METRICS_ROUTES = (
    ("GET", METRICS_PATH, "[metrics](../metrics.md) of the cluster for Prometheus, as at the last look"),
    ("GET", TARGETS_PATH, "the addresses of the consumers' own metrics, for Prometheus' `http_sd_configs`"),
)

CONSUMER_ROUTES = (
    (
        "GET",
        "/metrics",
        "[metrics](../metrics.md) for Prometheus; on another address than loopback only with the token",
    ),
    (
        "GET",
        "/v1/health",
        "up or down in one word, without a token; 200 while it works, 503 when it leaves, failed or is stuck",
    ),
    ("GET", "/v1/status", "the whole status as JSON; on another address than loopback only with the token"),
    ("POST", "/v1/topics/[TOPIC]", "a topic's node, for a consumer that has lost ZooKeeper; only with the token"),
)


def _routes(router: str, prefix: str = "") -> Iterator[Route]:
    """The routes of one router of the pages, read from the source: Airflow is not imported for it."""
    for path in sorted((ROOT / "plugins" / "coordinator_ui").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for one in getattr(node, "decorator_list", []):
                if isinstance(one, ast.Call) and getattr(getattr(one.func, "value", None), "id", "") == router:
                    what = (ast.get_docstring(node) or "").split("\n\n")[0]  # type: ignore[arg-type]
                    address = prefix + str(ast.literal_eval(one.args[0])).replace(":path}", "}")
                    yield one.func.attr.upper(), address, what  # type: ignore[attr-defined]


PAGES: Mapping[str, Callable[[], str]] = {"commands": commands, "dags": dags, "znodes": znodes, "http": http}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, made in PAGES.items():
        (FOLDER / f"{name}.md").write_text(made())


if __name__ == "__main__":
    main()
