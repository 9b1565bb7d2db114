"""The kinds of fault. Each counts where the fault takes effect, by the topic's state at that moment."""

from enum import StrEnum


class Wait(StrEnum):
    """Waits of an owner's partitions by a site's policy; drawn for a history."""

    PERSON = "absent and silent, held for a person"
    SAME_ID = "known to have ended, waits for its id"


class Lasting(StrEnum):
    """Faults that nobody takes back when the faults end; drawn for a history."""

    DEAD = "dead for good"
    HOST_LOST = "dead for good, with its host"
    ISOLATED = "isolated for good, lives"
    BOTH = "isolated for good, dead"


class Fault(StrEnum):
    """Faults and persons' actions, possible at any moment of a history."""

    # ZooKeeper
    WRITE_LOST = "connection lost, write not applied"
    ANSWER_LOST = "connection lost, write applied"
    STALE_READ = "stale read from a follower"
    SUSPENDED = "suspended for less than the session"
    EXPIRED = "session expired"
    DETACHED = "suspended for longer than the session"
    TASK_EXPIRED = "a task's session expired"
    LOST = "ZooKeeper lost everything"
    RESTORED = "ZooKeeper restored from an older snapshot"
    # Consumers
    CRASHED = "consumer killed"
    HOST_LOST = "host of a consumer lost"
    PAUSED = "process paused for less than the session"
    FROZEN = "process paused for longer than the session"
    ZOMBIE = "process frozen between comparison and commit"
    QUERY_ENDED = "query of a consumer failed"
    LEFT = "consumer asked to end"
    RELAUNCHED = "second process of a live id"
    STUCK = "batch hangs"
    # Kafka
    COMMIT_LOST = "commit timed out, not applied"
    COMMIT_UNKNOWN = "commit timed out, applied"
    COMMIT_DELAYED = "commit applied after its time-out"
    COMMIT_DOUBLED = "commit applied once more later"
    FOREIGN_COMMIT = "commit by a foreign client"
    BROKERS_DOWN = "brokers do not answer"
    PARTITIONS_ADDED = "partitions added"
    RECREATED = "topic recreated"
    # The consumers' interfaces
    SILENT = "interface silent"
    REFUSED = "interface refuses, process lives"
    ANSWER_DELAYED = "answer of an interface delayed"
    POST_DOUBLED = "posted topic node delivered again later"
    # The registry of consumers
    REGISTRY_UNREADABLE = "registry cannot be read"
    REGISTRY_EMPTY = "registry lists nobody"
    REGISTRY_OLD = "registry shows an older list"
    # Orchestrator
    TASK_KILLED = "task attempt killed"
    TWO_ATTEMPTS = "two attempts of a task at once"
    CLEARED = "old task cleared and run again"
    TASK_DELAYED = "task stalled for seconds"
    # Clocks and people
    CLOCK_JUMP = "wall clock jumps"
    ISOLATED = "isolated by a person"
    READMITTED = "readmitted by a person"
    DRAINED = "drained by a person"
    RESTART_EXPECTED = "a person expects its restart"
    RECONFIGURED = "configuration changed by a person"
