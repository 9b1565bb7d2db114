"""Every kind of node is in the table of exports, or has a reason to be left out."""

import inspect

import pytest

from coordinator_tasks.core.codecs.node_kinds import KINDS, kind_of
from coordinator_tasks.core.names import Paths

PATHS = Paths("shop")
NAMES = {"topic": "orders", "name": "a", "partition": 0, "sequence": 0, "slot": 0}


def made(name: str) -> str:
    """The path from `Paths` by this name, for the names above."""
    found = getattr(PATHS, name)
    if name == "asked":
        return f"{found}/0000000000"
    return str(found(*(NAMES[one] for one in inspect.signature(found).parameters)) if callable(found) else found)


def test_each_path_of_a_cluster_has_a_line_in_the_table() -> None:
    folders = {path.rpartition("/")[2] for path in PATHS.folders()}
    listed = {name for name in vars(Paths) if not name.startswith("_") and getattr(PATHS, name) not in PATHS.folders()}
    makers = listed - {"cluster", "base", "folders"}
    assert makers == KINDS.keys()
    assert {path.split("/")[3] for name in makers for path in [made(name)]} == folders


@pytest.mark.parametrize("name", KINDS)
def test_a_path_is_of_the_kind_that_its_line_says_or_of_none(name: str) -> None:
    kind = KINDS[name]
    assert kind_of(made(name).removeprefix(f"{PATHS.base}/")) is (None if kind.left else kind)
