"""Answers, committed metadata, forms and command lines full of anything: one error in one line, and nobody else is touched."""

import json

import pytest

from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.watch import overview
from tests.faults.hostile import EDGES, LIAR, ODD_VALUES, problems_of, site


@pytest.mark.parametrize("edge", EDGES)
def test_what_an_outsider_says_harms_nobody_else(edge: str) -> None:
    assert problems_of(edge, 0, 1_000) == []


@pytest.mark.parametrize("field", ["sparkUi", "applicationId"])
def test_what_a_registration_says_of_its_spark_application_becomes_no_link_and_stops_nobody(field: str) -> None:
    here = site()
    path = here.paths.member(LIAR)
    good = json.loads(here.zk.get(path).data)
    for odd in (*ODD_VALUES, "javascript:alert(1)", "http://u:p@h:1", "http://h:1/" + "x" * 10_000):
        here.zk.transact([SetData(path, json.dumps({**good, field: odd}).encode())])
        (found,) = (one for one in overview.consumers(here.coordinator) if one.consumer == LIAR)
        assert (found.presence, found.problem, found.pages.spark_ui, found.pages.driver_log) == ("live", "", "", "")
        assert all(one.isprintable() and len(one) < 300 for one in found.reports), odd
