"""The parameters of the actions. Each parameter is declared once for form and command."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator_tasks.core.fleet.growth import MAX_CONSUMERS
from coordinator_tasks.core.model import StartRule, StateOnReset
from coordinator_tasks.core.names import MAX_PARTITION, MAX_WORDS_CHARS
from coordinator_tasks.core.text.json_fields import MAX_NUMBER

REQUIRED: Any = object()


@dataclass(frozen=True, slots=True)
class CommandOption:
    """A parameter of a command: an option with a `flag`, or else an argument.

    `pairs`: repeatable name=value, passed to the action as a mapping. `words`: must not be blank.
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
    """A parameter. The action gets the value under `name`.

    `form`: the form's field, a JSON schema with `title`, `description` and, if optional, `default`; `None` if the form
    lacks the parameter. `option`: the command's parameter; `None` if the command lacks it.
    """

    name: str
    form: Mapping[str, Any] | None = None
    option: CommandOption | None = None


def _field(kind: str, title: str, description: str, **rest: Any) -> Mapping[str, Any]:
    return {"type": kind, "title": title, "description": description, **rest}


def _object(title: str, description: str) -> Mapping[str, Any]:
    """Return a field for a JSON object. Numbers are limited: Airflow starts no task with a number beyond 64 bits."""
    values = {"minimum": -MAX_NUMBER - 1, "maximum": MAX_NUMBER}
    return _field("object", title, description, additionalProperties=values, default={})


def _partitions(description: str, option: CommandOption, **rest: Any) -> Parameter:
    items = {"type": "integer", "minimum": 0, "maximum": MAX_PARTITION}
    return Parameter("partitions", _field("array", "Partitions", description, items=items, **rest), option)


def _number(name: str, title: str, text: str, flag: str, kind: Any, most: int, default: Any = 0) -> Parameter:
    """Return a parameter for a number from 0 to `most`."""
    rules = {} if default is REQUIRED else {"default": default}
    field = _field("integer" if kind is int else "number", title, text, **rules, minimum=0, maximum=most)
    given = default if default is REQUIRED else kind(default)
    return Parameter(name, field, CommandOption(kind, text, flag, given, minimum=0))


def _flag(name: str, title: str, text: str, flag: str) -> Parameter:
    """Return a parameter that is off by default."""
    return Parameter(name, _field("boolean", title, text, default=False), CommandOption(bool, text, flag, False))


def _text(
    name: str,
    title: str,
    text: str,
    flag: str = "",
    default: Any = REQUIRED,
    *,
    kind: Any = str,
    words: bool = False,
    **rules: Any,
) -> Parameter:
    """Return a text parameter with the same description in form and command. `rules`: rules of the field."""
    rules |= {} if default is REQUIRED else {"default": str(default)}
    option = CommandOption(kind, text, flag, default, words=words)
    return Parameter(name, _field("string", title, text, **rules), option)


TOPIC = _text("topic", "Topic", "A topic of Kafka.", minLength=1, maxLength=249, pattern="^[A-Za-z0-9._-]+$")
_ID = "^[A-Za-z0-9][A-Za-z0-9._-]*$"
CONSUMER = _text("consumer", "Consumer", "The id of a consumer.", minLength=1, maxLength=64, pattern=_ID)
_APP = "The name of the fleet."
APP = _text("app", "Fleet", _APP, minLength=1, maxLength=64, pattern=_ID)
ANY_APP = Parameter("app", option=CommandOption(str, "The name of a fleet; empty = all.", default=""))
_PATH = "Path of the Spark application; {code} stands for the version of the code."
APPLICATION = _text("application", "Application", _PATH, "--application", minLength=1)


def _texts(name: str, title: str, text: str, one: str, flag: str, default: Any = REQUIRED) -> Parameter:
    """Return a parameter for several texts. `one` is the option's help: it describes a single text."""
    rules: dict[str, Any] = {} if default is REQUIRED else {"default": []}
    option = CommandOption(list[str] if default is REQUIRED else list[str] | None, f"{one}; repeatable.", flag, default)
    return Parameter(name, _field("array", title, text, items={"type": "string"}, **rules), option)


