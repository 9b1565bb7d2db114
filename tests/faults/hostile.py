"""What outsiders say, generated from a seed: consumers' answers, committed metadata, forms and command lines.

Each is taken or refused with one of our errors in one line. Nothing happens to whoever is not concerned: the topic `other`, and the
partitions of the consumers that behave, stay as they are.
"""

import contextlib
import copy
import io
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache
from itertools import islice
from typing import Any
from unittest.mock import patch

import typer
from airflow.sdk import Param
from airflow.sdk.exceptions import ParamValidationError
from coordinator_plugin.forms import FORMS

from coordinator_tasks.cli import main
from coordinator_tasks.core.codecs.status_codec import decode_metadata, decode_status, encode_metadata, encode_status
from coordinator_tasks.core.errors import CoordinatorError, Malformed
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, ConsumerStatus, Member, Silence, Unreachable
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import overview
from dags.actions import fields
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
LIAR = "liar"
GOOD = ("a", "b")
FORM = Actor("airflow", "mallory", "dag", "run", "task", 1)
FIELDS: Mapping[str, Mapping[str, Param]] = {name: fields(action) for name, action in FORMS.items()}
GOOD_FIELDS: Mapping[str, Any] = {
    "topic": "orders",
    "group_id": "g",
    "consumer": "a",
    "why": "test",
    "partitions": [0],
    "to": "earliest",
    "offsets": "orders,0,0",
    "rebalance": "1-0",
    "app": "billing",
    "application": "main.py",
    "consumers": ["billing-1"],
    "count": 1,
    "version": "v2",
    "most": 3,
    "database": "rows",
    "number": 1,
}
"""A value of each field that has no default of its own, and of some that have one."""
COMMANDS_ONCE = patch.object(typer.main, "get_command", cache(typer.main.get_command))
"""A process reads one command line, and building all commands for it takes five times as long as the rest."""
MOST_EPOCHS = 40
"""What a liar may make the coordinator write in one chunk: each lie of a new kind may have one answer of ours."""
EXITS = frozenset({0, 1, 2, 3, 4, 5})


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


def tree(site: Site) -> dict[str, bytes]:
    """Everything that is stored but how far everything was behind, which the loop keeps by itself, a moment a minute."""
    lags = site.coordinator.paths.lags
    return {path: node.data for path, node in site.server._nodes.items() if not path.startswith(lags)}


def site() -> Site:
    """Two topics and three consumers; one of these is about to lie."""
    return stable_site(*GOOD, LIAR, names=("orders", "other"))


# Each edge: an endless stream of problems, empty = none -----------------------------------------------------------------


def answers(seed: int) -> Iterator[str]:
    """A live consumer answers anything; the coordinator does what is due after each answer."""
    chance, here = random.Random(seed), site()
    honest, first = here.statuses.answers[LIAR], here.node().epoch
    assert callable(honest)
    good = encode_status(_status(honest, here))
    raw = b""

    def lie(_: Member) -> ConsumerStatus | Unreachable:
        try:
            return decode_status("http://127.0.0.1:1", raw)
        except Malformed as error:
            return Unreachable(Silence.BROKEN, str(error))

    here.statuses.answers[LIAR] = lie
    kept = _of_the_good(here)
    while True:
        raw = spoiled(chance, good)
        here.clock.advance(2)
        reports = transitions.step(here.coordinator, ["orders", "other"], LOOP)
        if any(report.outcome is TopicOutcome.WRITTEN for report in reports):
            here.everybody_acts()
        problem = ""
        if any(not kept[topic].items() <= owners.items() for topic, owners in _of_the_good(here).items()):
            problem = f"who behaves has lost something: {kept} is now {_of_the_good(here)}"
        if here.node().epoch > first + MOST_EPOCHS:
            problem = f"epoch {here.node().epoch} after {first}"
        yield f"{raw[:300]!r}: {problem}" if problem else ""


def _status(honest: Callable[[Member], Any], here: Site) -> ConsumerStatus:
    found = honest(here.coordinator.discovery.members()[LIAR])
    assert isinstance(found, ConsumerStatus)
    return found


def _of_the_good(here: Site) -> dict[str, dict[int, str]]:
    topics = ("orders", "other")
    return {topic: {p: who for p, who in here.node(topic).assignments.items() if who in GOOD} for topic in topics}


def metadata(seed: int) -> Iterator[str]:
    """Anything stands in the metadata of a committed offset: it is ours, or nobody's."""
    chance, here = random.Random(seed), site()
    (entry, *_) = here.kafka.offsets("g").committed("orders", range(4)).values()
    good = encode_metadata(entry).encode()
    while True:
        raw = spoiled(chance, good)
        found = decode_metadata(7, raw.decode("utf-8", "replace"))
        again = decode_metadata(7, encode_metadata(found)) if found.token is not None else found
        yield "" if found.offset == 7 and again == found else f"{raw[:300]!r} is read as {found}, then as {again}"


def forms(seed: int) -> Iterator[str]:
    """A form of Airflow is filled in with anything that the form's own rules let pass."""
    chance, here = random.Random(seed), site()
    while True:
        name, dry = chance.choice(sorted(FORMS)), chance.random() < 0.7
        given = {field: GOOD_FIELDS.get(field, param.value) for field, param in FIELDS[name].items()}
        for field in chance.sample(sorted(given), min(len(given), chance.randint(1, 3))):
            given[field] = chance.choice([*ODD_VALUES, *ODD_TEXTS[:-1], *ODD_NUMBERS, [2**40], {"x": "{{ ds }}"}])
        before = _aside(here)
        try:
            given = {field: FIELDS[name][field].resolve(value) for field, value in given.items()}
        except ParamValidationError:
            yield ""
            continue
        problem = _asked(lambda c, g, d, n=name: FORMS[n].lines(c, g, FORM, dry_run=d), here, given, dry)
        if not problem and _aside(here) != before and given.get("topic") != "other":
            problem = "it has changed a topic that it does not name"
        yield f"{name} {given}: {problem}" if problem else ""


