"""Exchanges names of consumers and numbers of partitions, so that a search looks once at states equal except for names.

The strategy decides between equal answers by name and number. So this is no symmetry of `decide`: of states that differ
only by names a single state is examined, and the strategy's choices in the other states are not.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from coordinator_tasks.core.model import Handoff, Release, TopicNode, TopicState
from tests.simulation import keys as many
from tests.simulation.keys import Keys, Numbers
from tests.simulation.rules import Rules
from tests.simulation.states import NAMES, Process, Shared, Written

V = TypeVar("V")


class Renaming(NamedTuple):
    """The consumer at place `n` moves to `consumers[n]`, partition `p` becomes `partitions[p]`."""

    consumers: tuple[int, ...]
    partitions: tuple[int, ...]

    @classmethod
    def all(cls, consumers: int, partitions: int) -> list["Renaming"]:
        """Return every renaming, the identity first."""
        found = permutations(range(partitions))
        return [cls(c, p) for p in found for c in permutations(range(consumers))]

    def name(self, consumer: str) -> str:
        return NAMES[self.consumers[NAMES.index(consumer)]]

    def moved(self, values: tuple[V, ...]) -> tuple[V, ...]:
        """Return the values of the consumers' places at their new places."""
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
        """Return the renamed state; `planned` is its digest under the new names."""
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
    """Processes by number."""

    rules: Rules
    processes: list[Process | None]

    def number(self, process: Process | None) -> int: ...


class Exchange:
    """Finds the state that represents all states equal except for names."""

    def __init__(self, tables: Tables) -> None:
        bounds = tables.rules.bounds
        self._tables, self._rules = tables, tables.rules
        self._renamings = Renaming.all(bounds.consumers, bounds.partitions)
        self._renamed: dict[Hashable, Any] = {}
        self._least: dict[Shared, tuple[Shared, list[int]]] = {}
        self._tables_of = [np.zeros(1, np.int64) for _ in self._renamings]

    def canonical(self, shared: Shared, keys: Keys) -> tuple[Shared, Keys]:
        """Return the representative of each state: sorted, without repeats."""
        least, numbers = self._to_least(shared)
        found = self._keys_under(numbers[0], keys)
        for number in numbers[1:]:
            found = np.minimum(found, self._keys_under(number, keys))
        return least, np.unique(found)

    def forget(self, most: int) -> None:
        """Of shared parts, once there are more than so many."""
        if len(self._least) > most:
            self._least.clear()

    def _to_least(self, shared: Shared) -> tuple[Shared, list[int]]:
        """Return the least renamed shared part, and the renamings."""
        if shared not in self._least:
            under = [self._shared_under(number, shared) for number in range(len(self._renamings))]
            least = min(under)
            self._least[shared] = least, [number for number, found in enumerate(under) if found == least]
        return self._least[shared]

    def _shared_under(self, number: int, shared: Shared) -> Shared:
        renaming = self._renamings[number]
        return Shared(
            versions=tuple(self._node_under(number, version) for version in shared.versions),
            state=self._state_under(number, shared.state),
            releases=self._releases_under(number, shared.releases),
            drawn=renaming.moved(shared.drawn),
            ended=renaming.moved(shared.ended),
            isolated=renaming.moved(shared.isolated),
            draining=renaming.moved(shared.draining),
            crashes=shared.crashes,
            zombies=shared.zombies,
            drains=shared.drains,
            looked=tuple(self._written_under(number, written) for written in shared.looked),
        )

    def _written_under(self, number: int, written: Written) -> Written:
        relies = tuple(sorted(self._renamings[number].consumers[n] for n in written.relies))
        return Written(self._state_under(number, written.state), self._node_under(number, written.node), relies)

    def _keys_under(self, number: int, keys: Keys) -> Keys:
        columns = [many.column(keys, n) for n in range(self._rules.bounds.consumers)]
        renamed = tuple(self._table(number, column)[column].astype(np.uint64) for column in columns)
        return many.joined(self._renamings[number].moved(renamed))

    def _table(self, number: int, column: Keys) -> Numbers:
        """Return every process's renamed number; filled for the processes in the column.

        0 = no process, or unknown yet.
        """
        table = self._tables_of[number]
        if table.size < len(self._tables.processes):
            table = np.concatenate([table, np.zeros(table.size + len(self._tables.processes), table.dtype)])
            self._tables_of[number] = table
        for unknown in np.unique(column[table[column] == 0]):
            table[unknown] = self._process_under(number, int(unknown))
        return table

    def _process_under(self, number: int, process: int) -> int:
        found = self._tables.processes[process]
        if found is None:
            return process
        partitions = self._renamings[number].partitions
        renamed = found._replace(
            picture=self._node_under(number, found.picture),
            runs=tuple(sorted((partitions[p], epoch, closes) for p, epoch, closes in found.runs)),
            released=tuple(sorted((partitions[p], epoch) for p, epoch in found.released)),
        )
        return self._tables.number(renamed)

    def _remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._renamed:
            self._renamed[key] = make()
        return self._renamed[key]

    def _node_under(self, number: int, node: int) -> int:
        if node < 0:
            return node
        make = lambda: self._rules.node_id(self._renamings[number].node(self._rules.nodes[node]))  # noqa: E731
        return int(self._remembered(("node", number, node), make))

    def _state_under(self, number: int, state: int) -> int:
        if state < 0:
            return state
        renaming, before = self._renamings[number], self._rules.states[state]
        make = lambda: self._rules.state_id(renaming.state(before, self._planned_under(renaming, before.planned)))  # noqa: E731
        return int(self._remembered(("state", number, state), make))

    def _releases_under(self, number: int, releases: int) -> int:
        make = lambda: self._rules.releases_id(self._renamings[number].releases(self._rules.releases[releases]))  # noqa: E731
        return int(self._remembered(("releases", number, releases), make))

    def _planned_under(self, renaming: Renaming, planned: str) -> str:
        """Return the digest of a plan for the same consumers under their new names."""
        able = self._remembered("plans", self._plans).get(planned)
        return planned if able is None else self._rules.plan_for(frozenset(renaming.name(name) for name in able))

    def _plans(self) -> dict[str, frozenset[str]]:
        names = NAMES[: len(self._renamings[0].consumers)]
        sets = [frozenset(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)]
        return {self._rules.plan_for(able): able for able in sets}