def _pairs(name: str, title: str, text: str, flag: str, option: str) -> Parameter:
    given = CommandOption(list[str] | None, f"name=value, {option}; repeatable.", flag, None, pairs=True)
    return Parameter(name, _object(title, text), given)


CONSUMERS = _texts("consumers", "Consumers", "The ids of the consumers.", "The id of a consumer", "--consumer")
_LISTED = "Arguments of the application, one a line."
ARGUMENTS = _texts("arguments", "Arguments", _LISTED, "An argument of the application", "--argument", None)
_CONF = 'Settings for spark-submit, such as {"spark.driver.memory": "1g"}.'
CONF = _pairs("conf", "Spark settings", _CONF, "--conf", "a Spark setting")
_ENV = 'Variables of the consumers\' processes, such as {"TZ": "UTC"}; visible to all readers of the fleet.'
ENVIRONMENT = _pairs("environment", "Environment", _ENV, "--env", "a variable of the consumers' processes, not secret")
_CODE = "The version of the code, with which consumers register; {code} in application and arguments stands for the version."
CODE = _text("code", "Version of the code", _CODE, "--code", "", maxLength=64)
_SIZE = "How many consumers the fleet should have."
COUNT = _number("count", "Consumers", _SIZE, "", int, MAX_CONSUMERS, REQUIRED)
_NEW_IDS = "Pattern of new ids, with {} for the number; empty = as for the present ids."
PATTERN = _text("pattern", "Pattern of ids", _NEW_IDS, "--pattern", "", maxLength=64)
_BACK = "The fleet to return to; empty = no fleet."
FLEET = _text("app", "Fleet", _BACK, "--fleet", "", maxLength=64)
_REASON = "The reason, in a single line; kept in the history."
WHY = _text("why", "Why", _REASON, "--why", words=True, minLength=1, maxLength=MAX_WORDS_CHARS, pattern=r"\S")
_COMMITS = "The consumer group of the committed offsets."
GROUP = _text("group_id", "Group id", _COMMITS, "--group", minLength=1, maxLength=255)
_BEGINS = "Where a partition without a committed offset begins; none = an error."
_RULES = [rule.value for rule in StartRule]
START = _text("start", "Start", _BEGINS, "--start", StartRule.EARLIEST, kind=StartRule, enum=_RULES)
_ASSIGNS = "How partitions are assigned to consumers; by default, the cluster's strategy."
STRATEGY = _text("strategy", "Strategy", _ASSIGNS, "--strategy", "")
REASON = _text("why", "Why", _REASON, "--why", "", maxLength=MAX_WORDS_CHARS)
"""An optional reason."""
_POSITION = (
    "earliest, latest, current, an offset, a shift (-100, +100), a duration back from now (PT1H), "
    "or a time such as 2026-11-21T08:15:00Z."
)
_PLACES = ["earliest", "latest", "current", "-100", "PT1H"]
TO = _text("to", "To", _POSITION, "--to", minLength=1, examples=_PLACES)
_STATE = "What happens to the state of the partitions: keep or reset. Needed for partitions with state."
_STATES: Any = StateOnReset | None
STATE = Parameter(
    "state",
    _field("string", "State", _STATE, default="", enum=["", *(choice.value for choice in StateOnReset)]),
    CommandOption(_STATES, _STATE, "--state", None),
)
_PAIRS: Any = list[str] | None
_LINES = "Lines of topic,partition,offset, as `kafka-consumer-groups --export` writes them."
OFFSETS = Parameter("offsets", _field("string", "Offsets", _LINES, minLength=1, format="multiline"))
_WHICH = "The rebalance of the reset, by the history's name; empty = the newest reset."
REBALANCE = _text("rebalance", "Rebalance", _WHICH, "--rebalance", "", maxLength=100)
PARAMETERS = Parameter(
    "parameters",
    _object("Parameters", 'All parameters of the strategy, such as {"measure": "lag"}.'),
    CommandOption(_PAIRS, "name=value, a parameter of the strategy; repeatable.", "--parameter", None, pairs=True),
)
_PROPERTY = "name=value, a consumer property, not secret; repeatable."
PROPERTIES = Parameter("properties", option=CommandOption(_PAIRS, _PROPERTY, "--property", None, pairs=True))
_PARTITION = CommandOption(list[int] | None, "A partition, repeatable; none = all.", "--partition", None, minimum=0)
PARTITIONS = _partitions("Numbers of partitions; empty = all.", _PARTITION, default=[])
_PINNED = CommandOption(list[int], "A partition; repeatable.", "--partition", minimum=0)
PINNED = _partitions("At least one.", _PINNED, minItems=1)
_HOW_LONG = "How long the isolation lasts; 0 = until a person readmits the consumer."
MINUTES = Parameter("minutes", _field("number", "Minutes", _HOW_LONG, default=0, minimum=0, maximum=527_040))
_FOR_S = "Readmit the consumer after this many seconds; 0 = only by hand."
FOR_S = Parameter("for_s", option=CommandOption(float, _FOR_S, "--for-s", 0.0, minimum=0))
_UNDONE = "The rebalance to undo, by the history's name, such as 7-de8cc71b; all later rebalances are undone as well."
BEFORE = _text("rebalance", "Before rebalance", _UNDONE, minLength=1, maxLength=100)
_HOLD = "Minutes to hold the assignment while consumers join or leave; 0 = until the next change of membership."
HOLD = _number("minutes", "Hold for minutes", _HOLD, "--minutes", float, 527_040)
_BACK_IN = "Minutes within which the next process of this id starts; 0 = no process is expected any more."
WITHIN = Parameter(
    "within",
    _field("number", "Within minutes", _BACK_IN, default=10, minimum=0, maximum=1_440),
    CommandOption(float, _BACK_IN, "--within", minimum=0),
)
_MEANWHILE = "Lend the partitions to other consumers meanwhile; by default the partitions wait."
MOVE = _flag("move", "Move meanwhile", _MEANWHILE, "--move-meanwhile")
_PLAN = "The plan, by the name in `plan --dry-run`: a digest of inputs and moves."
DIGEST = Parameter("digest", option=CommandOption(str, _PLAN))
FORCE = _flag("force", "Force", "Act despite the default refusal; the refusal says why.", "--force")
REJECT = Parameter("reject", option=CommandOption(bool, "Reject the plan instead.", "--reject", False))


