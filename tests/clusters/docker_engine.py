"""A Docker Engine for a test: Debian's, in network, mount and process namespaces of its own, with a registry of packages for builds.

Nothing that it starts outlives it: the end of its first process ends every container. Its ports are not this machine's, so two stacks
never meet. `docker compose` is built once from its source as a Go module; `go.sum` beside it pins every checksum.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil

from coordinator_tasks.devstack.embedded.cache import exclusive
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from tests.clusters.programs import program

NEEDED = ("dockerd", "docker", "containerd", "runc", "docker-init", "iptables", "unshare", "nsenter", "ip")
ADVICE = "apt-get install docker.io containerd runc tini iptables iproute2 debootstrap dpkg-dev"
READY_S, STOP_S, COMMAND_S = 120.0, 60.0, 3_600.0
CGROUPS = Path("/sys/fs/cgroup")
INIT = r"""
mount --make-rprivate /
mount -t tmpfs tmpfs /run
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
{python} -m http.server 8000 --directory {packages} > {folder}/packages.log 2>&1 &
exec dockerd --host unix://{folder}/docker.sock --data-root {data} --exec-root /run/docker --pidfile /run/docker.pid \
    --storage-driver overlay2 --oom-score-adjust 0 --cgroup-parent /{cgroup} --bip 172.17.0.1/16
"""


def missing() -> str:
    """What this machine lacks, as a sentence; empty if it can run an engine."""
    lacking = [name for name in NEEDED if not shutil.which(name)]
    return f"there is no {', '.join(lacking)} here: {ADVICE}" if lacking else ""


class DockerEngine:
    """Images and volumes stay in `data`, so that an engine which is started again finds them."""

    def __init__(self, folder: Path, data: Path, packages: Path) -> None:
        self.folder = folder
        self.cgroup = f"engine-{os.getpid()}"
        words = {"python": sys.executable, "packages": packages, "folder": folder, "data": data, "cgroup": self.cgroup}
        script = INIT.format(**{name: shlex.quote(str(value)) for name, value in words.items()})
        own = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
        spec = ProcessSpec("dockerd", (*own, "sh", "-c", script), folder / "dockerd.log", cwd=folder)
        self._process = ManagedProcess(spec, ready=self._answers)
        plugins = folder / "config" / "cli-plugins"
        plugins.mkdir(parents=True)
        (plugins / "docker-compose").symlink_to(program("docker-compose"))
        self.environment = {
            **os.environ,
            "DOCKER_HOST": f"unix://{folder}/docker.sock",
            "DOCKER_CONFIG": str(folder / "config"),
        }

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when the engine answers."""
        self._process.start(READY_S)

    def stop(self) -> None:
        """An orderly end, as at the shutdown of a host."""
        inside = self._inside()
        for process in inside:
            process.terminate()
        psutil.wait_procs(inside, timeout=STOP_S)
        self.kill()

    def kill(self) -> None:
        """kill -9 of the engine and of every process in every container, as when a host loses its power."""
        inside = self._inside()
        for process in inside:
            process.kill()
        psutil.wait_procs(inside, timeout=STOP_S)
        self._process.stop()
        remove_cgroups(self.cgroup)
        (self.folder / "docker.sock").unlink(missing_ok=True)

    def _inside(self) -> list[psutil.Process]:
        """The first process of the namespaces, which is the engine itself; empty if it has ended."""
        return psutil.Process(self._process.pid).children() if self._process.running else []

    def _answers(self) -> bool:
        asked = ["docker", "info"]
        return not subprocess.run(asked, capture_output=True, env=self.environment, check=False).returncode

    def shell(self, text: str, cwd: Path) -> str:
        """What a person types on the engine's host; returns what it says, and fails with it."""
        (host,) = self._inside()
        command = ["nsenter", f"--net=/proc/{host.pid}/ns/net", "bash", "-euc", text]
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout


def remove_cgroups(name: str, timeout_s: float = 10.0) -> None:
    """The groups of that name under each controller: they stay after their processes have ended."""
    deadline_s = time.monotonic() + timeout_s
    left = [group for top in _tops(name) for group in sorted(top.rglob("*/"), reverse=True)] + list(_tops(name))
    for group in left:
        while group.exists():
            try:
                group.rmdir()
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)


def _tops(name: str) -> Iterator[Path]:
    return (top for top in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")) if top.is_dir())


@contextmanager
def engine(packages: Path) -> Iterator[DockerEngine]:
    """One of this machine at a time: they share the images in the cache folder."""
    with exclusive("docker-engine") as cache:
        folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        data = cache / "docker-data"
        # Containers of a test that was killed have a policy of restarts: the engine would start them all again.
        shutil.rmtree(data / "containers", ignore_errors=True)
        try:
            with DockerEngine(folder, data, packages) as started:
                yield started
        finally:
            shutil.rmtree(folder)
