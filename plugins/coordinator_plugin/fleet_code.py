"""The code and the settings that a fleet's launch names, so that no form chooses code or an address."""

import argparse
from typing import Any

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.partition_text import cut
from coordinator_tasks.service.actions.parameters import Parameter
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.service.nodes.fleet import Launch


def text_parameter(name: str, title: str, text: str, **rules: Any) -> Parameter:
    """Return a text field of a form. `rules`: further keys of its JSON schema."""
    return Parameter(name, {"type": "string", "title": title, "description": text, **rules})


def launch_of(c: Coordinator, app: str) -> Launch:
    """Return the launch of a fleet's first consumer; raises `Refused`."""
    found = next((one for one in fleet.fleets(c) if one.app == app), None)
    launch = fleet.launch_of(c, found.consumers[0]) if found is not None and found.consumers else None
    if launch is None:
        raise Refused(f"there is no fleet {cut(app, 60)!r} with consumers; name the fleet that reads the topic")
    return launch


def arguments_of(launch: Launch) -> argparse.Namespace:
    """Return the arguments about pipelines: `pipeline`, `pattern`, `default` and `set`; raises `Refused`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("--pipeline", "--pattern", "--set"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--default", default="")
    try:
        given, _ = parser.parse_known_args(launch.arguments)
    except argparse.ArgumentError as error:
        raise Refused(f"the arguments of fleet {launch.app!r} cannot be read ({error}); correct the fleet") from error
    return given
