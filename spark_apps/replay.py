"""Processes the dead letters of a database again, by their pipelines or by the program of a plain consumer.

    coordinator dead-letters replay --cluster c --pipeline orders=module:function --set database=shop
    coordinator dead-letters replay --cluster c --topic orders --program consumer.py --consumer a

The records come from the dead letters, in the order of their offsets. With exactly once, one transaction adds the
records' rows and deletes their letters. If a record fails again, its letter stays, with the new error and one more try.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from coordinator_tasks import logs
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.names import check_topic
from coordinator_tasks.core.text.name_values import name_values
from coordinator_tasks.core.text.partition_text import counted
from spark_apps.dead_letters.replaying import Counts
from spark_apps.replay_program import by_program

FAILED_EXIT, REFUSED_EXIT = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 = all letters replayed, 1 = some failed again, 2 = refused or broken off."""
    parser = argparse.ArgumentParser(prog="coordinator dead-letters replay", description=__doc__, allow_abbrev=False)
    parser.add_argument("--pipeline", action="append", default=[], help="topic=module:function, in Spark; repeatable")
    parser.add_argument("--set", action="append", default=[], help="name=value for the pipelines; repeatable")
    parser.add_argument("--cluster", default=os.environ.get("COORDINATOR_CLUSTER", ""), help="the cluster of consumers")
    parser.add_argument("--topic", default="", help="with --program: the topic of the dead letters")
    parser.add_argument("--partition", type=int, help="only of this partition")
    parser.add_argument("--offset", type=int, help="only of this offset")
    parser.add_argument(
        "--program",
        nargs=argparse.REMAINDER,
        default=[],
        help="what follows `python` in the command line of a plain consumer, to the end of the line: file.py or -m module, and its arguments",
    )
    given = parser.parse_args(arguments)
    try:
        counts = _replay(given)
    except CoordinatorError as error:
        logs.say_error(error.told)
        return REFUSED_EXIT
    except Exception:  # noqa: BLE001 - the trace tells the error, and exit code 1 means letters that failed again
        traceback.print_exc()
        return REFUSED_EXIT
    print(f"{counted(counts.passed, 'dead letter')} replayed, {counts.failed} failed again")
    return FAILED_EXIT if counts.failed else 0


def _replay(given: argparse.Namespace) -> Counts:
    if not given.cluster:
        raise Refused("no cluster is given; name the cluster of the consumers with --cluster or COORDINATOR_CLUSTER")
    numbers = {name: value for name in ("partition", "offset") if (value := getattr(given, name)) is not None}
    if bool(given.pipeline) == bool(given.program):
        raise Refused("give --pipeline topic=module:function for Spark, or --topic and --program for a plain consumer")
    if given.pipeline:
        from spark_apps.replay_pipelines import by_pipelines  # noqa: PLC0415 - Spark is an extra

        places = name_values(given.pipeline, "--pipeline")
        return by_pipelines(places, given.set, {"cluster": given.cluster, **numbers})
    if not given.topic:
        raise Refused("no topic is given; name the topic of the dead letters with --topic, before --program")
    return by_program(given.program, given.cluster, check_topic(given.topic), numbers)


if __name__ == "__main__":
    sys.exit(main())
