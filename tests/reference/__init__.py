"""Pages of the reference that are made from the code by the build of the site (`tests/site_reference.py`).

The page of error codes is in Git, because messages link to it: `python -m tests.reference` writes it, and a test compares.
"""

from collections.abc import Callable, Mapping

from tests.reference.commands import commands
from tests.reference.dags import dags
from tests.reference.http import http
from tests.reference.metrics import metrics
from tests.reference.settings import settings
from tests.reference.znodes import znodes

PAGES: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "commands": commands,
    "dags": dags,
    "znodes": znodes,
    "http": http,
    "metrics": metrics,
}
