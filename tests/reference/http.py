"""The HTTP routes."""

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from coordinator_tasks.cli.metrics import METRICS_PATH, TARGETS_PATH
from tests.reference.form import ROOT, STATUS, meanings, page, sections, table


def http() -> str:
    return page(
        "HTTP routes",
        "## Pages in Airflow\n\nBelow `/coordinator` of Airflow's address. All are GET, and answer only after Airflow's own check of the user. "
        "[Which page answers which question](../data-api.md#what-a-person-finds-where).\n",
        _table_of((*_routes("router"), *_routes("code_router"))),
        "## Data of the pages\n\nJSON, with the same check of the user. [Fields, filters and bounds](../data-api.md#the-data).\n",
        _table_of(_routes("data_router", DATA_PREFIX)),
        "## A consumer's interface\n\nProtection: [security](../security.md). The interface "
        "serves 32 connections; a further connection replaces the slowest. A request for another host name, or from a web page (`Origin`), is refused before "
        "anything is computed.\n",
        _table_of(CONSUMER_ROUTES),
        "### Fields of the status\n",
        meanings(sections()[STATUS]),
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
        "up or down in one word, without a token; 200 while working, 503 until registered, and while leaving, failing, failed or stuck",
    ),
    ("GET", "/v1/status", "the whole status as JSON; on another address than loopback only with the token"),
    ("POST", "/v1/topics/[TOPIC]", "a topic's node, for a consumer without ZooKeeper; only with the token"),
)


def _routes(router: str, prefix: str = "") -> Iterator[Route]:
    """The routes of one router of the pages, read from the source: Airflow is not imported for it."""
    for path in sorted((ROOT / "plugins" / "coordinator_ui").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for one in getattr(node, "decorator_list", []):
                if isinstance(one, ast.Call) and getattr(getattr(one.func, "value", None), "id", "") == router:
                    what = (ast.get_docstring(node) or "").split("\n\n")[0]  # type: ignore[arg-type]
                    address = prefix + str(ast.literal_eval(one.args[0])).replace(":path}", "}")
                    yield one.func.attr.upper(), address, what  # type: ignore[attr-defined]
