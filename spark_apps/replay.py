"""Runs the dead letters of a database through their pipelines again: `coordinator dead-letters replay`.

    python -m spark_apps.replay --cluster c --pipeline orders=module:function --set database=sqlite:////data/shop.sqlite

The records come from the dead letters, in the order of their offsets. With exactly once, one transaction adds the
records' rows and deletes their letters. If a record fails again, its letter stays, with the new error and one more try.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from coordinator_tasks import logs
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.text.name_values import name_values
from coordinator_tasks.core.text.partition_text import counted
from spark_apps.dead_letters.replaying import Counts
from spark_apps.replay_pipelines import by_pipelines

FAILED_EXIT, REFUSED_EXIT = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 = all letters replayed, 1 = some failed again, 2 = refused."""
    parser = argparse.ArgumentParser(prog="coordinator dead-letters replay", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "--pipeline", action="append", default=[], required=True, help="topic=module:function; repeatable"
    )
    parser.add_argument("--set", action="append", default=[], help="name=value for the pipelines; repeatable")
    parser.add_argument("--cluster", default=os.environ.get("COORDINATOR_CLUSTER", ""), help="the cluster of consumers")
    parser.add_argument("--partition", type=int, help="only of this partition")
    parser.add_argument("--offset", type=int, help="only of this offset")
    given = parser.parse_args(arguments)
    try:
        counts = _replay(given)
    except CoordinatorError as error:
        logs.say_error(error.told)
        return REFUSED_EXIT
    print(f"{counted(counts.passed, 'dead letter')} replayed, {counts.failed} failed again")
    return FAILED_EXIT if counts.failed else 0


def _replay(given: argparse.Namespace) -> Counts:
    if not given.cluster:
        raise Refused("no cluster is given; name the cluster of the consumers with --cluster or COORDINATOR_CLUSTER")
    numbers = {name: value for name in ("partition", "offset") if (value := getattr(given, name)) is not None}
    return by_pipelines(name_values(given.pipeline, "--pipeline"), given.set, {"cluster": given.cluster, **numbers})


if __name__ == "__main__":
    sys.exit(main())
