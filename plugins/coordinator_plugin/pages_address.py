"""Where the coordinator's pages are."""

from urllib.parse import urlsplit

from airflow.configuration import conf

PREFIX = "/coordinator"
"""The path of the pages, below that of Airflow."""


def pages_address() -> str:
    """Their path, with that under which this Airflow is served (usually none)."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/") + PREFIX
