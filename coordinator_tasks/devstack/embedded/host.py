"""Installs programs that no Python package contains: Java; Chromium and Prometheus for tests; Kafka's jars.

``make install`` runs ``python -m coordinator_tasks.devstack.embedded.host``. As root on Debian or Ubuntu it installs
the missing programs. Elsewhere it prints one line with the necessary installation. Only a missing Java is an error,
because nothing runs without Java.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.devstack.embedded.cache import FOLDER_VARIABLE, cache_folder, exclusive
from coordinator_tasks.devstack.embedded.errors import CacheUnavailable, EmbeddedError
from coordinator_tasks.devstack.embedded.jars import ensure_kafka_jars
from coordinator_tasks.java import JavaUnavailable, find_java

JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless")
"""In order of preference. Newer releases of Debian have only the second."""
BROWSER_PACKAGES = ("chromium", "chromium-driver")
BROWSER_PROGRAMS = ("chromium", "chromedriver")
PROMETHEUS_PROGRAMS = ("prometheus", "promtool")
APT_TIMEOUT_S = 600.0


def can_install() -> bool:
    """Return whether this user may install packages with apt."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def ensure_java() -> None:
    """Install Java if none is usable and this user may install. Raises JavaUnavailable if Java is still missing."""
    try:
        find_java()
    except JavaUnavailable:
        if not can_install() or not any(_install(package) for package in JAVA_PACKAGES):
            raise
        find_java()


def ensure_browser() -> str | None:
    """Install Chromium and its driver if this user may install. Return a line of advice if they are still missing."""
    if can_install() and _missing_programs():
        _install(*BROWSER_PACKAGES)
    missing = _missing_programs()
    if not missing:
        return None
    return (
        f"{' and '.join(missing)} not found on PATH: the tests of the user interface cannot run until they are installed "
        f"(Debian: apt-get install {' '.join(BROWSER_PACKAGES)}); everything else works without"
    )


def prometheus_program(name: str) -> str | None:
    """Return the path of `prometheus` or `promtool`, on PATH or unpacked in our cache."""
    unpacked = cache_folder() / "prometheus" / "usr" / "bin" / name
    return shutil.which(name) or (str(unpacked) if unpacked.exists() else None)


def ensure_prometheus() -> str | None:
    """Unpack Prometheus into our cache if this user may. Return a line of advice if it is still missing.

    Prometheus is not installed, because Debian's package would start a service.
    """
    if can_install() and not all(map(prometheus_program, PROMETHEUS_PROGRAMS)):
        with exclusive("prometheus") as folder:
            _unpack("prometheus", folder / "prometheus")
    if all(map(prometheus_program, PROMETHEUS_PROGRAMS)):
        return None
    return (
        "prometheus not found on PATH: the tests of alerts and scrapes are skipped until it is installed "
        "(Debian: apt-get install prometheus); everything else works without"
    )


def main() -> int:
    """Prepare the machine. If this fails, print a line with the remedy and return exit code 1."""
    try:
        ensure_java()
        ensure_kafka_jars()
        for advice in filter(None, (ensure_browser(), ensure_prometheus())):
            print(advice, file=sys.stderr)
    except (EmbeddedError, JavaUnavailable) as error:
        failed: CoordinatorError = error
    except OSError as error:
        failed = CacheUnavailable(
            f"{error}; let {cache_folder()} be a folder of yours with space on its disk, or set {FOLDER_VARIABLE} to one"
        )
    else:
        return 0
    print(failed.told, file=sys.stderr)
    return 1


def _missing_programs() -> list[str]:
    return [program for program in BROWSER_PROGRAMS if shutil.which(program) is None]


def _install(*packages: str) -> bool:
    return _run(["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *packages])


def _unpack(package: str, folder: Path) -> None:
    """Unpack the files of a Debian package into our folder, all or none, without the package's dependencies."""
    with TemporaryDirectory(prefix="fetch-", dir=folder.parent) as scratch:
        if not _run(["apt-get", "update"], ["apt-get", "download", package], cwd=scratch):
            return
        (archive,) = Path(scratch).glob(f"{package}_*.deb")
        unpacked = Path(scratch) / "unpacked"
        if _run(["dpkg-deb", "--extract", str(archive), str(unpacked)]):
            shutil.rmtree(folder, ignore_errors=True)
            unpacked.rename(folder)


def _run(*commands: list[str], cwd: str | None = None) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for command in commands:
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, env=environment, timeout=APT_TIMEOUT_S, cwd=cwd
            )
    except subprocess.SubprocessError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
