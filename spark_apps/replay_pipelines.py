"""Processes dead letters again by pipelines, in a local Spark."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from coordinator_tasks.fleet_values import DATABASE
from coordinator_tasks.java import find_java
from coordinator_tasks.settings import of_the_host
from coordinator_tasks.wiring import settings_from_environment
from spark_apps.dead_letters.replaying import REPLAYING, Counts
from spark_apps.main import load_build, pipeline_settings, with_addresses
from spark_apps.pipelines.letter_replay import PipelineReplay
from spark_apps.spark import session


def by_pipelines(places: Mapping[str, str], given: Sequence[str], where: Mapping[str, Any]) -> Counts:
    """Replay the letters of each topic. `places`: topic → `module:function`. `given`: settings `name=value`."""
    pipelines = {topic: load_build(place) for topic, place in places.items()}
    settings = _settings(given)
    os.environ["JAVA_HOME"] = str(find_java().home)
    spark = session.configure(SparkSession.builder.master("local[2]").appName(REPLAYING)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    total = Counts()
    try:
        for topic, build in pipelines.items():
            PipelineReplay(spark, topic, build, settings).run_pages({**where, "topic": topic}, total)
    finally:
        spark.stop()
    return total


def _settings(given: Sequence[str]) -> dict[str, str]:
    """Return the pipelines' settings. A database's name needs the environment's address, or the whole settings."""
    settings, host = pipeline_settings(given), of_the_host()
    name = settings.get(DATABASE, "")
    if not name or "://" in name or name in host["databases"]:
        return with_addresses(settings, host["databases"], host["registries"])
    site = settings_from_environment(os.environ)
    return with_addresses(settings, site.databases, site.registries)
