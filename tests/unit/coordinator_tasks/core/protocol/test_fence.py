"""The fence in committed metadata, and where a new owner starts."""

import pytest

from coordinator_tasks.core.model import Committed, Release, StartRule, Token
from coordinator_tasks.core.protocol.fence import Bounds, Judgement, NoStart, judge, start_position

OWN = Token(5, 3, "g1")
BOUNDS = Bounds(2, 90)


def entry(
    epoch: int = 5, incarnation: int = 3, generation: str = "g1", topic_id: str = "t1", offset: int = 40
) -> Committed:
    return Committed(offset, Token(epoch, incarnation, generation), "a", "c", topic_id)


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        pytest.param(entry(), Judgement.OURS, id="our own token"),
        pytest.param(None, Judgement.REWRITE, id="nothing is committed"),
        pytest.param(Committed(40), Judgement.REWRITE, id="no token"),
        pytest.param(entry(4), Judgement.REWRITE, id="an older epoch"),
        pytest.param(entry(5, 2), Judgement.REWRITE, id="an older incarnation"),
        pytest.param(entry(6), Judgement.FENCED, id="a newer epoch"),
        pytest.param(entry(6, 1), Judgement.FENCED, id="a newer epoch of a smaller incarnation"),
        pytest.param(entry(5, 4), Judgement.FENCED, id="a newer incarnation"),
        pytest.param(entry(4, 9), Judgement.REWRITE, id="an older epoch of a larger incarnation"),
        pytest.param(entry(generation="g2"), Judgement.FENCED, id="our number in another generation: not sure, stop"),
        pytest.param(entry(4, generation="g2"), Judgement.REWRITE, id="an older epoch of another generation"),
        pytest.param(entry(9, topic_id="t0"), Judgement.REWRITE, id="newer, but of another topic id"),
    ],
)
def test_an_owner_looks_at_the_committed_entry(committed: Committed | None, expected: Judgement) -> None:
    assert judge(OWN, committed, "t1", "b") is expected


def test_our_own_entry_of_a_holding_that_a_new_generation_adopted_is_written_again() -> None:
    assert judge(OWN, entry(generation="g0"), "t1", "a") is Judgement.REWRITE
    assert judge(OWN, entry(6, generation="g0"), "t1", "a") is Judgement.FENCED


@pytest.mark.parametrize(("mine", "yours"), [(3, 7), (7, 3), (3, 3)])
def test_of_two_generations_with_the_same_epoch_at_most_one_owner_continues(mine: int, yours: int) -> None:
    old, new = Token(5, mine, "g1"), Token(5, yours, "g2")
    verdicts = {
        judge(old, Committed(40, new, "b", "c", "t1"), "t1", "a"),
        judge(new, Committed(40, old, "a", "c", "t1"), "t1", "b"),
    }
    assert Judgement.FENCED in verdicts
    assert Judgement.OURS not in verdicts


def release(epoch: int = 4, incarnation: int = 1, offset: int = 60) -> Release:
    return Release(7, "a", 1, offset, "g1", Token(epoch, incarnation, "g1"))


@pytest.mark.parametrize(
    ("committed", "released", "rule", "partition", "offset", "source"),
    [
        pytest.param(None, None, StartRule.EARLIEST, 0, 2, "earliest", id="nothing: the rule earliest"),
        pytest.param(None, None, StartRule.LATEST, 0, 90, "latest", id="nothing: the rule latest"),
        pytest.param(None, None, StartRule.LATEST, 3, 2, "new partition", id="a later partition at its beginning"),
        pytest.param(
            None, None, StartRule.NONE, 3, 2, "new partition", id="a later partition although the rule is none"
        ),
        pytest.param(entry(), None, StartRule.LATEST, 3, 40, "committed", id="what is committed"),
        pytest.param(Committed(40), None, StartRule.NONE, 0, 40, "committed", id="a foreign commit before our time"),
        pytest.param(entry(topic_id="t0"), None, StartRule.LATEST, 0, 90, "latest", id="another topic id is ignored"),
        pytest.param(entry(3), release(4), StartRule.LATEST, 0, 60, "release", id="the release is newer"),
        pytest.param(
            entry(4, 1, offset=70), release(4), StartRule.LATEST, 0, 70, "committed", id="as new, and further"
        ),
        pytest.param(entry(4, 1, offset=60), release(4), StartRule.LATEST, 0, 60, "committed", id="as new, and as far"),
        pytest.param(
            entry(4, 1), release(4), StartRule.LATEST, 0, 60, "release", id="as new, by a commit that came late"
        ),
        pytest.param(entry(5), release(4), StartRule.LATEST, 0, 40, "committed", id="the commit is newer"),
        pytest.param(Committed(99), release(4), StartRule.LATEST, 0, 60, "release", id="a foreign commit is overruled"),
        pytest.param(None, release(4), StartRule.NONE, 0, 60, "release", id="only a release"),
        pytest.param(
            entry(9, topic_id="t0"), release(4), StartRule.NONE, 0, 60, "release", id="other id, and a release"
        ),
    ],
)
def test_a_new_owner_starts_at_the_position_of_the_newest_token(
    committed: Committed | None, released: Release | None, rule: StartRule, partition: int, offset: int, source: str
) -> None:
    found = start_position(partition, committed, released, "t1", rule, 3, BOUNDS)
    assert (found.offset, found.source) == (offset, source)


def test_no_start_is_an_error_that_names_the_partition() -> None:
    with pytest.raises(NoStart, match="no committed offset"):
        start_position(2, None, None, "t1", StartRule.NONE, 3, BOUNDS)
