"""The parameters of the actions: each one once, as a field of a form and as an option of a command."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_tasks.core.model import StartRule
from coordinator_tasks.core.names import MAX_WORDS_CHARS

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class Option:
    """A parameter of a command; without a `flag` it is an argument.

    `pairs`: repeatable name=value, a mapping for the action. `words`: it must not be blank.
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
    """One parameter; the action gets it under its `name`.

    `form` is the field: a JSON schema with `title`, `description` and, if it is optional, `default`. `None` = the form, or
    the command, does not have it.
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
    _field("string", "Topic", "The topic's name in Kafka.", minLength=1, maxLength=249, pattern="^[A-Za-z0-9._-]+$"),
    Option(str, "A topic of Kafka."),
)
CONSUMER = Parameter(
    "consumer",
    _field("string", "Consumer", "Its stable id.", minLength=1, maxLength=64, pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$"),
    Option(str, "The id of a consumer."),
)
_FOR_LATER = "One line; kept, and shown to others later."
WHY = Parameter(
    "why",
    _field("string", "Why", _FOR_LATER, minLength=1, maxLength=MAX_WORDS_CHARS, pattern=r"\S"),
    Option(str, "The reason; it is kept in the history.", "--why", words=True),
)
GROUP = Parameter(
    "group_id",
    _field("string", "Group id", "The Kafka group to commit to.", minLength=1, maxLength=255),
    Option(str, "The consumer group that offsets are committed for.", "--group"),
)
_BEGINS = "Where a partition without a committed offset begins; none = that is an error."
START = Parameter(
    "start",
    _field("string", "Start", _BEGINS, default="earliest", enum=["earliest", "latest", "none"]),
    Option(StartRule, _BEGINS, "--start", StartRule.EARLIEST),
)
_ASSIGNS = "How partitions are assigned to consumers; by default, the cluster's strategy."
STRATEGY = Parameter(
    "strategy",
    _field("string", "Strategy", _ASSIGNS, default=""),
    Option(str, _ASSIGNS, "--strategy", ""),
)
PARAMETERS = Parameter(
    "parameters",
    _field("object", "Parameters", 'All parameters of the strategy, such as {"measure": "lag"}.', default={}),
    Option(_PAIRS, "name=value, a parameter of the strategy; repeatable.", "--parameter", None, pairs=True),
)
PROPERTIES = Parameter(
    "properties",
    option=Option(_PAIRS, "name=value, a consumer property, not secret; repeatable.", "--property", None, pairs=True),
)
PARTITIONS = _partitions("None means all.", default=[])
PINNED = _partitions("At least one.", minItems=1)
TO = Parameter(
    "to",
    _field("string", "To", "earliest, latest, an offset, or a time: 2026-11-21T08:15:00Z.", minLength=1),
    Option(str, "earliest, latest, an offset, or a time such as 2026-11-21T08:15:00Z.", "--to"),
)
_HOW_LONG = "How long the isolation lasts; 0 = until a person readmits the consumer."
MINUTES = Parameter("minutes", _field("number", "Minutes", _HOW_LONG, default=0, minimum=0, maximum=527_040))
_FOR_S = Option(float, "Readmit it after this many seconds; 0 = only by hand.", "--for-s", 0.0, minimum=0)
FOR_S = Parameter("for_s", option=_FOR_S)
BY = Parameter("by", option=Option(str, "Who asks; default: your user name.", "--by", ""))
DRY_RUN = Parameter("dry_run", option=Option(bool, "Show what would be done, change nothing.", "--dry-run", False))
"""For commands only: every form has its own dry run."""
