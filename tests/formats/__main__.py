"""Writes the examples of the release that `coordinator_tasks.__version__` names: `python -m tests.formats`."""

from pathlib import Path

from coordinator_tasks import __version__
from tests.formats.kinds import KINDS

HERE = Path(__file__).parent


def main() -> None:
    folder = HERE / __version__
    folder.mkdir(exist_ok=True)
    for name, kind in KINDS.items():
        (folder / name.replace(" ", "-")).write_bytes(kind.write(kind.value))
    print(f"{len(KINDS)} examples in {folder}")


if __name__ == "__main__":
    main()
