"""Lets Spark's Python processes import pyspark from the installed folder, not from `pyspark.zip`.

Spark puts `pyspark.zip` first on the path of its Python processes. Each process compiles the modules of a zip again:
1.15 s of CPU in place of 0.35 s, several times per query start, and Spark gives up on a process without an answer in
10 s. `session.configure` puts this folder on PYTHONPATH, so that Python runs this module first.
"""

import sys
from pathlib import Path


def without_zips(path: list[str]) -> list[str]:
    """Return the import path without the zips of a pyspark that is installed on the same path."""
    folders = [entry for entry in path if (Path(entry) / "pyspark" / "__init__.py").is_file()]
    inside = tuple(str(Path(entry) / "pyspark" / "python" / "lib") for entry in folders)
    return [entry for entry in path if not (entry.endswith(".zip") and str(Path(entry).parent) in inside)]


sys.path[:] = without_zips(sys.path)
