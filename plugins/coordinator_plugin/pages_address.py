"""The addresses of the coordinator's pages."""

from urllib.parse import urlsplit

from airflow.configuration import conf

PREFIX = "/coordinator"
"""The path of the pages, below Airflow's."""


def pages_address() -> str:
    """Return the path of the pages, with the prefix of this Airflow's address (usually none)."""
    return urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/") + PREFIX
