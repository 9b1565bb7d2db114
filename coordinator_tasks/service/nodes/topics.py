"""The topics that a cluster manages, and the lists of partitions.

A topic is managed once the topic's `config` node exists. `add_topic` writes this node last, so after an interruption a
second call completes the work.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from coordinator_tasks.core.codecs.codec import decode_config, encode_config
from coordinator_tasks.core.errors import CoordinatorError, GroupInUse, LookAgain, Malformed, Refused, TopicConflict
from coordinator_tasks.core.fleet import fetch_properties
from coordinator_tasks.core.machine.causes import recreated
from coordinator_tasks.core.machine.presence import who_cannot_read
from coordinator_tasks.core.machine.world import TopicView
from coordinator_tasks.core.model import PROPERTIES, Actor, StartRule, State, TopicConfig, TopicDescription
from coordinator_tasks.core.names import (
    INTERNAL,
    ROOT,
    Paths,
    check_group,
    check_topic,
    is_cluster,
    is_topic,
    partition_of,
)
from coordinator_tasks.core.ports import Create, Delete, Operation, SetData, VersionCheck, ZooKeeper
from coordinator_tasks.core.protocol.znodes import children, compare_and_set, find_decoded, put
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import store

NODES_PER_WRITE = 1_000
_ABSENT = -1
_ASKED = ("group_id", "strategy", "parameters", "start", "properties")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The result of updating a topic's partition list: the new partitions, and a problem; empty without a problem."""

    topic: str
    created: tuple[int, ...] = ()
    problem: str = ""


def add_topic(
    c: Coordinator,
    topic: str,
    group_id: str,
    *,
    start: StartRule = StartRule.EARLIEST,
    strategy: str = "",
    parameters: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    force: bool = False,
    actor: Actor,
) -> TopicConfig:
    """Manage a topic from now on. Repeating changes nothing. An empty `strategy` means the cluster's strategy.

    Raises as `would_add`, and `LookAgain` after a concurrent change of the topic.
    """
    wanted, present = would_add(
        c, topic, group_id, start=start, strategy=strategy, parameters=parameters, properties=properties, force=force
    )
    if present is not None and not present[0].removed:
        create_partitions(c, topic, wanted.initial_partitions, present[1])
        return present[0]
    version = _ABSENT if present is None else present[1]
    create_partitions(c, topic, wanted.initial_partitions, version)
    _drop_partitions(c, topic, wanted.initial_partitions, version)
    c.zk.ensure(c.paths.history(topic))
    _write_config(c, wanted, present)
    with about(topic=topic):
        log.info("topic %s is managed by cluster %s, asked by %s %s", topic, c.paths.cluster, actor.kind, actor.who)
    return wanted


def would_add(
    c: Coordinator,
    topic: str,
    group_id: str,
    *,
    start: StartRule,
    strategy: str,
    parameters: Mapping[str, str] | None,
    properties: Mapping[str, str] | None,
    force: bool = False,
) -> tuple[TopicConfig, tuple[TopicConfig, int] | None]:
    """Return the configuration that `add_topic` would write, and the present configuration with its version.

    - `InvalidName`, `GroupInUse`, and the `Unavailable` kinds.
    - `TopicConflict`: Kafka lacks the topic, the topic was recreated, or another cluster has not closed it yet.
    - `Refused`: an unknown strategy; an internal topic without `force`; a forbidden property; a property that a
      registered consumer cannot read; a topic that is managed with other arguments.
    """
    check_topic(topic)
    check_group(group_id)
    allowed = fetch_properties.checked(properties or {})
    described = described_topic(c, topic)
    wanted = TopicConfig(
        topic=topic,
        topic_id=described.topic_id,
        bootstrap_servers=c.bootstrap_servers,
        group_id=group_id,
        strategy=strategy,
        parameters=dict(parameters or {}),
        start=start,
        initial_partitions=described.partition_count,
        properties=allowed,
    )
    c.policy.strategies.check(wanted)
    present = _find(c.zk, c.paths, topic)
    if present is not None and not present[0].removed:
        _check_same(c, present[0], wanted)
        return wanted, present
    if topic.startswith(INTERNAL) and not force:
        raise Refused(
            f"{topic!r} is an internal topic of Kafka, or of a program around it: its consumers may feed themselves with each commit; "
            "give another topic, or --force (in a form: Force) if you mean it"
        )
    if members := c.kafka.group_members(group_id):
        raise GroupInUse(
            f"group {group_id!r} has members that subscribe ({shown(members)}), so Kafka would refuse every "
            "commit of ours; stop them, or choose another group.id"
        )
    if allowed and (older := who_cannot_read(PROPERTIES, topic, c.discovery.members())):
        raise Refused(f"topic {topic!r} cannot have properties: {older}")
    check_other_clusters(c, wanted)
    return wanted, present


