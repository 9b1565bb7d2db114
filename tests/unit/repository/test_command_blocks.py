"""Our own commands in the command blocks of the pages run.

Each block is typed on a fresh shop in memory: each command must have exit code 0. Bash runs blocks of variables alone, and the
settings are read from the resulting environment.
"""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator_tasks.cli import main
from coordinator_tasks.core.model import Committed, Fleet, Token
from coordinator_tasks.service.nodes import fleet, topics
from coordinator_tasks.service.nodes.history import rebalances
from coordinator_tasks.settings import settings_from_environment
from spark_apps.dead_letters import table
from spark_apps.delivery.database import Database
from tests.fakes.cluster import PERSON
from tests.letters_bench import letter
from tests.world.site import Site

ROOT = Path(__file__).parents[3]
SHELLS = ("", "sh", "bash", "console")
"""Marks of a command block. Output is marked `text`, and code by its language."""
OURS = re.compile(r"(?:\.venv/bin/python -m coordinator_tasks|coordinator) (.*)")
SETTINGS = re.compile(r"export COORDINATOR_(?!ALLOWED)")
HELD_BACK = ("run", "metrics", "doctor", "approve")
"""Commands without an answer in memory: two never end, `doctor` asks real servers, `approve` needs a waiting plan."""
UPGRADE = "upgrade billing 1.5.0 --code 1.5.0 --why tried"
BEFORE = {
    "import main.state": "export main.state",
    **dict.fromkeys(("pause-upgrade", "roll-back-upgrade", "upgrade-report"), UPGRADE),
    "unpin orders --partition": "pin orders billing-2 --partition 3",
    "offsets undo": "offsets reset --topic orders:3 --to-earliest --why tried --execute",
}
"""Precondition of a block, by a command of the block: a command typed before the block."""
LEAST = {
    "COORDINATOR_CLUSTER": "main",
    "COORDINATOR_ZOOKEEPER": "zk:2181",
    "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
}
REBALANCE = re.compile(r"\b\d+-[0-9a-f]{8}\b")
"""The name of a rebalance in an example, replaced by a real rebalance."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `number` counts the lines of its page from 1; `lines` are its commands, continued ones joined."""

    page: str
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.number}"

    @property
    def lines(self) -> list[str]:
        joined = re.sub(r"\\\n\s*", "", self.text)
        return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def pages() -> list[Path]:
    """Every page for a person."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[Block]:
    """The command blocks of all pages: blocks with a shell's mark or no mark."""
    found = []
    for page in pages():
        text = page.read_text()
        for one in re.finditer(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            if one[1] in SHELLS:
                number = text[: one.start()].count("\n") + 1
                found.append(Block(str(page.relative_to(ROOT)), number, one[2]))
    return found


class Yes(io.StringIO):
    """A terminal with the answer yes to every question."""

    def __init__(self) -> None:
        super().__init__("y\n" * 10)

    def isatty(self) -> bool:
        return True


def ours(line: str) -> str:
    """The arguments of a command of ours; empty = another program, or held back."""
    found = OURS.fullmatch(line.strip())
    return "" if found is None or found[1].split()[0] in HELD_BACK else found[1]


def typed_here(line: str) -> bool:
    return bool(ours(line)) or SETTINGS.match(line) is not None


def open_site() -> Site:
    """The world of the pages' examples: topic `orders` of the group `orders-billing`, the fleet `billing`, and a spare consumer."""
    site = Site()
    site.kafka.create_topic("orders", 12)
    for partition in range(12):
        site.kafka.append("orders", partition, 100, at_ms=1_000)
    topics.add_topic(site.coordinator, "orders", "orders-billing", actor=PERSON)
    fleet.set_fleet(site.coordinator, Fleet("billing", "/opt/shop/main.py", ("billing-1", "billing-2")))
    site.starts("billing-1", "billing-2")
    site.settles()
    site.starts("spare")
    site.settles()
    for process in site.processes.values():
        process.rate = 50.0
    node = site.node()
    site.kafka.offsets("orders-billing").commit(
        "orders",
        {
            partition: Committed(40, Token(node.since[partition], 1, node.generation), owner, site.name, node.topic_id)
            for partition, owner in node.assignments.items()
        },
    )
    return site


def shop_with_a_dead_letter(folder: Path) -> str:
    """Return the address of a database with the dead letter of the pages."""
    url = f"sqlite:///{folder}/shop.sqlite"
    with Database(url).transaction() as cursor:
        table.prepare(cursor)
        table.put_letters(cursor, [letter("orders", 3, 1207)])
    return url


BLOCKS = [one for one in blocks() if any(map(typed_here, one.lines))]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda one: one.name)
def test_the_block_is_typed_on_a_shop_in_memory(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", Yes())
    if "dead-letters" in block.text:
        for name, value in {**LEAST, "COORDINATOR_DATABASES_SHOP": shop_with_a_dead_letter(tmp_path)}.items():
            monkeypatch.setenv(name, value)
    site = open_site()
    rebalance = rebalances(site.coordinator, ["orders"], 1)[0].rebalance
    before = dict.fromkeys(one for name, one in BEFORE.items() if name in block.text)
    for line in [*before, *filter(None, map(ours, block.lines))]:
        arguments = shlex.split(REBALANCE.sub(rebalance, line).replace("$PWD", str(ROOT)), comments=True)
        site.clock.advance(1)
        with pytest.raises(SystemExit) as ended:
            main(arguments, lambda: nullcontext(site.coordinator))
        said = capsys.readouterr()
        assert ended.value.code == 0, f"{line}\n{said.out}{said.err}"
        assert said.out.strip(), f"{line}: it says nothing"


@pytest.mark.parametrize("block", [one for one in BLOCKS if SETTINGS.match(one.text)], ids=lambda one: one.name)
def test_the_exported_settings_of_a_block_are_valid(block: Block) -> None:
    lines = [line for line in block.lines if line.startswith("export ")]
    done = subprocess.run(
        ["/bin/bash", "-euc", "\n".join([*lines, "env -0"])],
        env={"PATH": os.environ["PATH"], **LEAST},
        capture_output=True,
        text=True,
        check=True,
    )
    settings = settings_from_environment(dict(one.split("=", 1) for one in done.stdout.split("\0") if "=" in one))
    assert settings.kafka["bootstrap.servers"]
