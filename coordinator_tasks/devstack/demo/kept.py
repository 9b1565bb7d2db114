"""Hints about the servers that `make demo KEEP=1` leaves running."""

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coordinator_tasks.run_folder import write_private
from coordinator_tasks.settings import Settings


def write_settings(path: Path, settings: Settings) -> None:
    """Write the settings file for the command line. It is private (mode 0600), because it has the status token."""
    given: dict[str, Any] = {
        "cluster": settings.cluster,
        "zookeeper": settings.zookeeper,
        "kafka": dict(settings.kafka),
        "status_token": settings.status_token,
        "answer_timeout_s": settings.answer_timeout_s,
        "allowed": {name: value for name, value in asdict(settings.allowed).items() if value},
    }
    write_private(path, given)


def lines(settings_file: Path, address: str, topic: str, app: str, drained: str) -> tuple[str, ...]:
    """Return lines with the browser's address, the command line's settings, and three things to try.

    `address`: of Airflow, with user and password. `drained`: the consumer that has left the fleet `app`.
    """
    python = Path(sys.executable)
    shown = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
    command = f"{shlex.quote(os.fspath(shown))} -m coordinator_tasks"
    return (
        "Servers and consumers keep running; the producer has ended. Consumers are launched again: the killed one is back soon.",
        "",
        f"Browser:       {address}, then Topics in the menu on the left",
        f"Command line:  export COORDINATOR_SETTINGS={shlex.quote(os.fspath(settings_file))}",
        "",
        "Three things to try, in this folder and with that export:",
        f"  {command} history {topic}",
        "      which partition moved, from whom to whom, why, and how long it stood still",
        f"  {command} undrain {drained} --fleet {app}",
        "      the drained consumer is launched again and gets its share by hand-offs: watch it in the browser",
        f"  {command} preview {topic} --join 1",
        "      what one consumer more would change; nothing is changed",
        "",
        "The commands of docs/howto have these names too: type them here.",
        "A pipeline of your own, from an empty folder: docs/tutorial.md. End everything with: make demo-stop",
    )
