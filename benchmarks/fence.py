"""Cost of `fence=transactional` beside the default: commits and take-over, in one run.

    python -m benchmarks.fence [--json FILE]

All partitions of a consumer are committed at once, as its agent does. Alternating, so that a busy machine is busy for both.
"""

import time
from collections.abc import Mapping
from statistics import median, quantiles
from typing import Any

import psutil

from benchmarks.circumstances import noted, told
from benchmarks.result import grid, options, report
from benchmarks.servers import served
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_transactions import TransactionalGroupOffsets
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.ports import GroupOffsets
from coordinator_tasks.settings import TOKEN_FENCE, TRANSACTIONAL_FENCE

FENCES = (TOKEN_FENCE, TRANSACTIONAL_FENCE)
PARTITIONS = (1, 10, 50)
COMMITS = 100
TOKEN = Token(1, 1, "g")


def offsets_of(fence: str, kafka: str, group: str) -> GroupOffsets:
    settings = {"bootstrap.servers": kafka, "log_level": "1"}
    if fence == TRANSACTIONAL_FENCE:
        return TransactionalGroupOffsets(settings, group, "bench", 30.0)
    return ConfluentGroupOffsets(settings, group, 30.0)


def commits(kafka: str, fence: str, partitions: int) -> dict[str, Any]:
    """Return the milliseconds of a commit of `partitions`; `hold_ms`: until commits were possible."""
    topic = f"commits-{fence}-{partitions}"
    ConfluentKafkaAdmin({"bootstrap.servers": kafka}).create_topic(topic, partitions)
    offsets = offsets_of(fence, kafka, topic)
    offsets.committed(topic, range(partitions))  # finds the group's coordinator
    me = psutil.Process()
    threads, memory = me.num_threads(), me.memory_info().rss
    began = time.perf_counter()
    while offsets.hold(topic, "id", dict.fromkeys(range(partitions), TOKEN)):
        pass
    hold_ms = 1000 * (time.perf_counter() - began)
    times = []
    for number in range(COMMITS + 5):
        began = time.perf_counter()
        offsets.commit(topic, {p: Committed(number, TOKEN, "bench", "bench", "id") for p in range(partitions)})
        times.append(1000 * (time.perf_counter() - began))
    times = times[5:]
    return {
        "fence": fence,
        "partitions": partitions,
        "hold_ms": round(hold_ms, 1),
        "commit_ms_median": round(median(times), 2),
        "commit_ms_p95": round(quantiles(times, n=20)[-1], 2),
        "threads": me.num_threads() - threads,
        "mib": round((me.memory_info().rss - memory) / 2**20, 1),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """Return the commits of both fences side by side."""
    found = {(one["partitions"], one["fence"]): one for one in result["commits"]}
    rows = []
    for partitions in dict.fromkeys(one["partitions"] for one in result["commits"]):
        token, own = found[partitions, TOKEN_FENCE], found[partitions, TRANSACTIONAL_FENCE]
        both = [f"{one['commit_ms_median']:.0f} ms, {one['commit_ms_p95']:.0f} ms" for one in (token, own)]
        rows.append(
            [str(partitions), *both, f"{own['hold_ms'] / 1000:.1f} s", f"{own['threads']}, {own['mib']:.0f} MiB"]
        )
    titles = (
        "partitions of one consumer",
        f"commit of all of them, `{TOKEN_FENCE}`: median, p95",
        f"`{TRANSACTIONAL_FENCE}`",
        "until they can be committed at all",
        "threads, memory more",
    )
    return f"{told(result, 'Both fences in one run')}\n\n{grid(titles, rows, titles)}"


def main() -> None:
    given = options(__doc__).parse_args()
    with noted(commits=[]) as result, served("fence") as (_, _zookeeper, kafka):
        for partitions in PARTITIONS:
            for fence in FENCES:
                result["commits"].append(commits(kafka, fence, partitions))
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
