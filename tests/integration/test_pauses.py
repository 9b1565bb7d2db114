"""The pauses that the history says, against the rows of the sinks: the rows know nothing of ZooKeeper, the agent or its status."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from coordinator_ui.access import may_read_cluster
from coordinator_ui.reading import Reader
from coordinator_ui.routes import make_app
from fastapi.testclient import TestClient

from coordinator_tasks.core.model import Pauses, Record
from coordinator_tasks.core.pauses import sentence
from coordinator_tasks.demo import stalls
from coordinator_tasks.demo.evidence import Produced, Row
from coordinator_tasks.demo.stalls import Stall
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed
from tests.stored_pauses import stored_pauses

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 12
SHIFT_S = 420.0
SHIFTED = """
import runpy, time
real = time.time
time.time = lambda: real() + {shift_s}
time.time_ns = lambda: int(time.time() * 1e9)
runpy.run_module("spark_apps.plain", run_name="__main__", alter_sys=True)
"""
"""A consumer on a host whose clock is ahead. Under libfaketime librdkafka never ends a wait: it shifts the time that a wait is
compared with, and not the wait."""


@dataclass
class Plain:
    """A consumer as a process of its own, whose clock is ahead of this one's by `shift_s`."""

    site: Site
    name: str
    folder: Path
    shift_s: float = 0.0
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        given = ("--consumer", self.name, "--cluster", self.site.cluster, "--zookeeper", self.site.zookeeper)
        command = [
            sys.executable,
            *("-c", SHIFTED.format(shift_s=self.shift_s)),
            *given,
            "--kafka",
            self.site.kafka,
            "--sink",
            str(self.rows),
        ]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=(self.folder / f"{self.name}.log").open("wb"),
        )

    @property
    def rows(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    def seen(self) -> list[Row]:
        """The rows so far; times are this process' own."""
        lines = self.rows.read_text().splitlines() if self.rows.exists() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return [
            Row(
                r["consumer"],
                0,
                r["epoch"],
                r["partition"],
                r["offset"],
                0,
                r["produced_at"],
                r["processed_at"] - self.shift_s,
            )
            for r in rows
        ]

    def leave(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT_S) == 0


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Callable[..., Plain]]:
    """Starts consumers, and ends those that a failed test has left."""
    started: list[Plain] = []

    def start(site: Site, name: str, shift_s: float = 0.0) -> Plain:
        started.append(Plain(site, name, tmp_path, shift_s))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=PARTITIONS))
    yield made
    made.close()


def measured(managed: Managed, name: str) -> tuple[Record, Record]:
    """The first and the last record of a rebalance that is wholly measured."""

    def there() -> list[Record]:
        found = [record for record in managed.history() if record.rebalance == name]
        done = found and found[-1].pauses is not None and not found[-1].pauses.missing
        return found if done else []

    wait_for(there, "all pauses are measured", LIMIT_S)
    found = there()
    return found[0], found[-1]


def ended_by_taker(found: Sequence[Stall], rows: Sequence[Row], partition: int, epoch: int) -> Stall:
    """The stall that ends with the first row of this ownership."""
    first_at = min(row.processed_at for row in rows if (row.partition, row.epoch) == (partition, epoch))
    return next(stall for stall in found if stall.until_at >= first_at)


def shown_pauses(site: Site, rebalance: str) -> dict[int, float]:
    """Partition → its pause in seconds, as the page of the rebalance says it."""
    app = make_app(Reader(lambda name: (name, lambda: open_coordinator(site.settings))))
    app.dependency_overrides[may_read_cluster] = lambda: None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COORDINATOR_CLUSTERS", site.cluster)
        path = f"/clusters/{site.cluster}/topics/{site.topic}/rebalances/{rebalance}"
        page = TestClient(app, root_path="/coordinator").get(path).text
    if folder := os.environ.get("SCREENSHOTS"):
        (Path(folder) / f"{rebalance}.html").write_text(page)
    table = page[page.index('aria-labelledby="pauses"') :].split("</table>")[0]
    cells = (
        re.search(r'class="number">(\d+)</th>.*>([\d.]+) (ms|s) \(±', row, re.DOTALL) for row in table.split("</tr>")
    )
    return {int(found[1]): float(found[2]) * (0.001 if found[3] == "ms" else 1.0) for found in cells if found}


