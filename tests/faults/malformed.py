"""Nodes that cannot be read, one after the other, at the places of a topic in the middle of a hand-off; ZooKeeper in memory.

A transition that needs such a node holds and names it; what it does not need keeps no topic waiting.
"""

import copy
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coordinator_plugin.reconcile import reconcile

from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, history
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from tests.unit.coordinator_tasks.core.codecs.test_codecs import CASES, read_or_malformed
from tests.world.site import LOOP, Site, stable_site

ODD_VALUES: list[object] = [
    None, True, False, -1, 0, 1.5, 2**63, 2**64, -(2**63), 1e308, "", "x", "a/b", "..", "%2f", "\0", "{{ conf }}", "é" * 40,
    "'; DROP TABLE offsets; --", [], [[]], [1, 1], {}, {"": ""}, {"0": {"0": {}}}, {"-1": "a"}, {"01": "a"}, {"9" * 30: "a"},
]  # fmt: skip
ODD_TEXTS = [
    "", " ", ".", "..", "../..", "/", "a/b", "//", "%2f", "%2e%2e", "\0", "a\0b", "\n", "a\r\nb", "\x1b[2J", "\u202e", "\ud800",
    "{{ ds }}", "${HOME}", "$(reboot)", "`id`", "{{ conf.x }}", "'; DROP TABLE x; --", "\" OR 1=1", "<script>", "-rf", "~", "*",
    "CON", "é", "名", "a b", "a:b", "a\\b", "zookeeper", "x" * 65, "x" * 250, "x" * 100_000,
]  # fmt: skip
ODD_NUMBERS = [-1, 0, 1, 2**31, 2**53, 2**63 - 1, 2**63, 10**310, -(10**310), 0.5, 1e308]


def spoiled(chance: random.Random, good: bytes) -> bytes:
    """Odd values and missing fields, huge numbers, cuts, other encodings, nesting, noise, or flips."""
    match chance.randrange(9):
        case 0 | 1 | 2:
            body = json.loads(good)
            for _ in range(chance.randint(1, 3)):
                _spoil(chance, body)
            return json.dumps(body).encode()
        case 3:
            return good.replace(b":1", f":{chance.choice(ODD_NUMBERS)}".encode(), chance.randint(1, 4))
        case 4:
            return good[: chance.randrange(len(good))]
        case 5:
            return good.decode().encode(chance.choice(("utf-16", "utf-32", "utf-8-sig", "cp037")))
        case 6:
            return chance.choice((b"[", b'{"a":', b'"', b"9")) * chance.choice((10, 1_000, 100_000)) + good
        case 7:
            return chance.choice(
                (chance.randbytes(chance.randrange(60)), json.dumps(chance.choice(ODD_VALUES)).encode())
            )
    flipped = bytearray(good)
    for _ in range(chance.randint(1, 8)):
        flipped[chance.randrange(len(good))] = chance.randrange(256)
    return bytes(flipped)


def _spoil(chance: random.Random, place: dict[str, Any]) -> None:
    """Change or remove something, at any depth."""
    if not place:
        return
    name = chance.choice(sorted(place))
    if isinstance(place[name], dict) and place[name] and chance.random() < 0.6:
        _spoil(chance, place[name])
    elif chance.random() < 0.15:
        del place[name]
    elif chance.random() < 0.15:
        place[chance.choice(ODD_TEXTS[:-1])] = copy.deepcopy(chance.choice(ODD_VALUES))
    else:
        place[name] = copy.deepcopy(chance.choice(ODD_VALUES))


def unreadable(seed: int, kind: str) -> Iterator[bytes]:
    """Yield payloads of a kind of znode that are none, without end. An empty one is a node that says nothing yet."""
    chance, case = random.Random(seed), CASES[kind]
    good = case.write(case.value)
    while True:
        raw = spoiled(chance, good)
        if raw and read_or_malformed(case, raw) is None:
            yield raw


# Where they stand ------------------------------------------------------------------------------------------------------

