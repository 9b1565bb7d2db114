"""A kept plan against a new one: as good, and its deltas say exactly what changed."""

from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from benchmarks.group_assignors.incremental import Delta, Plan
from coordinator_tasks.core.assignors.group import Assignment, Group, GroupMember
from tests.unit.benchmarks.groups import MEMBERS, TOPICS, Given, best, given, groups, loads, moves

SUBSCRIPTIONS = st.frozensets(st.sampled_from([*TOPICS, "unknown"]), min_size=1)
CHANGES = st.lists(
    st.tuples(st.dictionaries(st.sampled_from(["cx", "cy", "cz"]), SUBSCRIPTIONS), st.sets(st.sampled_from(MEMBERS)))
)


def named(plan: Plan, held: dict[str, list[int]]) -> set[tuple[str, int, str]]:
    starts = plan.layout.starts.tolist()
    place = {
        start + p: (t, p)
        for t, start, n in zip(plan.layout.topics, starts, plan.layout.counts, strict=False)
        for p in range(n)
    }
    return {(*place[number], member) for member, numbers in held.items() for number in numbers}


def apply(plan: Plan, before: Given, delta: Delta, left: set[str]) -> Given:
    """What the members have after the delta, from what they had."""
    stays = {(*key, m) for key, m in before.items() if m not in left} - named(plan, delta.given_up)
    assert named(plan, delta.given_up) <= {(*key, m) for key, m in before.items()}
    assert not stays & named(plan, delta.got)
    found = stays | named(plan, delta.got)
    assert len({(t, p) for t, p, _ in found}) == len(found)
    return {(t, p): m for t, p, m in found}


@settings(max_examples=100)
@over(st.one_of(groups(), groups(equal=True)), CHANGES)
def test_every_change_is_as_good_as_a_new_plan(
    group: Group, changes: list[tuple[dict[str, frozenset[str]], set[str]]]
) -> None:
    plan = Plan(group)
    topics = {t: group.topics[t] for t in plan.layout.topics}
    subscribed = {m: v.topics for m, v in group.members.items() if v.topics & topics.keys()}
    before = given(plan.assignment())
    for joined, left in changes:
        new = {m: wanted for m, wanted in joined.items() if m not in subscribed}
        delta = plan.change(joined, left)
        subscribed = {m: wanted for m, wanted in (subscribed | new).items() if m not in left and wanted & topics.keys()}
        members = {m: GroupMember(wanted, owned(before, m)) for m, wanted in subscribed.items()}
        now = given(plan.assignment())
        assert now == apply(plan, before, delta, left)
        if members:
            asked = Group(topics, members)
            assert (loads(asked, now), moves(asked, now)) == best(asked)
        assert set(now.values()) <= subscribed.keys()
        before = now


def owned(before: Given, member: str) -> dict[str, list[int]]:
    found: Assignment = {}
    for (topic, partition), owner in before.items():
        found.setdefault(owner, {}).setdefault(topic, []).append(partition)
    return found.get(member, {})


def test_what_everybody_has_left_waits_for_the_next_joiner() -> None:
    topics = frozenset({"t"})
    plan = Plan(Group({"t": 3}, {"a": GroupMember(topics), "b": GroupMember(topics)}))
    assert plan.change({}, ["a", "b"]) == Delta()
    assert plan.assignment() == {}
    assert sorted(plan.change({"c": topics}).got["c"]) == [0, 1, 2]
