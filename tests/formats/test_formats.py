"""What every release has stored is read, and a change of what this one stores is noticed.

A folder for each release has an example of every kind, as bytes that this release wrote. Those of 0.1.0 were written by the code of
commit 992e3a0, the last one that reads neither `seeks` nor `properties` in a topic's node.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks import __version__
from coordinator_tasks.core.errors import UnknownVersion
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Draining, DrainKind, DrainOwner
from tests.formats.kinds import KINDS, VERSIONED, of_another_version

HERE = Path(__file__).parent
RELEASES = sorted(path.name for path in HERE.glob("*.*.*"))
TODAY = {name: kind.value for name, kind in KINDS.items()}
_ORDERS = TODAY["status"].topics["orders"]
_RUNNING = {partition: replace(one, taken=None) for partition, one in _ORDERS.running.items()}
_STATUS = replace(TODAY["status"], topics={"orders": replace(_ORDERS, running=_RUNNING, stalls={})})
_WEIGHED = {partition: replace(one, record_bytes=None) for partition, one in _RUNNING.items()}
_UNMEASURED = {
    "record": replace(TODAY["record"], pauses=None),
    "status": _STATUS,
    "settings file": replace(TODAY["settings file"], policy=Policy()),
}
OLDER: dict[str, dict[str, Any]] = {
    "0.2.0": {
        **_UNMEASURED,
        "config": replace(TODAY["config"], rollback=None),
        "claim": replace(TODAY["claim"], failed_at={}),
    },
    "0.1.0": {
        "config": replace(TODAY["config"], rollback=None),
        "topic node": replace(TODAY["topic node"], seeks={}),
        "state": replace(TODAY["state"], recovered={}),
        "member": replace(TODAY["member"], process="", formats=()),
        "registration file": replace(TODAY["registration file"], process="", formats=()),
        "claim": replace(TODAY["claim"], registered=0, process="", reasons={}, failed_at={}),
        "directive": replace(
            TODAY["directive"], draining=Draining("bob", "up", 6.0, 1, owner=DrainOwner(DrainKind.ITSELF))
        ),
        **_UNMEASURED,
        "status": replace(_STATUS, topics={"orders": replace(_STATUS.topics["orders"], running=_WEIGHED)}),
        "ended file": (137, ""),
    },
}
"""What differs from today's example, because the release did not have a field yet."""
NOT_THERE = {"0.1.0": {"transactional id", "leaving file", "positions table"}}
"""The kinds that the release did not have."""


def example(release: str, name: str) -> bytes:
    return (HERE / release / name.replace(" ", "-")).read_bytes()


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_an_example_of_each_kind(release: str) -> None:
    there = {path.name.replace("-", " ") for path in (HERE / release).iterdir()}
    assert there == KINDS.keys() - NOT_THERE.get(release, set())


@pytest.mark.parametrize(
    ("release", "name"),
    [(release, name) for release in RELEASES for name in KINDS if name not in NOT_THERE.get(release, ())],
)
def test_what_a_release_has_stored_is_read(release: str, name: str) -> None:
    assert KINDS[name].read(example(release, name)) == OLDER.get(release, {}).get(name, TODAY[name])


@pytest.mark.parametrize("name", KINDS)
def test_today_the_same_bytes_are_written(name: str) -> None:
    written = KINDS[name].write(TODAY[name])
    assert written == example(__version__, name), (
        f"what is stored as {name} has changed. If release {__version__} is out, raise the version first. "
        "Can the last release read it, or is it a case for FORMATS (CONTRIBUTING.md)? Then run: python -m tests.formats"
    )


@pytest.mark.parametrize("name", VERSIONED)
def test_data_of_an_unknown_version_is_refused_and_the_versions_are_named(name: str) -> None:
    last = 2 if name in ("topic node", "record") else 1  # the packed form
    later = of_another_version(example(__version__, name), last + 1)
    if name == "registration file":
        problem = KINDS[name].read(later).problem
    else:
        with pytest.raises(UnknownVersion) as refused:
            KINDS[name].read(later)
        problem = str(refused.value)
    assert problem.endswith(
        f"has format version {last + 1}; this release reads 1 to {last}; nothing was changed, "
        "install the release that has written it here as well"
    )


def test_a_commit_of_an_unknown_version_is_nobodys() -> None:
    later = example(__version__, "committed metadata").replace(b'"v":1', b'"v":2')
    found = KINDS["committed metadata"].read(later)
    assert (found.offset, found.token, found.owner) == (5, None, "")
