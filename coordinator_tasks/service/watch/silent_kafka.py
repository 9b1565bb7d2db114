"""If Kafka does not answer, ask only once per observation, and do not wait for one time-out after another."""

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn, cast

from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable
from coordinator_tasks.core.ports import KafkaAdmin
from coordinator_tasks.service.coordinator import Coordinator


class _SilentKafka:
    """A client of Kafka whose first request has failed: each later request fails immediately, with the same error."""

    def __init__(self, error: KafkaUnavailable) -> None:
        self._error = error

    def describe(self, *_: object) -> NoReturn:
        raise self._error

    def committed(self, groups: Iterable[str]) -> dict[str, CoordinatorError]:
        return dict.fromkeys(groups, self._error)

    def group_members(self, _: str) -> NoReturn:
        raise self._error


def silenced(c: Coordinator, error: KafkaUnavailable) -> Coordinator:
    """Return a coordinator whose Kafka answers every request with this error at once."""
    return replace(c, kafka=cast("KafkaAdmin", _SilentKafka(error)))
