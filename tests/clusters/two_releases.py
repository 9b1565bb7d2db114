"""A site on real ZooKeeper and Kafka whose coordinator and consumers are processes of one release or another."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.demo.producer import SteadyProducer
from tests.integration.agent_site import Site, wait_for
from tests.stable import stable_node

ROOT = Path(__file__).resolve().parents[2]
LAST = "992e3a0"
"""The commit that stands for release 0.1.0: the last one that reads neither `seeks` nor `properties` in a topic's node."""
LIMIT_S = 90.0
RECORDS_PER_S = 200.0


def unpack(commit: str, folder: Path) -> Path:
    """The repository's files as they were at a commit; needs its history."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True, timeout=60)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True, timeout=60)
    return folder


class Rolling:
    """One topic, two consumers, and records that never stop. A release is the folder of its code."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        self.folder = folder
        self._flowing = False
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ending = ExitStack()
        self._environment = {
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "1",
            **site.environment,
        }

    def command(self, release: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command of the command line."""
        return subprocess.run(
            [sys.executable, "-m", "coordinator_tasks", *arguments],
            env=self._of(release),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )

    def done(self, release: Path, *arguments: str) -> str:
        """What a command says that has to succeed."""
        ended = self.command(release, *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def start(self, release: Path, name: str) -> None:
        """A coordinator (`run...`) or a consumer (any other name)."""
        if name.startswith("run"):
            module = ["coordinator_tasks", "run"]
        else:
            module = ["spark_apps.plain", "--consumer", name, "--sink", str(self.folder / f"{name}.jsonl")]
        log = self._ending.enter_context((self.folder / f"{name}.log").open("ab"))
        command = [sys.executable, "-m", *module]
        process = subprocess.Popen(command, env=self._of(release), cwd=self.folder, stdout=log, stderr=log)
        self._processes[name] = process
        self._ending.callback(process.wait)
        self._ending.callback(process.kill)

    def end(self, name: str) -> None:
        """By SIGTERM; a consumer gives its partitions away first."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0, self.log(name)

    def replace(self, release: Path, name: str) -> None:
        """Another release takes the place of a process; a consumer's partitions are with the other one meanwhile."""
        self.end(name)
        if not name.startswith("run"):
            self.shared_by(*(one for one in self._processes if not one.startswith("run")))
        self.start(release, name)
        self.shared_by(*(one for one in self._processes if not one.startswith("run")))

    def shared_by(self, *consumers: str) -> None:
        """Wait until the topic is Stable with exactly these, and each of its partitions is read while records flow."""
        wait_for(lambda: self._owners() == set(consumers), f"Stable with {consumers}", LIMIT_S)
        if not self._flowing:
            return
        seen = {partition: len(rows) for partition, rows in self.rows().items()}
        wait_for(lambda: self._further(seen), "every partition is read", LIMIT_S)

    def node(self) -> bytes:
        """The topic's node, as it is stored."""
        return self.site.zk.get(self.site.paths.topic(self.site.topic)).data

    def _owners(self) -> set[str]:
        node = stable_node(self.site.zk.find, self.site.paths, self.site.topic)
        if node is None or len(node.assignments) != self.site.partitions:
            return set()
        return set(node.assignments.values())

    def _further(self, seen: Mapping[int, int]) -> bool:
        rows = self.rows()
        return all(len(rows[partition]) > seen.get(partition, 0) + 3 for partition in range(self.site.partitions))

    def rows(self) -> dict[int, list[dict[str, Any]]]:
        """By partition, in the order of processing. A line that is being written is left for later."""
        found = defaultdict(list)
        for path in self.folder.glob("*.jsonl"):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    row = json.loads(line)
                    found[row["partition"]].append(row)
        return defaultdict(list, {p: sorted(rows, key=lambda row: row["processed_at"]) for p, rows in found.items()})

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / f"{name}.log").read_text()

    @contextmanager
    def records(self) -> Iterator[None]:
        """Records flow as long as the block; then each of them is waited for, and judged."""
        journal = io.StringIO()
        producer = SteadyProducer(self.site.kafka, self.site.topic, self.site.partitions, journal)
        thread = threading.Thread(target=producer.run, args=(RECORDS_PER_S,))
        thread.start()
        self._flowing = True
        try:
            yield
        finally:
            self._flowing = False
            producer.stop()
            thread.join(60)
        sent = journal.getvalue().count("\n") - 1  # the last line is `end`
        wait_for(lambda: sum(map(len, self.rows().values())) >= sent, "everything is processed", LIMIT_S)
        self._judge(sent)

    def _judge(self, sent: int) -> None:
        """Nothing lost, nothing twice, and no epoch after a newer one."""
        rows = self.rows()
        for partition, found in rows.items():
            assert [row["offset"] for row in found] == list(range(len(found))), f"partition {partition}"
            epochs = [row["epoch"] for row in found]
            assert epochs == sorted(epochs), f"partition {partition}"
        assert sum(map(len, rows.values())) == sent

    def longest_stall_s(self, since: float, until: float) -> float:
        """Of all partitions, between two of their records; times in seconds since 1970."""
        return max(_longest([row["processed_at"] for row in rows], since, until) for rows in self.rows().values())

    def close(self) -> None:
        self._ending.close()
        self.site.close()

    def _of(self, release: Path) -> dict[str, str]:
        return {**self._environment, "PYTHONPATH": str(release)}


def _longest(times: Sequence[float], since: float, until: float) -> float:
    within = [one for one in times if since <= one <= until]
    return max((after - before for before, after in itertools.pairwise(within)), default=0.0)
