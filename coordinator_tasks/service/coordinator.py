"""The first argument of every service function: a cluster, and the servers that it uses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.fleet.upgrade_rule import SiteRule
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Clock, Discovery, KafkaAdmin, StatusClient, ZooKeeper


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Made by `wiring` from settings, or by tests from fakes. Stateless: all state is in ZooKeeper.

    - `boot_id`: this host's boot; empty if unknown. A loopback address's refusal proves an end only on the same boot.
    - `bootstrap_servers`: written to added topics.
    - `allowed`: launches allowed on this host.
    - `rules`: name → importer of the site's upgrade rule.
    - `budget`: moves that a plan may make without a person's approval.
    - `log_url`: the site's address of a driver's log (`links.log_page`).
    - `https_only`: a consumer with plain http gets no token.
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
    allowed: AllowedLaunches = field(default_factory=AllowedLaunches)
    rules: Mapping[str, Callable[[], SiteRule]] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    log_url: str = ""
    https_only: bool = False
