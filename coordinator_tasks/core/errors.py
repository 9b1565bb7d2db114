"""Every error that the coordinator raises on purpose, by what happens next.

- `Refused`: the request is wrong; a person reads the sentence and changes something. It is never retried.
- `LookAgain`: another writer was faster; the caller reads and decides again. It is expected and not logged as an error.
- `Unavailable`: a neighbour does not answer; the caller holds everything as it is and tries later.
- `Malformed`: stored data cannot be read; the error names the path, nothing is overwritten, a person corrects it.
"""

from typing import ClassVar

MAX_TOLD_CHARS = 1_000
"""Of a sentence: what somebody has typed stands in it, and may be of any length."""


def in_one_line(text: str) -> str:
    """The text without line breaks; of a very long one the beginning and the end."""
    line, half = " ".join(text.split()), MAX_TOLD_CHARS // 2
    return line if len(line) <= MAX_TOLD_CHARS else f"{line[:half]} ... {line[-half:]}"


class CoordinatorError(Exception):
    """The root. Its text says in one line what is wrong, why, and what to do next.

    `code`: of the kind of error, and the heading of its paragraph in docs/errors.md. A code never gets another meaning.
    """

    code: ClassVar[str] = "KPC-001"

    @property
    def told(self) -> str:
        """For a person: the code, and the text in one line."""
        return f"{self.code}: {in_one_line(str(self))}"


class Refused(CoordinatorError):
    """The input or the configuration is wrong: a person has to change something."""

    code = "KPC-010"


class InvalidName(Refused):
    """A cluster, topic or consumer name that cannot stand in a znode path."""

    code = "KPC-011"


class IdInUse(Refused):
    """A second process asked for the id of a consumer that is live."""

    code = "KPC-015"


class TopicConflict(Refused):
    """The topic is missing in Kafka, was recreated, or another cluster has not closed it."""

    code = "KPC-013"


class GroupInUse(Refused):
    """The consumer group has members that subscribe, so Kafka would refuse every commit of ours."""

    code = "KPC-014"


class CommitFenced(Refused):
    """Kafka has refused the commits of these partitions, because another consumer has taken them over."""

    code = "KPC-016"

    def __init__(self, problem: str, partitions: tuple[int, ...]) -> None:
        super().__init__(problem)
        self.partitions = partitions


class NotManaged(Refused):
    """The named topic, consumer or application is not known to this cluster."""

    code = "KPC-012"


class BadOffsets(Refused):
    """A position, a file of offsets, or an undo that cannot be."""

    code = "KPC-017"


class BadStrategy(Refused):
    """A strategy that is unknown or fails, or a parameter that it does not take."""

    code = "KPC-018"


class BadFleet(Refused):
    """A fleet that cannot be, or that this host may not launch."""

    code = "KPC-019"


class BadSettings(Refused):
    """Settings that are missing, wrong, or in a file that others may read."""

    code = "KPC-020"


class NoAccess(Refused):
    """ZooKeeper or Kafka does not let this account do what is needed."""

    code = "KPC-021"


class BadOption(Refused):
    """An option of the Spark source that is unknown, or has no such value."""

    code = "KPC-022"


class BadUpgrade(Refused):
    """An upgrade that cannot begin, or an action for one that is not under way."""

    code = "KPC-024"


class BadRule(Refused):
    """A site's own rule for upgrades that is unknown, fails, or gives no answer."""

    code = "KPC-025"


class NotEntitled(Refused):
    """A person who may not approve this."""

    code = "KPC-026"


class ApprovalVoid(Refused):
    """No such plan waits for approval: it has changed since, or needs none any more."""

    code = "KPC-027"


class BadGrowth(Refused):
    """Limits of a fleet's growth that cannot be."""

    code = "KPC-028"


class LookAgain(CoordinatorError):
    """A guarded write failed: the versions that it relied on have changed."""

    code = "KPC-030"


class NodeMissing(LookAgain):
    """The znode is not there."""

    code = "KPC-031"


class NodeExists(LookAgain):
    """The znode is there already."""

    code = "KPC-032"


class Unavailable(CoordinatorError):
    """A neighbour does not answer: hold."""

    code = "KPC-040"


class StoreUnavailable(Unavailable):
    """ZooKeeper does not answer; a pending write may or may not have been applied."""

    code = "KPC-041"


class DiscoveryUnavailable(Unavailable):
    """The registry of consumers does not answer."""

    code = "KPC-043"


class KafkaUnavailable(Unavailable):
    """The brokers do not answer."""

    code = "KPC-042"


class Malformed(CoordinatorError):
    """A znode that cannot be read as what it should be.

    `path` is the znode; the text says what is wrong with it, and `remedy` what to do.
    """

    code = "KPC-050"

    remedy = "correct or remove the node by hand"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}; nothing was changed, {self.remedy}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type["Malformed"], tuple[str, str]]:
        return type(self), (self.path, self.problem)


class UnknownVersion(Malformed):
    """A znode of a format version that this release does not know."""

    code = "KPC-051"

    remedy = "install the release that has written it here as well"


UNREADABLE = (Malformed, NoAccess)
"""What one node that cannot be read raises: of its data, or of a missing right."""
