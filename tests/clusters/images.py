"""What stand-ins of official images are made of: a root folder of Debian's packages, Python's wheels, and jars.

Registries of images are not needed. Everything is fetched once by the ordinary clients (debootstrap, apt-get, pip, Ivy) and stays in the
cache folder: `packages/debs` and `packages/wheels` are what builds install from, `debian.tar` is the base of every image.
"""

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_tasks import __version__
from coordinator_tasks.devstack.embedded import jars
from tests.clusters import docker_engine
from tests.clusters.cached import once
from tests.clusters.docker_engine import DockerEngine
from tests.clusters.server_versions import kafka_image_jars

STAND_INS = Path(__file__).with_name("stand_ins")
ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements.txt"
MANIFESTS = ROOT / "docs" / "kubernetes"
MIRROR = "http://deb.debian.org/debian"
SUITE = "bookworm"
NEEDED = ("debootstrap", "dpkg-scanpackages")
IN_CHECKOUT = (
    "docker-compose.yaml",
    ".dockerignore",
    "requirements.txt",
    "coordinator_tasks",
    "spark_apps",
    "plugins",
    "dags",
    "docs",
)
IN_BASE = ("ca-certificates", "curl", "python3", "python3-distutils", "python3-pip", "python3-venv")
INSTALLED_LATER = ("openjdk-17-jre-headless", "procps", "postgresql-15", "dumb-init", "tini")
BUILD_TOOLS = ("setuptools", "wheel")
"""PySpark is no wheel: pip builds it with these."""
INDEX = "http://172.17.0.1:8000"
"""Where the engine's host serves `packages` to builds."""
KUBERNETES_IMAGE = f"partition-coordinator-kubernetes:{__version__}"
PAUSE = "docker.io/stand-in/pause:1"
FETCH_S = 1_800.0


def packages() -> Path:
    """The folder with `debian.tar` and, in `packages`, an index of Debian's packages and the wheels of requirements.txt."""
    made_of = REQUIREMENTS.read_bytes() + repr((IN_BASE, INSTALLED_LATER, BUILD_TOOLS, SUITE)).encode()

    def fetch(folder: Path) -> None:
        _wheels(folder / "packages" / "wheels")
        _debian(folder / "root", folder)

    return once(f"stand-ins-{hashlib.sha256(made_of).hexdigest()[:12]}", fetch)


def _debian(root: Path, target: Path) -> None:
    debs, archives = target / "packages" / "debs", root / "var/cache/apt/archives"
    debs.mkdir(parents=True)
    _run("debootstrap", "--variant=minbase", f"--include={','.join(IN_BASE)}", SUITE, str(root), MIRROR)
    for deb in archives.glob("*.deb"):
        deb.unlink()
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    _run(
        "chroot",
        str(root),
        "apt-get",
        "--yes",
        "--no-install-recommends",
        "--download-only",
        "install",
        *INSTALLED_LATER,
    )
    for deb in archives.glob("*.deb"):
        shutil.move(deb, debs / deb.name)
    with (debs / "Packages").open("w") as index:
        subprocess.run(["dpkg-scanpackages", "."], cwd=debs, check=True, stdout=index, stderr=subprocess.DEVNULL)
    (root / "etc/apt/sources.list").write_text(f"deb [trusted=yes] {INDEX}/debs ./\n")
    left_out = ("./dev/*", "./var/lib/apt/lists/*", "./usr/share/doc/*", "./usr/share/locale/*")
    _run(
        "tar",
        "--create",
        "--directory",
        str(root),
        *(f"--exclude={one}" for one in left_out),
        "--file",
        str(target / "debian.tar"),
        ".",
    )
    shutil.rmtree(root)


def _wheels(target: Path) -> None:
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(target))
    _run(*pip, "--require-hashes", "--requirement", str(REQUIREMENTS))
    _run(*pip, *BUILD_TOOLS)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=FETCH_S, stdout=subprocess.DEVNULL)


