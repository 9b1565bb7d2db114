"""The only place that builds adapters from settings."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import confluent_kafka

from coordinator_tasks.adapters import zookeeper_rights
from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.discovery import (
    ZooKeeperDiscovery,
    ZooKeeperRegistry,
    claim_incarnation,
    note_registration,
)
from coordinator_tasks.adapters.file_registry import FileDiscovery, FileRegistry
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_records import ConfluentRecords
from coordinator_tasks.adapters.kafka_rights import KafkaRights
from coordinator_tasks.adapters.kafka_samples import ConfluentRecordSampler
from coordinator_tasks.adapters.kafka_transactions import TransactionalGroupOffsets
from coordinator_tasks.adapters.processes import is_gone, this_process
from coordinator_tasks.adapters.status import HttpStatusClient
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import (
    Clock,
    Discovery,
    GroupOffsets,
    RecordAccess,
    RecordSampler,
    Registry,
    ZooKeeper,
)
from coordinator_tasks.core.protocol.claims import MAX_STEP
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.settings import FILE_DISCOVERY, TRANSACTIONAL_FENCE, Settings, settings_from_environment
from coordinator_tasks.site_rules import rules_of
from coordinator_tasks.site_strategies import strategies_of
from coordinator_tasks.status_tokens import StatusTokens

__all__ = [
    "ConsumerSession",
    "Settings",
    "ask_brokers",
    "check_folders",
    "connect_zookeeper",
    "librdkafka_version",
    "open_consumer_session",
    "open_coordinator",
    "open_zookeeper",
    "set_access_lists",
    "settings_from_environment",
]
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def open_coordinator(settings: Settings) -> Iterator[Coordinator]:
    """Yield a connected coordinator for the block. Raises `StoreUnavailable` if ZooKeeper does not answer.

    Kafka, the consumers, and a registry outside ZooKeeper are asked only when needed.
    """
    paths, clock = Paths(settings.cluster), SystemClock()
    own = strategies_of(settings.strategy, settings.parameters, settings.strategies)
    with ExitStack() as ending:
        zk = open_zookeeper(settings)
        ending.callback(zk.close)
        _ensure_folders(zk, paths)
        tokens = StatusTokens(settings.status_token, settings.status_token_file)
        statuses = HttpStatusClient(
            settings.cluster,
            tokens,
            ca=settings.status_ca,
            https_only=settings.https_only,
            limit_s=settings.ask_timeout_s,
        )
        ending.callback(statuses.close)
        discovery: Discovery
        if settings.discovery.startswith(FILE_DISCOVERY):
            discovery = FileDiscovery(_folder(settings), clock, settings.registry_ttl_s)
        else:
            discovery = ZooKeeperDiscovery(zk, paths)
        yield Coordinator(
            paths=paths,
            zk=zk,
            discovery=discovery,
            statuses=statuses,
            kafka=ConfluentKafkaAdmin(settings.kafka, settings.answer_timeout_s),
            clock=clock,
            policy=replace(settings.policy, strategies=own),
            bootstrap_servers=settings.kafka["bootstrap.servers"],
            boot_id=_boot_id(),
            allowed=settings.allowed,
            rules=rules_of(settings.rules),
            budget=settings.budget,
            log_url=settings.log_url,
            https_only=settings.https_only,
        )


@dataclass(frozen=True, slots=True)
class ConsumerSession:
    """The adapters of a consumer's agent. `registry` outlives lost sessions: register again after each.

    `process`: the name of this process on its host, for its registration.
    """

    settings: Settings
    paths: Paths
    zk: ZooKeeper
    registry: Registry
    clock: Clock
    process: str = ""

    def claim_incarnation(self, consumer: str) -> int:
        """Draw this process's incarnation, once per process."""
        return claim_incarnation(self.zk, self.paths, consumer, step=1 + secrets.randbelow(MAX_STEP))

    @property
    def separate(self) -> bool:
        """Return whether consumer and coordinator have different ZooKeeper accounts."""
        return self.settings.zookeeper_access.separate

    def group_offsets(self, group: str) -> GroupOffsets:
        kafka, limit_s = self.settings.kafka, self.settings.answer_timeout_s
        if self.settings.fence == TRANSACTIONAL_FENCE:
            return TransactionalGroupOffsets(kafka, group, self.settings.cluster, limit_s)
        return ConfluentGroupOffsets(kafka, group, limit_s)

    def records(self, group: str) -> RecordAccess:
        """Return the access to records of the settings' brokers. `group`: a group on which the account has rights."""
        return ConfluentRecords(self.settings.kafka, group, self.settings.answer_timeout_s)

    def sampler(self) -> RecordSampler:
        return ConfluentRecordSampler(self.settings.kafka, f"{self.settings.cluster}-samples")


