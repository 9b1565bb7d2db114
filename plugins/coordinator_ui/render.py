"""Makes responses from templates: escaping, links below Airflow's address, and headers that exclude foreign content."""

import base64
import hashlib
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from coordinator_plugin.clusters import dag_id
from coordinator_plugin.pages_address import PREFIX
from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from coordinator_tasks.core.move_ways import HOW
from coordinator_tasks.core.partition_text import counted
from coordinator_tasks.core.pauses import milliseconds, sentence
from coordinator_ui import words

TEMPLATES = Path(__file__).parent / "templates"
MOST_IN_GRID = 64
"""Partitions that fit side by side; a larger topic is shown by ranges."""


def page(request: Request, template: str, *, status: HTTPStatus = HTTPStatus.OK, **values: Any) -> HTMLResponse:
    """Render a template. `base` is the address of the pages, `airflow` that of Airflow's own UI."""
    base = str(request.scope.get("root_path", "")).rstrip("/")
    text = (
        environment()
        .get_template(template)
        .render(base=base, airflow=base.removesuffix(PREFIX), status=status, **values)
    )
    return HTMLResponse(text, status, headers=_headers())


def data(content: Any, status: HTTPStatus = HTTPStatus.OK) -> JSONResponse:
    """JSON that no browser keeps, shows as a page, or takes for a script."""
    return JSONResponse(content, status, headers=_headers())


@cache
def environment() -> Environment:
    """The templates' environment. It escapes everything: names and reasons come from consumers and people."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "actor": words.actor,
        "clock": words.clock,
        "duration": words.duration,
        "explained": lambda kind: HOW[kind][1],
        "iso": words.iso,
        "meaning": words.meaning,
        "milliseconds": milliseconds,
        "moment": words.moment,
        "partitions": words.partitions,
        "segment": lambda text: quote(str(text), safe=""),
        "ran": words.ran,
        "run_path": words.run_path,
        "stood_still": sentence,
        "task_path": words.task_path,
        "way": lambda kind: HOW[kind][0],
        "why": words.why,
    }
    made.globals |= {
        "count": counted,
        "dag_id": dag_id,
        "most_in_grid": MOST_IN_GRID,
        "script": (TEMPLATES / "page.js").read_text(encoding="utf-8"),
        "style": (TEMPLATES / "page.css").read_text(encoding="utf-8"),
    }
    return made


@cache
def _headers() -> dict[str, str]:
    """The content security policy: only our own script and style, and only Airflow's own pages may frame this one."""
    texts = environment().globals
    script, style = (_hash(str(texts[name])) for name in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; "
        "frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
    )
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
