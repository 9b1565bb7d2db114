"""The strategy `weighted`: partitions are spread by lag, by records per second, or by a person's numbers.

Each member takes load by its capacity, over all topics, with few moves.
"""

from collections.abc import Mapping

from coordinator_tasks.core.assignors.explain import Explainer
from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.weighted.parameters import rules_of
from coordinator_tasks.core.assignors.weights import Measure


class Weighted:
    """The strategy `weighted`, as the module describes."""

    partial = True

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Return partition → member. A partition that no member may have is left out.

        Raises `Refused` for wrong parameters or weights.
        """
        # Importing numpy takes a tenth of a second, too long for plans of other strategies.
        from coordinator_tasks.core.assignors.weighted.planner import planned  # noqa: PLC0415

        return planned(problem, rules_of(problem.parameters)).answer()

    def explainer(self, problem: Problem, answer: Mapping[int, str]) -> Explainer:
        from coordinator_tasks.core.assignors.weighted.explainer import WeightedExplainer  # noqa: PLC0415 - numpy again

        return WeightedExplainer(problem, answer)

    def check(self, parameters: Mapping[str, str]) -> None:
        rules_of(parameters)

    def measure(self, parameters: Mapping[str, str]) -> Measure:
        return rules_of(parameters).measure

    def patience_s(self, parameters: Mapping[str, str]) -> float | None:
        """Return the parameter for the interval. Weights and the loads of other topics change without an event."""
        return rules_of(parameters).interval_s