def _asked(act: Callable[..., object], here: Site, given: Mapping[str, Any], dry: bool) -> str:
    before = tree(here)
    try:
        act(here.coordinator, given, dry)
    except CoordinatorError as error:
        return "" if str(error) else "the error says nothing"
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    if tree(here) == before:
        return ""
    return "a dry run has written" if dry else _unreadable(here)


def _unreadable(here: Site) -> str:
    """What nobody can read any more."""
    c = here.coordinator
    try:
        found = [one.problem for one in overview.topics(c)]
        overview.consumers(c)
        fleet.fleets(c)
    except Malformed as error:
        found = [str(error)]
    return "; ".join(filter(None, found))


def _aside(here: Site) -> dict[str, bytes]:
    """Everything of the topic that nobody asks about."""
    return {path: data for path, data in tree(here).items() if f"{path}/".find("/other/") >= 0}


COMMANDS: Mapping[str, str] = {
    "topics": "",
    "status": "",
    "fleet": "",
    "plan": "{topic} --dry-run",
    "explain": "{topic}",
    "add-topic": "{topic} --group {text} --property {text}={text} --parameter {text}={text}",
    "set-strategy": "{topic} --strategy {text} --parameter {text}={text}",
    "pause": "{topic} --partition {number}",
    "resume": "{topic} --partition {number}",
    "pin": "{topic} {consumer} --partition {number}",
    "unpin": "{topic} --partition {number}",
    "reset-offsets": "{topic} --to {text} --why {text} --dry-run",
    "offsets describe": "--topic {topic}:{number} --group {text}",
    "offsets reset": "--topic {topic}:{number} --to-offset {number} --execute",
    "offsets undo": "{topic} --rebalance {text} --why {text} --execute",
    "drain": "{consumer} --why {text} --by {text}",
    "undrain": "{consumer}",
    "isolate": "{consumer} --why {text} --for-s {number}",
    "readmit": "{consumer} --by {text}",
    "scale": "{text} {number} --pattern {text}",
    "redeploy": "{text} --why {text}",
    "upgrade": (
        "{text} {text} --code {text} --step {number} --hold-minutes {number} --max-lag-s {number} "
        "--max-errors {number} --min-rate {number} --rule {text}"
    ),
    "upgrade-report": "{text}",
    "roll-back-upgrade": "{text} --why {text}",
    "expect-restart": "{consumer} --within {number} --why {text}",
    "approve": "{topic} {text} --why {text}",
    "set-growth": "{text} --min {number} --max {number} --catch-up {number}",
    "autoscale": "{text}",
    "history": "{topic} --actions",
    "roll-back": "{topic} {text} --why {text} --minutes {number}",
    "preview": "{topic} --join {number} --leave {consumer} --strategy {text} --partitions {number}",
    "simulate": "--from {text} join={number}",
    "set-fleet": "{text} --application {text} --consumer {text} --argument={text} --conf {text}={text}",
}


def commands(seed: int) -> Iterator[str]:
    """A command line is typed with anything."""
    chance, here = random.Random(seed), site()
    while True:
        name = chance.choice(sorted(COMMANDS))
        words = [*name.split(), *(_typed(chance, one) for one in COMMANDS[name].split())]
        if chance.random() < 0.1:
            words.insert(chance.randrange(len(words) + 1), chance.choice(ODD_TEXTS[:-1]))
        before = _aside(here)
        stored = tree(here)
        problem = _called(words, here)
        if not problem and tree(here) != stored:
            problem = _unreadable(here)
        if not problem and _aside(here) != before and "other" not in words:
            problem = "it has changed a topic that it does not name"
        yield f"{words}: {problem}" if problem else ""


def _typed(chance: random.Random, form: str) -> str:
    def one(kind: str) -> str:
        likely = {"{topic}": "orders", "{consumer}": "a", "{number}": "1"}.get(kind)
        if likely is not None and chance.random() < 0.5:
            return likely
        return chance.choice(
            [*ODD_TEXTS[:-1], *map(str, ODD_NUMBERS), "9" * 5_000, "inf", "nan", "0001-01-01T00:00:00Z"]
        )

    for kind in ("{topic}", "{consumer}", "{number}", "{text}"):
        while kind in form:
            form = form.replace(kind, one(kind).replace("{text}", ""), 1)
    return form


def _called(words: list[str], here: Site) -> str:
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with COMMANDS_ONCE, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words, lambda: nullcontext(here.coordinator))
        except SystemExit as ended:
            code = ended.code
        except (ValueError, TypeError, OverflowError, UnicodeError, KeyError, OSError) as error:
            return f"{type(error).__name__}: {error}"
    said = err.getvalue()
    if code not in EXITS or "Traceback" in said:
        return f"exit code {code}: {said[-500:]}"
    if code and code != 1 and (not said.startswith("error: ") or said.count("\n") > 1):
        return f"the error is not one line: {said[-500:]!r}"
    return ""


EDGES: Mapping[str, Callable[[int], Iterator[str]]] = {
    "answers": answers,
    "metadata": metadata,
    "forms": forms,
    "commands": commands,
}


def problems_of(edge: str, seed: int, inputs: int) -> list[str]:
    """The first problem of so many inputs, if there is one."""
    return list(islice(filter(None, islice(EDGES[edge](seed), inputs)), 1))
