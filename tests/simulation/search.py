"""Every state that the production rules can reach, within bounds: `decide` against consumers on `core.holding`.

Breadth first, one action at a time: a read of any node version that is not older than the picture, a stop, the end of
the last batch, a start, a release, a look of the coordinator with everybody's answer or with one missing, a crash, a
restart, an isolation whose consumer lives on (a zombie), a confirmed readmission. In every state: no two consumers run a
partition unless one of them was isolated, what is stored is valid, and epochs grow. From every state in which nothing
more happens by itself, with all answers there: Stable.

    python -m tests.simulation.search                  # the bounds of docs/reliability.md
    python -m tests.simulation.search --small          # those of the tests
"""

import argparse
import gc
import pickle
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator_tasks.core import causes, invariants
from coordinator_tasks.core.codec import encode_node
from coordinator_tasks.core.decision import Verdict
from coordinator_tasks.core.holding import Reading, accepts, grants, may_hold, owes_release, steps
from coordinator_tasks.core.machine import decide
from coordinator_tasks.core.model import (
    Actor,
    Answer,
    ConsumerStatus,
    Directive,
    Ending,
    IdClaim,
    Isolation,
    Member,
    Release,
    RunningPartition,
    Silence,
    State,
    Token,
    TopicConfig,
    TopicDescription,
    TopicNode,
    TopicState,
    TopicStatus,
    Unreachable,
)
from coordinator_tasks.core.world import Policy, TopicView, World
from tests.simulation.states import NAMES, Process, Site
from tests.simulation.symmetry import Exchange

