"""Stalls are computed from time stamps alone."""

import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from coordinator_tasks.core.model import Pause, Pauses
from coordinator_tasks.devstack.demo.checker import check
from coordinator_tasks.devstack.demo.evidence import Produced, Row
from coordinator_tasks.devstack.demo.report import as_json, event_reports, write
from coordinator_tasks.devstack.demo.stalls import Stall, longest, spread, stalls
from tests.unit.coordinator_tasks.devstack.demo.demo_evidence import honest


def produced(*times: float) -> list[Produced]:
    return [Produced(0, offset, offset, at) for offset, at in enumerate(times)]


def processed(*times: float) -> list[Row]:
    return [Row("a", 1, 1, 0, offset, offset, 0.0, at) for offset, at in enumerate(times)]


def test_a_stall_begins_with_the_processing_before_while_work_is_left() -> None:
    assert stalls(produced(1.0, 1.1, 1.2), processed(1.5, 2.0, 4.0)) == {
        0: [Stall(1.0, 1.5), Stall(1.5, 2.0), Stall(2.0, 4.0)]
    }


def test_an_idle_partition_does_not_stall() -> None:
    assert stalls(produced(1.0, 9.0), processed(1.5, 9.25))[0] == [Stall(1.0, 1.5), Stall(9.0, 9.25)]


def test_records_of_one_batch_are_one_processing() -> None:
    assert stalls(produced(1.0, 1.4), processed(2.0, 2.0))[0] == [Stall(1.0, 2.0)]


def test_what_was_never_processed_stalls_for_ever() -> None:
    assert stalls(produced(1.0, 1.2), processed(2.0))[0] == [Stall(1.0, 2.0), Stall(2.0, inf)]


def test_a_repeated_processing_does_not_count_again() -> None:
    again = [*processed(2.0, 3.0), *processed(2.5)]
    assert stalls(produced(1.0, 1.2), again)[0] == [Stall(1.0, 2.0), Stall(2.0, 3.0)]


def test_a_window_takes_whole_stalls_that_reach_into_it() -> None:
    found = {0: [Stall(1.0, 2.0), Stall(2.0, 5.0), Stall(5.0, 5.5)]}
    assert longest(found, 4.5, 6.0) == {0: 3.0}
    assert longest(found, 5.0, 6.0) == {0: 0.5}
    assert longest(found, 6.0, 7.0) == {0: 0.0}


def test_a_window_between_events_leaves_out_what_began_before_it_or_ends_after_it() -> None:
    found = {0: [Stall(0.0, 1.2), Stall(1.2, 1.5), Stall(1.5, 9.0)]}
    assert longest(found, 1.0, 2.0) == {0: 7.5}
    assert longest(found, 1.0, 2.0, within=True) == pytest.approx({0: 0.3})


def test_the_spread_is_over_the_named_partitions_only() -> None:
    found = spread({0: 0.1, 1: 0.3, 2: 9.0}, [0, 1])
    assert (found.p50_ms, found.max_ms, found.partitions) == (200.0, 300.0, 2)
    assert spread({}, []).partitions == 0


def test_the_report_has_the_agreed_fields_and_is_plain_json(tmp_path: Path) -> None:
    run = honest()
    verdict = check(run)
    report = as_json(run, verdict, event_reports(run, verdict), {"start": 1.0})
    write(tmp_path / "deep" / "report.json", report)
    read = json.loads((tmp_path / "deep" / "report.json").read_text())
    assert {
        "produced",
        "consumed",
        "lost",
        "duplicated_by_clean_moves",
        "unowned_records",
        "transitions",
        "events",
    } <= read.keys()
    join, kill = read["events"]
    assert {"kind", "moved", "moved_stall_ms", "unmoved_stall_ms", "to_stable_s"} <= join.keys()
    assert join["moved_stall_ms"].keys() == {"p50", "max"}
    assert (join["kind"], join["moved"], join["to_stable_s"]) == ("join", 1, 1.0)
    assert (kill["kind"], kill["moved"]) == ("kill", 2)
    assert kill["moved_stall_ms"]["max"] > kill["unmoved_stall_ms"]["max"]
    assert len(read["transitions"]) == 7


def test_a_stall_without_end_is_null_in_the_report(tmp_path: Path) -> None:
    run = honest()
    lossy = replace(run, rows=[r for r in run.rows if r.partition != 1 or r.offset < 30])
    verdict = check(lossy)
    report = as_json(lossy, verdict, event_reports(lossy, verdict), {})
    assert not report["ok"]
    assert report["events"][1]["unmoved_stall_ms"]["max"] is None
    write(tmp_path / "report.json", report)


def test_a_moved_partition_that_stands_still_for_ever_leaves_the_report_plain_json(tmp_path: Path) -> None:
    run = honest()
    lossy = replace(run, rows=[r for r in run.rows if r.partition != 0 or r.epoch != 4])
    verdict = check(lossy)
    write(tmp_path / "report.json", as_json(lossy, verdict, event_reports(lossy, verdict), {}))
    moved = json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)["moves"]
    assert [one["total_ms"] for one in moved if one["partition"] == 0] == [None]


def test_records_that_are_processed_out_of_order_are_followed_in_time() -> None:
    assert stalls(produced(1.0, 1.1, 1.2), processed(4.0, 2.0, 3.0))[0] == [
        Stall(1.0, 2.0),
        Stall(2.0, 3.0),
        Stall(3.0, 4.0),
    ]


def test_a_window_leaves_out_what_begins_at_its_end_or_later() -> None:
    found = {0: [Stall(1.0, 1.5), Stall(2.0, 9.0)]}
    assert longest(found, 1.0, 2.0) == {0: 0.5}
    assert longest(found, 1.0, 2.1) == {0: 7.0}


def test_a_report_parts_what_moved_from_what_did_not() -> None:
    run = honest()
    verdict = check(run)
    join, kill = event_reports(run, verdict)
    assert [(m.partition, m.giver, m.taker) for m in kill.moves] == [(0, "a", "b"), (2, "a", "c")]
    assert (join.to_plan_s, join.to_stable_s) == (0.1, 1.0)
    assert (kill.moved.partitions, kill.unmoved.partitions, kill.quiet.partitions) == (2, 2, 4)
    assert (join.bystander.partitions, kill.bystander.partitions) == (2, 0)
    assert (kill.unmoved.max_ms, kill.quiet.max_ms) == (500.0, 500.0)


def test_a_stall_of_the_event_before_is_none_of_the_undisturbed_window() -> None:
    run = honest()
    kill = replace(run.events[1], quiet_from_at=1000.3, quiet_to_at=1001.2)
    (found,) = event_reports(replace(run, events=[kill]), check(run))
    assert found.quiet.max_ms == 500.0  # not the 600 ms since before it began


def test_the_pauses_of_the_history_stand_beside_the_stalls_of_their_event() -> None:
    run = honest()
    measured = {
        4: Pauses((Pause(1, records=3, wait_s=0.25, error_s=0.01),)),
        6: Pauses((Pause(0, records=2, wait_s=0.5, error_s=0.02, least=True), Pause(2))),
    }
    told = replace(run, records=[replace(r, pauses=measured.get(r.sequence)) for r in run.records])
    join, kill = event_reports(told, check(told))
    assert [(m.pause.wait_s, m.pause.least) for m in join.moves if m.pause is not None] == [(0.25, False)]
    assert [(m.pause.wait_s, m.pause.least) for m in kill.moves if m.pause is not None] == [(0.5, True), (None, False)]
    assert (join.pauses, kill.pauses) == (measured[4], measured[6])
