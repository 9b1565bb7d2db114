"""Shared data of coordinator and consumers: frozen values without behaviour.

Partition numbers, epochs and incarnations are `int`. A field that ends in `_at` is a time: seconds since 1970 as
`float`. A field that ends in `_s` is a duration in seconds. `codecs` has the JSON names, `names` the paths.
"""

from coordinator_tasks.core.model.cause import Cause, CauseKind, Ending
from coordinator_tasks.core.model.consumer import (
    MAX_RESTART_S,
    Absence,
    Directive,
    Draining,
    DrainKind,
    DrainOwner,
    Fleet,
    FleetVersion,
    IdClaim,
    Isolation,
    Member,
    PlannedRestart,
)
from coordinator_tasks.core.model.history import (
    ActionRecord,
    Actor,
    Amount,
    Explanation,
    FieldChange,
    Move,
    MoveKind,
    Pause,
    Pauses,
    Reason,
    Record,
    Unmoved,
)
from coordinator_tasks.core.model.kafka import Committed, KafkaRecord, TopicDescription
from coordinator_tasks.core.model.status import (
    Answer,
    Condition,
    ConsumerStatus,
    Failure,
    Overwritten,
    RunningPartition,
    Silence,
    Stall,
    StateSize,
    Taken,
    TopicStatus,
    Unreachable,
    running_in,
    topic_status,
)
from coordinator_tasks.core.model.topic import (
    CONFIGURED,
    FORMATS,
    PACKED,
    PROPERTIES,
    SEEK_STATE,
    SEEKS,
    Ago,
    Approval,
    Handoff,
    LastPass,
    Release,
    Rollback,
    Seek,
    Split,
    StartRule,
    State,
    StateOnReset,
    Token,
    TopicConfig,
    TopicNode,
    TopicState,
)