MOVING = 3  # handed over by a join of c, so that its release is read
NEEDED: Mapping[str, Callable[[Paths], str]] = {
    "topic node": lambda paths: paths.topic("orders"),
    "release": lambda paths: paths.partition("orders", MOVING),
    "state": lambda paths: paths.state("orders"),
    "config": lambda paths: paths.config("orders"),
}
"""What the transitions of the topic read."""
OF_ONE: Mapping[str, Callable[[Paths], str]] = {
    "member": lambda paths: paths.member("a"),
    "claim": lambda paths: paths.id("a"),
    "directive": lambda paths: paths.directive("a"),
}
"""Nodes of one consumer that all processes read."""
ASIDE: Mapping[str, Callable[[Paths], str]] = {
    "fleet": lambda paths: paths.fleet("etl"),
    "record": lambda paths: f"{paths.history('orders')}/{0:010d}",
}
"""What they do not read."""
PLACES = {**NEEDED, **OF_ONE, **ASIDE}
READERS: Mapping[str, Sequence[Callable[[Coordinator], object]]] = {
    "fleet": (),
    "record": (
        lambda c: history.records(c, "orders"),
        lambda c: history.rebalances(c, ["orders"]),
    ),
}
"""Who reads those."""


def joined_and_handing_over() -> Site:
    """a and b share orders, c has joined and everything of it is on its way: something is always due."""
    site = stable_site("a", "b")
    directives.drain(site.coordinator, "a", "ann", "so that it has a directive")
    directives.undrain(site.coordinator, "a")
    site.starts("c")
    site.clock.advance(2)
    (report,) = transitions.plan(site.coordinator, ["orders"], LOOP)
    assert report.outcome is TopicOutcome.WRITTEN
    assert MOVING in site.node().handoff
    site.clock.advance(2)
    return site


def put(site: Site, path: str, raw: bytes) -> None:
    found = site.zk.find(path)
    site.zk.transact([Create(path, raw) if found is None else SetData(path, raw)])


def tree(site: Site) -> dict[str, bytes]:
    """Everything that is stored but how far everything was behind, which the loop keeps by itself, a moment a minute."""
    lags = site.coordinator.paths.lags
    return {path: node.data for path, node in site.server._nodes.items() if not path.startswith(lags)}


def everything(site: Site) -> list[TopicReport]:
    """Every step that runs by itself, and what a person looks at."""
    c = site.coordinator
    reports = transitions.step(c, transitions.topics(c), LOOP)
    for look in (transitions.due, transitions.await_closed, transitions.await_started):
        look(c, ["orders"])
    return reports


# What becomes of them ----------------------------------------------------------------------------------------------------


def offered(site: Site, kind: str, raws: Iterable[bytes]) -> list[str]:
    """What is wrong with how these are taken at their place; ends with the first that is taken badly."""
    path = PLACES[kind](site.paths)
    for raw in raws:
        put(site, path, raw)
        if kind in NEEDED:
            problem = _held(site, path)
        elif kind in OF_ONE:
            problem = _kept(site, path, raw)
        else:
            problem = _passed_by(site, path, raw, READERS[kind])
        if problem:
            return [f"{path} holds {raw[:200]!r}: {problem}"]
    return []


def _held(site: Site, path: str) -> str:
    before = tree(site)
    reports = everything(site)
    if [(r.outcome, path in r.reason) for r in reports] != [(TopicOutcome.HELD, True)]:
        return f"it is not held and named: {reports}"
    return "" if tree(site) == before else "something was written"


def _kept(site: Site, path: str, raw: bytes) -> str:
    """The topic goes on without the consumer, which keeps what it has."""
    had = _owned_by_a(site)
    for report in everything(site):
        if report.outcome is TopicOutcome.HELD or path not in "".join(report.left_out):
            return f"it is held, or not named: {report}"
    if not had <= _owned_by_a(site):
        return "something was taken from it"
    return "" if site.zk.get(path).data == raw else "something was written"


def _owned_by_a(site: Site) -> set[int]:
    return {partition for partition, owner in site.node().assignments.items() if owner == "a"}


def _passed_by(site: Site, path: str, raw: bytes, readers: Sequence[Callable[[Coordinator], object]]) -> str:
    reports = everything(site)
    if any(report.outcome is TopicOutcome.HELD for report in reports):
        return f"a topic is held by it: {reports}"
    before = tree(site)
    said = [_refusal(read, site.coordinator) for read in readers]
    if not all(path in sentence for sentence in said):
        return f"it is not named: {said}"
    found = reconcile(site.coordinator)
    if path == site.paths.fleet("etl") and path not in "".join(found.lines):
        return f"reconcile does not name it: {found}"
    if found.due != ("orders",):
        return f"reconcile does not find the topic due: {found}"
    return "" if tree(site) == before and before[path] == raw else "something was written"


def _refusal(read: Callable[[Coordinator], object], c: Coordinator) -> str:
    """Empty = it is read."""
    try:
        read(c)
    except Malformed as error:
        return str(error)
    return ""
