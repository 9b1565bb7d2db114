"""The installed packages are the frozen packages, and PySpark's client has not overwritten the full PySpark."""

import base64
import hashlib
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from coordinator_tasks.devstack.demo.stack import default_folders
from tests.sbom import pinned

ROOT = Path(__file__).parents[3]
REPAIR = "delete .venv and run make install"


def requirements(name: str) -> list[Requirement]:
    return [Requirement(one) for one, _ in pinned((ROOT / name).read_text())]


def test_every_frozen_package_is_installed_in_its_version() -> None:
    installed = {canonicalize_name(item.metadata["Name"]): item.version for item in metadata.distributions()}
    frozen = {
        canonicalize_name(item.name): str(item.specifier).removeprefix("==")
        for item in requirements("requirements.txt")
        if item.marker is None or item.marker.evaluate()
    }
    differing = {
        name: (version, installed.get(name)) for name, version in frozen.items() if installed.get(name) != version
    }
    assert differing == {}, f"frozen and installed versions differ: {REPAIR}"


def test_every_frozen_package_has_its_checksums() -> None:
    for name in ("requirements.txt", "requirements-uv.txt"):
        found = pinned((ROOT / name).read_text())
        assert found
        assert [one for one, hashes in found if not hashes] == []


def test_the_full_pyspark_won() -> None:
    changed = []
    for file in metadata.distribution("pyspark").files or []:
        if file.suffix != ".py" or file.hash is None:
            continue
        path = Path(str(file.locate()))
        content = path.read_bytes() if path.exists() else b""
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if digest != file.hash.value:
            changed.append(str(file))
    assert changed == [], f"files of the full PySpark were overwritten, most likely by pyspark-client: {REPAIR}"


def commands(*given: str) -> list[str]:
    """The commands that make would run."""
    command = ["make", "--dry-run", "--no-print-directory", *given]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def installing(*given: str) -> list[str]:
    """The commands of `make install` after a change of the frozen packages."""
    return commands("--what-if=requirements.txt", "install", *given)


def test_packages_are_installed_into_our_environment_whichever_the_shell_has_activated() -> None:
    by_uv = [line for line in installing() if ".venv/bin/uv" in line]
    assert by_uv
    assert [line for line in by_uv if "pip install --python .venv/bin/python" not in line] == []


def test_an_environment_that_was_left_half_made_is_completed(tmp_path: Path) -> None:
    program = tmp_path / ".venv/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexit 1\n")  # no pip: as on Debian without the package for venv
    program.chmod(0o755)
    (making,) = (line for line in installing("PYTHON=echo") if "venv .venv" in line)
    made = subprocess.run(["sh", "-c", making], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert made.stdout == "-m venv .venv\n"


def python(folder: Path, name: str, version: tuple[int, int], *, complete: bool = True) -> None:
    """A Python of this version on the path; an incomplete Python has no venv, as on Debian without the package."""
    program = folder / name
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -m ] && echo "{name} $*" && exit\n'
        f"exec {sys.executable} -c 'import sys; sys.version_info = {version}\n'\"$2\"\n"
        if complete
        else "#!/bin/sh\nexit 1\n"
    )
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("there", "made"),
    [
        ({"python3.11": True, "python3.13": True}, "python3.13"),
        ({"python3.11": True, "python3.13": False}, "python3.11"),
        ({"python3.13": False}, ""),
    ],
    ids=["the newest", "one without venv is passed over", "none"],
)
def test_the_newest_supported_python_makes_the_environment(tmp_path: Path, there: dict[str, bool], made: str) -> None:
    (making,) = (line for line in installing() if "venv .venv" in line)
    for name, complete in there.items():
        python(tmp_path, name, (3, int(name.partition(".")[2])), complete=complete)
    ran = subprocess.run(
        ["/bin/sh", "-c", making],
        check=False,
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    if made:
        assert ran.stdout == f"{made} -m venv .venv\n"
    else:
        assert ran.returncode == 1
        assert "no Python of 3.13 3.12 3.11" in ran.stderr
        assert "make PYTHON=/path/to/it" in ran.stderr


def test_a_python_that_is_not_supported_makes_no_environment(tmp_path: Path) -> None:
    python(tmp_path, "python3.14", (3, 14))
    (making,) = (line for line in installing(f"PYTHON={tmp_path}/python3.14") if "venv .venv" in line)
    assert subprocess.run(["sh", "-c", making], check=False, cwd=tmp_path, capture_output=True).returncode == 1


def test_a_kept_demo_is_ended_before_its_files_are_removed(tmp_path: Path) -> None:
    kept = default_folders().kept.relative_to(ROOT)
    ending, removing, *_ = [line.replace(".venv/bin/python", "echo") for line in commands("clean")]
    assert "rm -rf build .venv" in removing
    assert subprocess.run(["sh", "-c", ending], cwd=tmp_path, check=True, capture_output=True).stdout == b""
    (tmp_path / kept).parent.mkdir(parents=True)
    (tmp_path / kept).touch()
    ended = subprocess.run(["sh", "-c", ending], cwd=tmp_path, check=True, capture_output=True)
    assert ended.stdout == b"-m coordinator_tasks.devstack.demo --stop\n"
