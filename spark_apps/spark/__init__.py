"""Spark's part: the session, the data source, the queries, the executors.

The import fails on a Spark that cannot run the data source: before 4.2, a Python source is not told where a batch
begins.
"""

from importlib.util import find_spec

import pyspark

OLDEST = "4.2"

if find_spec("pyspark.sql.streaming.datasource") is None:
    raise ImportError(
        f"Spark {pyspark.__version__} does not tell a Python data source where a batch begins, and this package needs that; "
        f"use Spark {OLDEST} or later, and the same version of pyspark"
    )
