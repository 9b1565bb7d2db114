"""The ownership audit for the pages. Simultaneous viewers share one, and no thread waits between its two looks."""

import asyncio
import time
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import Request

from coordinator_tasks.core.errors import NodeMissing
from coordinator_tasks.core.machine.audit import Committer, Finding, FindingKind
from coordinator_tasks.core.text.partition_text import first
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.watch import audit as service
from coordinator_tasks.service.watch.audit import Audit, AuditLook
from coordinator_ui.access import ReadableCluster

BETWEEN_S = service.BETWEEN_S
FRESH_S = 15.0
"""Seconds for which an audit is kept.

An audit asks every consumer and every group, so an open page starts no new audit before this time is over.
"""
MOST_ROWS = 500
"""Maximum findings and committers to show. The others are counted."""


@dataclass(frozen=True, slots=True)
class Audited:
    """An audit with its time."""

    at: float
    audit: Audit

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.audit.findings[:MOST_ROWS]

    @property
    def committers(self) -> tuple[Committer, ...]:
        return self.audit.committers[:MOST_ROWS]

    @property
    def problems(self) -> tuple[str, ...]:
        return first(self.audit.problems)

    @property
    def left_out(self) -> dict[str, int]:
        both = {"findings": self.audit.findings, "committers": self.audit.committers}
        return {name: max(0, len(rows) - MOST_ROWS) for name, rows in both.items()}


async def audited(request: Request, cluster: ReadableCluster, topic: str) -> Audited:
    """Return the audit of a cluster; of one topic if named. Raises the `Unavailable` kinds."""
    state = request.app.state

    def read(c: Coordinator) -> AuditLook:
        try:
            return service.look(c, [topic] if topic else ())
        except NodeMissing:  # the cluster has never been used
            return AuditLook()

    async def make() -> Audited:
        begun = await state.reader.read(cluster, read)
        if not begun.traces:
            return Audited(time.time(), service.compared(begun))
        await asyncio.sleep(BETWEEN_S)
        second = await state.reader.read(cluster, read)
        return Audited(time.time(), service.compared(begun, second, BETWEEN_S))

    found: Audited = await state.audits.get(f"{cluster} {topic}", make)
    return found


def audit_data(cluster: str, topic: str, found: Audited) -> dict[str, Any]:
    """Return the page's content as JSON."""
    return {
        "cluster": cluster,
        "topic": topic,
        "at": found.at,
        "between": found.audit.between_s,
        "counts": found.audit.counts,
        "alarms": len(found.audit.alarms),
        "findings": [{**asdict(one), "kind": FindingKind(one.code).word} for one in found.findings],
        "committers": [
            {
                "topic": one.topic,
                "who": one.who,
                "partitions": list(one.partitions),
                "changed": one.commits,
                "records": one.records,
            }
            for one in found.committers
        ],
        "left_out": found.left_out,
        "problems": list(found.problems),
    }
