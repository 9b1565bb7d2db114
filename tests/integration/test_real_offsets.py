"""The commands for offsets as processes of their own, on real servers, beside Kafka's own tool."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.agent_site import wait_for
from tests.integration.real_site import LIMIT_S, Managed, ran
from tests.kafka_tools import consumer_groups

pytestmark = pytest.mark.integration


@pytest.fixture
def managed(managed: Managed) -> Iterator[Managed]:
    """Four partitions with 60 records each; two consumers have processed and committed all of them."""
    managed.join("a")
    managed.join("b")
    with managed.looping():
        managed.stable("ab")
        managed.site.produce(60)
        managed.consumed(60)
        committed(managed, [60, 60, 60, 60])
        yield managed


def committed(managed: Managed, offsets: list[int]) -> None:
    """Wait until this is committed."""
    found = lambda: [*managed.site.positions().values()]  # noqa: E731
    wait_for(lambda: found() == offsets and managed.state().value == "Stable", f"{offsets} is committed", LIMIT_S)


def cells(text: str) -> list[list[str]]:
    """The table in what a command prints."""
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("Consumer group")]


def test_tables_and_exported_offsets_are_those_of_kafkas_tool(managed: Managed, tmp_path: Path) -> None:
    site, file = managed.site, tmp_path / "offsets.csv"
    ours = cells(ran(managed, "offsets", "describe"))
    theirs = cells(consumer_groups(site.kafka, "--describe", "--group", site.group))
    assert ours[0] == theirs[0]
    assert [row[:6] for row in ours[1:]] == sorted((row[:6] for row in theirs[1:]), key=lambda row: int(row[2]))
    owners = managed.node().assignments
    assert [row[8] for row in ours[1:]] == [owners[p] for p in range(4)]
    scope = ("--reset-offsets", "--dry-run", "--group", site.group)
    written = consumer_groups(site.kafka, *scope, "--topic", f"{site.topic}:0,2", "--shift-by", "-20", "--export")
    file.write_text("".join(f"{line}\n" for line in written.splitlines() if line.count(",") == 2))
    ran(managed, "offsets", "reset", "--from-file", str(file), "--why", "from the other tool", "--execute")
    wait_for(lambda: managed.ledger.offsets(0)[60:] == list(range(40, 60)), "read again", LIMIT_S)
    wait_for(lambda: managed.ledger.offsets(2)[60:] == list(range(40, 60)), "read again", LIMIT_S)
    assert managed.ledger.offsets(1) == list(range(60))
    committed(managed, [60, 60, 60, 60])
    file.write_text(ran(managed, "offsets", "reset", "--topic", site.topic, "--to-offset", "33", "--export"))
    theirs = cells(consumer_groups(site.kafka, *scope, "--from-file", str(file)))
    assert sorted((row[2], row[3]) for row in theirs[1:]) == [(str(p), "33") for p in range(4)]
