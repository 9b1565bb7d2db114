"""The table of rights in Kafka that an administrator reads is the one that the code has."""

import re
from pathlib import Path

from coordinator_tasks.core.protocol.kafka_rights import Resource, Right, Side, needed

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
COORDINATOR, CONSUMER, FENCED = "coordinator", "consumer", "consumer, with the fence `transactional`"


def documented() -> dict[str, set[Right]]:
    """Principal, without what stands in brackets → its rights."""
    section = PAGE.read_text().partition("## Rights in Kafka")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    found: dict[str, set[Right]] = {}
    for principal, resource, operation, _ in rows[2:]:
        right = Right(Resource(resource.partition(",")[0]), operation)
        found.setdefault(re.sub(r" \(.*\)", "", principal), set()).add(right)
    return found


def test_the_documented_rights_are_those_of_the_code() -> None:
    assert documented() == {
        COORDINATOR: set(needed(Side.COORDINATOR, transactional=False)),
        CONSUMER: set(needed(Side.CONSUMER, transactional=False)),
        FENCED: set(needed(Side.CONSUMER, transactional=True)) - set(needed(Side.CONSUMER, transactional=False)),
    }
    assert needed(Side.COORDINATOR, transactional=True) == needed(Side.COORDINATOR, transactional=False)
