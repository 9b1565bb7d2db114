"""The nodes in ZooKeeper, with who may write them."""

from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.protocol import node_rights
from tests.reference.form import STATUS, meanings, page, sections, table

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
        "All values are JSON objects in UTF-8, below `/consumers/[CLUSTER]`. Rules for all nodes: "
        "[architecture](../architecture.md#the-znodes).\n"
    )
    rights = (
        "## Who may write\n\nThe last column holds with [separate accounts](../secrets.md#separate-zookeeper-accounts). The coordinator "
        "has all rights on all nodes. ZooKeeper checks the rights to create and to delete a node on its parent, so in the table they "
        "apply to the node's children. Consumers and their launchers write `ids/[CONSUMER]`, and so does the coordinator (absence, answer, end). The "
        "coordinator creates the partitions' nodes, and givers write releases there. The code is `coordinator_tasks/core/protocol/node_rights.py`.\n"
    )
    fields = [
        f"## {f'`{name}`' if '/' in name and ' ' not in name else name}\n\n{meanings(text)}"
        for name, text in sections().items()
        if name != STATUS
    ]
    head = ("node", "created by", "rights of the consumers' account")
    return page("Nodes in ZooKeeper", about, rights, table(head, rows), *fields)