def _limit(name: str, title: str, text: str, flag: str, default: float, *, kind: Any = float) -> Parameter:
    """Return a limit of a fleet's growth. The service checks the value."""
    field = _field("integer" if kind is int else "number", title, text, default=default, minimum=0, maximum=86_400)
    return Parameter(name, field, CommandOption(kind, text, flag, default))


_MOST = "Maximum number of consumers; 0 = remove the limits."
_SHRINK = "Seconds for which fewer consumers must be enough before the fleet shrinks."
GROWTH = (
    _limit("least", "At least", "Minimum number of consumers.", "--min", 1, kind=int),
    Parameter(
        "most",
        _field("integer", "At most", _MOST, minimum=0, maximum=MAX_CONSUMERS),
        CommandOption(int, _MOST, "--max"),
    ),
    _limit("spare", "Warm spares", "Warm consumers beyond the number needed.", "--spare", 0, kind=int),
    _limit(
        "utilisation", "Utilisation", "Share of a consumer's read capacity to use, such as 0.7.", "--utilisation", 0.7
    ),
    _limit("catch_up_s", "Catch up, s", "Seconds within which a backlog has to be read.", "--catch-up", 300.0),
    _limit("start_up_s", "Start-up, s", "Seconds from the launch of a consumer to the first read.", "--start-up", 60.0),
    _limit("window_s", "Window, s", "Seconds after which the effect of a step is judged.", "--window", 180.0),
    _limit("grow_pause_s", "Pause of growth, s", "Seconds between two growths.", "--grow-pause", 60.0),
    _limit("shrink_pause_s", "Pause of shrinking, s", _SHRINK, "--shrink-pause", 300.0),
    _flag("act", "Act", "Act on the policy's decisions; the default only reports them (shadow mode).", "--act"),
)
"""The fields of `core.fleet.growth.Limits`."""
TOPICS = Parameter(
    "topics",
    _field("array", "Topics", "Managed topics, each on a line; empty = all.", items={"type": "string"}, default=[]),
    CommandOption(list[str] | None, "Managed topics; empty = all.", default=None),
)
JOIN = _number("join", "Consumers more", "Number of additional consumers, of capacity 1.", "--join", int, MAX_CONSUMERS)
LEAVE = _texts("leave", "Without consumers", "Ids, each on a line.", "Without this consumer", "--leave", None)
_OTHER = "Another strategy, with all of its parameters; empty = unchanged."
OTHER_STRATEGY = _text("strategy", "Strategy", _OTHER, "--strategy", "")
_SIZE = "Number of partitions; 0 = unchanged."
SIZE = _number("size", "Number of partitions", _SIZE, "--partitions", int, 100_000)
_VERSION = "The name of the fleet's next version: a new or a former version."
VERSION = _text("version", "Version", _VERSION, minLength=1, maxLength=64, pattern=_ID)
_OTHER_PATH = "Path of another application; empty = unchanged. {code} stands for the version of the code."
OTHER_APPLICATION = _text("application", "Application", _OTHER_PATH, "--application", "")
_ONLY = "Only these topics; empty = all topics with partitions of the fleet."
SOME_TOPICS = Parameter(
    "topics",
    _field("array", "Topics", _ONLY, items={"type": "string"}, default=[]),
    CommandOption(list[str] | None, f"{_ONLY} Repeatable.", "--topic", None),
)
_PERCENT = "Percent of each topic's partitions moved after each step; the last is 100."
STEPS = Parameter(
    "steps",
    _field("array", "Steps", _PERCENT, items={"type": "integer", "minimum": 1, "maximum": 100}, default=[5, 50, 100]),
    CommandOption(list[int] | None, f"{_PERCENT} Repeatable; by default 5, 50 and 100.", "--step", None),
)


