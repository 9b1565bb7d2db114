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


def _field(kind: str, title: str, description: str, **rest: Any) -> Mapping[str, Any]:
    return {"type": kind, "title": title, "description": description, **rest}


def _partitions(description: str, **rest: Any) -> Parameter:
    items = {"type": "integer", "minimum": 0}
    option = Option(list[int] | None, "A partition, repeatable; none = all.", "--partition", None, minimum=0)
    return Parameter("partitions", _field("array", "Partitions", description, items=items, **rest), option)


_PAIRS: Any = list[str] | None

TOPIC = Parameter(
    "topic",
    _field("string", "Topic", "Kafka's name of it.", minLength=1, maxLength=249, pattern="^[A-Za-z0-9._-]+$"),
    Option(str, "A topic of Kafka."),
)
CONSUMER = Parameter(
    "consumer",
    _field("string", "Consumer", "Its stable id.", minLength=1, maxLength=64, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$"),
    Option(str, "The id of a consumer."),
)
_FOR_LATER = "One line; kept, and shown to whoever looks later."
WHY = Parameter(
    "why",
    _field("string", "Why", _FOR_LATER, minLength=1, maxLength=MAX_WORDS_CHARS, pattern=r"\S"),
    Option(str, "The reason; it stands in the history.", "--why", words=True),
)
GROUP = Parameter(
    "group_id",
    _field("string", "Group id", "The Kafka group to commit to.", minLength=1, maxLength=255),
    Option(str, "The consumer group that offsets are committed for.", "--group"),
)
_BEGINS = "Where a partition begins that has no committed offset; none = that is an error."
START = Parameter(
    "start",
    _field("string", "Start", _BEGINS, default="earliest", enum=["earliest", "latest", "none"]),
    Option(StartRule, "Where a partition without a committed offset begins.", "--start", StartRule.EARLIEST),
)
STRATEGY = Parameter(
    "strategy",
    _field("string", "Strategy", "How partitions are given to consumers; empty = the cluster's.", default=""),
    Option(str, "How partitions are spread over the consumers; none = the cluster's.", "--strategy", ""),
)
PARAMETERS = Parameter(
    "parameters",
    _field("object", "Parameters", 'All of the strategy\'s, such as {"measure": "lag"}.', default={}),
    Option(_PAIRS, "name=value of the strategy; repeatable.", "--parameter", None, pairs=True),
)
PROPERTIES = Parameter(
    "properties",
    option=Option(_PAIRS, "name=value, a consumer property that is not secret.", "--property", None, pairs=True),
)
PARTITIONS = _partitions("None means all.", default=[])
PINNED = _partitions("At least one.", minItems=1)
TO = Parameter(
    "to",
    _field("string", "To", "earliest, latest, an offset, or a time: 2026-11-21T08:15:00Z.", minLength=1),
    Option(str, "earliest, latest, an offset, or a time such as 2026-11-21T08:15:00Z.", "--to"),
)
_HOW_LONG = "For how long; 0 = until it is readmitted."
MINUTES = Parameter("minutes", _field("number", "Minutes", _HOW_LONG, default=0, minimum=0, maximum=527_040))
_FOR_S = Option(float, "Readmit it after these seconds; 0 = by hand.", "--for-s", 0.0, minimum=0)
FOR_S = Parameter("for_s", option=_FOR_S)
BY = Parameter("by", option=Option(str, "Who asks; default: your user name.", "--by", ""))
DRY_RUN = Parameter("dry_run", option=Option(bool, "Show what would be done, change nothing.", "--dry-run", False))
"""Every form has a dry run of its own; a command has one with this parameter."""
