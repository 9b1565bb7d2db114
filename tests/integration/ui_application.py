"""An application for spark-submit with one long job: prints the address of its UI, where its JVM listens, and how the job ended."""

import json
import re
import sys
import time
import urllib.request
from contextlib import suppress
from threading import Thread
from urllib.error import HTTPError
from urllib.parse import urlencode

import psutil
from pyspark.sql import SparkSession

from spark_apps.spark import session

JOB_S = 8.0


def kill(ui: str) -> None:
    """Do what the link of the page does, with the page's own token."""
    with urllib.request.urlopen(f"{ui}/jobs/", timeout=30) as page:
        token = re.search(r"csrfToken\W[^>]*?value=\W([\w+/=-]+)", page.read().decode())
    form = urlencode({"id": 0, "csrfToken": token[1] if token else ""}).encode()
    with suppress(HTTPError), urllib.request.urlopen(f"{ui}/jobs/job/kill/", form, timeout=30):
        pass


def main() -> None:
    spark = session.configure(SparkSession.builder.appName("ui")).getOrCreate()
    context, ended = spark.sparkContext, []

    def run() -> None:
        try:
            context.parallelize([1], 1).map(lambda _: time.sleep(JOB_S)).collect()
            ended.append("finished")
        except Exception:  # noqa: BLE001 - Spark's kinds come from the JVM
            ended.append("killed")

    job = Thread(target=run)
    job.start()
    while not context.statusTracker().getActiveJobsIds():
        time.sleep(0.1)
    kill(str(context.uiWebUrl))
    java = next(one for one in psutil.Process().parents() if one.name() == "java")
    heard = sorted(
        {one.laddr.ip.removeprefix("::ffff:") for one in java.net_connections() if one.status == psutil.CONN_LISTEN}
    )
    job.join()
    print(json.dumps({"job": ended[0], "listens": heard}), file=sys.__stdout__, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