_HELD = "Minutes of holding and judging each step before the next step."
HOLD_MINUTES = _number("hold_minutes", "Hold for minutes", _HELD, "--hold-minutes", float, 43_200, 5.0)
_WAIT = "Minutes after which consumers without a start, or partitions without a move, roll the upgrade back."
PATIENCE = _number("patience_minutes", "Patience in minutes", _WAIT, "--patience-minutes", float, 43_200, 10.0)
_LAG = "Lag of a moved partition, in seconds, above which the upgrade is rolled back."
MAX_LAG = _number("max_lag_s", "Largest lag in seconds", _LAG, "--max-lag-s", float, 2_592_000, 60.0)
_ERRORS = "Errors of new consumers above which the upgrade is rolled back; a restarted consumer counts as an error."
MAX_ERRORS = _number("max_errors", "Permitted errors", _ERRORS, "--max-errors", int, 1_000)
_SLOW = (
    "Share of the former records per second; below this a moved partition with waiting records rolls the upgrade back; "
    "0 = not judged."
)
MIN_RATE = _number("min_rate", "Least share of the rate", _SLOW, "--min-rate", float, 1, 0.0)
_RULE = "A rule of the site, by the name in the setting rules; empty = no rule."
RULE = _text("rule", "Rule", _RULE, "--rule", "", maxLength=64)
_NEW = "Number of new consumers; 0 = as many as now."
NEW_COUNT = _number("count", "New consumers", _NEW, "--consumers", int, MAX_CONSUMERS)
_PERSON = "Person behind the request; your user name is kept as well."
BY = Parameter("by", option=CommandOption(str, _PERSON, "--by", ""))
_DO = "Make the change; the default only shows the change."
EXECUTE = Parameter("execute", option=CommandOption(bool, _DO, "--execute", False))
"""For commands that show a dry run by default, as Kafka's tool does."""
_UNASKED = "Act without a question; required in a script without a terminal."
YES = Parameter("yes", option=CommandOption(bool, _UNASKED, "--yes", False))
"""For commands with a destructive action. A form has a dry run first instead."""
DRY_RUN = Parameter("dry_run", option=CommandOption(bool, "Show the effect, change nothing.", "--dry-run", False))
"""For commands only, because every form has a dry run."""
ASKED = (REASON, DRY_RUN, BY)
"""The last parameters of most actions."""
