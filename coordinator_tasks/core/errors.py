"""Every error that the coordinator raises on purpose, by what happens next.

- `Refused`: the request is wrong; a person reads the sentence and changes something. It is never retried.
- `LookAgain`: another writer was faster; the caller reads and decides again. It is expected and not logged as an error.
- `Unavailable`: a neighbour does not answer; the caller holds everything as it is and tries later.
- `Malformed`: stored data cannot be read; the error names the path, nothing is overwritten, a person corrects it.
"""

from typing import ClassVar

MAX_TOLD_CHARS = 1_000
"""Maximum length of an error text: the text may repeat input of any length."""


def in_one_line(text: str) -> str:
    """Return the text without line breaks, and of a long text only the beginning and the end."""
    line, half = " ".join(text.split()), MAX_TOLD_CHARS // 2
    return line if len(line) <= MAX_TOLD_CHARS else f"{line[:half]} ... {line[-half:]}"


class CoordinatorError(Exception):
    """An error of a site's own code, without a more specific code.

    Remedy: look at the site's own code.

    The text says in one line what is wrong, why, and what to do next. `code` identifies the kind of error, and has a
    row in docs/errors.md. A code never gets another meaning.
    """

    code: ClassVar[str] = "KPC-001"

    def __init_subclass__(cls, code: str = "") -> None:
        cls.code = code or cls.code

    @property
    def told(self) -> str:
        return f"{self.code}: {in_one_line(str(self))}"


class Refused(CoordinatorError, code="KPC-010"):
    """The request contradicts the present state, a value is out of bounds, or `--yes` is missing.

    Remedy: correct the request as the text says.
    """


class InvalidName(Refused, code="KPC-011"):
    """A cluster, topic, consumer, application, version or consumer group has an invalid name.

    Remedy: choose another name. Names begin with a letter or a digit, and have letters, digits, `.`, `_` and `-`; a
    consumer group has at most 255 printable characters.
    """


class IdInUse(Refused, code="KPC-015"):
    """A second process has started with the id of a live consumer.

    Remedy: use another id, or end the other process first. A consumer that lost its id during an absence keeps its
    partitions until others take over, and then ends.
    """


class TopicConflict(Refused, code="KPC-013"):
    """The topic is missing in Kafka, was recreated, or another cluster manages it for the same group or has not closed
    it yet.

    Remedy: create a missing topic. After a recreation, `remove-topic` and `add-topic`: the former offsets mean other
    records. If another cluster has the topic, wait until the topic is [closed
    there](howto/remove-topic.md#move-a-topic-to-another-cluster), or choose another group.
    """


class GroupInUse(Refused, code="KPC-014"):
    """Another client subscribes with the consumer group, so Kafka refuses every commit of this product.

    Remedy: stop the client, or give the client another group.
    """


class CommitFenced(Refused, code="KPC-016"):
    """Kafka refuses the commits of these partitions: another consumer has taken them over (`fence=transactional`).
    Nothing is lost.

    Remedy: if there was no rebalance, look for a process that was believed dead.
    """

    def __init__(self, problem: str, partitions: tuple[int, ...]) -> None:
        super().__init__(problem)
        self.partitions = partitions


class NotManaged(Refused, code="KPC-012"):
    """This cluster does not know the topic, consumer, group, rebalance or application.

    Remedy: correct the name or the settings, or add what is missing; the text lists the known names.
    """


class BadOffsets(Refused, code="KPC-017"):
    """A position, a file of offsets or an undo is not valid.

    Remedy: correct the file or the position: [offsets](howto/offsets.md). A reset can be taken back once.
    """


class BadStrategy(Refused, code="KPC-018"):
    """A strategy or a parameter is unknown, or a strategy of the site cannot be imported or fails; the topic is held.

    Remedy: correct the [strategy or parameter](assignors.md).
    """


class BadFleet(Refused, code="KPC-019"):
    """The fleet is not valid, a consumer id is listed twice or in two fleets, or this host may not launch the fleet.

    Remedy: correct the fleet, or [allow the launch](allowed.md).
    """


class BadSettings(Refused, code="KPC-020"):
    """Settings are missing, wrong, contradictory, or in a file that other users may read; nothing was opened.

    Remedy: correct the [setting](reference/settings.md).
    """


