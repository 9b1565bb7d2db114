"""Strategies of assignment: pure, deterministic functions of a `Problem`, named in `ASSIGNORS`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from coordinator_tasks.core.assignors.explain import Explainer
from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.topic_strategies import ASSIGNORS
from coordinator_tasks.core.assignors.weights import Measure
from coordinator_tasks.core.errors import BadStrategy
from coordinator_tasks.core.model import TopicConfig


class Assignor(Protocol):
    """A strategy. It gives every partition to a member; a partial strategy may leave partitions without an owner."""

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return partition → member for every partition, including fixed partitions."""


@runtime_checkable
class Checking(Protocol):
    """A strategy with a check of new parameters."""

    def check(self, parameters: Mapping[str, str]) -> None:
        """Raise `Refused` for wrong parameters."""


@runtime_checkable
class Explaining(Protocol):
    """A strategy with its own explanations of its answers."""

    def explainer(self, problem: Problem, answer: Mapping[int, str]) -> Explainer:
        """Return the explainer of this answer to this problem."""


@runtime_checkable
class Sharing(Protocol):
    """A strategy that plans several topics jointly, by the number of partitions."""

    def share(self, problems: Sequence[Problem], ties: Mapping[str, int]) -> list[Mapping[int, str]]:
        """Return an answer for each problem. All have the same `loads`: partitions of topics outside these problems.

        `ties`: member → number of its other partitions.
        """


@runtime_checkable
class Measuring(Protocol):
    """A strategy that plans by measured loads. Its answer may change without an event."""

    def measure(self, parameters: Mapping[str, str]) -> Measure:
        """Return the measure of the weights."""

    def patience_s(self, parameters: Mapping[str, str]) -> float | None:
        """Return how long a topic must be Stable before changed loads alone cause a plan; `None` if loads never do."""


def is_partial(strategy: Assignor) -> bool:
    """Return the strategy's attribute `partial`: whether it may leave partitions without an owner; False by default."""
    return bool(getattr(strategy, "partial", False))


def assignor(name: str, known: Mapping[str, Assignor] = ASSIGNORS) -> Assignor:
    """Return the strategy of this name. For an unknown name, raise `BadStrategy` with the known names."""
    found = known.get(name)
    if found is None:
        raise BadStrategy(f"there is no strategy {name!r}; choose one of {', '.join(sorted(known))}")
    return found


@dataclass(frozen=True, slots=True)
class Strategies:
    """The known strategies, and the cluster's default strategy with its parameters.

    Topics without a strategy use the default. A topic with the default strategy takes the cluster's value of each
    parameter that the topic itself does not set.
    """

    known: Mapping[str, Assignor] = field(default_factory=lambda: ASSIGNORS)
    default: str = "balanced"
    parameters: Mapping[str, str] = field(default_factory=dict)

    def effective(self, config: TopicConfig) -> TopicConfig:
        name = config.strategy or self.default
        parameters = {**self.parameters, **config.parameters} if name == self.default else config.parameters
        return replace(config, strategy=name, parameters=parameters)

    def check(self, config: TopicConfig) -> None:
        """Raise `Refused` if the strategy is unknown, or refuses these parameters."""
        wanted = self.effective(config)
        self.check_parameters(wanted.strategy, wanted.parameters)

    def check_parameters(self, name: str, parameters: Mapping[str, str]) -> None:
        """Raise `Refused` if the strategy is unknown or refuses the parameters. A site's strategy takes any."""
        found = assignor(name, self.known)
        if isinstance(found, Checking):
            found.check(parameters)
        elif found is ASSIGNORS.get(name) and parameters:
            raise BadStrategy(f"strategy {name!r} takes no parameters, and {min(parameters)!r} is given; leave it out")


def validate(problem: Problem, answer: Mapping[int, str], strategy: str, *, partial: bool = False) -> None:
    """Raise `Refused` unless the strategy's answer is a valid assignment. The error names the violation."""
    listed = set(problem.partitions)
    for partition, member in sorted(answer.items()):
        if partition not in listed:
            raise BadStrategy(f"strategy {strategy!r} assigned partition {partition}, which the topic does not have")
        if member not in problem.members and problem.fixed.get(partition) != member:
            raise BadStrategy(
                f"strategy {strategy!r} gave partition {partition} to {member!r}, which is no live member that "
                f"subscribes to {problem.topic}"
            )
    for partition, member in sorted(problem.fixed.items()):
        if answer.get(partition) != member:
            raise BadStrategy(f"strategy {strategy!r} moved partition {partition}, which is fixed to {member!r}")
    left = [p for p in problem.partitions if p not in answer]
    if left and problem.members and not partial:
        raise BadStrategy(f"strategy {strategy!r} left partitions {left[:10]} without an owner beside live members")
