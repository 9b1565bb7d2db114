"""The checks of Kafka: brokers, each single right, foreign members of our groups, and how long offsets are kept."""

from collections.abc import Iterator, Mapping, Sequence

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_rights import KafkaRights
from coordinator_tasks.adapters.server_versions import kafka_versions
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.machine.causes import recreated
from coordinator_tasks.core.protocol.kafka_rights import Resource, Side, needed, transactional_ids
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.doctor.findings import DoctorFinding, broken, failure, good, servers, warning
from coordinator_tasks.settings import TRANSACTIONAL_FENCE, Settings

MUST_KEEP_S = 2 * 3600.0
SHOULD_KEEP_S = 24 * 3600.0


def examine(
    settings: Settings,
    side: Side,
    topics: Mapping[str, str],
    idle: Mapping[str, float] | None = None,
    ids: Mapping[str, str] | None = None,
    *,
    known: bool = True,
) -> Iterator[DoctorFinding]:
    """Yield findings about the brokers, each right on each topic and group, the groups, and offsets that expire."""
    try:
        rights = KafkaRights(settings.kafka, settings.answer_timeout_s)
        brokers = rights.brokers()
    except CoordinatorError as error:
        yield broken("Kafka", error)
        return
    yield good("Kafka", f"{settings.kafka['bootstrap.servers']} answers; brokers: {', '.join(brokers)}")
    yield servers("Kafka versions", kafka_versions(brokers, settings.kafka))
    if not topics:
        yield warning(
            "Kafka rights",
            f"not checked: {'no topic is managed' if known else 'ZooKeeper does not say which topics are managed'}",
            f"{'' if known else 'mend what is said of ZooKeeper, or '}name one with --topic and --group",
        )
    for topic, group in topics.items():
        try:
            there = rights.has_topic(topic)
        except CoordinatorError as error:
            yield broken(f"topic {topic}", error)
            continue
        if not there:
            yield failure(f"topic {topic}", "Kafka has no such topic", "create it, or correct the name")
            continue
        yield from _recreated(rights, topic, (ids or {}).get(topic, ""))
        yield from _rights(settings, side, rights, topic, group)
    yield from _groups(settings, sorted(set(topics.values())))
    yield from _retention(rights, idle or {})


def _recreated(rights: KafkaRights, topic: str, managed: str) -> Iterator[DoctorFinding]:
    """Yield a finding if the topic was recreated: its id is not the stored id, so its partitions do not run."""
    try:
        found = rights.topic_id(topic)
    except Refused:
        return  # another check is about the right to describe the topic
    except CoordinatorError as error:
        yield broken(f"topic {topic}", error)
        return
    if managed and found and found != managed:
        says, mend = recreated(topic, found, managed)
        yield failure(f"topic {topic}", f"{says}. Its partitions are stopped", mend)


def _rights(settings: Settings, side: Side, rights: KafkaRights, topic: str, group: str) -> Iterator[DoctorFinding]:
    transactional = settings.fence == TRANSACTIONAL_FENCE
    for right in needed(side, transactional=transactional):
        name = {
            Resource.TOPIC: topic,
            Resource.GROUP: group,
            Resource.TRANSACTIONAL_ID: transactional_ids(settings.cluster),
        }[right.resource]
        check, who = f"Kafka: {right.operation} on {right.resource} {name}", principal(settings.kafka)
        try:
            there = rights.has(right, topic, group, settings.cluster)
        except CoordinatorError as error:
            yield broken(check, error)
            continue
        if there:
            yield good(check, f"{who} has it")
        else:
            command = right.command(name, who, settings.kafka["bootstrap.servers"])
            yield failure(check, f"{who} does not have it, and a {side} needs it", command)


def _groups(settings: Settings, groups: Sequence[str]) -> Iterator[DoctorFinding]:
    """Yield members of our groups. While a group has a subscriber, Kafka refuses commits of `assign()` consumers."""
    admin = ConfluentKafkaAdmin(settings.kafka, settings.answer_timeout_s)
    for group in groups:
        check = f"Kafka: members of group {group}"
        try:
            members = admin.group_members(group)
        except Refused:
            continue  # another check is about the right to describe the group
        except CoordinatorError as error:
            yield broken(check, error)
            continue
        if not members:
            yield good(check, "nobody else subscribes with it")
            continue
        says = f"{shown(members)} subscribes with it, so Kafka refuses every commit of the consumers"
        yield failure(check, says, "stop that client, or give it another group")


def _retention(rights: KafkaRights, idle: Mapping[str, float]) -> Iterator[DoctorFinding]:
    """Yield findings about the retention of offsets. Owners commit hourly, so offsets expire only without consumers."""
    check = "Kafka: expiry of offsets"
    problems: dict[str, CoordinatorError] = {}
    try:
        kept_s = rights.offsets_kept_s(problems)
    except CoordinatorError as error:
        yield broken(check, error)
        return
    yield from (broken(f"{check} of {broker}", error) for broker, error in problems.items())
    if kept_s is None and problems:
        return
    if kept_s is None:
        says = "not told: only accounts with DescribeConfigs on the cluster may ask, and none is needed"
        yield good(check, says)
        return
    yield _kept(check, kept_s)
    yield from _idle(kept_s, idle)


def _idle(kept_s: float, idle: Mapping[str, float]) -> Iterator[DoctorFinding]:
    """Yield the topics without a consumer whose offsets have expired or will expire soon."""
    late = {topic: kept_s - for_s for topic, for_s in idle.items() if for_s > kept_s / 2}
    if not late:
        return
    told = [
        f"{topic} {f'in {left_s / 3600:.1f} h' if left_s > 0 else 'by now'}"
        for topic, left_s in sorted(late.items(), key=lambda item: item[1])
    ]
    yield warning(
        "Kafka: offsets of idle topics",
        f"nobody owns these topics, so nobody commits, and their offsets expire at the latest: {shown(told)}",
        "start a consumer, or keep them: `offsets reset --topic TOPIC --to-current --export`. Without offsets a topic begins at its start rule",
    )


def _kept(check: str, kept_s: float) -> DoctorFinding:
    says = f"offsets.retention.minutes keeps a group's offsets for {kept_s / 3600:g} h after its last commit"
    mend = "raise offsets.retention.minutes on the brokers to more than the longest time without consumers; the default is 7 days"
    if kept_s < MUST_KEEP_S:
        return failure(check, f"{says}, and owners commit an idle partition once an hour", mend)
    if kept_s < SHOULD_KEEP_S:
        return warning(check, f"{says}: after that long without consumers a topic begins at its start rule", mend)
    return good(check, says)


def principal(kafka: Mapping[str, str]) -> str:
    """Return our principal by the settings. The brokers' rules may map a certificate's name to another principal."""
    protocol = kafka.get("security.protocol", "").upper()
    if protocol.startswith("SASL"):
        return f"User:{kafka.get('sasl.username', 'NAME')}"
    if protocol == "SSL" and kafka.get("ssl.certificate.location"):
        return f"User:SUBJECT OF {kafka['ssl.certificate.location']}"
    return "User:ANONYMOUS"
