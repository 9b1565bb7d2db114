"""A driver that runs its tasks itself listens only on loopback, because Spark's UI has no authentication.

Executors on other hosts have to reach their driver, and one setting of Spark sets the addresses of UI and driver.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

LOCAL_IP, LOOPBACK = "SPARK_LOCAL_IP", "127.0.0.1"
MASTER = "--master"


def is_local_master(master: str) -> bool:
    """Return whether a driver with this master has no separate executors."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def submits_locally(command: Sequence[str]) -> bool:
    """Return whether this spark-submit command starts a local driver."""
    return any(name == MASTER and is_local_master(value) for name, value in pairwise(command))