ACTOR = Actor("loop", "search")
POLICY = Policy(settle_s=0.0)
NOW = 1_000.0
SILENT = Unreachable(Silence.SILENT, "no answer")
REMEMBERED = 2_000_000  # decisions; they are cheaper to make again than to keep
Told = tuple[Process | Unreachable | None, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a search goes; `stale` = how many older versions may still be read; `symmetric` = names do not count."""

    consumers: int
    partitions: int
    epochs: int
    crashes: int
    zombies: int
    stale: int = 1
    most: int = 10_000_000
    symmetric: bool = False

    def __str__(self) -> str:
        return (
            f"{self.consumers} consumers × {self.partitions} partitions, epochs up to {self.epochs}, "
            f"{self.crashes} crashes, {self.zombies} zombies, reads up to {self.stale} versions old"
            f"{', names exchanged' if self.symmetric else ''}"
        )


class Found(Exception):
    """A state that must not be."""


class Search:
    """`reached` counts states, `complete` says whether there is none left within the bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.reached = 0
        self.edges = 0
        self.quiet = 0
        self.complete = False
        self.nodes: list[TopicNode] = []
        self._node_ids: dict[bytes, int] = {}
        self.states: list[TopicState] = []
        self._state_ids: dict[str, int] = {}
        self._exchange = Exchange(self, bounds.consumers, bounds.partitions) if bounds.symmetric else None
        self._valid: set[tuple[int | None, ...]] = set()
        self._moves: dict[object, tuple[tuple[Process, tuple[Release, ...]], ...]] = {}
        self._decisions: dict[object, tuple[tuple[int, int | None], ...]] = {}
        fresh = Process(1, -1, False, (), ())
        n = bounds.consumers
        first = Site((), -1, (), (fresh,) * n, (1,) * n, ((),) * n, (False,) * n, (), 0, 0)
        self._seen = {hash(first)}
        self._layer = [first]
        self._following: list[Site] = []
        self._config = TopicConfig("t", "id-1", "h:1", "g", initial_partitions=bounds.partitions)
        self._description = TopicDescription("t", "id-1", bounds.partitions)

    def run(self, limit_s: float = float("inf")) -> None:
        """Look at everything within the bounds, or go on until the time is over; raises `Found` with the way there."""
        until = time.monotonic() + limit_s
        while self._layer and self.reached < self.bounds.most and time.monotonic() < until:
            self._look_at(self._layer.pop())
            if not self._layer:
                self._layer, self._following = self._following[::-1], []
        self.complete = not self._layer

    def _look_at(self, site: Site) -> None:
        self.reached += 1
        by_itself = False
        for free, found in self._successors(site):
            self.edges += 1
            by_itself = by_itself or (free and found != site)
            successor = self._exchange.canonical(found) if self._exchange is not None else found
            key = hash(successor)
            if key not in self._seen:
                self._seen.add(key)
                self._check(successor)
                self._following.append(successor)
        if not by_itself:
            self._check_quiet(site)

    def save(self, path: Path) -> None:
        """To go on later, in a process that hashes in the same way."""
        self._moves.clear()
        self._decisions.clear()
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            pickle.dump((hash(NAMES), self), file, pickle.HIGHEST_PROTOCOL)
        partial.replace(path)

    @staticmethod
    def begun(bounds: Bounds, path: Path) -> "Search":
        """The search that `path` holds, or a new one."""
        if not path.exists():
            return Search(bounds)
        with path.open("rb") as file:
            hashed, search = pickle.load(file)
        if hashed != hash(NAMES) or search.bounds != bounds:
            raise SystemExit(f"{path} is of other bounds or another PYTHONHASHSEED: delete it, or set the same")
        return search  # type: ignore[no-any-return]

    # What must hold ---------------------------------------------------------------------------------------------------

    def _check(self, site: Site) -> None:
        owners: dict[int, list[int]] = {}
        for n, process in enumerate(site.processes):
            for partition, _, _ in process.runs if process is not None else ():
                sure = process is not None and not site.isolated[n] and (n, process.incarnation) not in site.excused
                if sure:
                    owners.setdefault(partition, []).append(n)
        for partition, found in owners.items():
            if len(found) > 1:
                raise Found(f"partition {partition} runs at {[NAMES[n] for n in found]}: {self._shown(site)}")

    def _check_quiet(self, site: Site) -> None:
        """Nothing more happens by itself: then everything is assigned, if anybody may have it, and runs."""
        self.quiet += 1
        node = self.nodes[site.versions[-1]] if site.versions else None
        live = [n for n, p in enumerate(site.processes) if p is not None and not site.isolated[n]]
        if node is None or not live or node.epoch >= self.bounds.epochs:
            return
        if self.states[site.state].state is not State.STABLE or len(node.assignments) < self.bounds.partitions:
            raise Found(f"it stands still before Stable: {self._shown(site)}")

    def _shown(self, site: Site) -> str:
        node = self.nodes[site.versions[-1]] if site.versions else None
        return f"{site} with {node} and {self.states[site.state] if site.state >= 0 else None}"

    # What may happen --------------------------------------------------------------------------------------------------

    def _successors(self, site: Site) -> Iterator[tuple[bool, Site]]:
        """Every next state, and whether it comes by itself (rather than by a fault or a person)."""
        for n, process in enumerate(site.processes):
            if process is None:
                if site.crashes <= self.bounds.crashes:
                    yield False, self._restarted(site, n)
                continue
            yield from ((True, one) for one in self._consumer(site, n, process))
            if site.crashes < self.bounds.crashes:
                yield False, self._crashed(site, n)
            if site.zombies < self.bounds.zombies and not site.isolated[n]:
                isolated = _put(site.isolated, n, True)
                yield False, site._replace(isolated=isolated, zombies=site.zombies + 1)
            if site.isolated[n] and self._confirms_nothing(site, process):
                yield False, site._replace(isolated=_put(site.isolated, n, False))
        yield from self._coordinator(site)

    def _consumer(self, site: Site, n: int, process: Process) -> Iterator[Site]:
        key = (n, process, site.versions, site.releases, site.isolated[n])
        if key not in self._moves:
            self._moves[key] = tuple(self._moves_of(n, process, site.versions, site.releases, site.isolated[n]))
        for changed, releases in self._moves[key]:
            yield site._replace(processes=_put(site.processes, n, changed), releases=releases)

    def _moves_of(
        self, n: int, process: Process, versions: tuple[int, ...], releases: tuple[Release, ...], is_isolated: bool
    ) -> Iterator[tuple[Process, tuple[Release, ...]]]:
        """What one consumer may do next: how it then stands, and the releases."""
        picture = self.nodes[process.picture] if process.picture >= 0 else None
        if process.sees_isolation != is_isolated:
            yield process._replace(sees_isolation=is_isolated), releases
        for version in versions:
            if accepts(picture, self.nodes[version]) is Reading.ACT:
                yield process._replace(picture=version), releases
        name, isolated, runs = NAMES[n], process.sees_isolation, process.runs
        running = {p: Token(epoch, process.incarnation) for p, epoch, _ in runs}
        closing = {p for p, _, closes in runs if closes}
        owed = owes_release(picture, name, process.incarnation, isolated)
        granted = grants(picture, name, process.incarnation, {r.offset: r for r in releases}, isolated)
        todo = steps(granted, running, closing, owed, dict(process.released))
        for partition in todo.stop:
            yield process._replace(runs=tuple((p, e, c or p == partition) for p, e, c in runs)), releases
        for partition in sorted(closing):
            yield process._replace(runs=tuple(one for one in runs if one[0] != partition)), releases
        for grant in todo.start:
            started = (grant.partition, grant.token.epoch, False)
            yield process._replace(runs=tuple(sorted((*runs, started)))), releases
        for partition in todo.release:
            epoch = owed[partition].epoch
            released = tuple(sorted({**dict(process.released), partition: epoch}.items()))
            yield process._replace(released=released), self._with_release(n, process, releases, partition, epoch)

    def _with_release(
        self, n: int, process: Process, releases: tuple[Release, ...], partition: int, epoch: int
    ) -> tuple[Release, ...]:
        """The releases with this one, unless a newer one is there; `offset` names the partition in this search."""
        old = next((r for r in releases if r.offset == partition), None)
        if old is not None and old.epoch >= epoch:
            return releases
        mine = Release(epoch, NAMES[n], process.incarnation, partition, self._generation, Token(0, 0))
        return tuple(sorted((*(r for r in releases if r is not old), mine), key=lambda r: r.offset))

    def _crashed(self, site: Site, n: int) -> Site:
        return site._replace(
            processes=_put(site.processes, n, None),
            ended=_put(site.ended, n, (*site.ended[n], site.drawn[n])),
            crashes=site.crashes + 1,
        )

    @staticmethod
    def _restarted(site: Site, n: int) -> Site:
        drawn = site.drawn[n] + 1
        return site._replace(
            drawn=_put(site.drawn, n, drawn), processes=_put(site.processes, n, Process(drawn, -1, False, (), ()))
        )

    def _confirms_nothing(self, site: Site, process: Process) -> bool:
        acted = self.nodes[process.picture].epoch if process.picture >= 0 else 0
        current = self.nodes[site.versions[-1]].epoch if site.versions else 0
        return process.sees_isolation and not process.runs and acted >= current

    def _coordinator(self, site: Site) -> Iterator[tuple[bool, Site]]:
        if site.versions and self.nodes[site.versions[-1]].epoch >= self.bounds.epochs:
            return
        for free, state, node in self._looks(site):
            versions = site.versions if node is None else (*site.versions, node)[-1 - self.bounds.stale :]
            yield free, site._replace(versions=versions, state=state)

    def _looks(self, site: Site) -> Iterator[tuple[bool, int, int | None]]:
        """What the coordinator would write, with everybody's answer and with one missing: state, and node if it changes."""
        told = tuple(p and p._replace(released=()) for p in site.processes)
        yield from ((True, *one) for one in self._decided(site, told))
        for n, process in enumerate(told):
            if process is not None:
                yield from ((False, *one) for one in self._decided(site, _put(told, n, SILENT)))

    def _decided(self, site: Site, told: Told) -> tuple[tuple[int, int | None], ...]:
        key = (site.versions[-1:], site.state, site.releases, told, site.drawn, site.ended, site.isolated)
        if key not in self._decisions:
            if len(self._decisions) >= REMEMBERED:
                self._decisions.clear()
            self._decisions[key] = tuple(self._written(site, told))
        return self._decisions[key]

    def _answer(self, n: int, process: Process) -> ConsumerStatus:
        topics = {}
        if process.picture >= 0:
            node = self.nodes[process.picture]
            held = may_hold(node, NAMES[n], process.incarnation, process.sees_isolation)
            runs = {
                p: RunningPartition(0, Token(epoch, process.incarnation, node.generation), True, closes)
                for p, epoch, closes in process.runs
            }
            topics["t"] = TopicStatus(node.generation, node.epoch, held, runs)
        return ConsumerStatus(NAMES[n], "c", process.incarnation, "boot", "ok", topics)

    def _written(self, site: Site, told: Told) -> Iterator[tuple[int, int | None]]:
        answers: dict[str, Answer] = {
            NAMES[n]: self._answer(n, p) if isinstance(p, Process) else p for n, p in enumerate(told) if p is not None
        }
        node = self.nodes[site.versions[-1]] if site.versions else None
        releases = {r.offset: r for r in site.releases}
        state = self.states[site.state] if site.state >= 0 else None
        view = TopicView(self._config, node, state, tuple(self._partitions), releases, self._description)
        members = {
            NAMES[n]: Member(NAMES[n], p.incarnation, f"http://{NAMES[n]}", "boot")
            for n, p in enumerate(site.processes)
            if p is not None
        }
        claims = {
            NAMES[n]: IdClaim(
                NAMES[n], drawn, answered=drawn, ended=dict.fromkeys(site.ended[n], Ending.REAPED), version=1
            )
            for n, drawn in enumerate(site.drawn)
        }
        directives = {
            NAMES[n]: Directive(NAMES[n], Isolation("ann", "", NOW)) for n, one in enumerate(site.isolated) if one
        }
        world = World(NOW, members, claims, directives, answers, fresh=self._generation)
        decision = decide(view, world, POLICY, ACTOR)
        if decision.verdict is not Verdict.WRITE or decision.state is None:
            return
        written = decision.node or node
        if written is None:
            raise Found(f"a state is written without a node: {decision}")
        ids = self.state_id(decision.state), None if decision.node is None else self.node_id(decision.node)
        step = (*site.versions[-1:], *ids)
        if step not in self._valid:
            if invariants.of_topic(written, decision.state):
                raise Found(f"what is written is not valid: {decision}")
            if decision.node is not None and node is not None and invariants.of_step(node, decision.node):
                raise Found(f"epochs fall: {decision}")
            self._valid.add(step)
        yield ids

    @property
    def _partitions(self) -> range:
        return range(self.bounds.partitions)

    def plan_for(self, able: Iterable[str]) -> str:
        """The digest of a plan for these consumers."""
        view = TopicView(self._config, None, None, tuple(self._partitions), {}, self._description)
        members = {name: Member(name, 1, f"http://{name}", "boot") for name in able}
        return causes.digest(view, World(NOW, members), dict.fromkeys(members, 1))

    _generation = "f00dfeedf00dfeed"

    def node_id(self, node: TopicNode) -> int:
        return _interned(encode_node(node), node, self._node_ids, self.nodes)

    def state_id(self, state: TopicState) -> int:
        told = replace(state, rebalance="r" if state.rebalance else "", cause="")
        return _interned(repr(told), told, self._state_ids, self.states)


def _interned(key: object, value: object, ids: dict, values: list) -> int:  # type: ignore[type-arg]
    if key not in ids:
        ids[key] = len(values)
        values.append(value)
    return int(ids[key])


def _put(values: tuple, n: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:n], value, *values[n + 1 :])


