"""Exactly once into Delta Lake and Apache Iceberg: one commit holds the rows and the positions of their partitions.

`table_sink.TableSink` decides, by the rules of every sink. `delta` and `iceberg` read the entries and make the commits.
A commit succeeds only if no other commit has changed an entry since the read. `docs/lakehouse.md` is the guide.
"""

from coordinator_tasks.core.errors import Refused


class TableRefused(Refused, code="KPC-029"):
    """A table of Delta Lake or Apache Iceberg cannot take the rows: its package is not installed, the table does not
    exist, its format is newer than the package, or a column does not fit.

    Remedy: do what the text says. Only the pipeline of this table waits, and tries again.
    """