def missing() -> str:
    """What this machine lacks, as a sentence; empty if images can be built."""
    lacking = [name for name in NEEDED if not shutil.which(name)]
    return (
        f"there is no {', '.join(lacking)} here: apt-get install debootstrap dpkg-dev"
        if lacking
        else docker_engine.missing()
    )


@contextmanager
def engine_with_stand_ins(context: Path) -> Iterator[DockerEngine]:
    """An engine that has every image of `stand_ins/compose.yaml`, under the name of its original."""
    made = packages()
    with docker_engine.engine(made / "packages") as running:
        lay_context(context)
        running.shell(f"docker import {made / 'debian.tar'} stand-in/debian:bookworm && docker compose build", context)
        yield running


def lay_checkout(folder: Path) -> None:
    """The files of this repository from which images are built, and the documentation."""
    folder.mkdir()
    for name in IN_CHECKOUT:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    # A stand-in has the tag of its original, and another digest.
    compose = folder / "docker-compose.yaml"
    compose.write_text(re.sub(r"@sha256:[0-9a-f]{64}", "", compose.read_text()))


def fill_env(checkout: Path, **values: str) -> None:
    """A value for each name of `.env`, made as its comments say."""
    values.setdefault("AIRFLOW_FERNET_KEY", urlsafe_b64encode(secrets.token_bytes(32)).decode())
    file = checkout / ".env"
    filled = re.sub(
        "^([A-Z_]+)=$",
        lambda name: f"{name[1]}={values.get(name[1]) or secrets.token_hex(32)}",
        file.read_text(),
        flags=re.MULTILINE,
    )
    file.write_text(filled)


def kubernetes_image(folder: Path) -> Path:
    """An archive with the image for pods, built by the commands in its Dockerfile, and with `PAUSE`."""
    checkout, archive = folder / "checkout", folder / "images.tar"
    lay_checkout(checkout)
    shutil.copy(checkout / "docs" / "compose.env.example", checkout / ".env")
    fill_env(checkout)
    commands = re.findall(
        "^#   (docker .*)$", (checkout / MANIFESTS.relative_to(ROOT) / "Dockerfile").read_text(), re.MULTILINE
    )
    with engine_with_stand_ins(folder / "context") as engine:
        engine.shell("\n".join(commands), checkout)
        base = packages() / "debian.tar"
        # Like the real one it ends zombies, whose first process it is where containers share their processes.
        pause = 'ENTRYPOINT ["/bin/sh", "-c", "while :; do sleep 0.5; done"]'
        engine.shell(f"docker import --change '{pause}' {base} {PAUSE}", folder)
        engine.shell(f"docker save --output {archive} {KUBERNETES_IMAGE} {PAUSE}", folder)
    return archive


def lay_context(folder: Path) -> None:
    """The context of `stand_ins/compose.yaml`: its own files, Spark as PySpark has it, and the jars of the servers."""
    shutil.copytree(STAND_INS, folder, dirs_exist_ok=True)
    spark = jars.pyspark_home()
    for name in ("bin", "sbin", "jars", "python", "data"):
        _lay(sorted((spark / name).rglob("*")), spark, folder / "spark")
    broker = [*jars.ensure_jars(kafka_image_jars()).glob("*.jar"), *(spark / "jars").glob("scala-library-*.jar")]
    for jar in broker:
        _lay([jar], jar.parent, folder / "kafka/libs")
    for name in jars.zookeeper_class_path().split(os.pathsep):
        _lay([Path(name)], Path(name).parent, folder / "zookeeper/lib")


def _lay(files: Iterable[Path], base: Path, target: Path) -> None:
    """Links where the file system can: a context of hard links costs no space."""
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            laid = target / file.relative_to(base)
            laid.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file.resolve(), laid)
            except OSError:
                shutil.copy(file, laid)
