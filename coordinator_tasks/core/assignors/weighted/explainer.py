"""Why `weighted` has chosen a partition's owner: the loads of both members, and the rule that decided."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.weighted.load_account import LoadAccount
from coordinator_tasks.core.assignors.weighted.parameters import Zones, rules_of
from coordinator_tasks.core.text.partition_text import counted


class WeightedExplainer:
    """The sentences about one answer."""

    def __init__(self, problem: Problem, answer: Mapping[int, str]) -> None:
        self.problem, self.rules = problem, rules_of(problem.parameters)
        self.before = LoadAccount(problem, self.rules)
        self.after = LoadAccount(replace(problem, owned=answer), self.rules)
        self.moves = sum(1 for p, m in problem.owned.items() if answer.get(p) != m)

    def summary(self) -> str:
        if not self.after.seats:
            return f"weighted by {self.rules.measure}: no consumer may have anything"
        fullest = max(self.after.seats, key=lambda m: (self.after.ratio(m), m))
        budget = "" if self.rules.max_moves is None else f" of {self.rules.max_moves} allowed"
        return (
            f"weighted by {self.rules.measure}: {self.moves} moves{budget}; the fullest is {fullest} with "
            f"{self._figure(self.after, fullest)}"
        )

    def given(self, partition: int, taker: str) -> str:
        return f"{taker} carried least of those that may have it, {self._figure(self.before, taker)}{self._near(partition, taker)}"

    def moved(self, partition: int, giver: str, taker: str) -> str:
        to = f"{taker} carried {self._figure(self.before, taker)}{self._near(partition, taker)}"
        forced = self._forced(partition, giver)
        if forced:
            return f"{forced}; {to}"
        if self.before.ratio(giver) > self.after.top:
            over = f"{giver} carried {self._figure(self.before, giver)}, above the tolerance of {_percent(self.rules.tolerance)}"
            return f"{over}; {to}"
        if self.before.ratio(taker) < self.after.level * self.rules.floor:
            return f"{taker} was below the floor of {_percent(self.rules.floor)}: {to}; {giver} {self._figure(self.before, giver)}"
        return f"{giver} made room for a partition that few may have; {to}"

    def _forced(self, partition: int, giver: str) -> str:
        if giver not in self.before.seats or self.rules.bars(giver, partition):
            capacity = self.problem.members[giver].capacity if giver in self.problem.members else 1.0
            return f"{giver} has no capacity" if capacity <= 0 else f"{giver} is banned from it"
        if not self.before.may_have(giver, partition):
            return f"{giver} is in no rack of its replicas ({', '.join(self.before.racks(partition))})"
        if self.before.count[giver] > self.before.limit[giver]:
            limit = f"{self.before.limit[giver]:.0f}"
            return f"{giver} had {counted(self.before.count[giver], 'partition')} of all topics, more than max.partitions {limit}"
        return ""

    def stays(self, partition: int, owner: str) -> str:  # noqa: ARG002 - only its owner's load counts
        ratio, figure = self.after.ratio(owner), self._figure(self.after, owner)
        if ratio <= self.after.top:
            return f"{owner} carries {figure}, within the tolerance of {_percent(self.rules.tolerance)}"
        if self.rules.max_moves is not None and self.moves >= self.rules.max_moves:
            return f"{owner} carries {figure}, but all {self.rules.max_moves} moves of max.moves are used"
        if all(self.after.ratio(m) <= self.after.alarm for m in self.after.seats):
            rule = f"the tolerance and the hysteresis, {_percent(self.rules.tolerance + self.rules.hysteresis)}"
            return f"{owner} carries {figure}, and nobody is above the level by more than {rule}"
        return f"{owner} carries {figure}, but no allowed move would gain {_percent(self.rules.min_gain)} of the level"

    def left(self, partition: int) -> str:
        may = [m for m in self.after.seats if self.after.may_have(m, partition)]
        if not may:
            return "no live consumer may have it: bans and capacities leave nobody"
        named = f"{', '.join(may[:5])}{' and others' if may[5:] else ''}"
        return f"every consumer that may have it is at max.partitions already: {named}"

    def _figure(self, account: LoadAccount, member: str) -> str:
        """Return a load such as `1200 records/s (83 % of the level)`."""
        if member not in account.seats:
            return "nothing"
        share = account.ratio(member) / account.level if account.level else 1.0
        return f"{_number(account.load[member])} {self.rules.measure.unit} ({_percent(share)} of the level)"

    def _near(self, partition: int, member: str) -> str:
        if self.rules.zones is Zones.OFF or not self.before.racks(partition):
            return ""
        near = self.before.is_near(member, partition)
        return ", in a rack of its replicas" if near else ", in no rack of its replicas"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
