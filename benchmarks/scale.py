"""How rebalances grow with consumers and partitions: up to 1,000 light consumers × 10,000 partitions on one machine.

    python -m benchmarks.scale [--sizes 10x10000 300x20000x40 ...] [--parts ...] [--forms packed plain] [--processes 1] [--json FILE]

A real ZooKeeper, the production coordinator (the plain loop in this process), and light consumers in other processes
(`benchmarks/light.py`): each consumer with a session, a registration, watches, releases and an interface. Kafka is not asked: its
answers are made here. Parts of sizes that the JSON file has already are not measured again; to a file of another machine or
commit, none is added. In the form `plain`, no topic's node is packed.

A size is consumers × partitions, or consumers × partitions × topics: then each consumer registers for one topic.
For each size: one joins, a tenth joins, a tenth leaves cleanly; and a rolling restart, a tenth at a time.
"""

import argparse
import json
import logging
import multiprocessing
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import light
from benchmarks.circumstances import circumstances, told
from benchmarks.plain_loop import looping
from benchmarks.result import grid, output, verdict, whole
from benchmarks.servers import until
from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery
from coordinator_tasks.adapters.kazoo_handler import PollingHandler
from coordinator_tasks.adapters.status import HttpStatusClient
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, Record, State, TopicDescription
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import GroupAnswer, Wanted
from coordinator_tasks.core.text.json_fields import MAX_BYTES
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, observe, store, topics
from coordinator_tasks.service.plan import transitions

SIZES = ("10x10000", "100x10000", "1000x10000", "100x100", "100x1000", "10x100", "10x1000", "1000x1000")
TOPIC, GROUP = "orders", "orders"
LIMIT_S = 600.0
SETTLE_S = 1.0
ASK_LIMIT_S = 30.0
PACKED = Policy(settle_s=SETTLE_S, flap_registrations=1_000)
FORMS = {"packed": PACKED, "plain": replace(PACKED, pack_over_bytes=MAX_BYTES)}
STABLE_S = {("1000x10000", "one joins"): 5.0}
"""Target."""
FORMER_MIB = {("1000x10000", "a tenth leaves"): 696.7}
"""MiB before any node was packed. Target of the packed form: a tenth of this, and of the plain form."""


