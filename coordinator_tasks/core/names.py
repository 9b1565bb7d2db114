"""All paths of znodes, and the rules for the names in the paths.

Each name is checked before it becomes part of a path, so that no name leads out of its folder. All functions are pure.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv6Address

from coordinator_tasks.core.errors import InvalidName, Refused

ROOT = "/consumers"
MAX_ID_BYTES = 64
MAX_WORDS_CHARS = 500
MAX_GROUP_CHARS = 255
MAX_HOST_CHARS = 253
MAX_DIGITS = 19  # digits of 2^63-1
MAX_PARTITION = 2**31 - 1  # Kafka's own limit
MAX_PORT = 65_535
STATUS_PATH = "/v1/status"  # path of a consumer's interface
MAX_TOPIC_CHARS = 249  # Kafka's own limit (org.apache.kafka.common.internals.Topic)
INTERNAL = "__"
"""Prefix of Kafka's own topics. Many programs around Kafka use the prefix for their topics too."""
_OWN = ("consumer_offsets", "transaction_state", "share_group_state", "cluster_metadata", "remote_log_metadata")
KAFKAS_OWN = frozenset(f"{INTERNAL}{name}" for name in _OWN)
"""A consumer of these topics may cause its own input: each of its commits adds a record to `__consumer_offsets`."""

COMMANDS: Mapping[str, str] = {"import_offsets": "offsets reset", "undo_offsets": "offsets undo"}
"""Stored name of an action → its command, for commands that are not simply the name with dashes."""

SECRET_WORDS = ("password", "secret", "jaas", "token", "key.pem", "keystore.key", "credential")
"""A setting whose name contains one of these words has a secret value."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ID_RULE = "it begins with a letter or digit and continues with letters, digits, '.', '_' and '-'"
_LABEL = r"(?!xn--)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ADDRESS = re.compile(
    rf"https?://(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>{_LABEL}(?:\.{_LABEL})*\.?)):(?P<port>[0-9]{{1,5}})"
)


def spelled(action: str) -> str:
    """Return the command of an action, by the action's stored name. Persons see only the command."""
    return COMMANDS.get(action) or action.replace("_", "-")


def _checked(
    name: object, kind: str, pattern: re.Pattern[str] = _ID, limit: int = MAX_ID_BYTES, rule: str = _ID_RULE
) -> str:
    """Return `name` if it may be of this kind; raise `InvalidName` otherwise."""
    if not isinstance(name, str) or not name:
        raise InvalidName(f"the {kind} is empty; give one ({rule}, at most {limit} characters)")
    if len(name) <= limit and name not in (".", "..") and pattern.fullmatch(name):
        return name
    shown = repr(name if len(name) <= 80 else name[:77] + "...")
    if len(name) > limit:
        raise InvalidName(f"the {kind} {shown} has {len(name)} characters, more than {limit}; give a shorter one")
    article = "an" if kind[0] in "aeiou" else "a"
    raise InvalidName(f"{shown} cannot be {article} {kind}: {rule}; choose another name")


_TOPIC_RULE = "Kafka allows letters, digits, '.', '_' and '-'"
check_topic = partial(_checked, kind="topic name", pattern=_TOPIC, limit=MAX_TOPIC_CHARS, rule=_TOPIC_RULE)
check_consumer = partial(_checked, kind="consumer id")
check_cluster = partial(_checked, kind="cluster name")
check_app = partial(_checked, kind="application name")
check_version = partial(_checked, kind="version name")


def is_topic(name: str) -> bool:
    """Return whether `name` may be a topic's name. A person may create a znode with any name."""
    return len(name) <= MAX_TOPIC_CHARS and name not in (".", "..") and _TOPIC.fullmatch(name) is not None


def is_consumer(name: str) -> bool:
    """Return whether `name` may be a consumer id."""
    return len(name) <= MAX_ID_BYTES and _ID.fullmatch(name) is not None


is_cluster = is_app = is_consumer
"""The names of clusters, and of applications of the fleet, follow the same rule."""


def check_group(name: str) -> str:
    """Return `name` if it may be the group of a topic; raise `InvalidName` otherwise.

    Kafka accepts any text, but persons have to read the name.
    """
    if not name:
        raise InvalidName("the consumer group is empty; give the group.id that offsets are committed for")
    if len(name) > MAX_GROUP_CHARS:
        raise InvalidName(
            f"the consumer group has {len(name)} characters, more than {MAX_GROUP_CHARS}; give a shorter one"
        )
    if not name.isprintable():
        raise InvalidName(
            f"the consumer group {name!r} has characters that cannot be shown, such as a line break; give another one"
        )
    return name


