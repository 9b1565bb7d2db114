"""Pages of the reference that are made from the code: `python -m tests.reference` writes them into `docs/`.

A test compares the committed pages with these functions: settings with the texts
below their fields, commands with the text of `--help`, DAGs with the fields of their
forms, the nodes in ZooKeeper with who may write them, the HTTP routes, the metrics, and the
table of error codes.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.reference.commands import commands
from tests.reference.dags import dags
from tests.reference.errors import PAGE, errors
from tests.reference.form import ROOT
from tests.reference.http import CONSUMER_ROUTES, http
from tests.reference.metrics import metrics
from tests.reference.settings import settings
from tests.reference.znodes import znodes

__all__ = ["CONSUMER_ROUTES", "FOLDER", "PAGES"]
FOLDER = ROOT / "docs" / "reference"
PAGES: Mapping[Path, Callable[[], str]] = {
    FOLDER / "settings.md": settings,
    FOLDER / "commands.md": commands,
    FOLDER / "dags.md": dags,
    FOLDER / "znodes.md": znodes,
    FOLDER / "http.md": http,
    FOLDER / "metrics.md": metrics,
    PAGE: errors,
}
