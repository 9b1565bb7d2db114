"""The groups' offsets in their topics, in the columns of `kafka-consumer-groups --describe`. Writes nothing."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from coordinator_tasks.core.errors import CoordinatorError, Malformed, NotManaged, Refused
from coordinator_tasks.core.model import TopicConfig
from coordinator_tasks.core.ports import committed_of
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import store
from coordinator_tasks.service.nodes.observe import load_members
from coordinator_tasks.service.nodes.topics import chosen_partitions, configuration, list_topics


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """One partition. `current_offset`: the committed offset; `None` without a commit. `lag`: offsets up to the log's
    end.

    If the log was truncated and ends earlier, the lag is negative. The end of a partition without a leader is `None`.
    `consumer_id`: the owner with its incarnation. `client_id`: the owner. `host`: host of its interface. All three are
    empty without an owner.
    """

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str = ""
    host: str = ""
    client_id: str = ""


Wanted = Mapping[str, Collection[int]]
"""Topic → partitions; no partitions means all. An empty mapping means all managed topics."""


def described(
    c: Coordinator, wanted: Wanted, group: str = "", problems: dict[str, CoordinatorError] | None = None
) -> list[PartitionOffset]:
    """Return the partitions of the managed or wanted topics, by group, topic and number. `group`: only this group's.

    `problems` gets the managed topics that cannot be shown. Raises `NotManaged` (also for a group without topics),
    `Refused`, `Malformed`, and the `Unavailable` kinds.
    """
    problems = None if wanted else problems
    configs = chosen(c, wanted, group, problems)
    hosts = {name: urlsplit(member.address).hostname or "" for name, member in load_members(c, {}).items()}
    rows: list[PartitionOffset] = []
    for config in sorted(configs, key=lambda one: (one.group_id, one.topic)):
        try:
            rows += _of_topic(c, config, wanted.get(config.topic, ()), hosts)
        except (Refused, Malformed) as error:
            if problems is None:
                raise
            problems[config.topic] = error
    return rows


def chosen(
    c: Coordinator, wanted: Wanted, group: str = "", problems: dict[str, CoordinatorError] | None = None
) -> list[TopicConfig]:
    """Return the wanted topics. Topics being removed are left out unless named. `group`: only this group's.

    `problems`: as for `list_topics`.
    """
    named = [configuration(c, topic) for topic in wanted]
    configs = named or [one for one in list_topics(c, problems) if not one.removed]
    for config in named:
        if group and config.group_id != group:
            raise NotManaged(
                f"topic {config.topic!r} is managed for group {config.group_id!r}, not for {group!r}; correct one of them"
            )
    found = [one for one in configs if group in ("", one.group_id)]
    if group and not found:
        known = shown(sorted({one.group_id for one in configs})) or "none"
        raise NotManaged(
            f"cluster {c.paths.cluster!r} manages no topic for group {group!r} (its groups: {known}); correct the name"
        )
    return found


def _of_topic(
    c: Coordinator, config: TopicConfig, asked: Collection[int], hosts: Mapping[str, str]
) -> Iterator[PartitionOffset]:
    path = c.paths.topic(config.topic)
    node = store.read_node(path, c.zk.find(path))
    partitions = chosen_partitions(c, config, asked)
    answer = c.kafka.committed({config.group_id: {config.topic: partitions}})[config.group_id]
    committed = committed_of(answer, config.topic)
    ends = {p: bound[1] for p, bound in c.kafka.bounds(config.topic, partitions).items()}
    for p in partitions:
        at, end = committed[p].offset if p in committed else None, ends.get(p)
        owner = node.assignments.get(p, "") if node is not None else ""
        incarnation = node.incarnations.get(owner, 0) if node is not None else 0
        lag = None if at is None or end is None else end - at
        member, host = f"{owner}-{incarnation}" if owner else "", f"/{hosts[owner]}" if owner in hosts else ""
        yield PartitionOffset(config.group_id, config.topic, p, at, end, lag, member, host, owner)
