"""A Python stage on executors."""

import subprocess
import sys

TASKS = """
import gc
from spark_apps.records.blocks import OfBlocks

counts = []
for task in range(4):
    list(OfBlocks(lambda batches: batches)(iter([])))
    gc.collect()
    counts.append(gc.get_freeze_count())
assert counts[0] == 0 < counts[1] >= counts[2] >= counts[3], counts
"""


def test_a_worker_leaves_its_modules_once_out_of_the_collections_after_each_task() -> None:
    subprocess.run([sys.executable, "-c", TASKS], check=True)