def described_topic(c: Coordinator, topic: str) -> TopicDescription:
    """Return Kafka's description of a topic. Raises `TopicConflict` if Kafka lacks it, and `KafkaUnavailable`."""
    described = c.kafka.describe([topic])[topic]
    if described is None:
        raise TopicConflict(
            f"there is no topic {topic!r} in Kafka at {c.bootstrap_servers}; create it, or correct the name"
        )
    return described


def _check_same(c: Coordinator, present: TopicConfig, wanted: TopicConfig) -> None:
    if present.topic_id != wanted.topic_id:
        raise TopicConflict("; ".join(recreated(present.topic, wanted.topic_id, present.topic_id)))
    now, then = c.policy.strategies.effective(present), c.policy.strategies.effective(wanted)
    different = [name for name in _ASKED if getattr(now, name) != getattr(then, name)]
    if different:
        shown = ", ".join(f"{name} {_shown(getattr(now, name))}" for name in different)
        raise Refused(
            f"topic {present.topic!r} is managed by cluster {c.paths.cluster!r} already, with {shown}; "
            "remove the topic first, or ask for the same (set-strategy changes strategy and parameters)"
        )


def _shown(value: object) -> str:
    return repr(str(value) if isinstance(value, str) else value)  # an enum's value


def check_other_clusters(c: Coordinator, *topics: TopicConfig) -> None:
    """Raise `TopicConflict` if another cluster of this ZooKeeper manages one of the topics for the same group.

    A removed topic counts until that cluster has closed it.
    """
    others = [one for one in children(c.zk, ROOT) if one != c.paths.cluster and is_cluster(one)]
    for cluster, wanted in product(others, topics):
        found = _find(c.zk, Paths(cluster), wanted.topic)
        # Topic ids are unique over all Kafka clusters, so an equal id means the same topic.
        if found is None or (found[0].topic_id, found[0].group_id) != (wanted.topic_id, wanted.group_id):
            continue
        what = f"topic {wanted.topic!r} for group {wanted.group_id!r}"
        if not found[0].removed:
            raise TopicConflict(
                f"cluster {cluster!r} manages {what} already; remove it there, or choose another group.id"
            )
        if not _is_closed(store.load(c.zk, Paths(cluster), wanted.topic).view):
            raise TopicConflict(
                f"cluster {cluster!r} has removed {what}, and its consumers may still read it; let its coordinator run until "
                "`topics` says there that nobody runs anything of it, or choose another group.id"
            )


def _is_closed(view: TopicView) -> bool:
    """Return whether all consumers of a removed topic have confirmed that they have stopped reading."""
    if view.node is None:
        return True
    settled = view.state is not None and view.state.state is State.STABLE
    return settled and view.node.removed and not view.node.assignments


def create_partitions(c: Coordinator, topic: str, count: int, version: int) -> tuple[int, ...]:
    """Create the missing nodes of partitions 0 to `count` - 1. Return the new partitions.

    `version`: version of the topic's configuration as read; -1 if absent. Raises `LookAgain` if the configuration has
    changed, because the name may then belong to another topic.
    """
    c.zk.ensure(c.paths.topic(topic))
    c.zk.ensure(c.paths.configs)
    path, guard = c.paths.topic(topic), _as_read(c, topic, version)
    unchanged = partial(_check_as_read, c, topic, version)
    created: list[int] = []

    def attempt() -> tuple[list[Operation], list[int]]:
        listed = {partition_of(child) for child in c.zk.children(path)}
        missing = [partition for partition in range(count) if partition not in listed][:NODES_PER_WRITE]
        return [*guard, *(Create(c.paths.partition(topic, p)) for p in missing)] if missing else [], missing

    while chunk := compare_and_set(c.zk, path, attempt, lost=unchanged, doing="its partitions were created"):
        created += chunk
    return tuple(created)


