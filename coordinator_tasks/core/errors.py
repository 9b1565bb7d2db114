"""Every error that the coordinator raises on purpose, by what happens next.

- `Refused`: the request is wrong; a person reads the sentence and changes something. It is never retried.
- `LookAgain`: another writer was faster; the caller reads and decides again. It is expected and not logged as an error.
- `Unavailable`: a neighbour does not answer; the caller holds everything as it is and tries later.
- `Malformed`: stored data cannot be read; the error names the path, nothing is overwritten, a person corrects it.
"""


class CoordinatorError(Exception):
    """The root. Its text says in one line what is wrong, why, and what to do next."""


class Refused(CoordinatorError):
    """The input or the configuration is wrong: a person has to change something."""


class InvalidName(Refused):
    """A cluster, topic or consumer name that cannot stand in a znode path."""


class IdInUse(Refused):
    """A second process asked for the id of a consumer that is live."""


class TopicConflict(Refused):
    """The topic is missing in Kafka, was recreated, or is managed by another cluster."""


class GroupInUse(Refused):
    """The consumer group has members that subscribe, so Kafka would refuse every commit of ours."""


class CommitFenced(Refused):
    """Kafka has refused the commits of these partitions, because another consumer has taken them over."""

    def __init__(self, problem: str, partitions: tuple[int, ...]) -> None:
        super().__init__(problem)
        self.partitions = partitions


class NotManaged(Refused):
    """The named topic, consumer or application is not known to this cluster."""


class LookAgain(CoordinatorError):
    """A guarded write failed: the versions that it relied on have changed."""


class NodeMissing(LookAgain):
    """The znode is not there."""


class NodeExists(LookAgain):
    """The znode is there already."""


class Unavailable(CoordinatorError):
    """A neighbour does not answer: hold."""


class StoreUnavailable(Unavailable):
    """ZooKeeper does not answer; a pending write may or may not have been applied."""


class DiscoveryUnavailable(Unavailable):
    """The registry of consumers does not answer."""


class KafkaUnavailable(Unavailable):
    """The brokers do not answer."""


class Malformed(CoordinatorError):
    """A znode that cannot be read as what it should be.

    `path` is the znode; the text says what is wrong with it, and `remedy` what to do.
    """

    remedy = "correct or remove the node by hand"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}; nothing was changed, {self.remedy}")
        self.path = path
        self.problem = problem

    def __reduce__(self) -> tuple[type["Malformed"], tuple[str, str]]:
        return type(self), (self.path, self.problem)


class UnknownVersion(Malformed):
    """A znode of a format version that this release does not know."""

    remedy = "install the release that has written it here as well"