class NoAccess(Refused, code="KPC-021"):
    """ZooKeeper or Kafka refuses the log-in or a right, or a folder in ZooKeeper is open or belongs to another account.

    Remedy: grant the right, or run the command, that the text names. `coordinator doctor` checks every right.
    """


class BadOption(Refused, code="KPC-022"):
    """An option of the Spark source is unknown, not supported, or has a wrong value; the query does not start.

    Remedy: correct the [option](options.md).
    """


class BadUpgrade(Refused, code="KPC-024"):
    """An upgrade cannot begin (unknown version, another upgrade or redeployment under way, steps that do not increase
    from 1 to 100 percent, a topic frozen or in another upgrade), or the upgrade to act on is not under way.

    Remedy: see `upgrade-report`.
    """


class BadRule(Refused, code="KPC-025"):
    """A site's own rule for upgrades is unknown, cannot be imported, raises, or returns neither a text, `None` nor a
    boolean.

    Remedy: correct the rule. If a step was held, the upgrade is paused: `continue-upgrade` or `roll-back-upgrade`.
    """


class NotEntitled(Refused, code="KPC-026"):
    """The setting `budget.approvers` does not name this person; the plan still waits.

    Remedy: ask a named person, or change the setting.
    """


class ApprovalVoid(Refused, code="KPC-027"):
    """No such plan waits for approval: the plan was done, has changed, or needs no approval.

    Remedy: approve the plan of `plan --dry-run`. The command needs the `budget` setting of the process that plans.
    """


class BadGrowth(Refused, code="KPC-028"):
    """The limits of a fleet's growth contradict each other or are out of bounds, or `--act` was given for pods.

    Remedy: correct the limits. For pods, omit `--act`: Kubernetes sets their number.
    """


class LookAgain(CoordinatorError, code="KPC-030"):
    """Something changed between reading and writing, or a partition is moving.

    Remedy: if the error persists, wait until `topics` shows Stable.
    """


class NodeMissing(LookAgain, code="KPC-031"):
    """A node in ZooKeeper was removed between reading and writing.

    Remedy: if the error persists, the cluster's folder was deleted: start `run` or `reconcile`, which creates the
    folder.
    """


class NodeExists(LookAgain, code="KPC-032"):
    """Another process created the node in ZooKeeper at the same moment.

    Remedy: repeat.
    """


class Unavailable(CoordinatorError, code="KPC-040"):
    """A neighbour does not answer; nothing changes, and consumers continue with their partitions.

    Remedy: check that the neighbour can be reached from this host, then repeat.
    """


class StoreUnavailable(Unavailable, code="KPC-041"):
    """ZooKeeper does not answer, or the connection broke: a write may or may not have been applied. Consumers continue.

    Remedy: check ZooKeeper and its address; look at the present state before you repeat.
    """


class DiscoveryUnavailable(Unavailable, code="KPC-043"):
    """The registry of consumers (ZooKeeper, or the folder of `discovery`) does not answer; nothing is planned.

    Remedy: check that the folder is there and writable.
    """


class KafkaUnavailable(Unavailable, code="KPC-042"):
    """The brokers do not answer within `answer_timeout_s`, or could not answer a part of a request; nothing was
    changed.

    Remedy: check that `bootstrap.servers` can be reached from this host.
    """


class Malformed(CoordinatorError, code="KPC-050"):
    """A node in ZooKeeper, or an answer, has a wrong format from another program. Nothing else is held up.

    Remedy: correct or remove the node with ZooKeeper's own client.

    `path` is the znode; the text says what is wrong with the node, and `remedy` what to do.
    """

    remedy = "correct or remove the node by hand"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}; nothing was changed, {self.remedy}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type["Malformed"], tuple[str, str]]:
        return type(self), (self.path, self.problem)


class UnknownVersion(Malformed, code="KPC-051"):
    """A later release wrote the node in a format that this release does not know.

    Remedy: install that release here as well.
    """

    remedy = "install the release that has written it here as well"


UNREADABLE = (Malformed, NoAccess)
"""Errors of a single unreadable node: malformed data, or a missing right."""
