"""A shop, and commands for typing there. A file may have a `shop` of its own, with a coordinator."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Protocol

import pytest

from coordinator_tasks.cli import main
from coordinator_tasks.service.coordinator import Coordinator
from tests.world.shop import Shop, open_shop

Run = Callable[..., tuple[int, str, str]]
"""Runs a command; returns exit code, output and errors."""


class HasCoordinator(Protocol):
    @property
    def coordinator(self) -> Coordinator: ...


@pytest.fixture
def shop() -> Shop:
    return open_shop()


@pytest.fixture
def run(shop: HasCoordinator, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_of(shop, capsys)


def command_of(site: HasCoordinator, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments, lambda: nullcontext(site.coordinator))
        captured = capsys.readouterr()
        return int(str(ended.value.code)), captured.out, captured.err

    return command
