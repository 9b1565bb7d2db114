"""Positions and files of offsets, as text."""

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.service.offsets import position_rules
from coordinator_tasks.service.offsets.position_rules import Position, PositionKind

GROUPS = {"orders": "billing", "clicks": "web"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Earliest", Position(PositionKind.EARLIEST, "earliest")),
        ("current", Position(PositionKind.CURRENT, "current")),
        ("007", Position(PositionKind.OFFSET, "007", 7)),
        ("-100", Position(PositionKind.SHIFT, "-100", -100)),
        ("+100", Position(PositionKind.SHIFT, "+100", 100)),
        ("p1dT2h3m4.5s", Position(PositionKind.DURATION, "P1DT2H3M4.5S", 93_784_500)),
        ("1970-01-01T00:00:01+00:00", Position(PositionKind.TIME, "1970-01-01T00:00:01+00:00", 1000)),
    ],
    ids=["a word", "the committed offset", "an offset", "back", "on", "a duration", "a time"],
)
def test_a_position_is_read(text: str, expected: Position) -> None:
    assert position_rules.position(text) == expected


def test_options_of_a_shift_or_a_time_take_a_value_without_sign_or_zone() -> None:
    assert position_rules.shift("100") == Position(PositionKind.SHIFT, "+100", 100)
    assert position_rules.time("1970-01-01T00:00:01", zone=False).number == 1000


@pytest.mark.parametrize(
    "text", ["P", "PT", "P1DT", "P-1D", "PT1H1D", "P1.5D", "PT\u0661S", "P1W", "P" + "9" * 400 + "D", ""]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="is no position: a duration is written as"):
        position_rules.duration(text)


def test_a_file_of_kafkas_tool_is_read_for_one_group_and_for_several() -> None:
    assert position_rules.offsets_of("orders,0,5\r\norders,1,0\r\n\r\n", GROUPS) == {"orders": {0: 5, 1: 0}}
    several = 'billing,"orders",0,5\nweb,clicks,3, 7 \n'
    assert position_rules.offsets_of(several, GROUPS) == {"orders": {0: 5}, "clicks": {3: 7}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; write lines of topic,partition,offset"),
        ("orders,0", "line 1 of the offsets: it has 2 fields; write topic,partition,offset, or group,topic"),
        ("orders,0,1\nusers,0,1", "line 2 of the offsets: topic 'users' is not managed here"),
        ("web,orders,0,1", "group 'web' is not that of topic 'orders', which is 'billing'"),
        ("topic,partition,offset", "topic 'topic' is not managed here"),
        ("orders,x,1", "'x' is no partition"),
        ("orders,-1,1", "'-1' is no partition"),
        (f"orders,{2**31},1", "is no partition"),
        ("orders,0,-1", "'-1' is no position: an offset is a whole number from 0"),
        ("orders,0,\u0661", "is no position"),
        (f"orders,0,{2**63}", "is no position"),
        ("orders,0,1\norders,0,2", "line 2 names partition 0 of topic 'orders' a second time"),
        ("orders,0,1\x00", "is no (CSV|position)"),
        ("x" * 2_000_001, "has more than 2000000 characters"),
        ("x" * 200_000, "is no CSV"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(text: str, says: str) -> None:
    with pytest.raises(Refused, match=says) as found:
        position_rules.offsets_of(text, GROUPS)
    assert len(str(found.value)) < 300
    assert "\n" not in str(found.value)