SMALL = (Bounds(3, 1, 3, 1, 1, most=25_000), Bounds(2, 2, 3, 1, 1, most=25_000))
FULL = (Bounds(3, 1, 99, 2, 1), Bounds(3, 2, 4, 2, 1), Bounds(3, 3, 4, 2, 1, symmetric=True))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.search", description="All states within bounds.")
    parser.add_argument("--small", action="store_true", help="the bounds of the tests")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the bounds")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="for each of the bounds")
    parser.add_argument("--folder", type=Path, help="where searches that are not complete go on; set PYTHONHASHSEED")
    given = parser.parse_args()
    gc.disable()  # millions of states that all live on
    for number, bounds in enumerate(SMALL if given.small else FULL):
        if given.only is not None and number not in given.only:
            continue
        path = given.folder / f"search-{number}.pickle" if given.folder is not None else None
        search, began = Search(bounds) if path is None else Search.begun(bounds, path), time.monotonic()
        try:
            search.run(given.limit_s)
        except Found as found:
            print(f"{bounds}: {found}")
            return 1
        took_s, how = time.monotonic() - began, "all of them" if search.complete else "not all"
        print(f"{bounds}: {search.reached:,} states ({how}), {search.edges:,} steps, {took_s:.0f} s", flush=True)
        if path is not None:
            search.save(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
