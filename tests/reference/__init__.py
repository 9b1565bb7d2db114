"""Pages of the reference that are made from the code: `python -m tests.reference` writes them into `docs/reference/`.

A test compares the committed pages with these functions: commands with the text of `--help`, DAGs with the fields of their
forms, the nodes in ZooKeeper with who may write them, and the HTTP routes.
"""

from collections.abc import Callable, Mapping

from tests.reference.commands import commands
from tests.reference.dags import dags
from tests.reference.form import ROOT
from tests.reference.http import CONSUMER_ROUTES, http
from tests.reference.znodes import znodes

__all__ = ["CONSUMER_ROUTES", "FOLDER", "PAGES"]
FOLDER = ROOT / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = {"commands": commands, "dags": dags, "znodes": znodes, "http": http}
