"""Spark's part of a consumer: the session, the data source, the queries, the executors.

The import fails on a release of Spark older than the tested releases.
"""

import pyspark

OLDEST = "4.2"
RELEASE = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
"""Spark's version as two numbers, for comparisons."""

if RELEASE < (4, 2):
    raise ImportError(
        f"Spark {pyspark.__version__} was not tried with this package; use Spark {OLDEST} or later, and the same version of pyspark"
    )