@pytest.mark.parametrize("shift_s", [0.0, SHIFT_S], ids=["one clock", "one clock is ahead by minutes"])
def test_the_pauses_in_the_history_are_those_of_the_rows(
    managed: Managed, plain: Callable[..., Plain], shift_s: float
) -> None:
    site = managed.site
    running = {name: plain(site, name) for name in "ab"}
    ended: list[Plain] = []
    names: list[str] = []
    with managed.looping():
        managed.stable("ab")
        traffic = Traffic(site, per_second=100.0)
        wait_for(lambda: all(len(one.seen()) > 500 for one in running.values()), "records flow", LIMIT_S)
        for number in range(3):
            third = f"c{number}"
            running[third] = plain(site, third, shift_s)
            wait_for(lambda third=third: managed._is_stable(["a", "b", third]), f"{third} has joined", LIMIT_S)
            names.append(managed.history()[-1].rebalance)
            measured(managed, names[-1])
            running[third].leave()
            ended.append(running.pop(third))
            managed.stable("ab")
            names.append(managed.history()[-1].rebalance)
            measured(managed, names[-1])
        traffic.close()
        for one in running.values():
            one.leave()
    rows = [row for one in (*running.values(), *ended) for row in one.seen()]
    produced = [
        Produced(r.partition, r.offset, 0, r.produced_at) for r in {(r.partition, r.offset): r for r in rows}.values()
    ]
    by_rows = stalls.stalls(produced, rows)
    errors_s: list[float] = []
    outside = 0
    for rebalance in names:
        first, last = measured(managed, rebalance)
        found: Pauses | None = last.pauses
        assert found is not None
        assert found.left_out == ()
        assert {one.partition for one in found.measured} == {m.partition for m in first.moves}, "every moved partition"
        longest = stalls.longest(by_rows, first.at, last.at + 1.0)
        on_page = shown_pauses(site, rebalance)
        print(f"\n{sentence(found)}")
        for pause in found.measured:
            assert pause.last_at is not None
            assert pause.released_at is not None
            if pause.wait_s is None:
                continue
            stall = ended_by_taker(by_rows[pause.partition], rows, pause.partition, first.epoch)
            off_s = pause.wait_s - stall.length_s
            errors_s.append(abs(off_s))
            assert on_page[pause.partition] == pytest.approx(pause.wait_s, rel=0.05, abs=0.001), (
                "what a person reads on the page"
            )
            # A row's time is from before its write, the agent's from after it: on a busy machine a write takes its share.
            outside += abs(off_s) > pause.error_s + 0.010 + 0.3 * stall.length_s
            print(
                f"  partition {pause.partition}: {pause.wait_s * 1000:6.1f} ms ±{pause.error_s * 1000:.1f}, by rows "
                f"{stall.length_s * 1000:6.1f} ms, {pause.records} records"
            )
        assert found.unmoved is not None
        unmoved = longest.keys() - {one.partition for one in found.measured}
        print(
            f"  unmoved: {found.unmoved.longest_s * 1000:.1f} ms, by rows {max(longest[p] for p in unmoved) * 1000:.1f} ms"
        )
    print(f"{len(errors_s)} pauses; median error {median(errors_s) * 1000:.1f} ms; outside of the bound: {outside}")
    assert errors_s
    assert outside <= len(errors_s) / 10, "a busy machine has longer pauses, and wider bounds"
    with open_coordinator(site.settings) as c:
        assert len(stored_pauses(c, site.topic)) >= len(errors_s)
