"""Rules of the house without a linter: documents in step with the code, no forbidden content."""

import re
import subprocess
from pathlib import Path

from tests.sbom import pinned

ROOT = Path(__file__).parents[3]
BINARY = {".png", ".jpg", ".ico", ".gif", ".woff2", ".gz"}

# Written in parts, so that this file has no match.
REGISTRY_HOSTS = (
    *("pypi" + ".org", "python" + "hosted.org", "repo1." + "maven", "repo.maven." + "apache.org", "maven" + "-central"),
    *("registry." + "npmjs", "artifact" + "ory", "proxy." + "golang"),
)
MACHINE_PATHS = ("/wo" + "rk/", "/ro" + "ot/", "/home/" + "user")
SECRET = re.compile(
    "|".join(
        (
            "-----BEGIN [A-Z ]*PRIVATE " + "KEY-----",
            "AKIA" + "[0-9A-Z]{16}",
            "gh[pousr]_" + "[A-Za-z0-9]{36}",
            "xox[bap]-" + "[0-9A-Za-z-]{20,}",
            "eyJ" + r"[A-Za-z0-9_-]{20,}\.eyJ",
        )
    )
)


def committed() -> list[Path]:
    """Every file known to git; without git, every file outside of ignored folders."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return [path for name in found.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    ignored = {".venv", "build", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not ignored & set(path.parts)]


def texts() -> list[tuple[str, str]]:
    """Name and content of every committed text file."""
    return [(str(p.relative_to(ROOT)), p.read_text()) for p in committed() if p.suffix not in BINARY]


def test_requirements_are_frozen_and_complete() -> None:
    lines = (one.partition(" ;")[0] for one, _ in pinned((ROOT / "requirements.txt").read_text()))
    frozen = dict(one.split("==", 1) for one in lines)
    assert all(re.fullmatch(r"\d[\w.+!-]*", version) for version in frozen.values())
    for line in (ROOT / "requirements.in").read_text().split():
        name, _, version = line.partition("==")
        plain = re.sub(r"\[.*\]", "", name)
        assert plain in frozen
        if version:
            assert frozen[plain] == version, f"{plain}: the two files pin different versions"
    assert "pyspark-client" not in frozen, "it would overwrite files of pyspark"


def test_no_registry_machine_or_secret_is_committed() -> None:
    wrong = []
    for name, text in texts():
        wrong += [f"{name}: {host}" for host in REGISTRY_HOSTS if host in text]
        wrong += [f"{name}: {path}" for path in MACHINE_PATHS if path in text]
        wrong += [f"{name}: looks like a secret" for _ in SECRET.finditer(text)]
    assert not wrong


def test_every_local_address_is_free_of_a_password() -> None:
    url = re.compile(r"\b[a-z][a-z0-9+]*://[^\s/:@$'\"{}<>]+:([^\s/@$'\"{}<>]+)@")
    found = [
        f"{name}: {hit[0]}" for name, text in texts() if not name.startswith("tests/") for hit in url.finditer(text)
    ]
    assert not found


def test_every_test_that_a_page_names_is_there() -> None:
    paths = list((ROOT / "tests").rglob("test_*.py"))
    files, text = {path.name for path in paths}, "\n".join(path.read_text() for path in paths)
    functions = set(re.findall(r"^ *(?:async )?def (test_\w+)\(", text, re.MULTILINE))
    pages = {path: path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))}
    named = {
        (path.name, one)
        for path, text in pages.items()
        for one in re.findall(r"`(?:[\w/]+/)?(test_\w+(?:\.py)?)`", text)
    }
    assert len(named) > 20
    assert sorted((page, one) for page, one in named if one not in functions and one not in files) == []
