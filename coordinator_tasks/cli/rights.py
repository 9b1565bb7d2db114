"""Commands for the rights of coordinator and consumers."""

import typer

from coordinator_tasks.cli.base import Json, given_settings, output
from coordinator_tasks.wiring import set_access_lists

commands = typer.Typer()


@commands.command()
def zookeeper_rights(json: Json = False) -> None:
    """Give every ZooKeeper node of the cluster the access list that the settings ask for; run it as the coordinator."""
    settings = given_settings()
    nodes = set_access_lists(settings)
    output({"cluster": settings.cluster, "nodes": nodes}, json, lambda _: f"{nodes} nodes have their access lists")
