"""Processor time of one look at everything, beside another version of the code, without servers and agents.

    python -m benchmarks.look [--size 5000x100000x200] [--wants 1] [--rounds 3] [--beside FOLDER] [--json FILE]

ZooKeeper and Kafka are in memory. The consumers' answers follow from the stored plans: all consumers act at once. A look
is one `transitions.step` of all topics: it reads, decides, plans and writes. Each look runs `--rounds` times from the same
nodes; encoding of the answers does not count. `--wants`: neighbouring topics that each consumer registers for; topics that
one consumer wants are planned together, so 2 link all topics in a ring. `--beside`: the folder of another version; the processes alternate.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from benchmarks.circumstances import PROJECT, noted, told
from benchmarks.result import grid, of_process, options, report, verdict, whole
from benchmarks.scale_simulated import ACTOR, PATHS, Client, Site, decoded
from coordinator_tasks.adapters.discovery import ZooKeeperRegistry, claim_incarnation
from coordinator_tasks.core.codecs.status_codec import encode_metadata
from coordinator_tasks.core.model import (
    Committed,
    ConsumerStatus,
    Member,
    RunningPartition,
    Token,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.protocol.holding import all_may_hold
from coordinator_tasks.service.plan import transitions

TARGET_S, WHOLE = 5.0, 100_000
STAGES = (
    "nine tenths start: plan",
    "their starts",
    "settled",
    "nothing to do",
    "a tenth joins: plan",
    "their hand-offs",
)
held_of = lru_cache(1_000)(lambda path, raw: all_may_hold(decoded(path, raw)))


@dataclass
class Consumer:
    """A registered consumer that acts on each node at once."""

    site: "Answering"
    member: Member

    @property
    def agent(self) -> "Consumer":
        return self

    def status(self) -> ConsumerStatus:
        topics = {}
        for topic in self.member.topics:
            path = PATHS.topic(topic)
            if raw := self.site.server.node(path).data:
                node, held = decoded(path, raw), held_of(path, raw).get(self.member.consumer, {})
                topics[topic] = TopicStatus(node.generation, node.epoch, held, self._running(node, held))
        member = self.member
        return ConsumerStatus(member.consumer, PATHS.cluster, member.incarnation, member.boot_id, "ok", topics)

    def _running(self, node: TopicNode, held: Mapping[int, int]) -> dict[int, RunningPartition]:
        return {
            p: RunningPartition(
                100, Token(since, self.member.incarnation, node.generation), True, False, 5, 10.0, 150.0
            )
            for p, since in held.items()
            if p in node.assignments
        }


class Answering(Site):
    """The site, with consumers whose answers follow from the nodes."""

    def join(self, numbers: Sequence[int]) -> None:
        registry = ZooKeeperRegistry(Client(self.server), PATHS, self.clock)
        for number in numbers:
            name = f"c{number:04d}"
            wants = tuple(sorted(self.names[(number + step) % len(self.names)] for step in range(self.wants)))
            incarnation = claim_incarnation(self.zk, PATHS, name, 1)
            member = Member(name, incarnation, f"http://{name}:1", "boot", topics=wants)
            registry.register(member)
            self.consumers[name] = Consumer(self, member)  # type: ignore[assignment]  # has what the interfaces use

    def commit(self) -> None:
        for topic in self.names:
            if raw := self.server.node(PATHS.topic(topic)).data:
                node = decoded(PATHS.topic(topic), raw)
                for p, owner in node.assignments.items():
                    token = Token(node.since[p], node.incarnations[owner], node.generation)
                    entry = Committed(100, token, owner, PATHS.cluster, node.topic_id)
                    self.kafka.stored["orders", topic, p] = 100, encode_metadata(entry)

    def looked(self, rounds: int) -> list[float]:
        """Return the processor seconds of the same look, `rounds` times."""
        self.commit()
        self.clock.advance(1_000.0)
        kept, seconds = dict(self.server._nodes), []  # noqa: SLF001 - the nodes are immutable
        for _ in range(rounds):
            self.server._nodes = dict(kept)  # noqa: SLF001
            gc.collect()
            gc.freeze()  # the consumers are not the coordinator's to collect
            began, encoding = time.process_time(), self.interfaces.encoding_s
            transitions.step(self.c, self.names, ACTOR)
            seconds.append(time.process_time() - began - (self.interfaces.encoding_s - encoding))
        return seconds


def looks(size: tuple[int, int, int], wants: int, rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of each stage's look."""
    site, found = Answering(size, wants), dict[str, list[float]]()
    ninth = size[0] - max(1, size[0] // 10)
    site.join(range(ninth))
    for stage in STAGES:
        if stage == "a tenth joins: plan":
            site.join(range(ninth, size[0]))
        found[stage] = site.looked(rounds)
        print(stage, found[stage], file=sys.stderr, flush=True)
    return found


def child(folder: Path, size: str, wants: int) -> dict[str, list[float]]:
    """Return one round of the code in this folder."""
    env = {**os.environ, "PYTHONPATH": f"{folder}:{folder / 'plugins'}"}
    asked = (__file__, "--size", size, "--wants", str(wants), "--rounds", "1", "--child")
    return dict(of_process(str(folder), *asked, env=env, cwd=folder))


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each look. The target is for `WHOLE` partitions, to which the median is scaled."""
    names = list(result["seconds"])
    times = WHOLE / int(result["size"].split("x")[1])
    rows = []
    for stage in STAGES:
        medians = [statistics.median(result["seconds"][name][stage]) for name in names]
        scaled = medians[0] * times
        target = verdict((scaled <= TARGET_S, f"≤ {TARGET_S:g} s"))
        rows.append([stage, *(f"{one:.2f}" for one in medians), f"{scaled:.1f}", target])
    how = f"{result['size'].replace('x', ' × ')}, {result['wants']} wanted, processor seconds, median of {result['rounds']}"
    head = ("look", *names, f"this × {times:g}: {WHOLE:,} partitions", "target")
    return f"{told(result, how)}\n\n{grid(head, rows, ('target',))}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", default="5000x100000x200", help="consumers x partitions x topics")
    parser.add_argument("--wants", type=whole, default=1, help="topics of each consumer")
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--beside", type=Path, help="folder of another version of the code")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    consumers, partitions, number = map(int, given.size.split("x"))
    if given.child:
        print(json.dumps(looks((consumers, partitions, number), given.wants, given.rounds)))
        return
    folders = {"this": PROJECT, **({"beside": given.beside} if given.beside else {})}
    seconds: dict[str, dict[str, list[float]]] = {name: {stage: [] for stage in STAGES} for name in folders}
    with noted(size=given.size, wants=given.wants, rounds=given.rounds, seconds=seconds) as result:
        for _ in range(given.rounds):
            for name, folder in folders.items():
                for stage, found in child(folder, given.size, given.wants).items():
                    seconds[name][stage] += found
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