def _as_read(c: Coordinator, topic: str, version: int) -> list[Operation]:
    """Return guards: the transaction fails unless the topic's configuration is as read."""
    path = c.paths.config(topic)
    return [Create(path), Delete(path)] if version == _ABSENT else [VersionCheck(path, version)]


def _check_as_read(c: Coordinator, topic: str, version: int) -> None:
    """Raise `LookAgain` unless the topic's configuration is as read."""
    found = c.zk.find(c.paths.config(topic))
    if (_ABSENT if found is None else found.stat.version) != version:
        raise LookAgain(f"{c.paths.config(topic)} was changed by somebody else at the same moment; do it again")


def _drop_partitions(c: Coordinator, topic: str, count: int, version: int) -> None:
    """Delete surplus partitions of a former topic of this name. No consumer could begin to read such partitions."""
    listed = (partition_of(child) for child in c.zk.children(c.paths.topic(topic)))
    for partition in sorted(p for p in listed if p is not None and p >= count):
        with suppress(LookAgain):  # another process deleted the node, or the write of the configuration will fail
            c.zk.transact([*_as_read(c, topic, version), Delete(c.paths.partition(topic, partition))])


def _write_config(c: Coordinator, config: TopicConfig, former: tuple[TopicConfig, int] | None) -> None:
    """Write the configuration. `former`: the configuration to replace, with its version."""
    path, version = c.paths.config(config.topic), former[1] if former is not None else _ABSENT
    c.zk.ensure(c.paths.configs)
    c.zk.transact([put(path, encode_config(config), version)])
    try:
        # Another cluster may have added the same topic between our check and our write. Then both withdraw.
        check_other_clusters(c, config)
    except TopicConflict:
        undo = Delete(path, version + 1) if former is None else SetData(path, encode_config(former[0]), version + 1)
        c.zk.transact([undo])
        raise


def remove_topic(c: Coordinator, topic: str, actor: Actor) -> TopicConfig:
    """Mark the topic removed. After the next plan, the consumers commit and stop. Raises `NotManaged`."""
    with about(topic=topic):
        log.info("topic %s is removed from cluster %s, asked by %s %s", topic, c.paths.cluster, actor.kind, actor.who)
    return _changed(c, topic, lambda config: replace(config, removed=True))


def set_strategy(c: Coordinator, topic: str, strategy: str, parameters: Mapping[str, str], actor: Actor) -> TopicConfig:
    """Give a topic another strategy (empty means the cluster's strategy) with all its parameters, for the next plan.

    Raises `NotManaged`, and `Refused` for an unknown strategy or for parameters that the strategy refuses.
    """

    def change(config: TopicConfig) -> TopicConfig:
        wanted = replace(config, strategy=strategy, parameters=dict(parameters))
        c.policy.strategies.check(wanted)
        return wanted

    changed = change_config(c, topic, change)
    with about(topic=topic):
        log.info("topic %s has strategy %r, asked by %s %s", topic, strategy, actor.kind, actor.who)
    return changed


def change_config(c: Coordinator, topic: str, change: Callable[[TopicConfig], TopicConfig]) -> TopicConfig:
    """Change the configuration of a topic by a compare-and-set. Raises `NotManaged`, and `Refused` for a removed topic."""
    return _changed(c, topic, lambda config: change(not_removed(config)))


def _changed(c: Coordinator, topic: str, change: Callable[[TopicConfig], TopicConfig]) -> TopicConfig:
    path = c.paths.config(topic)

    def attempt() -> tuple[list[Operation], TopicConfig]:
        config, version = managed(c, topic)
        changed = change(config)
        return [] if changed == config else [SetData(path, encode_config(changed), version)], changed

    return compare_and_set(c.zk, path, attempt)


def not_removed(config: TopicConfig) -> TopicConfig:
    """Return the configuration. Raises `Refused` for a removed topic, because no plan follows requests for it."""
    if config.removed:
        raise Refused(f"topic {config.topic!r} is being removed, so nothing of it is assigned; add it again first")
    return config


