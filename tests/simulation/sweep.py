"""The sweep of the exhaustive search: see `tests.simulation.search` for the subject.

The shared part (`Shared`) is one part of a state, each process another. States with the same shared part are examined
together, as an array of numbers: a step of a consumer depends on the process and the shared part only, so each step is
computed once for many states. Nothing is sampled, and no state is replaced by a digest: a state is an exact number.

Not breadth first: `_rank_of` never falls from a state to the next, so earlier states are forgotten. Memory is for the
states still ahead, and for the tables of nodes and processes.
"""

import heapq
import pickle
import time
from collections.abc import Hashable, Iterator
from itertools import count
from pathlib import Path

import numpy as np

from coordinator_tasks.core.model import State
from tests.simulation import keys as many
from tests.simulation.keys import Column, Flags, Keys, Numbers
from tests.simulation.rules import SILENT, Rules, put
from tests.simulation.states import NAMES, Bounds, Found, Process, Shared, Written

Rank = tuple[int, int, int]
REMEMBERED = 1_000_000  # decisions, and as many lists of steps; cheaper to make again than to keep


class Search:
    """`reached` counts states, `edges` steps from them; `complete`: no state is left within the bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.reached = self.edges = self.quiet = 0
        self.took_s = 0.0
        self.rules = Rules(bounds)
        self.processes: list[Process | None] = [None]
        self._numbers: dict[Process | None, int] = {None: 0}
        self._turn = count()
        self._ahead: dict[Shared, list[Keys]] = {}
        self._order: list[tuple[Rank, int, int, Shared]] = []
        self._rank: Rank = (0, 0, 0)
        self._seen: dict[Shared, Keys] = {}
        self._steps: dict[Hashable, _Steps] = {}
        self._decisions: dict[Hashable, tuple[Written, ...]] = {}
        self._heard: dict[Hashable, Hashable] = {}
        shared, processes = self.rules.first()
        self._add(shared, many.joined([np.array([self.number(process)]) for process in processes]))

    @property
    def complete(self) -> bool:
        return not self._ahead

    def __str__(self) -> str:
        """Return the findings so far."""
        ahead = sum(keys.size for found in self._ahead.values() for keys in found)
        how = "all of them" if self.complete else f"not all: at most {ahead:,} known ones are ahead"
        numbers = f"{len(self.processes):,} processes, {len(self.rules.nodes):,} nodes, {len(self.rules.states):,} topic states"
        return (
            f"{self.reached:,} states ({how}), {self.edges:,} steps, {self.took_s:.0f} s of a core; "
            f"{self.quiet:,} quiet ones; {numbers}"
        )

    def run(self, limit_s: float = float("inf")) -> None:
        """Look at everything within the bounds, or go on until the time is over; raises `Found` with the state."""
        until, began = time.monotonic() + limit_s, time.process_time()
        while self._ahead and self.reached < self.bounds.most and time.monotonic() < until:
            rank, _, _, shared = heapq.heappop(self._order)
            if rank != self._rank:
                self._seen.clear()
                self._rank = rank
            self._look_at(shared, np.unique(np.concatenate(self._ahead.pop(shared))))
        self.took_s += time.process_time() - began

    def save(self, path: Path) -> None:
        """To go on later."""
        self._forget(0)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            pickle.dump(self, file, pickle.HIGHEST_PROTOCOL)
        partial.replace(path)

    @staticmethod
    def begun(bounds: Bounds, path: Path) -> "Search":
        """Return the search stored in `path`, or a new search."""
        if not path.exists():
            return Search(bounds)
        with path.open("rb") as file:
            search = pickle.load(file)
        if search.bounds != bounds:
            raise SystemExit(f"{path} is of other bounds: delete it")
        return search  # type: ignore[no-any-return]

    # States as numbers ------------------------------------------------------------------------------------------------

    def number(self, process: Process | None) -> int:
        """Return the number of this process; 0 = no process."""
        found = self._numbers.setdefault(process, len(self.processes))
        if found == len(self.processes):
            if found > many.LARGEST:
                raise OverflowError(f"more than {found} different processes")
            self.processes.append(process)
        return found

    def shown(self, shared: Shared, key: Keys) -> str:
        """A state in words."""
        processes = [self.processes[int(many.column(key, n))] for n in range(self.bounds.consumers)]
        node = self.rules.nodes[shared.versions[-1]] if shared.versions else None
        state = self.rules.states[shared.state] if shared.state >= 0 else None
        return f"{shared} {processes} with {node}, {state} and {self.rules.releases[shared.releases]}"

    def _rank_of(self, shared: Shared) -> Rank:
        """Return a rank that grows with every step to another shared part, except a write of the topic's state alone."""
        faults = shared.crashes + sum(shared.drawn) + 2 * shared.zombies - sum(shared.isolated)
        drained = 2 * shared.drains - sum(shared.draining)
        return self.rules.epoch(shared), faults + drained, sum(r.epoch for r in self.rules.releases[shared.releases])

    def _add(self, shared: Shared, keys: Keys) -> None:
        """Add reached states."""
        if not keys.size:
            return
        found = self._ahead.get(shared)
        if found is not None:
            found.append(keys)
            return
        rank = self._rank_of(shared)
        if rank < self._rank:
            raise Found(f"it goes back, which the sweep relies on never to happen: {self.shown(shared, keys[0])}")
        self._ahead[shared] = [keys]
        stable = shared.state >= 0 and self.rules.states[shared.state].state is State.STABLE
        heapq.heappush(self._order, (rank, int(stable), next(self._turn), shared))

    # A shared part ----------------------------------------------------------------------------------------------------

    def _look_at(self, shared: Shared, entered: Keys) -> None:
        """Reach all states by steps within the shared part, and then take every other step."""
        self._forget(REMEMBERED)
        known = self._seen.get(shared, many.NONE)
        keys = many.without(entered, known)
        if not keys.size:
            return
        places = range(self.bounds.consumers)
        for n in places:  # consumers' steps are independent here: one after the other reaches all
            keys = self._closed(shared, n, keys)
        keys = many.without(keys, known)
        self._seen[shared] = many.union(known, keys)
        self.reached += keys.size
        columns = [many.column_of(keys, n) for n in places]
        owned = self._check_owners(shared, keys, columns)
        free = np.zeros(keys.size, bool)
        for n, one in enumerate(columns):
            free |= self._consumer(shared, n, keys, one)
        free |= self._coordinator(shared, keys, columns)
        self._check_quiet(shared, keys[~free], owned[~free])

    def _closed(self, shared: Shared, n: int, keys: Keys) -> Keys:
        found, where = many.column_of(keys, n)
        reached = [self._reached(shared, n, int(number)) for number in found]
        return many.spread(keys, n, where, reached) if any(one.size > 1 for one in reached) else keys

    def _reached(self, shared: Shared, n: int, number: int) -> Keys:
        """Return every process reachable from this process within the shared part, itself included."""
        steps = self._steps_of(shared, n, number)
        if steps.reached is None:
            found, todo = {number}, [number]
            while todo:
                new = set(self._steps_of(shared, n, todo.pop()).within) - found
                found |= new
                todo += new
            steps.reached = np.array(sorted(found), np.uint64)
        return steps.reached

    def _steps_of(self, shared: Shared, n: int, number: int) -> "_Steps":
        key = (n, number, shared.versions, shared.releases, shared.isolated[n])
        steps = self._steps.get(key)
        if steps is None:
            process = self.processes[number]
            moves = list(self.rules.moves(n, process, shared)) if process is not None else []
            within = [self.number(p) for p, releases in moves if releases == shared.releases]
            beyond = [(self.number(p), releases) for p, releases in moves if releases != shared.releases]
            steps = self._steps[key] = _Steps(within, beyond, bool(beyond) or any(m != number for m in within))
        return steps

    def _forget(self, most: int) -> None:
        for kept in (self._steps, self._decisions, self._heard):
            if len(kept) > most:
                kept.clear()

    # Possible events --------------------------------------------------------------------------------------------------

    def _consumer(self, shared: Shared, n: int, keys: Keys, column: Column) -> Flags:
        """Take a consumer's steps, faults, and a person's actions; return where the consumer may act alone."""
        found, where = column
        if not shared.alive(n):
            for restarted, process in self.rules.restarted(n, shared):
                self.edges += keys.size
                self._add(restarted, many.put(keys, n, self.number(process)))
            return np.zeros(keys.size, bool)
        steps = [self._steps_of(shared, n, int(number)) for number in found]
        self.edges += int(np.bincount(where, minlength=len(steps)) @ [len(s.within) + len(s.beyond) for s in steps])
        for at, one in enumerate(steps):
            for number, releases in one.beyond:
                self._add(shared._replace(releases=releases), many.put(keys[where == at], n, number))
        for crashed in self.rules.crashed(n, shared):
            self.edges += keys.size
            self._add(crashed, np.unique(many.put(keys, n, 0)))
        for directed in self.rules.directed(n, shared):
            self.edges += keys.size
            self._add(directed, keys)
        if shared.isolated[n]:
            nothing = np.array([self._confirms_nothing(shared, n, int(number)) for number in found])
            self.edges += int(nothing[where].sum())
            self._add(shared._replace(isolated=put(shared.isolated, n, False)), keys[nothing[where]])
        return np.array([one.free for one in steps])[where]

    def _confirms_nothing(self, shared: Shared, n: int, number: int) -> bool:
        process = self.processes[number]
        return process is not None and self.rules.confirms_nothing(n, process, shared)

    def _coordinator(self, shared: Shared, keys: Keys, columns: list[Column]) -> Flags:
        """Look with all answers and with one missing; return where a look with all answers writes."""
        if shared.looked:
            self.edges += keys.size
            self._add(self.rules.wrote(shared, shared.looked[0]), keys)
            return np.ones(keys.size, bool)
        if self.rules.epoch(shared) >= self.bounds.epochs:
            return np.zeros(keys.size, bool)
        told: list[list[int]] = []  # by consumer: a number for each differently heard answer
        mixed = np.zeros(keys.size, np.int64)
        for n, (found, inverse) in enumerate(columns):
            alike: dict[Hashable, tuple[int, int]] = {}
            codes = [alike.setdefault(self._heard_of(shared, n, int(p)), (len(alike), int(p)))[0] for p in found]
            told.append([number for _, number in alike.values()])
            mixed = mixed * len(alike) + np.array(codes)[inverse]
        answers, where = np.unique(mixed, return_inverse=True)
        targets: dict[Shared, list[int]] = {}
        stored = self.rules.stored(shared)
        free = np.zeros(answers.size, bool)
        times = np.bincount(where)
        for at, answer in enumerate(answers):
            for by_itself, target in self._looks(shared, stored, _digits(int(answer), told)):
                self.edges += int(times[at])
                if target != shared:
                    free[at] |= by_itself
                    targets.setdefault(target, []).append(at)
        for target, places in targets.items():
            chosen = np.zeros(answers.size, bool)
            chosen[places] = True
            self._add(target, keys[chosen[where]])
        return free[where]

    def _heard_of(self, shared: Shared, n: int, number: int) -> Hashable:
        key = (shared.versions[-1:], shared.state, n, number)
        if key not in self._heard:
            process = self.processes[number]
            told = process._replace(released=()) if process is not None else None
            self._heard[key] = self.rules.heard(shared, n, SILENT if number < 0 else told)
        return self._heard[key]

    def _looks(self, shared: Shared, stored: Hashable, numbers: tuple[int, ...]) -> Iterator[tuple[bool, Shared]]:
        """Where looks lead, and whether by itself, with all answers there; -1 stands for no answer."""
        asked = [numbers, *(put(numbers, n, -1) for n, number in enumerate(numbers) if number)]
        for at, answers in enumerate(asked):
            for written in self._decided(shared, stored, answers):
                yield at == 0, self.rules.wrote(shared, written)
                if self.bounds.late:
                    yield False, shared._replace(looked=(written,))

    def _decided(self, shared: Shared, stored: Hashable, numbers: tuple[int, ...]) -> tuple[Written, ...]:
        heard = tuple(self._heard_of(shared, n, number) for n, number in enumerate(numbers))
        key = (stored, heard)
        if key not in self._decisions:
            told = tuple(SILENT if number < 0 else self.processes[number] for number in numbers)
            self._decisions[key] = self.rules.writes(shared, told)
        return self._decisions[key]

    # Invariants -------------------------------------------------------------------------------------------------------

    def _check_owners(self, shared: Shared, keys: Keys, columns: list[Column]) -> Numbers:
        """Check that no two consumers run a partition unless isolated; return the running partitions as bits."""
        owned = np.zeros(keys.size, np.int64)
        for n, (found, where) in enumerate(columns):
            if shared.alive(n) and not shared.isolated[n]:
                mine = np.array([self._runs(int(number)) for number in found])[where]
                both = np.flatnonzero(owned & mine)
                if both.size:
                    raise Found(f"a partition runs at two consumers: {self.shown(shared, keys[both[0]])}")
                owned |= mine
        return owned

    def _runs(self, number: int) -> int:
        process = self.processes[number]
        return sum(1 << partition for partition, _, _ in process.runs) if process is not None else 0

    def _check_quiet(self, shared: Shared, keys: Keys, owned: Numbers) -> None:
        """Check a quiet state: everything is assigned to able consumers, if any, and runs."""
        self.quiet += keys.size
        places = range(self.bounds.consumers)
        able = {NAMES[n] for n in places if shared.alive(n) and not shared.isolated[n] and not shared.draining[n]}
        epoch = self.rules.epoch(shared)
        if not keys.size or not epoch or not able or epoch >= self.bounds.epochs:
            return
        assigned, everything = self.rules.nodes[shared.versions[-1]].assignments, (1 << self.bounds.partitions) - 1
        stable = self.rules.states[shared.state].state is State.STABLE
        if not stable or len(assigned) < self.bounds.partitions or not set(assigned.values()) <= able:
            raise Found(f"it stands still before Stable: {self.shown(shared, keys[0])}")
        if np.any(owned != everything):
            raise Found(f"it stands still before all runs: {self.shown(shared, keys[np.argmax(owned != everything)])}")


class _Steps:
    """A process's steps: `within` the shared part, `beyond` it by a release, and whether any changes something."""

    __slots__ = ("beyond", "free", "reached", "within")

    def __init__(self, within: list[int], beyond: list[tuple[int, int]], free: bool) -> None:
        self.within, self.beyond, self.free = within, beyond, free
        self.reached: Keys | None = None


def _digits(mixed: int, told: list[list[int]]) -> tuple[int, ...]:
    """Return a process for each answer encoded in this number."""
    found = []
    for numbers in reversed(told):
        mixed, digit = divmod(mixed, len(numbers))
        found.append(numbers[digit])
    return tuple(reversed(found))
