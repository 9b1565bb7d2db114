"""Garbage in every znode and name, generated from a seed: never a crash, never an action, always an error with its path."""

import json
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import pytest

from coordinator_tasks.core import names
from coordinator_tasks.core.errors import InvalidName
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service import directives, fleet, loop, overview, topics, transitions
from coordinator_tasks.service.transitions import Outcome, TopicReport
from tests.unit.test_codecs import CASES, read_or_malformed
from tests.world.site import LOOP, Site, stable_site

PAYLOADS = 100_000
IN_THE_LOOP = 1_400
NAMES = 10_000
SEED = 7
ODD_VALUES: list[object] = [
    None, True, False, -1, 0, 1.5, 2**63, 2**64, -(2**63), 1e308, "", "x", "a/b", "..", "%2f", "\0", "{{ conf }}", "é" * 40,
    "'; DROP TABLE offsets; --", [], [[]], [1, 1], {}, {"": ""}, {"0": {"0": {}}}, {"-1": "a"}, {"01": "a"}, {"9" * 30: "a"},
]  # fmt: skip
ODD_TEXTS = [
    "", " ", ".", "..", "../..", "/", "a/b", "//", "%2f", "%2e%2e", "\0", "a\0b", "\n", "a\r\nb", "\x1b[2J", "\u202e", "\ud800",
    "{{ ds }}", "${HOME}", "$(reboot)", "`id`", "{{ conf.x }}", "'; DROP TABLE x; --", "\" OR 1=1", "<script>", "-rf", "~", "*",
    "CON", "é", "名", "a b", "a:b", "a\\b", "zookeeper", "x" * 65, "x" * 250, "x" * 100_000,
]  # fmt: skip


def payloads(seed: int, kinds: Sequence[str] = tuple(CASES)) -> Iterator[tuple[str, bytes]]:
    """Kind of znode and bytes, without end: valid ones with odd values, missing fields, cuts, flips, nesting and noise."""
    chance = random.Random(seed)
    written = {kind: CASES[kind].write(CASES[kind].value) for kind in kinds}
    while True:
        kind = chance.choice(kinds)
        raw = written[kind]
        match chance.randrange(8):
            case 0 | 1 | 2:
                body = json.loads(raw)
                _spoil(chance, body)
                yield kind, json.dumps(body).encode()
            case 3:
                yield kind, raw[: chance.randrange(len(raw))]
            case 4:
                spoiled = bytearray(raw)
                for _ in range(chance.randint(1, 4)):
                    spoiled[chance.randrange(len(raw))] = chance.randrange(256)
                yield kind, bytes(spoiled)
            case 5:
                yield kind, chance.randbytes(chance.randrange(60))
            case 6:
                yield kind, json.dumps(chance.choice(ODD_VALUES)).encode()
            case 7:
                yield kind, b"[" * chance.choice((10, 1_000, 100_000)) + raw


def _spoil(chance: random.Random, body: dict[str, object]) -> None:
    """Change or remove something, at any depth."""
    place: dict[str, object] = body
    while True:
        name = chance.choice(sorted(place))
        inner = place[name]
        if isinstance(inner, dict) and inner and chance.random() < 0.6:
            place = inner
            continue
        break
    if chance.random() < 0.15:
        del place[name]
    elif chance.random() < 0.15:
        place[chance.choice(ODD_TEXTS[:-1])] = chance.choice(ODD_VALUES)
    else:
        place[name] = chance.choice(ODD_VALUES)


def test_any_payload_is_read_or_is_one_error_that_names_its_path() -> None:
    seen: Counter[str] = Counter()
    for _, (kind, raw) in zip(range(PAYLOADS), payloads(SEED), strict=False):
        found = read_or_malformed(CASES[kind], raw)
        if found is not None:
            CASES[kind].write(found)
        seen["read" if found is not None else "malformed"] += 1
    print(f"\n{PAYLOADS} payloads: {dict(seen)}")
    assert seen["malformed"] > PAYLOADS / 3


MOVING = 3  # handed over by a join of c, so that its release is read
# The loop ------------------------------------------------------------------------------------------------------------

PLACES: dict[str, Callable[[Paths], str]] = {
    "topic node": lambda paths: paths.topic("orders"),
    "release": lambda paths: paths.partition("orders", MOVING),
    "state": lambda paths: paths.state("orders"),
    "config": lambda paths: paths.config("orders"),
    "member": lambda paths: paths.member("a"),
    "claim": lambda paths: paths.id("a"),
    "directive": lambda paths: paths.directive("a"),
}


def unreadable(seed: int) -> Iterator[tuple[str, bytes]]:
    """Payloads of these places that cannot be read. An empty one is a node that says nothing yet."""
    for kind, raw in payloads(seed):
        if kind in PLACES and raw and read_or_malformed(CASES[kind], raw) is None:
            yield kind, raw


def put(site: Site, path: str, raw: bytes) -> None:
    found = site.zk.find(path)
    site.zk.transact([Create(path, raw) if found is None else SetData(path, raw)])


def tree(site: Site) -> dict[str, bytes]:
    """Everything that is stored."""
    return {path: node.data for path, node in site.server._nodes.items()}


def everything(site: Site) -> list[TopicReport]:
    """Every step that runs by itself, and what a person looks at."""
    c = site.coordinator
    reports = transitions.step(c, transitions.topics(c), LOOP)
    for look in (transitions.due, transitions.await_closed, transitions.await_started):
        look(c, ["orders"])
    return reports