def changeable(c: Coordinator, topic: str) -> TopicConfig:
    """Return a topic's configuration if `change_config` may change it. Raises as `configuration` and `not_removed`."""
    return not_removed(configuration(c, topic))


def configuration(c: Coordinator, topic: str) -> TopicConfig:
    """Return the configuration of a managed topic. Raises `NotManaged` and `Malformed`."""
    return managed(c, topic)[0]


def managed(c: Coordinator, topic: str) -> tuple[TopicConfig, int]:
    """Return the configuration of a managed topic, and the version of its node. Raises `NotManaged` and `Malformed`."""
    found = _find(c.zk, c.paths, topic)
    if found is None:
        raise store.not_managed(c.zk, c.paths, topic)
    return found


def chosen_partitions(
    c: Coordinator, config: TopicConfig, asked: Collection[int], refusal: type[Refused] = Refused
) -> Sequence[int]:
    """Return a person's choice of partitions, sorted; if empty, all. Raises `refusal` for unknown partitions."""
    described = c.kafka.describe([config.topic])[config.topic]
    count = described.partition_count if described is not None else 0
    wanted = sorted(set(asked)) or list(range(count))
    if not count:
        raise refusal(f"topic {config.topic!r} is not in Kafka; create it, or remove it here")
    if strange := [one for one in wanted if not 0 <= one < count]:
        raise refusal(
            f"topic {config.topic!r} has no partition {strange[0]}; it has partitions 0 to {count - 1}; name some of these"
        )
    return wanted


def list_topics(c: Coordinator, problems: dict[str, CoordinatorError] | None = None) -> tuple[TopicConfig, ...]:
    """Return the managed topics, sorted by name, also topics under removal.

    `problems` gets the topics with an unreadable configuration. Without `problems`, the first error is raised.
    """
    paths = {name: c.paths.config(name) for name in children(c.zk, c.paths.configs) if is_topic(name)}
    return tuple(find_decoded(c.zk, paths, lambda path, node: decode_config(path, node.data), problems).values())


def refresh_partitions(c: Coordinator, topics: Collection[str] = ()) -> tuple[Refreshed, ...]:
    """Bring the partition nodes of these topics (all if empty) up to date with Kafka.

    A topic stays unchanged, and is reported, if Kafka lacks or does not describe it, if it was recreated, or if its
    configuration is unreadable. Raises `KafkaUnavailable` and `StoreUnavailable`, and `Refused` if this account may
    describe none of the topics.
    """
    names = sorted(topics) or children(c.zk, c.paths.configs)
    problems: dict[str, CoordinatorError] = {}
    described = c.kafka.describe([name for name in names if is_topic(name)], problems)
    return tuple(_refreshed(c, name, described.get(name), problems.get(name)) for name in names)


def _refreshed(
    c: Coordinator, topic: str, described: TopicDescription | None, problem: CoordinatorError | None
) -> Refreshed:
    try:
        found = _find(c.zk, c.paths, topic)
    except (Malformed, Refused) as error:
        return Refreshed(topic, problem=str(error))
    if found is None:
        return Refreshed(topic, problem=str(store.not_managed(c.zk, c.paths, topic)))
    config = found[0]
    if config.removed:
        return Refreshed(topic)
    if problem is not None:
        return Refreshed(topic, problem=f"the partition list of topic {topic} stays as it is: {problem}")
    if described is None:
        return Refreshed(
            topic,
            problem=f"topic {topic!r} is gone from Kafka at {c.bootstrap_servers}; its partitions stay as they are: "
            "remove it here, or create it and add it again",
        )
    if described.topic_id != config.topic_id:
        return Refreshed(topic, problem="; ".join(recreated(topic, described.topic_id, config.topic_id)))
    try:
        return Refreshed(topic, created=create_partitions(c, topic, described.partition_count, found[1]))
    except (LookAgain, Refused) as error:
        return Refreshed(topic, problem=str(error))


def _find(zk: ZooKeeper, paths: Paths, topic: str) -> tuple[TopicConfig, int] | None:
    node = zk.find(paths.config(topic))
    return None if node is None else (decode_config(paths.config(topic), node.data), node.stat.version)
