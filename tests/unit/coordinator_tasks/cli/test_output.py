"""How commands print: tables, JSON, CSV, a line of progress, questions at a terminal, completion."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest
from typer.main import get_command

from coordinator_tasks.cli import app, main
from coordinator_tasks.cli.progress import ProgressLine
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.nodes.topics import configuration
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


SERVICES = {"run", "metrics", "dead-letters replay"}
"""Commands that print steps, or serve, until the end of the process."""
LOOKS = {*LISTS, "doctor", "rebalance", "preview", "simulate", "upgrade-report"} - {"step"}
LOOKS |= {"dead-letters list", "dead-letters show"}
WITHOUT_HISTORY = {"dead-letters drop"}
"""Commands that change nothing of the coordinator."""
OTHERWISE = {
    "approve": "plan --dry-run",
    "step": "plan --dry-run",
    **dict.fromkeys(("export", "snapshot"), "it never replaces a file"),
    "export-history": "it only appends",
    "zookeeper-rights": "doctor",
}
"""The substitute for `--dry-run` or `--execute`, by command."""


def commands(group: Any = None, before: str = "") -> Iterator[tuple[str, set[str]]]:
    """Each command by its words, with its options."""
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{before}{name}", {flag for one in command.params for flag in one.opts}


def test_every_command_prints_in_each_format() -> None:
    assert {words for words, options in commands() if not {"--output", "-o", "--json"} <= options} == SERVICES


def test_every_changing_command_has_a_preview() -> None:
    missing = {words for words, options in commands() if not {"--dry-run", "--execute"} & options}
    assert missing - SERVICES - LOOKS == OTHERWISE.keys()


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
    ("words", "says"),
    [
        ("add-topic clicks --group g", "there is no topic 'clicks' in Kafka"),
        ("add-topic orders --group other", "is managed by cluster 'shop' already"),
        ("set-strategy orders --strategy best", "there is no strategy 'best'"),
        ("isolate a --why x --for-s 1e9", "an isolation lasts 366 days at most"),
        ("drain zoe --why x", "has never seen a consumer 'zoe'"),
        ("undrain a --fleet nobody", "has no fleet 'nobody'"),
        ("set-fleet f --application /opt/a.py --consumer b --consumer b", "names a consumer twice"),
        ("freeze orders --why a\x1bb", "has characters that cannot be shown"),
    ],
)
def test_a_dry_run_is_refused_where_the_command_is(run: Run, words: str, says: str) -> None:
    code, out, err = run(*words.split(" "), "--dry-run")
    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize(
    ("words", "header", "row"),
    [
        ("freeze orders", "topic", "orders"),
        ("drain a --why x", "consumer", "a"),
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


# Completion ----------------------------------------------------------------------------------------------------------


def test_bash_itself_completes(tmp_path: Path) -> None:
    program = tmp_path / "coordinator"
    program.write_text(f"#!{sys.executable}\nfrom coordinator_tasks.cli import main\nmain()\n")
    program.chmod(0o755)
    typed = """
        source <(coordinator --show-completion bash)
        COMP_WORDS=(coordinator drain --d); COMP_CWORD=2
        _coordinator_completion coordinator
        echo "${COMPREPLY[@]}"
        complete -p coordinator
    """
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"] = "1"
    done = subprocess.run(
        ["/bin/bash", "-c", typed], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == ["--dry-run", "complete -o default -F _coordinator_completion coordinator"]


def test_every_command_with_a_recorded_actor_takes_by() -> None:
    taken = {words for words, options in commands() if "--by" in options}
    assert {words for words, options in commands() if {"--why", "--execute"} & options} - WITHOUT_HISTORY <= taken


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
