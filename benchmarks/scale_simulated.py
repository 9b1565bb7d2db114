"""Join, leave, rolling restart and a dead rack at up to 5,000 consumers × 100,000 partitions × 200 topics, without servers.

    python -m benchmarks.scale_simulated [--size 5000x100000x200] [--wants 1] [--plain] [--changes dead leave restart] [--json FILE]

One process, and a clock that only this program moves. ZooKeeper and Kafka are in memory; ZooKeeper counts the reads, the
bytes of the answers, and the watches. The coordinator and the consumers' agents are the product's: registration, reads,
watches, hand-offs, commits and interfaces. Consumers' steps take no time of the clock. The coordinator's steps take the
processor time that they need here, `ASK_S` for each answer of a consumer, and `TRIP_S` for each round trip.

`--wants`: topics that each consumer registers for; 0 = all. `--plain`: no topic's node is packed. Idle costs are of `IDLE_S` seconds without a change.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from benchmarks.circumstances import circumstances, told
from benchmarks.result import grid, output
from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery, ZooKeeperRegistry, claim_incarnation
from coordinator_tasks.core.codecs.codec import decode_node
from coordinator_tasks.core.codecs.status_codec import decode_status, encode_status
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, Answer, Member, Silence, Unreachable
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Node, Operation, Stat, Watcher
from coordinator_tasks.core.text.json_fields import MAX_BYTES
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.run.loop import ALL_SHARE, BUSY, HANDOFF_S, QUIET_S
from spark_apps.agent.process.agent import Agent
from spark_apps.agent.settings import Identity, Timing
from spark_apps.agent.zookeeper import view
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka, perform_due
from tests.fakes.topics import FakeTopics
from tests.fakes.zookeeper import FakeZooKeeper, FakeZooKeeperServer

decoded = lru_cache(1_000)(decode_node)
CHANGES = ("dead", "leave", "restart")
PATHS, ACTOR = Paths("scale"), Actor("command", "benchmark")
TICK_S, IDLE_S, LIMIT_S = 0.1, 20.0, 900.0
ASK_S = 0.0004
"""Of a consumer's answer over HTTP, without the decoding: measured with 1,000 consumers and a real ZooKeeper."""
TRIP_S = 0.001
TIMING = Timing(look_s=30.0, fresh_s=60.0)
"""Requests to Kafka are none of ZooKeeper's costs: few."""
POLICY = Policy(flap_registrations=1_000)
PLAIN = replace(POLICY, pack_over_bytes=MAX_BYTES)
REFUSED = Unreachable(Silence.REFUSED, "no process")
ANSWER_BYTES, ENTRY_BYTES = 88, 4
"""An answer's header and a node's `Stat`; the length before each name of a list."""


@dataclass
class Traffic:
    """Answers of ZooKeeper to reads, their bytes, and fired watches."""

    reads: int = 0
    size: int = 0
    fired: int = 0

    def since(self, before: "Traffic") -> "Traffic":
        return Traffic(self.reads - before.reads, self.size - before.size, self.fired - before.fired)


