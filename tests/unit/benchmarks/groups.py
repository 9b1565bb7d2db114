"""Small groups for property tests, and the slow exact second implementation."""

from collections.abc import Iterator, Mapping
from itertools import product

from hypothesis import strategies as st

from coordinator_tasks.core.assignors.group import Assignment, Group, GroupMember

Given = dict[tuple[str, int], str]

TOPICS = ("ta", "tb", "tc")
MEMBERS = ("ca", "cb", "cc", "cd")
RACKS = ("r1", "r2")


@st.composite
def members(draw: st.DrawFn, topics: Mapping[str, int], *, equal: bool = False) -> GroupMember:
    """One member with claims that may be stale, doubled, out of range, or of topics it does not subscribe to."""
    wanted = frozenset(topics) if equal else draw(st.frozensets(st.sampled_from([*topics, "unknown"])))
    claims = st.dictionaries(st.sampled_from([*topics, "gone"]), st.lists(st.integers(0, 4), max_size=4), max_size=3)
    generation, rack = draw(st.integers(1, 2)), draw(st.sampled_from([None, *RACKS]))
    return GroupMember(wanted, draw(claims), generation, rack)


@st.composite
def groups(draw: st.DrawFn, *, equal: bool = False) -> Group:
    """At most 6 partitions and 4 members."""
    sizes = draw(st.sampled_from([(1, 2, 3), (2, 2, 2), (4, 1, 0), (1, 1, 1), (6, 0, 0), (5,)]))
    topics = dict(zip(TOPICS, sizes, strict=False))
    present = draw(st.lists(st.sampled_from(MEMBERS), unique=True, max_size=4))
    racks = {t: [draw(st.lists(st.sampled_from(RACKS), unique=True)) for _ in range(n)] for t, n in topics.items()}
    return Group(topics, {m: draw(members(topics, equal=equal)) for m in present}, racks)


def partitions(group: Group) -> list[tuple[str, int]]:
    """Those that somebody subscribes to."""
    return [
        (t, p) for t, n in group.topics.items() for p in range(n) if any(t in m.topics for m in group.members.values())
    ]


def given(answer: Assignment) -> Given:
    return {(t, p): m for m, topics in answer.items() for t, listed in topics.items() for p in listed}


def owners(group: Group) -> Given:
    """What exactly one subscriber claims."""
    claimed: dict[tuple[str, int], set[str]] = {}
    for name, member in group.members.items():
        for topic, listed in member.owned.items():
            for partition in listed:
                if topic in member.topics and 0 <= partition < group.topics.get(topic, 0):
                    claimed.setdefault((topic, partition), set()).add(name)
    return {key: next(iter(names)) for key, names in claimed.items() if len(names) == 1}


def loads(group: Group, answer: Given) -> list[int]:
    return sorted((list(answer.values()).count(m) for m in group.members), reverse=True)


def moves(group: Group, answer: Given) -> int:
    return sum(answer.get(key) != member for key, member in owners(group).items())


def best(group: Group) -> tuple[list[int], int]:
    """The decreasingly minimal load vector and the fewest moves with it, over all valid assignments."""
    return min((loads(group, answer), moves(group, answer)) for answer in _answers(group))


def _answers(group: Group) -> Iterator[Given]:
    listed = partitions(group)
    able = [[m for m, v in group.members.items() if topic in v.topics] for topic, _ in listed]
    return (dict(zip(listed, chosen, strict=True)) for chosen in product(*able))


def after(group: Group, answer: Assignment) -> Group:
    """The group once it has what it was answered."""
    had = {m: GroupMember(v.topics, answer[m], 3, v.rack, v.instance) for m, v in group.members.items()}
    return Group(group.topics, had, group.racks)
