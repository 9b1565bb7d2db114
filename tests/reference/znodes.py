"""The nodes in ZooKeeper, with who may write them."""

from coordinator_tasks.core import node_rights
from coordinator_tasks.core.names import Paths
from tests.reference.form import page, table

WORDS = {"r": "read", "w": "write", "c": "create", "d": "delete"}


def znodes() -> str:
    paths = Paths("CLUSTER")
    nodes = {
        "topic": paths.topic("TOPIC"),
        "partition": paths.partition("TOPIC", 0),
        "state": paths.state("TOPIC"),
        "member": paths.member("CONSUMER"),
        "id": paths.id("CONSUMER"),
        "directive": paths.directive("CONSUMER"),
        "leave": paths.leave("CONSUMER"),
        "fleet": paths.fleet("APP"),
        "config": paths.config("TOPIC"),
        "history": paths.history("TOPIC"),
        "record": paths.record("TOPIC", 0),
        "asked": f"{paths.asked}/0000000000",
        "growth": paths.growth("APP"),
        "lag": paths.lag(0),
    }
    every = [*paths.folders(), *nodes.values()]
    rows = [
        (
            f"`{one}`",
            "consumer" if node_rights.is_created_by_consumers(one) else "coordinator",
            ", ".join(WORDS[letter] for letter in node_rights.of_consumers(one)) or "none",
        )
        for one in sorted(every)
    ]
    about = (
        "The fields of each node, and why they are there: [architecture](../architecture.md#the-znodes). The last column holds with "
        "[separate accounts](../operations.md#separate-zookeeper-accounts); the rights to create and to delete are those on the node's children.\n"
    )
    return page("Nodes in ZooKeeper", about, table(("node", "created by", "rights of the consumers' account"), rows))
