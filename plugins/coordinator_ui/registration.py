"""Describes the pages to Airflow. Every process of Airflow imports this module, so it imports almost nothing."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import quote

from coordinator_plugin.pages_address import PREFIX, pages_address

from coordinator_ui.names import NAMES

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]


class LazyPages:
    """The ASGI application, made at the first request: workers and parsers load plugins too, and serve no page."""

    def __init__(self) -> None:
        self._app: Callable[[_Message, _Receive, _Send], Awaitable[None]] | None = None

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if self._app is None:
            from coordinator_ui.pages.routes import make_app  # noqa: PLC0415 - see the class

            self._app = make_app()
        await self._app(scope, receive, send)


def _icon(colour: str) -> str:
    """Return an icon of two arrows in opposite directions.

    Airflow shows an icon unchanged, even on the dark menu entry of the open page.
    """
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="{colour}" stroke-width="2.2" '
        'stroke-linecap="round" stroke-linejoin="round"><path d="M3 8h17M15 3l5 5-5 5M21 17H4M9 12l-5 5 5 5"/></svg>'
    )
    return "data:image/svg+xml," + quote(svg)


ICONS = {"icon": _icon("#8596ae"), "icon_dark_mode": _icon("#a9b8cd")}
FASTAPI_APPS: list[dict[str, Any]] = [{"app": LazyPages(), "url_prefix": PREFIX, "name": "Coordinator"}]
_VIEWS = (
    ("topics", "/", "rebalances"),
    ("live", "/live", "partitions_live"),
    ("rebalances", "/rebalances", "all_rebalances"),
    ("actions", "/actions", "asked_actions"),
    ("audit", "/audit", "ownership_audit"),
    ("letters", "/dead-letters", "dead_letters"),
    ("run", "/runs/{DAG_ID}/{RUN_ID}", "moved_partitions"),
)
"""Template, path of the page, and Airflow's route to the page."""
EXTERNAL_VIEWS: list[dict[str, Any]] = [
    {
        "name": NAMES[template],
        "href": pages_address() + path,
        "destination": "dag_run" if template == "run" else "nav",
        "url_route": route,
        **({"nav_top_level": True} if template == "topics" else {}),
        **ICONS,
    }
    for template, path, route in _VIEWS
]
REACT_APPS: list[dict[str, Any]] = [
    {"name": "Coordinator", "bundle_url": f"{pages_address()}/tile.js", "destination": "dashboard"}
]
"""The tile on the dashboard. For a tile, Airflow takes only a React component."""
