"""The command that replays dead letters by the program of a consumer without Spark."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps import replay
from spark_apps.agent.process import consumer_process
from spark_apps.dead_letters import table
from spark_apps.delivery.database import Database
from tests import letters_program
from tests.letters_bench import letter

ROOT = Path(__file__).parents[3]
HEAD = """
import sys
from coordinator_tasks.settings import Settings
from spark_apps import ConsumerSettings, OnError
from spark_apps.agent.process.consumer_process import open_process
from spark_apps.plain import Output, PlainConsumer

def taken(topic, records):
    open(sys.argv[1], "a").write("".join(f"{topic} {message.offset()} {sys.argv[2:]}\\n" for _, message in records))

def consumer(*topics, cluster="main", on_error=OnError("dead-letter", database="sqlite:///" + sys.argv[1] + ".sqlite")):
    site = Settings(cluster, "nowhere:1", {"bootstrap.servers": "nowhere:1"})
    return PlainConsumer(ConsumerSettings(site, "a", topics), Output(taken, on_error=on_error))
"""


class Program:
    """A program in a folder, which notes the records that it takes, and three dead letters."""

    def __init__(self, folder: Path) -> None:
        self.path, self.taken = folder / "shop_consumer.py", folder / "taken"
        self.url = f"sqlite:///{self.taken}.sqlite"
        with Database(self.url).transaction() as cursor:
            table.prepare(cursor)
            table.put_letters(cursor, [letter("orders", 0, at) for at in range(3)])

    def run(self, text: str, *more: str, topic: str = "orders", start: tuple[str, ...] = ()) -> int:
        self.path.write_text(HEAD + text)
        chosen = ["--cluster", "main", "--topic", topic, *more, "--program"]
        return replay.main([*chosen, *(start or (str(self.path),)), str(self.taken), "--consumer", "a"])

    def offsets(self) -> list[int]:
        return [int(line.split()[1]) for line in self.taken.read_text().splitlines()] if self.taken.exists() else []

    def left(self) -> int:
        with Database(self.url).transaction() as cursor:
            return table.count(cursor)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_the_program_replays_in_place_of_consuming_with_its_own_arguments(
    program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.argv, [*sys.path]
    assert program.run("raise SystemExit(consumer().run())", "--partition", "0", "--offset", "1") == 0
    assert capsys.readouterr().out == "1 dead letter replayed, 0 failed again\n"
    assert program.taken.read_text() == "orders 1 ['--consumer', 'a']\n"
    assert program.run("consumer('clicks').run(), consumer('ord.*').run(), consumer().run()") == 0
    assert (program.offsets(), program.left()) == ([1, 0, 2], 0), "by the first consumer of the topic alone"
    assert (before, consumer_process.stand_in) == ((sys.argv, sys.path), None)


def test_a_module_is_a_program_too(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(program.path.parent)
    assert program.run("consumer().run()", start=("-m", "shop_consumer")) == 0
    assert program.offsets() == [0, 1, 2]


def test_the_program_on_the_page_replays(
    program: Program, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"CLUSTER": "main", "ZOOKEEPER": "z:1", "KAFKA_BOOTSTRAP_SERVERS": "k:1"}.items():
        monkeypatch.setenv(f"COORDINATOR_{name}", value)
    (text,) = re.findall(r"```python\n(import json\n.*?)```", (ROOT / "docs/dead-letters.md").read_text(), re.DOTALL)
    program.path.write_text(text.replace("sqlite:////data/shop.sqlite", program.url))
    with Database(program.url).transaction() as cursor:
        table.put_letters(cursor, [replace(letter("orders", 0, 1), value=b'{"id": 7}')])
    assert replay.main(["--cluster", "main", "--topic", "orders", "--program", str(program.path), "orders-1"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "1 {'id': 7}" in said
    assert (said[-1], program.left()) == ("1 dead letter replayed, 2 failed again", 2)


def test_a_record_that_fails_again_is_exit_code_1(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.run("def taken(topic, records): raise ValueError('still bad')\nconsumer().run()") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "partition 0, offset 0 failed again: ValueError: still bad"
    assert (said[-1], program.left()) == ("0 dead letters replayed, 3 failed again", 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has ended without a PlainConsumer of topic orders"),
        ("consumer('clicks').run()", "has ended without a PlainConsumer of topic orders"),
        ("sys.exit(7)", "has ended without a PlainConsumer of topic orders"),
        ("consumer(cluster='test').run()", "consumer is of cluster 'test', and the dead letters of cluster 'main'"),
        ("consumer(on_error=OnError()).run()", "has no database of dead letters"),
        ("open_process(consumer()._settings).__enter__()", "only a PlainConsumer can replay"),
        ("raise KeyError('shop')", "has failed: KeyError: 'shop'; correct it"),
        ("OnError('never')\n", "KPC-090"),
        ("def taken(*_): raise OSError(28, 'No space left')\nconsumer().run()", "No space left"),
    ],
)
def test_a_program_that_cannot_replay_is_refused_and_leaves_the_letters(
    program: Program, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    assert program.run(text) == 2
    assert says in capsys.readouterr().err
    assert (program.left(), program.offsets(), consumer_process.stand_in) == (3, [], None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--program", "none.py"], "there is no program 'none.py'; write what follows `python`"),
        (["--program", "-m"], "there is no program ''"),
        (["--program"], "give --pipeline topic=module:function for Spark, or --topic and --program"),
        (["--pipeline", "orders=a:b", "--program", "none.py"], "give --pipeline topic=module:function for Spark"),
        ([], "give --pipeline topic=module:function for Spark"),
    ],
)
def test_what_is_given_wrongly_is_refused(capsys: pytest.CaptureFixture[str], given: list[str], says: str) -> None:
    assert replay.main(["--cluster", "main", "--topic", "orders", *given]) == 2
    assert says in capsys.readouterr().err


def test_a_program_needs_the_topic(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay.main(["--cluster", "main", "--program", letters_program.__file__]) == 2
    assert "no topic is given" in capsys.readouterr().err
