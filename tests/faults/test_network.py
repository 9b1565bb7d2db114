"""Consumers and a coordinator on hosts of their own, whose packets to and from one neighbour or all are dropped for a while."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.apart import CUTS, Apart, Cut
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
