"""Ask an unresponsive Kafka once per look, instead of waiting for one time-out after another."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import NoReturn, cast

from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable, Refused
from coordinator_tasks.core.ports import KafkaAdmin
from coordinator_tasks.service.coordinator import Coordinator


class _SilentKafka:
    """Every request fails at once with the first request's error."""

    def __init__(self, error: KafkaUnavailable) -> None:
        self._error = error

    def describe(self, *_: object) -> NoReturn:
        raise self._error

    def committed(self, groups: Iterable[str]) -> dict[str, CoordinatorError]:
        return dict.fromkeys(groups, self._error)

    def group_members(self, _: str) -> NoReturn:
        raise self._error


def asked_once(c: Coordinator, topics: Collection[str], problems: list[str]) -> Coordinator:
    """Ask Kafka for these topics. Return `c`, or one whose Kafka is silent if no answer came; `problems` gets the error."""
    if not topics:
        return c
    try:
        c.kafka.describe(topics, {})
    except KafkaUnavailable as error:
        problems.append(error.told)
        return replace(c, kafka=cast("KafkaAdmin", _SilentKafka(error)))
    except Refused:
        pass  # an account without the right sees what ZooKeeper says, as a plan does
    return c
