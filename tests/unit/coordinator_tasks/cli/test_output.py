"""How commands print: tables, JSON, CSV, a line of progress, questions at a terminal, completion."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from coordinator_tasks.cli.progress import Waiting
from coordinator_tasks.service import directives
from coordinator_tasks.service.topics import configuration
from coordinator_tasks.tables import Table
from tests.world.shop import Shop

Run = Callable[..., tuple[int, str, str]]
LISTS = {
    "topics": (),
    "status": (),
    "fleet": (),
    "history": (),
    "plan": ("--dry-run",),
    "step": (),
    "explain": ("orders",),
    "offsets describe": (),
    "offsets reset": ("--all-topics", "--to-latest"),
    "audit": (),
    "version": (),
}


@pytest.mark.parametrize("command", LISTS)
def test_every_list_is_a_table_json_and_csv(run: Run, command: str) -> None:
    words = (*command.split(), *LISTS[command])
    table, as_json = run(*words)[1], run(*words, "--output", "json")[1]
    assert run(*words, "--output", "table")[1] == table
    assert run(*words, "--json")[1] == as_json
    json.loads(as_json)
    header, *rows = csv.reader(io.StringIO(run(*words, "-o", "csv")[1]))
    assert len(header) > 1
    assert all(re.fullmatch(r"[a-z_ -]+", name) for name in header)
    assert all(len(row) == len(header) for row in rows)


def test_csv_repeats_what_a_table_shows_once_and_has_empty_cells_for_nothing() -> None:
    found = Table(("who", "topic", "lag"), [("a", "x, y", "-"), ("a", "z", "3"), ("b", "z", "4")], "none", merged=1)
    assert str(found).splitlines() == ["WHO  TOPIC  LAG", "a    x, y   -", "     z      3", "b    z      4"]
    assert found.csv == 'who,topic,lag\na,"x, y",\na,z,3\nb,z,4'
    assert str(Table(("who",), [], "nobody")) == "nobody"
    assert Table(("who", "x"), [], "nobody").csv == "who,x"


def test_an_unknown_format_is_refused(run: Run) -> None:
    code, out, err = run("topics", "--output", "xml")
    assert (code, out) == (2, "")
    assert err.startswith("error: KPC-002: Invalid value for '--output'")


# Progress ------------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        done = super().write(text)
        self.written.set()
        return done


def test_a_long_command_says_so_and_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator_tasks.cli.progress.AFTER_S", 0.01)
    monkeypatch.setattr("coordinator_tasks.cli.progress.EACH_S", 0.01)
    terminal = Terminal()
    shown = Waiting(terminal)
    with shown.shown("plan"):
        assert terminal.written.wait(10)
        shown.stop()
        assert re.fullmatch(r"(\r\x1b\[Kplan: \d+ s)+\r\x1b\[K", terminal.getvalue())
        length = len(terminal.getvalue())
    assert len(terminal.getvalue()) == length, "nothing comes behind the result"


def test_a_short_command_and_one_without_a_terminal_say_nothing() -> None:
    terminal, file = Terminal(), io.StringIO()
    with Waiting(terminal).shown("plan"):
        pass
    with Waiting(file).shown("plan"):
        pass
    assert terminal.getvalue() == file.getvalue() == ""


# Questions -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def answer(text: str) -> None:
        stdin = Terminal()
        stdin.write(text)
        stdin.seek(0)
        monkeypatch.setattr(sys, "stdin", stdin)

    return answer


def test_a_destructive_command_asks_at_a_terminal(run: Run, shop: Shop, at_a_terminal: Callable[[str], None]) -> None:
    at_a_terminal("n\n")
    before = shop.server.zxid
    code, out, err = run("remove-topic", "orders")
    assert (code, shop.server.zxid) == (130, before)
    assert "a stops and commits 3 partitions of orders" in err
    assert "remove-topic: nobody reads the topic any more. Do it? [y/N]" in out + err
    assert err.endswith("nothing was changed\n")
    at_a_terminal("y\n")
    assert run("remove-topic", "orders")[0] == 0
    assert configuration(shop.coordinator, "orders").removed


@pytest.mark.parametrize(
    "words",
    [
        ("isolate", "a", "--why", "x", "--yes"),
        ("reset-offsets", "orders", "--to", "earliest", "--why", "x", "--yes"),
        ("remove-topic", "orders", "--yes"),
        ("reset-offsets", "orders", "--to", "earliest", "--why", "x", "--dry-run"),
        ("drain", "a", "--why", "x"),
        ("offsets", "reset", "--all-topics", "--to-earliest", "--execute"),
    ],
    ids=" ".join,
)
def test_these_do_not_ask(run: Run, at_a_terminal: Callable[[str], None], words: tuple[str, ...]) -> None:
    at_a_terminal("")
    code, _, err = run(*words)
    assert (code, "Do it?" in err) == (0, False)


def test_a_script_is_not_asked(run: Run, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert run("isolate", "a", "--why", "x")[0] == 0
    assert directives.read_directive(shop.coordinator, "a").isolation is not None


# Completion ----------------------------------------------------------------------------------------------------------

PROGRAM = "import sys; sys.argv[0] = 'coordinator'; from coordinator_tasks.cli import main; main()"


def completed(words: str) -> list[str]:
    """What bash would offer behind these words."""
    asked = {
        "_COORDINATOR_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(
        command, env={**os.environ, **asked}, capture_output=True, text=True, timeout=60, check=False
    )
    return ended.stdout.split()


def test_commands_options_and_their_values_are_completed() -> None:
    assert completed("coordinator off") == ["offsets"]
    assert completed("coordinator offsets reset --to-") == [
        "--to-earliest",
        "--to-latest",
        "--to-current",
        "--to-datetime",
        "--to-offset",
    ]
    assert completed("coordinator topics --output ") == ["table", "json", "csv"]


def test_the_script_for_a_shell_is_shown() -> None:
    command = [sys.executable, "-c", PROGRAM, "--show-completion", "bash"]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "complete -o default -F _coordinator_completion coordinator" in shown
