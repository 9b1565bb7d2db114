"""The topics in a fleet's arguments, and which fleets share one."""

import pytest

from coordinator_tasks.core.machine.fleet_topics import conflicts, named
from coordinator_tasks.core.model import Fleet


@pytest.mark.parametrize(
    ("arguments", "topics"),
    [
        ((), ()),
        (("--set", "x=1"), ()),
        (("--topics", "a, b.*,"), ("a", "b.*")),
        (("--topics=a",), ("a",)),
        (("--pipeline", "eu.a=m:f", "--pattern=(a|b=)+=m:f"), (r"eu\.a", "(a|b=)+")),
        (("--default", "m:f", "--pipeline", "a=m:f"), ()),
        (("--default", "m:f", "--topics", "a"), ("a",)),
        (("--topics",), ()),
    ],
)
def test_the_topics_of_arguments(arguments: tuple[str, ...], topics: tuple[str, ...]) -> None:
    assert named(arguments) == topics


def fleet(app: str, *arguments: str, consumers: tuple[str, ...] = ("c",)) -> Fleet:
    return Fleet(app, "app.py", consumers, arguments)


A = fleet("a", "--pipeline=orders=m:f")


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ((fleet("b"),), {"b": "fleet 'b' names no topics"}),
        ((fleet("b", "--topics=ord.*"),), dict.fromkeys("ab", "takes topic 'orders', which fleet")),
        ((fleet("b", "--topics=click.*"),), {}),
        ((fleet("b", consumers=()),), {}),
        ((fleet("b", "--topics=other.*"), fleet("c", "--topics=.*z")), dict.fromkeys("bc", "takes topic 'otherz'")),
    ],
    ids=["one that takes all", "by a pattern", "apart", "one without consumers", "two patterns and a managed topic"],
)
def test_fleets_that_share_a_topic(others: tuple[Fleet, ...], found: dict[str, str]) -> None:
    problems = conflicts((A, *others), ["otherz", "__consumer_offsets"])
    assert problems.keys() == found.keys()
    assert all(text in problems[app][0] for app, text in found.items())