class Server(FakeZooKeeperServer):
    """ZooKeeper that counts."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.traffic = Traffic()

    def _take(self, events: Sequence[tuple[str, bool]]) -> Iterator[Any]:
        for watch in super()._take(events):
            self.traffic.fired += 1
            yield watch

    def exists(self, path: str) -> bool:
        return path in self._nodes

    @property
    def watches(self) -> int:
        return sum(map(len, self._watches.values()))


class Client(FakeZooKeeper):
    """A session whose reads are counted; `trips`: requests one after the other, reads in one go counting once."""

    def __init__(self, server: Server) -> None:
        super().__init__(server, 10.0)
        self.traffic, self.trips = server.traffic, 0
        server.sessions.append(self)

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        self.trips += 1
        node = super().get(path, watch)
        self._count(len(node.data))
        return node

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        before = self.traffic.reads
        node = super().find(path, watch)
        if self.traffic.reads == before:
            self._count(0)
        return node

    def _count(self, size: int) -> None:
        self.traffic.reads += 1
        self.traffic.size += ANSWER_BYTES + size

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        before = self.trips
        found = super().get_many(paths, watches)
        self.trips = before + 1
        return found

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        self.trips += 1
        names = super().children(path, watch)
        self._count(sum(map(len, names)) + ENTRY_BYTES * len(names))
        return names

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        self.trips += 1
        return super().transact(operations)


class Consumer:
    """A process: the product's agent, stepped when woken and once a second."""

    def __init__(self, site: "Site", name: str, wants: tuple[str, ...]) -> None:
        self.site, self.name, self.woken, self.due_at = site, name, True, 0.0
        self.zk = Client(site.server)
        self.incarnation = claim_incarnation(self.zk, PATHS, name, 1)
        self.topics = FakeTopics(Identity(name, PATHS.cluster, self.incarnation), site.clock, TIMING)
        self.member = Member(name, self.incarnation, f"http://{name}:1", "boot", topics=wants)
        registry = ZooKeeperRegistry(self.zk, PATHS, site.clock)
        self.agent = Agent(
            self.zk, registry, site.clock, self.member, PATHS.cluster, topics=self.topics, wake=self._wake
        )

    def _wake(self) -> None:
        self.woken = True

    def step(self) -> None:
        self.woken, self.due_at = False, self.site.clock.monotonic() + 1.0
        self.agent.step()
        for ownership in self.topics.ownerships.values():
            perform_due(ownership, self.site.offsets)
        self.woken |= self.agent.finished


@dataclass
class Interfaces:
    """`ports.StatusClient`: encoded and decoded, as over HTTP."""

    site: "Site"
    asked: int = 0
    size: int = 0
    encoding_s: float = 0.0

    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:  # noqa: ARG002 - the port's
        began = time.process_time()
        found = self.site.consumers
        raw = {
            one.consumer: encode_status(found[one.consumer].agent.status()) for one in members if one.consumer in found
        }
        self.encoding_s += time.process_time() - began
        self.asked += len(members)
        self.size += sum(map(len, raw.values()))
        answers: dict[str, Answer] = dict.fromkeys((one.consumer for one in members), REFUSED)
        return answers | {consumer: decode_status(consumer, text) for consumer, text in raw.items()}

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        return {one.consumer: REFUSED for one in members if one.consumer not in self.site.consumers}

    def post_topic(self, member: Member, topic: str, node: bytes) -> bool:  # noqa: ARG002 - the port's
        return False


@dataclass
class Work:
    """The coordinator's looks in a change; the longest as a whole, and of its processor time alone."""

    looks: int = 0
    longest_s: float = 0.0
    computed_s: float = 0.0
    moves: int = 0


