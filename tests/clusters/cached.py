"""Folders of the cache that a test fills once."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator_tasks.devstack.embedded.cache import exclusive


def once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache, filled by `make` where it is not there yet."""
    with exclusive(name) as cache:
        folder = cache / name
        if not folder.exists():
            with TemporaryDirectory(prefix=f"{name}-", dir=cache) as scratch:
                made = Path(scratch) / "made"
                made.mkdir()
                make(made)
                made.rename(folder)
        return folder
