"""Names of consumers and numbers of partitions exchanged, so that a search looks once at states that differ only by them.

The strategy decides between equal answers by name and number. So this is no symmetry of `decide`: of states that differ
only by names one is looked at, and what the strategy would choose in the others by their names is not.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, NamedTuple, Protocol, TypeVar

from coordinator_tasks.core.model import Handoff, Release, TopicNode, TopicState
from tests.simulation.states import NAMES, Process, Site

V = TypeVar("V")


class Renaming(NamedTuple):
    """The consumer at place `n` becomes that at `consumers[n]`, partition `p` becomes `partitions[p]`."""

    consumers: tuple[int, ...]
    partitions: tuple[int, ...]

    @classmethod
    def all(cls, consumers: int, partitions: int) -> list["Renaming"]:
        """Every one, that which changes nothing first."""
        found = permutations(range(partitions))
        return [cls(c, p) for p in found for c in permutations(range(consumers))]

    def name(self, consumer: str) -> str:
        return NAMES[self.consumers[NAMES.index(consumer)]]

    def moved(self, values: tuple[V, ...]) -> tuple[V, ...]:
        """What stood at each consumer's place, at its new one."""
        return tuple(values[n] for n in _inverse(self.consumers))

    def by_name(self, values: Mapping[str, V]) -> dict[str, V]:
        return dict(sorted((self.name(c), value) for c, value in values.items()))

    def by_partition(self, values: Mapping[int, V]) -> dict[int, V]:
        return dict(sorted(((self.partitions[p], value) for p, value in values.items()), key=lambda item: item[0]))

    def set_of(self, partitions: Iterable[int]) -> frozenset[int]:
        return frozenset(self.partitions[p] for p in partitions)

    def node(self, node: TopicNode) -> TopicNode:
        return replace(
            node,
            assignments={p: self.name(c) for p, c in self.by_partition(node.assignments).items()},
            since=self.by_partition(node.since),
            handoff={
                p: Handoff(self.name(h.giver), self.name(h.taker), h.epoch)
                for p, h in self.by_partition(node.handoff).items()
            },
            incarnations=self.by_name(node.incarnations),
            guarded=self.set_of(node.guarded),
        )

    def state(self, state: TopicState, planned: str) -> TopicState:
        """`planned` is what was planned by, under the new names."""
        return replace(
            state,
            to_start={c: tuple(sorted(self.set_of(ps))) for c, ps in self.by_name(state.to_start).items()},
            to_close={c: tuple(sorted(self.set_of(ps))) for c, ps in self.by_name(state.to_close).items()},
            epochs=self.by_partition(state.epochs),
            targets=self.by_name(state.targets),
            restarts=self.by_name(state.restarts),
            planned=planned,
        )

    def releases(self, releases: tuple[Release, ...]) -> tuple[Release, ...]:
        """`offset` names the partition in the search."""
        found = (replace(r, by=self.name(r.by), offset=self.partitions[r.offset]) for r in releases)
        return tuple(sorted(found, key=lambda release: release.offset))


@lru_cache(1_000)
def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=lambda n: order[n]))


class Tables(Protocol):
    """Nodes and states by number, and what a plan for some consumers is known by."""

    nodes: list[TopicNode]
    states: list[TopicState]

    def node_id(self, node: TopicNode) -> int: ...

    def state_id(self, state: TopicState) -> int: ...

    def plan_for(self, able: Iterable[str]) -> str: ...


class Exchange:
    """Finds the state that stands for all that differ only by names."""

    def __init__(self, tables: Tables, consumers: int, partitions: int) -> None:
        self._tables = tables
        self._renamings = Renaming.all(consumers, partitions)
        self._renamed: dict[object, Any] = {}

    def canonical(self, site: Site) -> Site:
        """The one that stands for all that differ from it only by names."""
        return min((self._under(number, site) for number in range(len(self._renamings))), key=_order)

    def _under(self, number: int, site: Site) -> Site:
        renaming = self._renamings[number]
        consumers = renaming.consumers
        return Site(
            versions=tuple(self._node_under(number, version) for version in site.versions),
            state=self._state_under(number, site.state),
            releases=self._remembered((number, site.releases), lambda: renaming.releases(site.releases)),
            processes=renaming.moved(tuple(self._process_under(number, process) for process in site.processes)),
            drawn=renaming.moved(site.drawn),
            ended=renaming.moved(site.ended),
            isolated=renaming.moved(site.isolated),
            excused=tuple(sorted((consumers[n], incarnation) for n, incarnation in site.excused)),
            crashes=site.crashes,
            zombies=site.zombies,
        )

    def _remembered(self, key: object, make: Callable[[], Any]) -> Any:
        if key not in self._renamed:
            self._renamed[key] = make()
        return self._renamed[key]

    def _node_under(self, number: int, node: int) -> int:
        if node < 0:
            return node
        make = lambda: self._tables.node_id(self._renamings[number].node(self._tables.nodes[node]))  # noqa: E731
        return int(self._remembered(("node", number, node), make))

    def _state_under(self, number: int, state: int) -> int:
        if state < 0:
            return state
        renaming, before = self._renamings[number], self._tables.states[state]
        make = lambda: self._tables.state_id(renaming.state(before, self._planned_under(renaming, before.planned)))  # noqa: E731
        return int(self._remembered(("state", number, state), make))

    def _planned_under(self, renaming: Renaming, planned: str) -> str:
        """The digest of a plan for the same consumers under their new names."""
        able = self._remembered("plans", self._plans).get(planned)
        return planned if able is None else self._tables.plan_for(frozenset(renaming.name(name) for name in able))

    def _plans(self) -> dict[str, frozenset[str]]:
        names = NAMES[: len(self._renamings[0].consumers)]
        sets = [frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)]
        return {self._tables.plan_for(able): able for able in sets}

    def _process_under(self, number: int, process: Process | None) -> Process | None:
        if process is None:
            return None
        partitions = self._renamings[number].partitions
        make = lambda: process._replace(  # noqa: E731
            picture=self._node_under(number, process.picture),
            runs=tuple(sorted((partitions[p], epoch, closes) for p, epoch, closes in process.runs)),
            released=tuple(sorted((partitions[p], epoch) for p, epoch in process.released)),
        )
        found: Process = self._remembered((number, process), make)
        return found


def _order(site: Site) -> tuple[object, ...]:
    """Some order of states; what is not there comes first."""
    releases = tuple((r.offset, r.epoch, r.by, r.incarnation) for r in site.releases)
    processes = tuple(p if p is not None else () for p in site.processes)
    return (site.versions, site.state, processes, site.drawn, site.ended, site.isolated, site.excused, releases)