@dataclass
class Site:
    """The whole: `wants` topics for each consumer, 0 = all."""

    size: tuple[int, int, int]
    wants: int
    policy: Policy = POLICY
    clock: FakeClock = field(default_factory=FakeClock)
    work: Work = field(default_factory=Work)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    busy: list[str] = field(default_factory=list)
    look_at: float = 0.0
    all_at: float = 0.0

    def __post_init__(self) -> None:
        view.decode_node = decoded  # type: ignore[attr-defined]  # many consumers read the same bytes
        _, partitions, number = self.size
        self.names = [f"topic-{one:03d}" for one in range(number)]
        self.each = partitions // number
        self.server, self.kafka = Server(self.clock), FakeKafka()
        self.offsets, self.interfaces = self.kafka.offsets("orders"), Interfaces(self)
        self.zk = Client(self.server)
        for folder in PATHS.folders():
            self.zk.ensure(folder)
        self.c = Coordinator(
            paths=PATHS,
            zk=self.zk,
            discovery=ZooKeeperDiscovery(self.zk, PATHS),
            statuses=self.interfaces,
            kafka=self.kafka,
            clock=self.clock,
            policy=self.policy,
            bootstrap_servers="none:9092",
        )
        for topic in self.names:
            self.kafka.create_topic(topic, self.each)
            topics.add_topic(self.c, topic, "orders", actor=ACTOR)

    def join(self, numbers: Sequence[int]) -> None:
        for one in numbers:
            wants = [self.names[(one + step) % len(self.names)] for step in range(self.wants)]
            consumer = self.consumers[f"c{one:04d}"] = Consumer(self, f"c{one:04d}", tuple(sorted(wants)))
            consumer.step()

    def leave(self, numbers: Sequence[int]) -> None:
        for one in numbers:
            self.consumers[f"c{one:04d}"].agent.leave()

    def die(self, numbers: Sequence[int]) -> None:
        """Processes that end without a word: the sessions end after their time-out."""
        dead = [self.consumers.pop(f"c{one:04d}") for one in numbers]
        self.run(lambda: False, dead[0].zk.session_timeout_s)
        for consumer in dead:
            consumer.zk.close()

    def run(self, done: Callable[[], bool], limit_s: float = LIMIT_S) -> float:
        """Let consumers and coordinator run; return the seconds until `done`, at most `limit_s`."""
        began = self.clock.now()
        while self.clock.now() - began < limit_s:
            self.consume()
            if not self._coordinate():
                self.clock.advance(TICK_S)
            elif done():
                break
        return self.clock.now() - began

    def consume(self) -> None:
        """Step the consumers that something has woken, or whose second is over."""
        now = self.clock.monotonic()
        for consumer in [one for one in self.consumers.values() if one.woken or now >= one.due_at]:
            consumer.step()
            if consumer.agent.finished:
                consumer.zk.close()
                del self.consumers[consumer.name]

    def _coordinate(self) -> bool:
        """Look as the plain loop does; the clock passes as long as the look takes. Return whether it was a look."""
        now = self.clock.now()
        if now < self.look_at:
            return False
        everything = not self.busy or now >= self.all_at
        asked, trips, encoding = self.interfaces.asked, self.zk.trips, self.interfaces.encoding_s
        gc.freeze()  # the consumers are not the coordinator's to collect
        began = time.process_time()
        reports = transitions.step(self.c, self.names if everything else self.busy, ACTOR)
        computed = time.process_time() - began - (self.interfaces.encoding_s - encoding)
        took = computed + ASK_S * (self.interfaces.asked - asked) + TRIP_S * (self.zk.trips - trips)
        self.clock.advance(max(0.0, took - (self.clock.now() - now)))
        if everything:
            self.all_at = now + max(QUIET_S, took * ALL_SHARE)
        self.busy = [one.topic for one in reports if one.outcome in BUSY]
        self.look_at = self.clock.now() + (HANDOFF_S if self.busy else QUIET_S)
        work = self.work
        work.looks, work.longest_s = work.looks + 1, max(work.longest_s, took)
        work.computed_s = max(work.computed_s, computed)
        work.moves += sum(len(report.moves) for report in reports)
        return True

    def stable(self, count: int) -> bool:
        """Whether all topics are Stable, and `count` consumers together own all partitions."""
        if self.busy or not all(b'"Stable"' in self._read(PATHS.state(topic)) for topic in self.names):
            return False
        nodes = [decoded(PATHS.topic(topic), self._read(PATHS.topic(topic))) for topic in self.names]
        owners = {owner for node in nodes for owner in node.assignments.values()}
        return len(owners) == count and sum(len(node.assignments) for node in nodes) == self.each * len(self.names)

    def _read(self, path: str) -> bytes:
        return self.server.node(path).data if self.server.exists(path) else b""


def measured(site: Site, what: str, act: Callable[[], None], count: int) -> dict[str, Any]:
    """Measure from the change to Stable."""
    traffic, site.work = replace(site.server.traffic), Work()
    asked, answered = site.interfaces.asked, site.interfaces.size
    began, at = site.clock.now(), time.perf_counter()
    act()
    seconds = site.run(lambda: site.stable(count)) and site.clock.now() - began
    cost, work = site.server.traffic.since(traffic), site.work
    return {
        "what": what,
        "stable_s": round(seconds, 1),
        "moves": work.moves,
        "reads": cost.reads,
        "mib": round(cost.size / 2**20, 1),
        "watches": site.server.watches,
        "fired": cost.fired,
        "looks": work.looks,
        "longest_look_s": round(work.longest_s, 2),
        "longest_computed_s": round(work.computed_s, 2),
        "asked": site.interfaces.asked - asked,
        "asked_mib": round((site.interfaces.size - answered) / 2**20, 1),
        "real_s": round(time.perf_counter() - at, 1),
    }