@pytest.mark.parametrize("kind", PLACES)
def test_a_node_that_cannot_be_read_is_named_and_nothing_is_done(kind: str) -> None:
    site = joined_and_handing_over()
    path = PLACES[kind](site.paths)
    good = site.zk.find(path)
    of_this_kind = (raw for found, raw in unreadable(SEED) if found == kind)
    for raw in islice(of_this_kind, IN_THE_LOOP // len(PLACES)):
        put(site, path, raw)
        before = tree(site)
        reports = everything(site)
        assert [(r.outcome, path in r.reason) for r in reports] == [(Outcome.HELD, True)], (raw[:200], reports)
        assert tree(site) == before, "nothing is written"
    the_loop_turns(site)
    assert tree(site) == before
    assert good is not None
    put(site, path, good.data)
    assert everything(site)[0].outcome is not Outcome.HELD, "readable again, it goes on"


def joined_and_handing_over() -> Site:
    """a and b share orders, c has joined and everything of it is on its way: something is always due."""
    site = stable_site("a", "b")
    directives.drain(site.coordinator, "a", "ann", "so that it has a directive")
    directives.undrain(site.coordinator, "a")
    site.starts("c")
    site.clock.advance(2)
    (report,) = transitions.plan(site.coordinator, ["orders"], LOOP)
    assert report.outcome is Outcome.WRITTEN
    assert MOVING in site.node().handoff
    site.clock.advance(2)
    return site


# Names ---------------------------------------------------------------------------------------------------------------


def odd_names(seed: int) -> Iterator[str]:
    """Without end: paths, escapes, templates, SQL, control characters, any plane of Unicode, very long ones."""
    chance = random.Random(seed)
    while True:
        parts = [chance.choice(ODD_TEXTS[:-1]) for _ in range(chance.randint(1, 3))]
        parts += ["".join(chr(chance.randrange(1, 0x3000)) for _ in range(chance.randrange(4)))]
        chance.shuffle(parts)
        yield "".join(parts)[: chance.choice((3, 20, 300, 70_000))]


def refusal(check: Callable[[object], str], name: str) -> str:
    """Why it is refused; empty = it is not."""
    try:
        check(name)
    except InvalidName as error:
        return str(error)
    return ""


def test_any_name_is_refused_in_one_line_or_stays_in_its_folder() -> None:
    paths = Paths("shop")
    places: dict[str, tuple[Callable[[object], str], Callable[[str], str]]] = {
        paths.assignments: (names.check_topic, paths.topic),
        paths.members: (names.check_consumer, paths.member),
        paths.ids: (names.check_consumer, paths.id),
        paths.directives: (names.check_consumer, paths.directive),
        paths.fleets: (names.check_app, paths.fleet),
    }
    refused = 0
    given = [*ODD_TEXTS, *(name for _, name in zip(range(NAMES), odd_names(SEED), strict=False))]
    for name in given:
        for folder, (check, path_of) in places.items():
            sentence = refusal(check, name)
            if sentence:
                refused += 1
                assert sentence.isprintable(), repr(sentence)
                assert len(sentence) < 500
                with pytest.raises(InvalidName):
                    path_of(name)
                continue
            path = path_of(name)
            assert path == f"{folder}/{name}"
            assert path.count("/") == folder.count("/") + 1
            assert name not in (".", "..")
    print(f"\n{len(given)} names in {len(places)} folders: {refused} refused")
    assert refused > len(given)


def possible_children() -> list[str]:
    """Odd names that a person can give a znode (ZooKeeper itself refuses some)."""
    chosen = [*ODD_TEXTS[:-1], *(name for _, name in zip(range(150), odd_names(SEED), strict=False))]
    usable = [n for n in chosen if n not in ("", ".", "..") and "/" not in n and n.isprintable() and len(n) < 300]
    return sorted(set(usable) - {"CON", "zookeeper"} - {n for n in usable if names.is_consumer(n)})


@pytest.mark.parametrize(
    "folder", ["assignments", "config", "state", "members", "ids", "directives", "fleet", "history"]
)
def test_a_child_with_a_strange_name_stops_neither_the_loop_nor_any_topic(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    site = joined_and_handing_over()
    for child in possible_children():
        for data in (b"", b"{}", b'{"version": 1}'):
            path = f"{site.paths.base}/{folder}/{child}"
            put(site, path, data)
            before = site.zk.get(path)
            reports = {report.topic: report for report in everything(site)}
            assert reports["orders"].outcome is not Outcome.HELD, (path, reports)
            strange = reports.get(child)
            assert strange is None or (
                strange.outcome is Outcome.HELD and ("topic name" in strange.reason or path in strange.reason)
            )
            look_around(site)
            assert site.zk.get(path) == before, "it is left as it is"
    the_loop_turns(site)
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    assert (folder == "members") == any("is no consumer's registration" in one.getMessage() for one in caplog.records)


def look_around(site: Site) -> None:
    """What runs by itself beside the transitions, and what people look at."""
    c = site.coordinator
    topics.refresh_partitions(c)
    directives.complete_readmissions(c, LOOP)
    overview.topics(c)
    overview.consumers(c)
    fleet.missing(c)


def the_loop_turns(site: Site) -> None:
    stop, turns = threading.Event(), 0
    sleep = site.coordinator.discovery.watch

    def watch(watcher: Callable[[], None]) -> None:
        nonlocal turns
        turns += 1
        if turns > 1:
            stop.set()
        sleep(watcher)

    site.coordinator.discovery.watch = watch  # type: ignore[method-assign]
    thread = threading.Thread(target=loop.run, args=(site.coordinator, stop, "test"), daemon=True)
    thread.start()
    thread.join(20)
    assert stop.is_set(), "the loop has died"
