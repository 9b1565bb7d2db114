"""Programs that are built once from their sources as Go modules. The binaries lie in the cache folder, outside the repository.

`go.sum` beside each program pins the checksum of every module.
"""

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from coordinator_tasks.devstack.embedded.cache import exclusive

SOURCES = Path(__file__).with_name("go_programs")
BUILD_S = 3_600.0
_KUBERNETES = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Program:
    """`package` is the one with `main`; `stamps` are variables that tell the version."""

    version: str
    package: str = "."
    stamps: tuple[str, ...] = ()


PROGRAMS = {
    "kube": Program(
        "1.34.4",
        stamps=(f"{_KUBERNETES}.gitVersion=v1.34.4", f"{_KUBERNETES}.gitMajor=1", f"{_KUBERNETES}.gitMinor=34"),
    ),
    "etcd": Program("3.6.13"),
    "docker-compose": Program(
        "2.40.3", "github.com/docker/compose/v2/cmd", ("github.com/docker/compose/v2/internal.Version=v2.40.3",)
    ),
}
"""`kube` is API server, controllers, scheduler, kubelet and kubectl in one."""


def program(name: str) -> Path:
    """The binary; builds it if it is missing."""
    version = PROGRAMS[name].version
    with exclusive(f"{name}-{version}") as folder:
        built = folder / f"{name}-{version}"
        if not built.exists():
            _build(name, built)
    return built


def go_module(name: str, version: str, checksum: str) -> Path:
    """The folder with the files of a Go module, whose checksum is as in a `go.sum`."""
    command = ["go", "mod", "download", "-json", f"{name}@{version}"]
    with tempfile.TemporaryDirectory() as outside:
        done = subprocess.run(command, cwd=outside, check=True, capture_output=True, timeout=BUILD_S)
    found = json.loads(done.stdout)
    assert found["Sum"] == checksum, f"{name} {version} is not the one that was read"
    return Path(found["Dir"])


def _build(name: str, target: Path) -> None:
    flags = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in PROGRAMS[name].stamps)])
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as folder:
        source = Path(folder) / "source"
        shutil.copytree(SOURCES / name, source)
        made = Path(folder) / name
        command = ["go", "build", "-mod=readonly", "-trimpath", f"-ldflags={flags}", "-o", str(made)]
        subprocess.run([*command, PROGRAMS[name].package], cwd=source, check=True, timeout=BUILD_S)
        made.rename(target)
