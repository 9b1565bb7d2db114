"""A consumer on a host of its own, whose packets to and from ZooKeeper are dropped in the middle of a hand-off."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.apart import LONG, ZOOKEEPER, Apart, Cut
from tests.faults.case import FIRST
from tests.faults.netns import NoRights
from tests.faults.site import Site, site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as ending:
        try:
            made = ending.enter_context(site(tmp_path))
        except NoRights as error:
            pytest.skip(f"this user may not make network namespaces here: {error}")
        yield made


def test_a_giver_that_has_lost_zookeeper_is_told_by_the_coordinator_and_the_hand_off_ends(
    own: Site, tmp_path: Path
) -> None:
    cut = Cut(FIRST, ZOOKEEPER, moving=True, lasts=LONG)
    case = Apart(own.servers, "apart", tmp_path / "case", site=own, cut=cut, session_s=6.0, absent_s=1.0)
    healed = case.sit_out()
    assert healed.problems == ()
    assert healed.over, "the hand-off ended though the giver heard nothing of ZooKeeper"
