"""Tokens from the settings and from a changing file."""

import logging
import os
import subprocess
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.settings import settings_of
from coordinator_tasks.status_tokens import StatusTokens

PAGE = Path(__file__).resolve().parents[3] / "docs" / "secrets.md"
SITE = {"cluster": "main", "zookeeper": "zk:2181", "kafka": {"bootstrap.servers": "broker:9092"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "tokens"
    made.touch(mode=0o600)
    made.write_text("one\n")
    return made


def replaced(file: Path, text: str) -> None:
    """By the documented commands."""
    following = file.with_suffix(".new")
    following.touch(mode=0o600)
    following.write_text(text)
    following.replace(file)


def test_without_a_file_there_is_one_token_or_none() -> None:
    assert StatusTokens().all() == ()
    assert StatusTokens("one").all() == ("one",)


def test_a_changed_file_is_read_again(file: Path) -> None:
    tokens = StatusTokens(file=str(file))
    assert tokens.all() == ("one",)
    replaced(file, "one\ntwo\n")
    assert tokens.all() == ("one", "two")
    replaced(file, "\ntwo")
    assert tokens.all() == ("two",)


@pytest.mark.parametrize("text", ["", "\n", "one two", "t\u00f6ken", "a\x7f", "one\n\tb"])
def test_what_holds_no_tokens_is_refused_without_showing_it(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(Refused, match="the file of status tokens") as refused:
        StatusTokens(file=str(file))
    assert not text.strip() or text not in str(refused.value)


def test_while_the_file_cannot_be_used_the_former_tokens_stay(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tokens = StatusTokens(file=str(file))
    replaced(file, "")
    assert tokens.all() == tokens.all() == ("one",)
    assert caplog.text.count("the former status tokens stay valid") == 1
    file.unlink()
    assert tokens.all() == ("one",)
    assert "No such file" in caplog.text
    replaced(file, "two\n")
    file.chmod(0o644)
    assert tokens.all() == ("one",), "others could have read it"
    assert "chmod 600" in caplog.text
    assert "two" not in caplog.text
    file.chmod(0o600)
    assert tokens.all() == ("two",), "what the log asked for was done"
    replaced(file, "three\n")
    assert tokens.all() == ("three",)


def test_a_file_that_is_open_to_others_or_missing_is_refused(file: Path) -> None:
    file.chmod(0o640)
    with pytest.raises(Refused, match="chmod 600"):
        StatusTokens(file=str(file))
    with pytest.raises(Refused, match="check status_token_file"):
        StatusTokens(file=str(file) + "-none")


def test_a_token_and_a_file_of_tokens_are_not_both_set() -> None:
    with pytest.raises(Refused, match="set one of them"):
        settings_of({**SITE, "status_token": "one", "status_token_file": "/run/tokens"})


def type_in(step: str, file: Path, **variables: str) -> int:
    environment = {**os.environ, "TOKENS": str(file), **variables}
    return subprocess.run(
        ["bash", "-ec", step], env=environment, check=False, timeout=30, capture_output=True
    ).returncode


def documented_steps() -> list[str]:
    """After the command that makes the token."""
    text = PAGE.read_text(encoding="utf-8").split("\n## Change the status token\n", 1)[1].split("\n##", 1)[0]
    return [block.strip() for block in text.split("```")[1::2]][1:]


@pytest.mark.parametrize("before", ["one", "one\n", "\none\n\n"])
def test_the_documented_steps_change_the_token_of_every_file_that_is_read(file: Path, before: str) -> None:
    file.write_text(before)
    tokens = StatusTokens(file=str(file))
    found = []
    for step in documented_steps():
        assert type_in(step, file, NEW="two") == 0
        found.append(tokens.all())
    assert found == [("one", "two"), ("two", "one"), ("two",)]


def test_a_host_where_the_new_token_was_not_typed_in_is_noticed_at_the_first_step(file: Path) -> None:
    assert type_in(documented_steps()[0], file) != 0
    assert file.read_text() == "one\n"
