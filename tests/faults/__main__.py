"""The long part of the fault tests, resumable: `python -m tests.faults --pairs 500 --minutes 30`.

Each finished case is a line in build/faults/results.jsonl and is not tried again; build/faults/summary.md says what it all
came to. Start it as often as you like: it goes on where it ended. A case that failed keeps its folder, and the exit code is 1.
"""

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from tests.faults import plan
from tests.faults.case import Result
from tests.faults.failpoints import Kill, When
from tests.faults.servers import Servers
from tests.faults.zombie import nothing, sleepers

BUILD = Path("build/faults")
RESULTS, SUMMARY = BUILD / "results.jsonl", BUILD / "summary.md"
SEED = 2
BATCH = 48
LATER_CALLS = (2, 5)
SLEEPERS = 50


def key(kills: Sequence[Kill]) -> str:
    return " and ".join(str(kill) for kill in kills)


def parts(pairs: int) -> dict[str, list[tuple[Kill, ...]]]:
    """What there is to be done, by name."""
    always = [point for point, met in plan.listed().items() if met]
    later = [(Kill(point, when, nth),) for nth in LATER_CALLS for point in always for when in When]
    return {
        "pairs": list(islice(plan.pairs(SEED), pairs)),
        "rare points": plan.rare(),
        "later calls": later,
    }


def finished() -> dict[str, dict[str, Any]]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {one["key"]: one for one in map(json.loads, lines)}


def note(part: str, result: Result) -> None:
    line = {
        "key": key(result.kills),
        "part": part,
        "reached": list(result.reached),
        "problems": list(result.problems),
        "repeated": result.repeated,
        "took_s": round(result.took_s, 2),
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(line) + "\n")


def due(pairs: int) -> Iterator[tuple[str, list[tuple[Kill, ...]]]]:
    """Batches of what is not done yet."""
    done = finished()
    for part, plans in parts(pairs).items():
        left = [one for one in plans if key(one) not in done]
        for first in range(0, len(left), BATCH):
            yield part, left[first : first + BATCH]


def run_sleepers(servers: Servers, folder: Path, until: float) -> None:
    """Consumers that wake up as zombies, as far as there are none of that number yet."""
    done = finished()
    due = [number for number in range(SLEEPERS) if f"sleeper {number}" not in done]
    for first in range(0, len(due), plan.AT_ONCE):
        batch = due[first : first + plan.AT_ONCE]
        if time.monotonic() > until:
            return
        with ThreadPoolExecutor(plan.AT_ONCE) as pool:
            cases = sleepers(servers, folder / f"sleepers{batch[0]}", len(batch))
            wakes = list(pool.map(lambda one: one.wake_up(nothing, nothing), cases))
        for number, wake in zip(batch, wakes, strict=True):
            line = {"key": f"sleeper {number}", "part": "sleepers", **asdict(wake)}
            with RESULTS.open("a") as file:
                file.write(json.dumps(line) + "\n")


def summary_of_sleepers() -> str:
    found = [one for one in finished().values() if one.get("part") == "sleepers"]
    if not found:
        return ""
    last = max((one["batches"][-1] for one in found if one["batches"]), default=0.0)
    return (
        f"\nSleepers: {len(found)} of {SLEEPERS}, {sum(bool(one['problems']) for one in found)} failed; stopped after at most "
        f"{max(one['stopped_after_s'] for one in found):.2f} s, the last batch of one after {last:.2f} s, at most "
        f"{max(len(one['batches']) for one in found)} batches of one, {sum(one['rows'] for one in found)} records repeated, "
        f"{sum(one['late_commits'] for one in found)} commits under an old epoch.\n"
    )


def summary(pairs: int) -> str:
    """One line per part, and every case that failed."""
    done = finished()
    lines = [
        "| part | cases | done | came to all their deaths | failed | records repeated, all by a death | slowest, s |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    for part, plans in parts(pairs).items():
        found = [done[key(one)] for one in plans if key(one) in done]
        reached = sum(all(one["reached"]) for one in found)
        failed = sum(bool(one["problems"]) for one in found)
        slowest = max((one["took_s"] for one in found), default=0.0)
        repeated = sum(one["repeated"] for one in found)
        lines.append(f"| {part} | {len(plans)} | {len(found)} | {reached} | {failed} | {repeated} | {slowest} |")
    failures = [f"- {one['key']}: {one['problems'][:3]}" for one in done.values() if one["problems"]]
    return "\n".join([*lines, "", *failures]) + "\n" + summary_of_sleepers()


def run(pairs: int, minutes: float) -> None:
    """Work until everything is done or the time is over."""
    until = time.monotonic() + 60 * minutes
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper, EmbeddedKafka(folder / "kafka") as kafka:
        servers = Servers(zookeeper.connect_string, kafka.bootstrap_servers, uuid.uuid4().hex[:8])
        try:
            run_sleepers(servers, folder, until)
            for number, (part, batch) in enumerate(due(pairs)):
                if time.monotonic() > until:
                    break
                for result in plan.run(servers, folder / f"batch{number}", batch):
                    note(part, result)
                SUMMARY.write_text(summary(pairs))
        finally:
            servers.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="The long part of the fault tests.")
    parser.add_argument("--pairs", type=int, default=500, help="how many pairs of deaths in all")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further batch after this time")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    run(given.pairs, given.minutes)
    text = summary(given.pairs)
    SUMMARY.write_text(text)
    print(text)
    return 1 if any(one["problems"] for one in finished().values()) else 0


if __name__ == "__main__":
    sys.exit(main())
