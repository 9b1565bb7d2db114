"""A driver that runs the tasks itself listens on loopback alone: Spark's UI has no authentication.

Executors on other hosts have to reach their driver, and Spark has one setting for the addresses of both.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

LOCAL_IP, LOOPBACK = "SPARK_LOCAL_IP", "127.0.0.1"
MASTER = "--master"


def is_local_master(master: str) -> bool:
    """Return whether a driver with this master runs without executors."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def submits_locally(command: Sequence[str]) -> bool:
    """Return whether this spark-submit starts a local driver."""
    return any(name == MASTER and is_local_master(value) for name, value in pairwise(command))
