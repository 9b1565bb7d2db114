"""A moment is read back equal, in few bytes; everything else is an error with the path."""

import json
import random
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from coordinator_tasks.core.codecs.lag_moment_codec import decode_lag_moment, encode_lag_moment
from coordinator_tasks.core.codecs.packed import unwrapped, wrapped
from coordinator_tasks.core.errors import Malformed, UnknownVersion
from coordinator_tasks.core.measure.lag_moments import (
    MOST_PARTITIONS,
    LagMoment,
    PartitionMoment,
    TopicMoment,
    judged,
    seconds,
)
from coordinator_tasks.core.text.json_fields import MAX_BYTES, MAX_NUMBER, Fields

PATH = "/consumers/shop/history/:lag/07"


def column(kind: str, *values: int) -> "array[int]":
    return array(kind, values)


MOMENT = LagMoment(
    1_000.5,
    ("a", "b"),
    {
        "orders": TopicMoment(
            "g",
            column("i", 0, 1, 7),
            column("h", 1, 0, -1),
            column("q", 5, MAX_NUMBER, 0),
            column("q", 0, 3, 9),
            column("q", 0, -1, 25),
            column("b", 1, 6, 4),
            column("b", 1, 0, 0),
        ),
        "none": TopicMoment("h"),
    },
    left_out=4,
)


def test_a_moment_is_read_back_as_it_was_written() -> None:
    assert decode_lag_moment(PATH, encode_lag_moment(MOMENT)) == MOMENT
    assert [seconds(one) for one in MOMENT.topics["orders"].late] == [0.0, None, 2.5]
    assert [MOMENT.owner(place) for place in MOMENT.topics["orders"].owners] == ["b", "a", ""]


def test_an_unknown_version_is_refused_and_both_are_named() -> None:
    later = json.dumps({**json.loads(encode_lag_moment(MOMENT)), "version": 2}).encode()
    with pytest.raises(UnknownVersion, match="has format version 2; this release reads 1 to 1"):
        decode_lag_moment(PATH, later)


def one_topic(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["topics"][0].update(changed)


SPOILT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an owner that is not listed": one_topic(owners=[0, 1, 2]),
    "a column that is too short": one_topic(lags=[1, 2]),
    "a column that is missing": one_topic(offsets=None),
    "a status that Burrow does not have": one_topic(statuses=[1, 1, 7]),
    "half an offset": one_topic(offsets=[1, 2.5, 3]),
    "a truth in place of a number": one_topic(commits=[1, 1, True]),
    "an offset beyond Kafka's": one_topic(offsets=[1, 2, 2**63]),
    "partitions that are none": one_topic(partitions="7-1"),
    "a partition beyond Kafka's": one_topic(partitions=f"0-1,{2**31}"),
    "more partitions than entries": one_topic(partitions=f"0-{MOST_PARTITIONS}"),
    "no time": lambda body: body.pop("at"),
    "topics that are no list": lambda body: body.update(topics={}),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_what_cannot_be_true_is_refused_by_path(spoil: Callable[[dict[str, Any]], Any]) -> None:
    body = dict(unwrapped(Fields.parse(PATH, encode_lag_moment(MOMENT), 1), 1).data)
    spoil(body)
    with pytest.raises(Malformed, match=PATH):
        decode_lag_moment(PATH, wrapped(1, body))


def test_the_largest_moment_fits_into_a_node_also_if_no_number_repeats() -> None:
    chance, largest = random.Random(3), 10**18
    owners = [f"{number:064x}"[:64] for number in (chance.getrandbits(256) for _ in range(2_000))]
    seen = [
        PartitionMoment("g", "t" * 249, p, chance.choice(owners), offset, offset + chance.randrange(10**9))
        for p, offset in ((p, chance.randrange(largest)) for p in range(MOST_PARTITIONS + 5))
    ]
    raw = encode_lag_moment(judged(1_000.0, seen, {}, ()))
    print(f"{len(raw):,} bytes")
    assert len(raw) < MAX_BYTES
    assert decode_lag_moment(PATH, raw).left_out == 5