@contextmanager
def open_consumer_session(settings: Settings) -> Iterator[ConsumerSession]:
    """Yield a consumer's adapters, with its own ZooKeeper session and registry. Raises `StoreUnavailable`."""
    paths, clock = Paths(settings.cluster), SystemClock()
    with ExitStack() as ending:
        zk = open_zookeeper(settings)
        ending.callback(zk.close)
        registry: Registry
        if settings.discovery.startswith(FILE_DISCOVERY):
            registry = files = FileRegistry(
                _folder(settings),
                clock,
                ttl_s=settings.registry_ttl_s,
                wait_s=settings.registry_ttl_s,
                announce=lambda member: note_registration(zk, paths, member, clock, is_gone),
            )
            ending.callback(files.close)
        else:
            # After a process has died, its session holds the id until the session expires.
            registry = ZooKeeperRegistry(zk, paths, clock, wait_s=zk.session_timeout_s + 1.0, is_gone=is_gone)
        yield ConsumerSession(settings, paths, zk, registry, clock, this_process())


def open_zookeeper(settings: Settings) -> KazooZooKeeper:
    """Open a ZooKeeper session. The caller closes it.

    Raises `StoreUnavailable`, and `Refused` if other accounts may change or own a folder of the cluster.
    """
    paths, zk = Paths(settings.cluster), connect_zookeeper(settings)
    with ExitStack() as on_error:
        on_error.callback(zk.close)
        check_folders(zk, paths)
        on_error.pop_all()
    return zk


def set_access_lists(settings: Settings) -> int:
    """Give every node of the cluster the access list that the settings require. Return the number of nodes.

    Raises `StoreUnavailable`. Raises `Refused` if the settings restrict no nodes, or another account owns a node.
    """
    if not settings.zookeeper_access.closes_nodes:
        raise BadSettings("the settings have no log-in to ZooKeeper that closes nodes; set zookeeper_access")
    if settings.zookeeper_access.coordinator:
        raise BadSettings(
            "zookeeper_access.coordinator is set, so this account is a consumer's; use the coordinator's settings"
        )
    paths = Paths(settings.cluster)
    with closing(connect_zookeeper(settings)) as zk:
        changed = zookeeper_rights.set_access_lists(zk, paths.base)
        _ensure_folders(zk, paths)
    return changed


def connect_zookeeper(settings: Settings) -> KazooZooKeeper:
    """Open a ZooKeeper session, and do not check the folders. The caller closes the session."""
    return KazooZooKeeper(
        settings.zookeeper,
        session_timeout_s=settings.session_timeout_s,
        answer_timeout_s=settings.answer_timeout_s,
        access=settings.zookeeper_access,
    )


def check_folders(zk: KazooZooKeeper, paths: Paths) -> None:
    """Raise `Refused` if other accounts may change or own a folder of the cluster, and `StoreUnavailable`."""
    zookeeper_rights.check_closed(zk, (paths.base, *paths.folders()))


def ask_brokers(kafka: Mapping[str, str]) -> None:
    """Log in at the brokers and wait for an answer. Raises `KafkaUnavailable` or `Refused`, which name the problem."""
    # Every account may list the brokers, but only an account with rights may ask for a topic.
    KafkaRights(kafka).brokers()


def librdkafka_version() -> str:
    """Return the version of the loaded library, such as 2.6.1."""
    return str(confluent_kafka.libversion()[0])


def _ensure_folders(zk: ZooKeeper, paths: Paths) -> None:
    folders = paths.folders()
    for folder, found in zip(folders, zk.get_many(folders), strict=True):
        if found is None:
            zk.ensure(folder)


def _folder(settings: Settings) -> Path:
    return Path(settings.discovery.removeprefix(FILE_DISCOVERY))


def _boot_id() -> str:
    """Return the id of the machine's present boot; empty if the kernel does not tell."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
