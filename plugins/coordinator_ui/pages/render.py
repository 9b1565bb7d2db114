"""Makes responses from templates: escapes texts, builds links below Airflow's address, and sets security headers."""

import base64
import hashlib
import re
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from coordinator_plugin.clusters import dag_id
from coordinator_plugin.pages_address import PREFIX
from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from coordinator_tasks.core.measure.pauses import amount, longest, milliseconds, sentence
from coordinator_tasks.core.names import spelled
from coordinator_tasks.core.text.move_ways import HOW
from coordinator_tasks.core.text.partition_text import counted
from coordinator_ui.names import NAMES
from coordinator_ui.texts import words

_TURNS = re.compile("[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc]")
_FIRST_STRONG_ISOLATE, _POP_ISOLATE, _ISOLATES = "\u2068", "\u2069", re.compile("[\u2066-\u2069]")
TEMPLATES = Path(__file__).parents[1] / "templates"
MOST_IN_CELL = 8
MOST_IN_LINE = 32
"""Maximum length of a name without a line break."""
MOST_IN_GRID = 64
"""Maximum partitions side by side. A larger topic is shown in ranges of partitions."""
MOST_ROWS = 100
"""Maximum rows of a page's table. Those that need a person come first; the others are counted."""
LIVE = ("elements", "grid", "tables", "topics", "matrix", "lag_charts", "page")
"""The parts of the live page's script, in order. Together they form one function."""
BEGIN, END = b"<main>", b"</main>"
"""Around a page's content."""
VENDOR = Path(__file__).parents[1] / "vendor"
UPLOT = "uPlot-1.6.32"
"""The charting library. It is part of the package, because pages fetch nothing from other hosts."""
FILTERS: tuple[Callable[..., Any], ...] = (
    *(words.actor, words.clock, words.duration, words.iso, words.kind, words.meaning, words.moment, words.offers),
    *(words.partitions, words.presence, words.ran, words.run_name, words.run_path, words.task_path, words.why),
    *(amount, longest, milliseconds, spelled),
)
"""Functions that templates call by their own names."""


def page(
    request: Request,
    template: str,
    *,
    cluster: str,
    status: HTTPStatus = HTTPStatus.OK,
    scripts: tuple[str, ...] = (),
    **values: Any,
) -> HTMLResponse:
    """Render a template. `base`: address of the pages; `here`: of this cluster's pages; `airflow`: of Airflow's UI.

    An empty `cluster` means a page of all clusters. `scripts`: additional scripts. `now_at`: shows the page's age, for
    a page that does not reload. `reads`: only the head can be rendered yet.
    """
    base = str(request.scope.get("root_path", "")).rstrip("/")
    here = f"{base}/clusters/{quote(cluster, safe='')}" if cluster else base
    values |= {"base": base, "here": here, "cluster": cluster}
    values |= {"airflow": base.removesuffix(PREFIX), "status": status, "scripts": scripts, "now_at": time.time()}
    text = environment().get_template(template).render({"reads": False, **values})
    return HTMLResponse(text, status, headers=headers(scripts))


def shell_of(whole: Response) -> bytes:
    """Return a page without its end. A page whose `reads` is set says there that its content is being read."""
    return bytes(whole.body).partition(END)[0]


def content_of(whole: Response) -> bytes:
    """Return the part of a page that follows the shell."""
    return bytes(whole.body).partition(BEGIN)[2]


def data(content: Any, status: HTTPStatus = HTTPStatus.OK) -> JSONResponse:
    """Return JSON that browsers neither cache, nor show as a page, nor run as a script."""
    return JSONResponse(content, status, headers=headers())


def script(name: str) -> Response:
    """Return one of our scripts, for a page of Airflow itself."""
    return Response(_code()[name], media_type="text/javascript", headers=headers())


@cache
def environment() -> Environment:
    """Return the templates' environment. It escapes texts, because names and reasons come from consumers and people."""
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    made = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, finalize=isolated, **options)
    made.filters |= {one.__name__: one for one in FILTERS} | {
        "as_is": escape,
        "explained": lambda kind: HOW[kind][1],
        "segment": lambda text: quote(str(text), safe=""),
        "stood_still": sentence,
        "way": lambda kind: HOW[kind][0],
        "within": lambda numbers, others: set(numbers).intersection(others),
        "without": lambda numbers, others: set(numbers).difference(others),
    }
    made.globals |= {
        "count": counted,
        "dag_id": dag_id,
        "most_in_cell": MOST_IN_CELL,
        "most_in_grid": MOST_IN_GRID,
        "most_in_line": MOST_IN_LINE,
        "most_rows": MOST_ROWS,
        "names": NAMES,
        "scripts_text": _code(),
        "style": f"{_read(VENDOR / f'{UPLOT}.min.css')}{_read(TEMPLATES / 'page.css')}",
    }
    return made


def isolated(value: Any) -> Any:
    """Return a text with direction marks, wrapped in isolating marks. Forms use `as_is` instead."""
    if isinstance(value, str) and not isinstance(value, Markup) and _TURNS.search(value):
        return f"{_FIRST_STRONG_ISOLATE}{_ISOLATES.sub('', value)}{_POP_ISOLATE}"
    return value


@cache
def _code() -> dict[str, str]:
    """Return the scripts by name. Every page has the script `page`."""
    own = {name: _read(TEMPLATES / f"{name}.js") for name in ("page", "ask", "tile")}
    parts = "".join(_read(TEMPLATES / "live" / f"{name}.js") for name in LIVE)
    return {
        **own,
        "live": f'"use strict";\n(() => {{\n{parts}}})();\n',
        "uPlot": _read(VENDOR / f"{UPLOT}.iife.min.js"),
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def headers(scripts: tuple[str, ...] = ()) -> dict[str, str]:
    """Return a page's headers. The content security policy: only our own scripts and styles run, and only Airflow may frame the page."""
    script = " ".join(_hash(_code()[name]) for name in ("page", *scripts))
    style = _hash(str(environment().globals["style"]))
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