def check_words(text: object, what: str) -> str:
    """Return a person's reason or name. Raise `Refused` unless the text is empty or one line of visible characters."""
    if not isinstance(text, str) or len(text) > MAX_WORDS_CHARS:
        found = f"has {len(text)} characters" if isinstance(text, str) else "is no text"
        raise Refused(f"the {what} {found}; give one line of at most {MAX_WORDS_CHARS} characters")
    if not text.isprintable():
        raise Refused(
            f"the {what} {text[:80]!r} has characters that cannot be shown, such as a line break; leave them out"
        )
    return text.strip()


def has_control(text: str) -> bool:
    r"""Return whether the text has a control character other than tab and line feed.

    Spark's shell scripts delete carriage returns of their arguments: a checked `--zookeeper\r` would become `--zookeeper`.
    """
    return _CONTROL.search(text) is not None


def is_address(text: str) -> bool:
    """Return whether `text` is an address of a consumer's interface: `http(s)://host:port`, without a path."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= MAX_PORT:
        return False
    if found["ipv6"] is None:
        return len(found["host"]) <= MAX_HOST_CHARS
    try:
        IPv6Address(found["ipv6"])
    except ValueError:
        return False
    return True


def check_address(text: str) -> str:
    """Return `text` if it is an address of a consumer's interface; raise `InvalidName` otherwise."""
    if is_address(text):
        return text
    shown = repr(text if len(text) <= 80 else text[:77] + "...")
    raise InvalidName(
        f"{shown} is no address of a consumer's interface; give http://host:port or https://host:port, with a host name in ASCII or an IP address"
    )


@dataclass(frozen=True, slots=True)
class _Folder:
    """A descriptor: the attribute of `Paths` with the path of a folder."""

    name: str

    def __get__(self, paths: "Paths", _: object = None) -> str:
        return f"{paths.base}/{self.name}"


@dataclass(frozen=True, slots=True)
class _Child:
    """A descriptor: the method of `Paths` that returns the path of a node in a folder, and checks the node's name."""

    folder: _Folder
    check: Callable[[str], str]

    def __get__(self, paths: "Paths", _: object = None) -> Callable[[str], str]:
        return lambda name: f"{paths.base}/{self.folder.name}/{self.check(name)}"


@dataclass(frozen=True, slots=True)
class Paths:
    """The znodes of a cluster. The constructor checks the cluster's name. No topic can have a name with a colon."""

    cluster: str
    base: str = field(init=False, repr=False, compare=False)

    assignments = _Folder("assignments")
    states = _Folder("state")
    members = _Folder("members")
    ids = _Folder("ids")
    directives = _Folder("directives")
    leaves = _Folder("leaving")
    fleets = _Folder("fleet")
    configs = _Folder("config")
    histories = _Folder("history")
    upgrades = _Folder("upgrades")
    asked = _Folder("history/:asked")
    growths = _Folder("history/:growth")
    lags = _Folder("history/:lag")

    topic = _Child(assignments, check_topic)
    state = _Child(states, check_topic)
    config = _Child(configs, check_topic)
    history = _Child(histories, check_topic)
    member = _Child(members, check_consumer)
    id = _Child(ids, check_consumer)
    directive = _Child(directives, check_consumer)
    leave = _Child(leaves, check_consumer)
    fleet = _Child(fleets, check_app)
    upgrade = _Child(upgrades, check_app)
    growth = _Child(growths, check_app)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", f"{ROOT}/{check_cluster(self.cluster)}")

    def lag(self, slot: int) -> str:
        return f"{self.lags}/{slot:02d}"

    def partition(self, topic: str, partition: int) -> str:
        return f"{self.topic(topic)}/{partition:d}"

    def record(self, topic: str, sequence: int) -> str:
        return f"{self.history(topic)}/{sequence:010d}"

    def folders(self) -> tuple[str, ...]:
        """Return the folders that must exist before any write."""
        names = (one.name for one in vars(Paths).values() if isinstance(one, _Folder))
        return tuple(f"{self.base}/{name}" for name in names if ":" not in name)


def partition_of(child: str) -> int | None:
    """Return the partition that a child of a topic's assignment node stands for; `None` for any other child."""
    number = number_of(child)
    return number if number is not None and number <= MAX_PARTITION else None


def partitions_of(children: Collection[str]) -> list[int] | None:
    """Return the partition of each child; `None` if any is not a partition. Four times faster than `partition_of`."""
    try:
        numbers = list(map(int, children))
    except ValueError:
        return None
    known = list(map(str, numbers)) == list(children) and min(numbers, default=0) >= 0
    return numbers if known and max(numbers, default=0) <= MAX_PARTITION else None


def number_of(text: str) -> int | None:
    """Return the number if the text consists of digits without leading zeros; otherwise `None`."""
    if text.isascii() and text.isdigit() and (text == "0" or text[0] != "0") and len(text) <= MAX_DIGITS:
        return int(text)
    return None
