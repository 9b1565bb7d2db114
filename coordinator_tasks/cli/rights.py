"""Commands for the rights of coordinator and consumers."""

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Annotated

import typer

from coordinator_tasks import show
from coordinator_tasks.cli.base import HELD_EXIT, LOOK, RUN, Format, Json, Output, given_settings, listed
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.doctor import CheckResult, DoctorFinding, airflow_site, examine, failed
from coordinator_tasks.doctor import airflow as airflow_checks
from coordinator_tasks.tables import Table
from coordinator_tasks.wiring import set_access_lists

REFUSED_EXIT = 2
AIRFLOW = (
    "Examine the Airflow at this address as well, such as http://HOST:8080; the log-in is COORDINATOR_AIRFLOW_TOKEN, or "
    "COORDINATOR_AIRFLOW_USER and COORDINATOR_AIRFLOW_PASSWORD."
)
commands = typer.Typer()


@commands.command(rich_help_panel=RUN)
def zookeeper_rights(how: Output = Format.TABLE, json: Json = False) -> None:
    """Give every ZooKeeper node of the cluster the access list of the settings; run as the coordinator.

    `doctor` lists the nodes to correct.
    """
    settings = given_settings()
    with waiting.shown("zookeeper-rights"):
        nodes = set_access_lists(settings)
    done = {"cluster": settings.cluster, "nodes": nodes}
    listed(done, how, json, lambda _: f"{nodes} nodes have their access lists", show.rows)


@commands.command(rich_help_panel=LOOK)
def doctor(
    side: Annotated[
        Side | None, typer.Option("--for", help="Account to examine; by default, as the settings say.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Examine this topic as well; repeatable.")] = None,
    group: Annotated[str, typer.Option(help="The consumer group of --topic.")] = "",
    airflow: Annotated[str, typer.Option(help=AIRFLOW)] = "",
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Check the settings, the neighbours and every necessary right, and say how to grant missing rights.

    Exit code 1 if something is missing, 2 if the settings cannot be used.
    """
    if bool(topic) != bool(group):
        raise Refused("--topic and --group belong together; give both, or neither")
    api = airflow_checks.Api(airflow) if airflow else None
    try:
        settings = given_settings()
    except Refused as error:
        listed([DoctorFinding("settings", CheckResult.FAILED, error.told)], how, json, _text, _rows)
        raise typer.Exit(REFUSED_EXIT) from error
    side = side or (Side.CONSUMER if settings.zookeeper_access.coordinator else Side.COORDINATOR)
    found: list[DoctorFinding] = []
    with waiting.shown("doctor"):
        checks = examine(settings, side, dict.fromkeys(topic or (), group))
        look = partial(airflow_site, settings)
        for one in chain(checks, airflow_checks.examine(api, settings.cluster, look) if api is not None else ()):
            found.append(one)
            waiting.says(f"doctor, behind {one.check}")
    listed(found, how, json, _text, _rows)
    if failed(found):
        raise typer.Exit(HELD_EXIT)


def _rows(found: Sequence[DoctorFinding]) -> Table:
    rows = [(one.check, one.result, one.says, one.mend) for one in found]
    return Table(("check", "result", "found", "to do"), rows, "")


def _text(found: Sequence[DoctorFinding]) -> str:
    rows = str(Table(("check", "result", "found"), [(one.check, one.result, one.says) for one in found], ""))
    mends = [f"- {one.check}: {one.mend}" for one in found if one.mend]
    return "\n".join([rows, *(["", "To do:", *mends] if mends else [])])
