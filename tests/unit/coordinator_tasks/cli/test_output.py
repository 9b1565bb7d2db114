"""How commands print: tables, JSON, CSV, a line of progress, questions at a terminal."""

import csv
import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import TextIO

import pytest

from coordinator_tasks.cli import main
from coordinator_tasks.cli.progress import ProgressLine
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.nodes.topics import configuration
from tests.unit.coordinator_tasks.cli.conftest import Run
from tests.world.shop import Shop

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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "add-topic orders --group g",
            "orders is managed already, with 3 partitions; group g, start earliest: nothing would change",
        ),
        ("set-strategy orders --strategy weighted", "orders has strategy 'balanced'"),
        ("remove-topic orders", "a would stop and commit 3 partitions of orders"),
        ("freeze orders", "orders would be frozen"),
        ("unfreeze orders", "orders is planned for all consumers"),
        ("isolate a --why x", "a would lose at once 3 partitions of orders"),
        ("readmit a", "a is not isolated: nothing would change"),
        ("drain a --why x", "a would keep 3 partitions of orders until another consumer is there that reads it"),
        ("undrain a", "a is not drained: nothing would change"),
        ("set-fleet f --application /opt/a.py --consumer b-1", "f is new"),
        ("pause orders", "partitions 0-2 of orders would be paused"),
        ("offsets reset --all-topics --to-earliest", "NEW-OFFSET"),
    ],
)
def test_a_dry_run_says_what_it_would_do_and_changes_nothing(run: Run, shop: Shop, words: str, says: str) -> None:
    before = shop.server.zxid
    execute = words.startswith("offsets")
    code, out, err = run(*words.split(), *([] if execute else ["--dry-run"]))
    assert (code, shop.server.zxid) == (0, before)
    assert says in out
    assert err == ("nothing was changed; add --execute to do it\n" if execute else "dry run: nothing was changed\n")


@pytest.mark.parametrize(
    ("words", "header", "row"),
    [
        ("freeze orders", "topic", "orders"),
        (
            "drain a --why x --dry-run",
            "result",
            "a would keep 3 partitions of orders until another consumer is there that reads it",
        ),
        ("preview --join 1", "partition", "2"),
        ("reset-offsets orders --to earliest --why x --partition 1 --execute", "target", "10"),
    ],
)
def test_an_action_prints_csv_with_a_row_for_each_result(run: Run, words: str, header: str, row: str) -> None:
    code, out, _ = run(*words.split(), "-o", "csv")
    assert code == 0
    (first, *_) = csv.DictReader(io.StringIO(out))
    assert first[header] == row


@pytest.fixture
def closed_pipe() -> Iterator[Callable[[int], TextIO]]:
    """Writers to a pipe without a reader, with this buffering."""
    made: list[TextIO] = []

    def writer(buffering: int) -> TextIO:
        reader, end = os.pipe()
        os.close(reader)
        made.append(os.fdopen(end, "w", buffering))
        return made[-1]

    yield writer
    for one in made:
        with suppress(BrokenPipeError):
            one.close()


def ended(*arguments: str) -> object:
    with pytest.raises(SystemExit) as found:
        main(arguments)
    return found.value.code


def test_a_closed_pipe_changes_no_code(monkeypatch: pytest.MonkeyPatch, closed_pipe: Callable[[int], TextIO]) -> None:
    monkeypatch.setattr(sys, "stdout", closed_pipe(8192))
    assert ended("version") == 0
    sys.stdout.flush()  # as at the interpreter's end


def test_with_a_closed_standard_error_a_command_does_and_prints_the_same(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit) as found:
        main(("remove-topic", "orders", "--dry-run", "--json"), lambda: nullcontext(shop.coordinator))
    sys.stderr.close()
    assert found.value.code == 0
    assert json.loads(capsys.readouterr().out), "and not what standard error is for"


def test_a_script_with_a_closed_standard_input_has_to_say_yes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run("isolate", "a", "--why", "x")
    sys.stdin.close()
    assert (code, "give --yes to do it in a script" in err) == (2, True)


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
    shown = ProgressLine(terminal)
    with shown.shown("plan"):
        assert terminal.written.wait(10)
        shown.stop()
        assert re.fullmatch(r"(\r\x1b\[Kplan: \d+ s)+\r\x1b\[K", terminal.getvalue())
        length = len(terminal.getvalue())
    assert len(terminal.getvalue()) == length, "nothing comes behind the result"


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
    assert "a would stop and commit 3 partitions of orders" in err
    assert "remove-topic: nobody reads the topic any more. Do it? [y/N]" in out + err
    assert err.endswith("nothing was changed\n")
    at_a_terminal("y\n")
    assert run("remove-topic", "orders")[0] == 0
    assert configuration(shop.coordinator, "orders").removed


@pytest.mark.parametrize(
    "words",
    [
        ("isolate", "a", "--why", "x", "--yes"),
        ("reset-offsets", "orders", "--to", "earliest", "--why", "x", "--execute"),
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


def test_a_script_is_not_asked_and_has_to_say_yes(run: Run, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    before = shop.server.zxid
    code, out, err = run("isolate", "a", "--why", "x")
    assert (code, out, shop.server.zxid) == (2, "", before)
    assert err.startswith("error: KPC-010: the consumer loses its partitions without its word")
    assert err.endswith("; give --yes to do it in a script, or --dry-run to see it first\n")
    assert "'zoe'" in run("isolate", "zoe", "--why", "x")[2], "what is wrong is said first"
    assert run("isolate", "a", "--why", "x", "--yes")[0] == 0
    assert directives.read_directive(shop.coordinator, "a").isolation is not None


def test_the_actions_of_the_history_fit_the_terminal_with_dates(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run(
        "drain", "a", "--why", "a long reason that says why this consumer has to leave its host before the night begins"
    )
    run("pin", "orders", "a", "--partition", "0")
    code, out, _ = run("history", "--actions")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r"[\[{\]}]|\d{7,}", out)
    assert re.search(r"draining: nothing -> by .*, why a long reason .*, at \d{4}-\d\d-\d\d", " ".join(out.split()))
