"""The consumer application for spark-submit.

spark-submit spark_apps/main.py --consumer a --cluster c --zookeeper host:2181 --kafka host:9092 \
    --pipeline orders=spark_apps.pipelines.orders:build --default spark_apps.pipelines.audit:build --set auditFolder=rows
"""

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession

if __name__ == "__main__":  # spark-submit puts this file's folder on the path, but not the project's
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from coordinator_tasks import logs
from coordinator_tasks.core.errors import CoordinatorError, Refused
from coordinator_tasks.core.text.name_values import name_value, name_values, once
from coordinator_tasks.fleet_values import DATABASE, REGISTRY, REGISTRY_LOG_IN
from coordinator_tasks.java import find_java
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.settings import Settings
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.arguments import add_consumer_arguments, consumer_settings, set_up_logs
from spark_apps.consumer import Consumer, SparkSettings
from spark_apps.delivery.hooks import Hooks
from spark_apps.pipelines import Build
from spark_apps.spark import session

REFUSED_EXIT = 2
LOG_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")
"""Log levels that SparkContext.setLogLevel takes, in any case."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 after a clean leave, 1 after a forced leave, 2 after a failed start."""
    given = _parse(arguments)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        settings = consumer_settings(given)
        set_up_logs(settings)
        builds = [(name, pattern, load_build(place)) for name, pattern, place in _pipelines(given)]
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # under spark-submit a JVM is running already
            os.environ["JAVA_HOME"] = str(find_java().home)
        builder = SparkSession.builder.appName(settings.consumer)
        spark = session.configure(builder, idempotent_sink=given.idempotent_sink).getOrCreate()
        spark.sparkContext.setLogLevel(given.log_level)
        try:
            with TemporaryDirectory(prefix="consumer-packages-") as folder:
                if not session.is_local(spark):
                    session.ship_packages(spark, Path(folder))
                return _consume(spark, settings, given, builds)
        finally:
            spark.stop()
    except CoordinatorError as error:
        logs.say_error(error.told)
        return REFUSED_EXIT


def _consume(
    spark: SparkSession, settings: ConsumerSettings, given: argparse.Namespace, builds: list[tuple[str, str, Build]]
) -> int:
    with Consumer(spark, settings, _how(given, settings.site)) as consumer:
        for name, pattern, build in builds:
            consumer.pipeline(name, build, pattern=pattern, default=not (name or pattern))
        return consumer.run()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spark_apps/main.py", description="A consumer application.")
    add_consumer_arguments(parser)
    parser.add_argument("--pipeline", action="append", default=[], help="topic=module:function; repeatable")
    parser.add_argument("--pattern", action="append", default=[], help="regular expression=module:function; repeatable")
    parser.add_argument("--default", default="", help="module:function for all other topics")
    parser.add_argument("--option", action="append", default=[], help="name=value of the data source; repeatable")
    parser.add_argument("--set", action="append", default=[], help="name=value for the pipelines; repeatable")
    parser.add_argument("--checkpoints", default="", help="folder for checkpoints; default: a temporary one")
    parser.add_argument("--idempotent-sink", action="store_true", help="the sink takes a record twice without harm")
    parser.add_argument("--listener", default="", help="module:class of a ConsumerRebalanceListener")
    parser.add_argument(
        "--interceptor", action="append", default=[], help="module:class of a ConsumerInterceptor; repeatable"
    )
    parser.add_argument("--state-stays-behind", action="store_true", help="queries may keep state, which does not move")
    parser.add_argument("--log-level", type=_log_level, default="WARN", help="of Spark's JVM")
    return parser.parse_args(arguments)


def _log_level(text: str) -> str:
    if (level := text.upper()) not in LOG_LEVELS:
        known = ", ".join(LOG_LEVELS)
        raise argparse.ArgumentTypeError(f"{text!r} is no log level of Spark; give one of {known}")
    return level


def _pipelines(given: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return name, pattern and place of each pipeline. The default pipeline has neither name nor pattern."""
    found = [(key, "", place) for key, place in once(map(_with_place, given.pipeline), "--pipeline").items()]
    found += [("", key, place) for key, place in once(map(_with_place, given.pattern), "--pattern").items()]
    if given.default:
        found.append(("", "", given.default))
    if not found:
        raise Refused("no pipeline is given; name one with --pipeline topic=module:function or --default")
    return found


def load_build(place: str) -> Build:
    """Return the function at `module:function`; raises `Refused`."""
    build: Build = _load(place, "pipeline", "module:function")
    return build


def _load(place: str, what: str, form: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise Refused(f"there is no {what} at {place!r} ({error}); write {form}") from error


def _hooks(given: argparse.Namespace) -> Hooks:
    listener = _load(given.listener, "listener", "module:class")() if given.listener else None
    return Hooks(listener, [_load(place, "interceptor", "module:class")() for place in given.interceptor])


def _how(given: argparse.Namespace, site: Settings) -> SparkSettings:
    kafka = RunFolder(Path(given.run_folder)).kafka
    return SparkSettings(
        options=name_values(given.option, "--option", same=str.lower),  # as in Spark, case does not matter
        pipeline=with_addresses(pipeline_settings(given.set), site.databases, site.registries),
        checkpoints=given.checkpoints,
        kafka_file=str(kafka) if given.run_folder and kafka.exists() else "",
        idempotent_sink=given.idempotent_sink,
        hooks=_hooks(given),
        state_stays_behind=given.state_stays_behind,
    )


def pipeline_settings(given: Sequence[str]) -> dict[str, str]:
    """Return the settings `name=value`, and those of `PIPELINE_<name>` in the environment, where they may be secret."""
    found = {key.removeprefix("PIPELINE_"): value for key, value in os.environ.items() if key.startswith("PIPELINE_")}
    return found | name_values(given, "--set")


def with_addresses(
    given: Mapping[str, str], databases: Mapping[str, str], registries: Mapping[str, str]
) -> dict[str, str]:
    """Return the pipelines' settings. The name of a database or registry is replaced by the site's address.

    A named registry gets the log-in of the site's address, because a separately given log-in is for another registry.
    """
    found = dict(given)
    if address := databases.get(given.get(DATABASE, "")):
        found[DATABASE] = address
    if address := registries.get(given.get(REGISTRY, "")):
        found = {key: value for key, value in found.items() if key not in REGISTRY_LOG_IN} | {REGISTRY: address}
    return found


def _with_place(text: str) -> tuple[str, str]:
    """Return the topics and the place of a pipeline. The topics' expression may contain the separator too."""
    name, found, place = text.rpartition("=")
    if found and name and ":" in place:
        return name, place
    return name_value(text, "--pipeline or --pattern", "--pipeline topic=module:function")


if __name__ == "__main__":
    sys.exit(main())
