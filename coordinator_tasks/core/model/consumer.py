"""What ZooKeeper holds of a consumer: its registration, the claim of its id, what a person wants of it, and its fleet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from coordinator_tasks.core.model.topic import FORMATS


@dataclass(frozen=True, slots=True)
class Member:
    """`/members/[CONSUMER]`: a registered consumer.

    `topics`: names and regular expressions; empty = any topic. `process`: the name of its process on its host, which
    its successor there asks about; empty = unknown. `formats`: the `FORMATS` that it reads. `release`: the one that it runs,
    empty = one that does not say it. `spark_ui`: the address of its Spark UI, `application_id`: of its Spark application;
    empty = none; both as it says them, so they are checked where they are shown (`links`). `problem`: why its
    registration cannot be read; then nothing but its id is known.
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


class Ending(StrEnum):
    """How we know that an incarnation is over."""

    LEFT = "left"  # it left cleanly and said so by number
    REAPED = "reaped"  # its launcher saw all its processes end, or its successor on the same host found its own gone
    REFUSED = "refused"  # its own address refused for a session time-out


@dataclass(frozen=True, slots=True)
class Absence:
    """First seen absent at `since_at`; its address has refused every connection since `refused_at` (0 = it has not)."""

    incarnation: int
    since_at: float
    refused_at: float = 0.0


@dataclass(frozen=True, slots=True)
class IdClaim:
    """`/ids/[CONSUMER]`: the counter of incarnations, and what is known of the ended ones.

    - `address`, `boot_id`, `direct`, `process`: of the last registration, by incarnation `registered` (0 = unknown,
      because an older release has written it).
    - `answered`: the last incarnation whose interface has answered us.
    - `refused_at`: since when the address of `registered`, while it is registered, has refused (0 = it does not): a dead
      process stays registered for a session time-out.
    - `registrations`: the times of the last few; many of them in a short time show that the id flaps.
    - `reasons`: why some of the `ended` incarnations ended, and `failed_at`: when that was noted.
    - `version`: the znode's. A registration raises it, so that it guards every write that relies on an absence.
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
    """The consumer may run nothing.

    `incarnation` 0 = any; `readmit`: let it in when it confirms that it runs nothing.
    """

    by: str
    why: str
    at: float
    incarnation: int = 0
    until_at: float = 0.0
    readmit: bool = False

    def is_over(self, now: float) -> bool:
        """Whether it is to end as soon as the consumer has confirmed that it runs nothing."""
        return self.readmit or 0 < self.until_at <= now


@dataclass(frozen=True, slots=True)
class Draining:
    """The consumer is to give all its partitions away.

    `incarnation` 0 = any, as a person wants it; else the incarnation itself wants to leave. `leaving`: the
    incarnation that was asked to end while a person's draining stands here (0 = none).
    """

    by: str
    why: str
    at: float
    incarnation: int = 0
    leaving: int = 0


MAX_RESTART_S = 86_400.0
"""How long a planned restart may last."""


@dataclass(frozen=True, slots=True)
class PlannedRestart:
    """The process of this `incarnation` ends, and a process of the same id is there before `until_at`.

    Its partitions wait for that one. `moves`: they move away meanwhile, and return; then `partitions` (by topic) are those
    that it had. `capacity`, `rack` and `attributes` are those of its registration, so that its absence causes no plan. After
    `until_at` it is as if it had never been asked for.
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
        """Whether it has not run out; one that begins further ahead than it lasts was noted by a clock that has jumped."""
        return 0 < self.until_at - now <= 2 * (self.until_at - self.at)


@dataclass(frozen=True, slots=True)
class Directive:
    """`/directives/[CONSUMER]`; `version` is the znode's (-1 = there is none)."""

    consumer: str
    isolation: Isolation | None = None
    draining: Draining | None = None
    version: int = -1
    restart: PlannedRestart | None = None


@dataclass(frozen=True, slots=True)
class FleetVersion:
    """What consumers of a fleet run; the fields are those of `Fleet`."""

    application: str
    arguments: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True, slots=True)
class Fleet:
    """`/fleet/[APP]`: the consumers that should run. `application` is the path of the Spark application.

    `environment`: variables of the consumers' processes, not secret. `code`: the version of the code; `{code}` in
    `application` and `arguments` stands for it. `replaced`: consumer → the incarnation that a redeployment ends.
    `name`: of the version that these fields are; `versions`: name → another one that it had, or that it gets.
    `runs`: consumer → the name of the version that it runs, if that is another one: only while an upgrade is under way.
    `problem`: what of it cannot be read and is left out; without an `application`, all of it.
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
