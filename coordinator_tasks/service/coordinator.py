"""What every service function takes first: one cluster, and the neighbours it is run with."""

from dataclasses import dataclass

from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Clock, Discovery, KafkaAdmin, StatusClient, ZooKeeper


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Made by `wiring` from settings, or by tests from fakes. Holds no state of its own: ZooKeeper has all of it.

    `boot_id` is this host's, to judge a refusal from a loopback address; empty = unknown, no such refusal proves anything.
    `bootstrap_servers` is written to the topics that are added.
    """

    paths: Paths
    zk: ZooKeeper
    discovery: Discovery
    statuses: StatusClient
    kafka: KafkaAdmin
    clock: Clock
    policy: Policy
    boot_id: str = ""
    bootstrap_servers: str = ""