class Answers:
    """`ports.KafkaAdmin`: topics of `partitions`, without commits and subscribers."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def describe(
        self,
        topics: Collection[str],
        problems: dict[str, CoordinatorError] | None = None,  # noqa: ARG002 - the port's
    ) -> Mapping[str, TopicDescription | None]:
        return {topic: TopicDescription(topic, "id-1", self._partitions) for topic in topics}

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        return {group: {topic: {} for topic in asked} for group, asked in wanted.items()}

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:  # noqa: ARG002 - the port's
        return dict.fromkeys(partitions, (0, 0))

    def group_members(self, group: str) -> tuple[str, ...]:  # noqa: ARG002 - the port's
        return ()


class Stopwatch:
    """The longest call of each of the coordinator's parts since the last `reset`, in seconds."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        for name, module, function in (
            ("look_s", observe, "snapshot"),
            ("plan_s", transitions, "decide"),
            ("commit_s", store, "commit"),
        ):
            setattr(module, function, self._timed(name, getattr(module, function)))

    def reset(self) -> None:
        self.longest = {}

    def _timed(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return act(*arguments, **named)
            finally:
                self.longest[name] = max(self.longest.get(name, 0.0), time.perf_counter() - began)

        return timed


class Counted(socket.socket):
    """A connection with counted traffic."""

    traffic: light.Traffic

    def send(self, *arguments: Any) -> int:
        sent = super().send(*arguments)
        self.traffic.operations += 1
        self.traffic.sent += sent
        return sent

    def recv(self, *arguments: Any) -> bytes:
        found = super().recv(*arguments)
        self.traffic.received += len(found)
        return found


@contextmanager
def counted() -> Iterator[light.Traffic]:
    """Yield the requests of ZooKeeper clients that connect within the block; a ping counts as a request."""
    traffic, connect = light.Traffic(), PollingHandler.create_connection

    def connected(*arguments: Any, **named: Any) -> Counted:
        plain = connect(*arguments, **named)
        timeout_s = plain.gettimeout()
        connection = Counted(plain.family, plain.type, plain.proto, plain.detach())
        connection.traffic = traffic
        connection.settimeout(timeout_s)
        return connection

    with mock.patch.object(PollingHandler, "create_connection", connected):
        yield traffic


def mib(before: light.Traffic, after: light.Traffic) -> float:
    """How much went over the connections in between."""
    return (after.received + after.sent - before.received - before.sent) / 2**20


class Site:
    """A size on the running ZooKeeper."""

    def __init__(
        self, zookeeper: EmbeddedZooKeeper, size: str, watch: Stopwatch, policy: Policy, processes: int
    ) -> None:
        self.zookeeper, self.watch = zookeeper, watch
        self.size = size
        consumers, partitions, count = parsed(size)
        self.topics = [f"{TOPIC}-{number:03d}" for number in range(count)] if count > 1 else [TOPIC]
        self.partitions = partitions // count
        self.names = [f"c{number:04d}" for number in range(consumers)]
        self.live: list[str] = []
        self.paths = Paths(f"s{self.size}")
        with counted() as self.asked:
            self.zk = KazooZooKeeper(zookeeper.connect_string)
        for folder in self.paths.folders():
            self.zk.ensure(folder)
        self.statuses = HttpStatusClient(self.paths.cluster, limit_s=ASK_LIMIT_S)
        self.c = Coordinator(
            paths=self.paths,
            zk=self.zk,
            discovery=ZooKeeperDiscovery(self.zk, self.paths),
            statuses=self.statuses,
            kafka=Answers(self.partitions),
            clock=SystemClock(),
            policy=policy,
            bootstrap_servers="none:9092",
        )
        self.seen = replace(self.c, zk=KazooZooKeeper(zookeeper.connect_string))  # reads here do not count
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for _ in range(processes):
            pipe, theirs = context.Pipe()
            address = (theirs, "127.0.0.1", zookeeper.port, self.paths.cluster, self.topics)
            self.pipes.append(pipe)
            self.processes.append(context.Process(target=light.serve, args=address, daemon=True))
            self.processes[-1].start()

    def order(self, what: str, names: Sequence[str] = ()) -> light.Traffic:
        """Let all processes act at the same time. Return their traffic together."""
        for number, pipe in enumerate(self.pipes):
            pipe.send((what, [name for name in names if self.names.index(name) % len(self.pipes) == number]))
        answers: list[light.Traffic] = [pipe.recv() for pipe in self.pipes]
        return light.Traffic(*map(sum, zip(*map(astuple, answers), strict=True)))

    def join(self, names: Sequence[str]) -> None:
        self.order("join", names)
        self.live += names

    def leave(self, names: Sequence[str]) -> None:
        self.order("leave", names)
        self.live = [name for name in self.live if name not in set(names)]

    def measure(self, what: str, act: Callable[[], None]) -> dict[str, Any]:
        """Measure from the beginning of the change to Stable with all present consumers."""
        known = {(record.topic, record.rebalance, record.at) for record in self.records()}
        traffic, asked = self.order("count"), replace(self.asked)
        self.watch.reset()
        began = time.time()
        act()
        self.stable()
        after = self.order("count")
        records = [r for r in self.records() if (r.topic, r.rebalance, r.at) not in known]
        plans = [record for record in records if record.moves]
        figures = {
            "what": what,
            **{name: round(self.watch.longest.get(name, 0.0), 3) for name in ("look_s", "plan_s", "commit_s")},
            "to_plan_s": round(plans[0].at - began, 2),
            "confirm_s": round(records[-1].at - plans[-1].at, 2),
            "total_s": round(records[-1].at - began, 2),
            "transitions": len(records),
            "plans": len(plans),
            "moves": sum(len(record.moves) for record in plans),
            "operations": after.operations - traffic.operations,
            "watches": after.watches - traffic.watches,
            "mib": round(mib(traffic, after), 1),
            "coordinator_operations": self.asked.operations - asked.operations,
            "coordinator_mib": round(mib(asked, self.asked), 1),
        }
        print(self.size, figures, file=sys.stderr, flush=True)
        return figures

    def records(self) -> Sequence[Record]:
        """Oldest first."""
        found = (record for topic in self.topics for record in history.records(self.seen, topic, 10_000))
        return sorted(found, key=lambda record: record.at)

    def stable(self) -> None:
        until(self._is_stable, f"{self.size} is Stable", LIMIT_S)

    def _is_stable(self) -> bool:
        assert all(one.is_alive() for one in self.processes), "a process of the consumers has ended"
        consumers: dict[str, set[str]] = {topic: set() for topic in self.topics}
        for name in self.live:
            consumers[light.topic_of(name, self.topics)].add(name)
        return all(self._is_settled(topic, live) for topic, live in consumers.items())

    def _is_settled(self, topic: str, live: set[str]) -> bool:
        view = store.load(self.seen.zk, self.paths, topic).view
        if view.state is None or view.node is None or view.state.state is not State.STABLE:
            return False
        owners = set(view.node.assignments.values())
        complete = len(view.node.assignments) == self.partitions
        return complete and (owners == live if len(live) <= self.partitions else owners <= live)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(("end", []))
        for process in self.processes:
            process.join(10)
            process.kill()
        self.statuses.close()
        self.seen.zk.close()
        self.zk.close()


def joins_and_leaves(site: Site, tenth: int) -> Iterator[dict[str, Any]]:
    """Yield a join of one, a join of a tenth, and a leave of a tenth."""
    staying, one, more = site.names[: -tenth - 1], site.names[-tenth - 1 : -tenth], site.names[-tenth:]
    site.join(staying)
    with looping(site.c):
        site.stable()
        yield site.measure("one joins", lambda: site.join(one))
        yield site.measure("a tenth joins", lambda: site.join(more))
        yield site.measure("a tenth leaves", lambda: site.leave(more))


def rolling_restart(site: Site, tenth: int) -> Iterator[dict[str, Any]]:
    """Everybody leaves and comes back, a tenth at a time."""
    site.join(site.names)
    with looping(site.c):
        site.stable()
        yield site.measure("rolling restart", lambda: rolling(site, tenth))


PARTS: Mapping[str, Callable[[Site, int], Iterator[dict[str, Any]]]] = {
    "joins and leaves": joins_and_leaves,
    "rolling restart": rolling_restart,
}


def rolling(site: Site, tenth: int) -> None:
    """A tenth at a time leaves, and comes back when the rest is Stable."""
    everybody = list(site.live)
    for first in range(0, len(everybody), tenth):
        some = everybody[first : first + tenth]
        site.leave(some)
        site.join(some)
        site.stable()


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each size, change and form, so that the forms of a change are adjacent."""
    titles = {
        "moves": "moves",
        "look_s": "look",
        "plan_s": "plan",
        "commit_s": "write",
        "confirm_s": "confirm",
        "total_s": "Stable",
        "operations": "operations",
        "mib": "MiB",
        "coordinator_operations": "coordinator's",
        "coordinator_mib": "MiB",
    }
    found = {
        (size, change["what"], form): (change, part["load"])
        for form in ("plain", "packed")
        for size, parts in result.get(form, {}).items()
        for part in parts.values()
        for change in part["changes"]
    }
    changes = dict.fromkeys((size, what) for size, what, _ in found)
    rows = []
    for size, what in changes:
        counts = " × ".join(f"{count:,}" for count in map(int, size.split("x")))
        plain = found.get((size, what, "plain"))
        for form in (one for one in ("plain", "packed") if (size, what, one) in found):
            change, load = found[size, what, form]
            figures = [figure(name, change[name]) for name in titles]
            target = target_of(size, what, change, plain[0] if plain and form == "packed" else None)
            rows.append([counts, what, form, *figures, f"{load:.1f}", target])
    head = ("consumers × partitions (× topics)", "change", "form", *titles.values(), "load", "target")
    table = grid(head, rows, ("change", "form", "target"))
    processes = result.get("processes", 1)
    how = f"Settle time {SETTLE_S:g} s" + (f", consumers in {processes} processes" if processes > 1 else "")
    return f"{told(result, how)}\n\n{table}"


def figure(name: str, value: float) -> str:
    if name.endswith("_s"):
        return f"{value:.2f}" if value < 1 else f"{value:.1f}" if value < 20 else f"{value:,.0f}"
    return f"{value:,.1f}" if name.endswith("mib") else f"{value:,}"


def target_of(size: str, what: str, change: Mapping[str, Any], plain: Mapping[str, Any] | None) -> str:
    """Return the target. `plain`: the same change in the plain form; None without a comparison."""
    stable_s, former = STABLE_S.get((size, what)), FORMER_MIB.get((size, what))
    targets = [] if stable_s is None else [(change["total_s"] <= stable_s, f"Stable ≤ {stable_s:g} s")]
    if plain is not None:
        bounds = [plain["mib"], *([] if former is None else [former])]
        targets += [(change["mib"] <= one / 10, f"≤ a tenth of {one:,.1f} MiB") for one in bounds]
    return verdict(*targets)


def measured(size: str, part: str, watch: Stopwatch, policy: Policy, processes: int) -> dict[str, Any]:
    """Measure a part of a size, on a separate ZooKeeper."""
    with tempfile.TemporaryDirectory(prefix="scale-") as folder, EmbeddedZooKeeper(Path(folder)) as zookeeper:
        site = Site(zookeeper, size, watch, policy, processes)
        try:
            for topic in site.topics:
                topics.add_topic(site.c, topic, GROUP, actor=Actor("command", "benchmark"))
            changes = list(PARTS[part](site, max(1, len(site.names) // 10)))
        finally:
            site.close()
    return {"load": os.getloadavg()[0], "changes": changes}


def refuse_others(file: Path, kept: Mapping[str, Any]) -> None:
    """Raise `SystemExit` if the result was begun elsewhere or by other code: all parts share a line of circumstances."""
    now = circumstances()
    for name in ("processor", "cores", "memory_gib", "commit"):
        if kept[name] != now[name]:
            sys.exit(f"{file.name} is of {name} {kept[name]}, and this is {now[name]}; give another file with --json")


def size_of(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(x[1-9]\d*)?", text):
        raise argparse.ArgumentTypeError(f"{text!r}: name consumers and partitions, such as 10x1000, or also topics")
    return text


def parsed(size: str) -> tuple[int, int, int]:
    """Return consumers, partitions, and topics."""
    consumers, partitions, *topics = map(int, size.split("x"))
    return consumers, partitions, topics[0] if topics else 1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--sizes", type=size_of, nargs="+", default=list(SIZES), help="consumers x partitions (x topics)"
    )
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--forms", nargs="+", choices=list(FORMS), default=["packed"], help="of the topic's node")
    parser.add_argument("--processes", type=whole, default=1, help="that share the consumers")
    parser.add_argument("--json", type=output, default="build/benchmarks/scale.json")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    kept = json.loads(given.json.read_text()) if given.json.exists() else {}
    kept = kept or {**circumstances(), "processes": given.processes}
    if kept.get("processes", 1) != given.processes:
        sys.exit(f"{given.json.name} is of {kept.get('processes', 1)} processes; give another file with --json")
    watch = Stopwatch()
    for size, part, form in product(given.sizes, given.parts, given.forms):
        results = kept.setdefault(form, {})
        if part not in results.get(size, {}):
            refuse_others(given.json, kept)
            results.setdefault(size, {})[part] = measured(size, part, watch, FORMS[form], given.processes)
            given.json.write_text(json.dumps(kept, indent=2) + "\n")
    print(markdown(kept))


if __name__ == "__main__":
    main()
