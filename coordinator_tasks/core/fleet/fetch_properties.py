"""The consumer properties that a topic may set. They only control fetching.

ZooKeeper stores the properties in the clear, and every consumer of the topic passes them to its Kafka client. So a
property must be in this table, which has no address, login, file or group. librdkafka must accept its value. Pure.
"""

from collections.abc import Mapping

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.partition_text import cut

NUMBERS: Mapping[str, tuple[int, int]] = {
    "fetch.error.backoff.ms": (0, 300_000),
    "fetch.max.bytes": (1_000_000, 2_147_483_135),  # librdkafka requires at least its `message.max.bytes`
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.queue.backoff.ms": (0, 300_000),
    "fetch.wait.max.ms": (0, 300_000),
    "queued.max.messages.kbytes": (1, 2_097_151),
    "queued.min.messages": (1, 10_000_000),
}
"""Name → the least and the largest value."""
CHOICES: Mapping[str, tuple[str, ...]] = {
    "check.crcs": ("true", "false"),
    "isolation.level": ("read_uncommitted", "read_committed"),
}
JAVA_NAMES: Mapping[str, str] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
}
"""The Java client's name of a property → librdkafka's name."""


def checked(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties under librdkafka's names. Raises `Refused`, without the value of a forbidden property."""
    for name, value in properties.items():
        problem = _problem(name, value)
        if problem:
            raise Refused(problem)
    return usable(properties)


def usable(stored: Mapping[str, object]) -> dict[str, str]:
    """Return the stored properties that are permitted, under librdkafka's names. Older releases stored others too."""
    found = {JAVA_NAMES.get(name, name): value for name, value in sorted(stored.items()) if not _problem(name, value)}
    return {name: str(value) for name, value in sorted(found.items())}


def _problem(name: str, value: object) -> str:
    own = JAVA_NAMES.get(name, name)
    if own in CHOICES:
        fits, said = value in CHOICES[own], " or ".join(CHOICES[own])
    elif own in NUMBERS:
        least, most = NUMBERS[own]
        fits, said = _number(value, most) >= least, f"a whole number from {least} to {most}"
    else:
        return (
            f"{cut(repr(name), 60)} is no property of a topic, because it does not say how records are fetched; "
            f"give one of {', '.join(sorted({*NUMBERS, *CHOICES}))}, and set any other where the consumers are set up"
        )
    return "" if fits else f"property {name!r} is {cut(repr(value), 60)}; give {said}"


def _number(value: object, most: int) -> int:
    """Return the whole number in the text; -1 if the text has none or it is larger than `most`."""
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or len(value) > len(str(most)):
        return -1
    return int(value) if int(value) <= most else -1
