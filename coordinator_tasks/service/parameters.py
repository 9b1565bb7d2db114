"""What the actions are given: each parameter once, as a field of a form and as an option of a command."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_tasks.core.model import StartRule
from coordinator_tasks.core.names import MAX_WORDS_CHARS

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Option:
    """How a command takes a parameter; without a `flag` it is an argument.

    `pairs`: repeatable name=value, handed to the action as a mapping. `words`: it must not be blank.
    """

    type: Any
    help: str
    flag: str = ""
    default: Any = REQUIRED
    minimum: int | None = None
    pairs: bool = False
    words: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter by its name in what the action is given.

    `form` is the field: its JSON schema with `title`, `description` and, if it may be left out, `default`. `None` = the
    form, or the command, does not have it.
    """

    name: str
    form: Mapping[str, Any] | None = None
    option: Option | None = None


_PARTITION_LIST: Mapping[str, Any] = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "title": "Partitions",
}
_PARTITIONS = Option(list[int] | None, "A partition, repeatable; none = all.", "--partition", None, minimum=0)
_PAIRS: Any = list[str] | None

TOPIC = Parameter(
    "topic",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 249,
        "pattern": "^[A-Za-z0-9._-]+$",
        "title": "Topic",
        "description": "Kafka's name of it.",
    },
    Option(str, "A topic of Kafka."),
)
CONSUMER = Parameter(
    "consumer",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 64,
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        "title": "Consumer",
        "description": "Its stable id.",
    },
    Option(str, "The id of a consumer."),
)
WHY = Parameter(
    "why",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_WORDS_CHARS,
        "pattern": r"\S",
        "title": "Why",
        "description": "One line; kept, and shown to whoever looks later.",
    },
    Option(str, "The reason; it stands in the history.", "--why", words=True),
)
GROUP = Parameter(
    "group_id",
    {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "title": "Group id",
        "description": "The Kafka group to commit to.",
    },
    Option(str, "The consumer group that offsets are committed for.", "--group"),
)
START = Parameter(
    "start",
    {
        "default": "earliest",
        "type": "string",
        "enum": ["earliest", "latest", "none"],
        "title": "Start",
        "description": "Where a partition begins that has no committed offset; none = that is an error.",
    },
    Option(StartRule, "Where a partition without a committed offset begins.", "--start", StartRule.EARLIEST),
)
STRATEGY = Parameter(
    "strategy",
    {
        "default": "",
        "type": "string",
        "title": "Strategy",
        "description": "How partitions are given to consumers; empty = the cluster's.",
    },
    Option(str, "How partitions are spread over the consumers; none = the cluster's.", "--strategy", ""),
)
PARAMETERS = Parameter(
    "parameters",
    {
        "default": {},
        "type": "object",
        "title": "Parameters",
        "description": 'All of the strategy\'s, such as {"measure": "lag"}.',
    },
    Option(_PAIRS, "name=value of the strategy; repeatable.", "--parameter", None, pairs=True),
)
PROPERTIES = Parameter(
    "properties",
    option=Option(_PAIRS, "name=value, a consumer property that is not secret.", "--property", None, pairs=True),
)
PARTITIONS = Parameter("partitions", {"default": [], **_PARTITION_LIST, "description": "None means all."}, _PARTITIONS)
PINNED = Parameter("partitions", {**_PARTITION_LIST, "minItems": 1, "description": "At least one."}, _PARTITIONS)
TO = Parameter(
    "to",
    {
        "type": "string",
        "minLength": 1,
        "title": "To",
        "description": "earliest, latest, an offset, or a time: 2026-11-21T08:15:00Z.",
    },
    Option(str, "earliest, latest, an offset, or a time such as 2026-11-21T08:15:00Z.", "--to"),
)
MINUTES = Parameter(
    "minutes",
    {
        "default": 0,
        "type": "number",
        "minimum": 0,
        "maximum": 527_040,
        "title": "Minutes",
        "description": "For how long; 0 = until it is readmitted.",
    },
)
FOR_S = Parameter(
    "for_s", option=Option(float, "Readmit it after these seconds; 0 = by hand.", "--for-s", 0.0, minimum=0)
)
BY = Parameter("by", option=Option(str, "Who asks; default: your user name.", "--by", ""))
DRY_RUN = Parameter("dry_run", option=Option(bool, "Show what would be done, change nothing.", "--dry-run", False))
"""Every form has a dry run of its own; a command has one with this parameter."""
