"""The rights in Kafka that coordinator and consumers need: the table of `docs/security.md`."""

from dataclasses import dataclass
from enum import StrEnum


class Side(StrEnum):
    """The owner of the account. A consumer is either the plain process, or the Spark driver with its executors."""

    COORDINATOR = "coordinator"
    CONSUMER = "consumer"


class Resource(StrEnum):
    """Names as in the options of `kafka-acls`."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True)
class Right:
    """An operation on a kind of resource. Read and Write include Describe."""

    resource: Resource
    operation: str

    def command(self, name: str, principal: str, servers: str) -> str:
        """Return the administrator's command to grant the right on the resource of this name."""
        prefixed = " --resource-pattern-type prefixed" if self.resource is Resource.TRANSACTIONAL_ID else ""
        return (
            f"kafka-acls.sh --bootstrap-server {servers} --add --allow-principal '{principal}' "
            f"--operation {self.operation} --{self.resource} '{name}'{prefixed}"
        )


_TRANSACTIONS = Right(Resource.TRANSACTIONAL_ID, "Write")
_NEEDED = {
    Side.COORDINATOR: (Right(Resource.TOPIC, "Describe"), Right(Resource.GROUP, "Describe")),
    Side.CONSUMER: (Right(Resource.TOPIC, "Read"), Right(Resource.GROUP, "Read")),
}


def needed(side: Side, *, transactional: bool) -> tuple[Right, ...]:
    """Return the rights of an account. `transactional`: whether the cluster fences by transactions."""
    return (*_NEEDED[side], *([_TRANSACTIONS] if transactional and side is Side.CONSUMER else []))


def transactional_ids(cluster: str) -> str:
    """Return the beginning of all transactional ids of a cluster."""
    return f"{cluster}/"
