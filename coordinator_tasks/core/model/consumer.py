"""ZooKeeper's data on a consumer: registration, claim of the id, and directive; and the consumers of a fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.model.cause import Ending
from coordinator_tasks.core.model.topic import FORMATS


@dataclass(frozen=True, slots=True)
class Member:
    """`/members/[CONSUMER]`: a registered consumer.

    - `topics`: names and regular expressions; empty means any topic.
    - `process`: the process on its host; empty if unknown. A successor on the host checks whether it has ended.
    - `formats`: the `FORMATS` that the consumer reads.
    - `release`: the release of the consumer; empty if not reported.
    - `spark_ui`, `application_id`: address of the Spark UI and id of the Spark application; empty without Spark. The
      consumer reports both unchecked, so `links` checks both before display.
    - `problem`: why the registration cannot be read. Then only the id is known.
    """

    consumer: str
    incarnation: int
    address: str
    boot_id: str
    rack: str = ""
    capacity: float = 1.0
    topics: tuple[str, ...] = ()
    direct: bool = True
    attributes: Mapping[str, str] = field(default_factory=dict)
    registered_at: float = 0.0
    process: str = ""
    formats: tuple[str, ...] = FORMATS
    problem: str = ""
    release: str = ""
    spark_ui: str = ""
    application_id: str = ""


@dataclass(frozen=True, slots=True)
class Absence:
    """An unregistered consumer was first seen absent at `since_at`. Its address has refused every connection since
    `refused_at`; 0 means that the address does not refuse.
    """

    incarnation: int
    since_at: float
    refused_at: float = 0.0


@dataclass(frozen=True, slots=True)
class IdClaim:
    """`/ids/[CONSUMER]`: the counter of incarnations, and facts about ended incarnations.

    - `registered`: the incarnation of the last registration; 0 if unknown, because an older release wrote the claim.
      `address`, `boot_id`, `direct` and `process` come from this registration.
    - `answered`: the last incarnation whose interface has answered the coordinator.
    - `refused_at`: since when the address of a registered consumer has refused connections; 0 without a refusal. A dead
      process stays registered for a session time-out.
    - `registrations`: the times of the last few registrations. Many within a short time show that the id flaps.
    - `reasons`: why some of the `ended` incarnations ended. `failed_at`: when the reason was noted.
    - `version`: the znode's version. Each registration raises it. Writes that rely on an absence check it.
    """

    consumer: str
    incarnation: int
    address: str = ""
    boot_id: str = ""
    direct: bool = True
    answered: int = 0
    ended: Mapping[int, Ending] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    absence: Absence | None = None
    registrations: tuple[float, ...] = ()
    version: int = -1
    registered: int = 0
    process: str = ""
    refused_at: float = 0.0
    failed_at: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Isolation:
    """An order to a consumer to run nothing.

    `incarnation`: 0 means any. `readmit`: end the isolation once the consumer confirms that nothing runs.
    """

    by: str
    why: str
    at: float
    incarnation: int = 0
    until_at: float = 0.0
    readmit: bool = False

    def is_over(self, now: float) -> bool:
        """Return whether a confirmation that nothing runs ends the isolation."""
        return self.readmit or 0 < self.until_at <= now


class DrainKind(StrEnum):
    """The party that drains a consumer and may end the draining."""

    PERSON = "person"
    UPGRADE = "upgrade"
    REDEPLOYMENT = "redeployment"
    GROWTH = "growth"  # a fleet shrinks because its load is low
    ITSELF = "itself"  # the incarnation was asked to end


@dataclass(frozen=True, slots=True)
class DrainOwner:
    """`fleet`: the fleet whose upgrade, redeployment or growth drains. `version`: name of an upgrade's new version."""

    kind: DrainKind = DrainKind.PERSON
    fleet: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Draining:
    """An order to a consumer to give all partitions away.

    `by`, `why`: words for a person. `incarnation`: the incarnation that asked to leave; 0 if the order holds for any
    incarnation. `leaving`: the incarnation that asked to end during a person's draining; 0 without a request.
    """

    by: str
    why: str
    at: float
    incarnation: int = 0
    leaving: int = 0
    owner: DrainOwner = DrainOwner()


MAX_RESTART_S = 86_400.0
"""Longest duration of a planned restart."""


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """The process of this `incarnation` ends, and a process of the same id starts before `until_at`.

    The partitions wait for the new process. With `moves`, the partitions move to other consumers and return later;
    `partitions` (by topic) lists them. `capacity`, `rack` and `attributes` repeat the registration, so that the absence
    causes no plan. After `until_at` the planned restart has no effect.
    """

    by: str
    why: str
    at: float
    until_at: float
    incarnation: int
    moves: bool = False
    partitions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    capacity: float = 1.0
    rack: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def holds(self, now: float) -> bool:
        """Return whether the restart has not expired.

        A start further ahead than the duration comes from a clock that jumped, and does not count.
        """
        return 0 < self.until_at - now <= 2 * (self.until_at - self.at)


@dataclass(frozen=True, slots=True)
class Directive:
    """`/directives/[CONSUMER]`. `version` is the znode's version; -1 without a znode."""

    consumer: str
    isolation: Isolation | None = None
    draining: Draining | None = None
    version: int = -1
    restart: PlannedRestart | None = None


@dataclass(frozen=True, slots=True)
class FleetVersion:
    """One version of a fleet's consumers. `Fleet` repeats these fields."""

    application: str
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`/fleet/[APP]`: the consumers that should run. `application` is the path of the Spark application.

    - `environment`: variables of the consumers' processes, not secret.
    - `code`: version of the code; replaces `{code}` in `application` and `arguments`.
    - `replaced`: consumer → the incarnation that a redeployment ends.
    - `name`: name of the version whose fields stand in this fleet. `versions`: name → a former or coming version.
    - `runs`: consumer → name of the version it runs. Only during an upgrade, and only if not `name`.
    - `problem`: why some fields are unreadable and ignored; without an `application`, all of them.
    """

    app: str
    application: str
    consumers: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    version: int = -1
    problem: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    replaced: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    versions: Mapping[str, FleetVersion] = field(default_factory=dict)
    runs: Mapping[str, str] = field(default_factory=dict)