def idle(site: Site) -> dict[str, Any]:
    """Return the costs of the consumers alone, in `IDLE_S` seconds."""
    before = replace(site.server.traffic)
    until = site.clock.now() + IDLE_S
    while site.clock.now() < until:
        site.consume()
        site.clock.advance(TICK_S)
    cost = site.server.traffic.since(before)
    return {
        "what": "idle",
        "watches": site.server.watches,
        "reads_a_second": round(cost.reads / IDLE_S),
        "bytes_a_second": round(cost.size / IDLE_S),
        "bytes_a_second_and_consumer": round(cost.size / IDLE_S / len(site.consumers)),
    }


def simulated(site: Site, changes: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the costs of a start, of idle consumers, and of these changes."""
    consumers = site.size[0]
    tenth = max(1, consumers // 10)
    staying = consumers - tenth
    rack, first, rest = range(tenth), [staying], range(staying + 1, consumers)
    yield measured(site, f"{staying:,} start", lambda: site.join(range(staying)), staying)
    yield idle(site)
    yield measured(site, "one joins", lambda: site.join(first), staying + 1)
    yield measured(site, "a tenth joins", lambda: site.join(rest), consumers)
    acts: dict[str, Sequence[tuple[str, Callable[[], None], int]]] = {
        "leave": [
            ("one leaves", lambda: site.leave([0]), consumers - 1),
            ("it comes back", lambda: site.join([0]), consumers),
        ],
        "dead": [
            ("a tenth dies", lambda: site.die(rack), consumers - tenth),
            ("it comes back", lambda: site.join(rack), consumers),
        ],
        "restart": [("rolling restart, a tenth at a time", lambda: rolling(site, tenth), consumers)],
    }
    for name in changes:
        for what, act, count in acts[name]:
            yield measured(site, what, act, count)


def rolling(site: Site, tenth: int) -> None:
    """A tenth at a time leaves and comes back."""
    count = site.size[0]
    for first in range(0, count, tenth):
        some = range(first, min(count, first + tenth))
        names = {f"c{one:04d}" for one in some}
        site.leave(some)
        site.run(lambda names=names: not names & site.consumers.keys())  # type: ignore[misc]
        site.join(some)
        site.run(lambda: site.stable(count))


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each change of each run, and the costs of idle consumers."""
    titles = {"stable_s": "Stable", "moves": "moves", "reads": "reads", "mib": "MiB", "fired": "watches fired"}
    titles |= {"looks": "looks", "longest_look_s": "longest look", "longest_computed_s": "its processor time"}
    rows, idling = [], []
    for size, parts in result["runs"].items():
        where = size.replace("x", " × ")
        for one in parts:
            if "moves" in one:
                rows.append([where, one["what"], *(f"{one[name]:,}" if name in one else "–" for name in titles)])
                continue
            idling.append(
                f"Idle, {where}: {one['watches']:,} watches, {one['reads_a_second']:,} reads and "
                f"{one['bytes_a_second'] / 1e6:.1f} MB a second, {one['bytes_a_second_and_consumer']:,} bytes a second for each consumer."
            )
    head = ("consumers × partitions × topics", "change", *titles.values())
    return "\n\n".join([f"{told(result)}", grid(head, rows, head[:2]), *idling])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", default="5000x100000x200", help="consumers x partitions x topics")
    parser.add_argument("--wants", type=int, default=1, help="topics of each consumer; 0 = all")
    parser.add_argument("--plain", action="store_true", help="pack no topic's node")
    parser.add_argument("--changes", nargs="*", default=list(CHANGES), choices=CHANGES)
    parser.add_argument("--json", type=output, default="build/benchmarks/scale-simulated.json")
    given = parser.parse_args()
    consumers, partitions, number = map(int, given.size.split("x"))
    kept = json.loads(given.json.read_text()) if given.json.exists() else {**circumstances(), "runs": {}}
    how = f"{given.wants or 'all'} wanted" + (", plain nodes" if given.plain else "")
    run = kept["runs"][f"{given.size}, {how}"] = []
    site = Site((consumers, partitions, number), given.wants, PLAIN if given.plain else POLICY)
    for part in simulated(site, given.changes):
        print(part, file=sys.stderr, flush=True)
        run.append(part)
        given.json.write_text(json.dumps(kept, indent=2) + "\n")
    print(markdown(kept))


if __name__ == "__main__":
    main()
