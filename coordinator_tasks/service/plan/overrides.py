"""A person's overrides of the strategy: frozen topics and pinned partitions.

The topic's configuration stores the overrides, and the next plan follows them. Repeating an override changes nothing.
"""

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine import rollback, split
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.model import Actor, TopicConfig
from coordinator_tasks.core.names import check_consumer
from coordinator_tasks.core.text.cause_text import of_one
from coordinator_tasks.core.text.partition_text import agreed, named
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import store
from coordinator_tasks.service.nodes.directives import UNTIL_ANOTHER, check_known, may_have, registered
from coordinator_tasks.service.nodes.topics import change_config, changeable, chosen_partitions, configuration

FROZEN = "frozen: nothing moves when consumers join or leave"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pin:
    """A change of a partition's pin. `owner`: the present owner. `before`, `after`: the pins; empty means none.

    `there`: `after` is registered. `may_have`: `after` may own partitions of the topic. `kept`: the owner is draining
    and keeps the partition, because no other consumer may own it.
    """

    partition: int
    owner: str
    before: str
    after: str
    frozen: bool = False
    there: bool = True
    may_have: bool = True
    kept: bool = False

    @property
    def text(self) -> str:
        """Return the text of a dry run. The text names the former pin, so that a person can undo the change."""
        was = f", was pinned to {self.before}" if self.before else ""
        if not self.after:
            return f"partition {self.partition} would be free to move{was}"
        where = "would stay there" if self.owner == self.after else f"would move there from {self.owner or 'nobody'}"
        until = f"{self.after} {'may have it' if self.there else 'is there'}"
        if self.owner == self.after and not self.frozen and not self.may_have:
            where = f"would stay there {UNTIL_ANOTHER}" if self.kept else f"would move away until {until}"
        elif self.owner != self.after and (self.frozen or not self.may_have):
            then = "the topic is unfrozen" if self.frozen else until
            where = f"would stay with {self.owner or 'nobody'} until {then}"
        return f"partition {self.partition} would be pinned to {self.after} and {where}{was}"


def told(config: TopicConfig) -> tuple[str, ...]:
    """Return a person's requests that override the strategy."""
    pinned = by_consumer((consumer, partition) for partition, consumer in config.pins.items())
    texts = [FROZEN] if config.frozen else []
    texts += [f"{rollback.said(config.rollback)}, {rollback.until(config.rollback)}"] if config.rollback else []
    texts += [of_one(split.cause(config.split))] if config.split else []
    texts += [f"paused: {named(config.paused)}"] if config.paused else []
    return (*texts, *(f"pinned to {who}: {named(which)}" for who, which in pinned.items()))


def set_frozen(c: Coordinator, topic: str, *, frozen: bool, actor: Actor) -> TopicConfig:
    """Freeze or unfreeze a topic. Plans of a frozen topic move nothing as consumers join or leave. Raises `NotManaged`.

    Partitions without an owner are still assigned, so that they are read.
    """
    changed = change_config(c, topic, lambda config: replace(config, frozen=frozen))
    with about(topic=topic):
        log.info("topic %s is %s, asked by %s %s", topic, "frozen" if frozen else "not frozen", actor.kind, actor.who)
    return changed


def would_pin(c: Coordinator, topic: str, consumer: str, partitions: Collection[int]) -> tuple[Pin, ...]:
    """Return the changes that `set_pins` would make.

    Raises `NotManaged` for an unknown topic or a consumer that never registered, and `Refused`.
    """
    config = changeable(c, topic)
    wanted = _pinned(c, config, consumer, partitions)
    path = c.paths.topic(topic)
    node = store.read_node(path, c.zk.find(path))
    owners = node.assignments if node is not None else {}
    lives = registered(c) if consumer else {}
    life, others = lives.get(consumer), may_have(topic, lives)
    there, able = not consumer or life is not None, not consumer or consumer in others
    # An isolated or leaving consumer gives its partitions up even if no other consumer takes them.
    kept = not others and life is not None and life.isolation is None and not life.leaving
    found = (
        Pin(p, owners.get(p, ""), config.pins.get(p, ""), consumer, config.frozen, there, able, kept) for p in wanted
    )
    return tuple(one for one in found if one.before != one.after)


def would_end(c: Coordinator, topic: str, consumer: str, partitions: Collection[int]) -> str:
    """Return, in a sentence, the roll back that `set_pins` would end; empty if none. Raises `NotManaged`."""
    wanted = configuration(c, topic).rollback
    ends = wanted is not None and not consumer and not partitions
    return f"the roll back to before rebalance {wanted.rebalance} would end" if wanted is not None and ends else ""


def set_pins(
    c: Coordinator, topic: str, consumer: str, partitions: Collection[int], *, actor: Actor
) -> tuple[Pin, ...]:
    """Pin partitions to this consumer. An empty `consumer` removes their pins.

    If both consumer and partitions are empty, all pins are removed, and a roll back ends. While the consumer is absent,
    the strategy places the pinned partitions. Returns and raises as `would_pin`.
    """
    found = would_pin(c, topic, consumer, partitions)

    def change(config: TopicConfig) -> TopicConfig:
        others = {p: who for p, who in config.pins.items() if p not in {one.partition for one in found}}
        pins = others | {one.partition: one.after for one in found if one.after}
        return replace(config, pins=pins, rollback=config.rollback if consumer or partitions else None)

    if found or not (consumer or partitions):
        change_config(c, topic, change)
    with about(topic=topic):
        log.info("topic %s: %d pins changed, asked by %s %s", topic, len(found), actor.kind, actor.who)
    return found


def _pinned(c: Coordinator, config: TopicConfig, consumer: str, partitions: Collection[int]) -> Collection[int]:
    if not consumer:
        # Accept partitions that Kafka no longer has, so that their pins can be removed.
        unknown = sorted(set(partitions) - config.pins.keys())
        if unknown:
            raise Refused(
                f"{named(unknown)} of topic {config.topic!r} {agreed(len(unknown), 'has', 'have')} no pin; name others, or none for all"
            )
        return sorted(set(partitions) or config.pins)
    check_known(c, check_consumer(consumer))
    if not partitions:
        raise Refused(f"no partition of topic {config.topic!r} is named; say which ones belong to {consumer}")
    return chosen_partitions(c, config, partitions)
