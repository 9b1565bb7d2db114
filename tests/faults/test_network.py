"""Consumers and a coordinator on hosts of their own, whose packets to and from one neighbour or all are dropped for a while."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.apart import CUTS, LONG, ZOOKEEPER, Apart, Cut
from tests.faults.case import FIRST, SECOND
from tests.faults.netns import NoRights
from tests.faults.roles import COORDINATOR
from tests.faults.site import Site, site

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
AT_ONCE = 4


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
    assert case.sit_out() == []
    assert case.over, "the hand-off ended though the giver heard nothing of ZooKeeper"


@pytest.mark.clusters
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("who", [FIRST, SECOND, COORDINATOR], ids=["a giver", "an owner or a taker", "the coordinator"])
def test_a_cut_from_any_neighbour_loses_nothing_and_moves_nothing_needlessly(
    own: Site, tmp_path: Path, who: str
) -> None:
    def problems(numbered: tuple[int, Cut]) -> list[str]:
        number, cut = numbered
        case = Apart(own.servers, f"cut-{number}", tmp_path / str(number), site=own, cut=cut)
        return [f"{cut}: {problem}" for problem in case.sit_out()]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(problems, enumerate(cut for cut in CUTS if cut.who == who)))
    assert [one for one in found if one] == []
