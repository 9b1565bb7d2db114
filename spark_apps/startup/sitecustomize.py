"""Lets Spark's Python processes import pyspark from the installed folder, not from `pyspark.zip`.

Spark puts `pyspark.zip` first on the import path of its Python processes. Each process compiles the zip's modules
again: 1.15 s of CPU in place of 0.35 s, several times per start of a query. Spark gives up on a process after 10 s.
`session.configure` puts this folder on PYTHONPATH, so that Python runs this module first.
"""

import sys
from pathlib import Path


def without_zips(path: list[str]) -> list[str]:
    """Return the import path without zips of pyspark, if an installed pyspark is on the path too."""
    folders = [entry for entry in path if (Path(entry) / "pyspark" / "__init__.py").is_file()]
    inside = tuple(str(Path(entry) / "pyspark" / "python" / "lib") for entry in folders)
    return [entry for entry in path if not (entry.endswith(".zip") and str(Path(entry).parent) in inside)]


sys.path[:] = without_zips(sys.path)
