"""Exactly once into Delta Lake and Apache Iceberg: one commit holds the rows and the positions of their partitions.

`table_sink.TableSink` decides, by the rules of every sink; `delta` and `iceberg` read the entries and make the commits. A
commit holds only if no other commit has changed an entry since the read. `docs/lakehouse.md` says what a site does.
"""

from coordinator_tasks.core.errors import Refused


class TableRefused(Refused):
    """A table of Delta Lake or Apache Iceberg cannot take the rows: its package is not installed, there is no such table,
    the table has a newer format than the package, or a column does not fit. Nothing was written.

    Remedy: do what the text says. The pipeline of this table waits and tries again; others go on.
    """

    code = "KPC-029"
