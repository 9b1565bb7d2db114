"""The rules of the house that no linter knows: documents in step with the code, and nothing in it that must not be."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from coordinator_tasks.cli import app
from coordinator_tasks.core.assignors import ASSIGNORS
from tests.sbom import pinned

ROOT = Path(__file__).parents[3]
CODECS = ROOT / "coordinator_tasks" / "core" / "codecs"
DOCS = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "howto").glob("*.md"),
    ]
)
BINARY = {".png", ".jpg", ".ico", ".gif", ".woff2", ".gz"}
TOP_LEVEL = {
    *("dags", "plugins", "coordinator_tasks", "spark_apps", "tests", "docs", "benchmarks", ".ci"),
    *(
        "docker-compose.yaml",
        "requirements.txt",
        "requirements-uv.txt",
        "requirements.in",
        "pyproject.toml",
        "Makefile",
        "mkdocs.yml",
    ),
    *(
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        ".gitignore",
        ".dockerignore",
        ".editorconfig",
        ".pre-commit-config.yaml",
    ),
}
NEEDED = {
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "docker-compose.yaml",
    "requirements.txt",
    "requirements-uv.txt",
    "pyproject.toml",
}

# Written apart, so that this file does not hold what it looks for.
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
    """Every file that git knows, or everything but what it would ignore where there is no git."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        return [path for name in found.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    ignored = {".venv", "build", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}
    return [path for path in ROOT.rglob("*") if path.is_file() and not ignored & set(path.parts)]


def texts() -> list[tuple[str, str]]:
    """Name and content of every committed file that is text."""
    return [(str(p.relative_to(ROOT)), p.read_text()) for p in committed() if p.suffix not in BINARY]


def fences(text: str) -> list[str]:
    """The commands in the code blocks of a page, one line each."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    joined = "\n".join(block for language, block in blocks if language in {"", "sh", "bash"}).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip()]


def test_the_top_level_is_as_fixed() -> None:
    found = {path.relative_to(ROOT).parts[0] for path in committed()}
    assert found <= TOP_LEVEL, f"too much: {found - TOP_LEVEL}"
    assert found >= NEEDED


def test_the_license_is_apache_and_the_changelog_has_its_next_section() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:300]
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|#", target):
            continue
        assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_file_that_is_named_is_there(page: Path) -> None:
    folders = r"(?:coordinator_tasks|spark_apps|dags|plugins|tests|docs|benchmarks)"
    for name in re.findall(rf"`({folders}/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_no_table_is_cut_by_an_empty_line(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for found in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        head, *rest = found.splitlines()
        assert re.fullmatch(r"\|(?: *:?-+:? *\|)+", rest[0] if rest else ""), f"{page.name}: {head[:80]}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_make_target_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in fences(page.read_text()) if line.startswith("make ")}
    named |= set(re.findall(r"`make ([a-z-]+)[ `]", page.read_text()))
    assert named <= targets, f"{page.name}: {named - targets}"


def test_the_readme_shows_both_commands() -> None:
    assert {"make demo", "make test"} <= set(fences((ROOT / "README.md").read_text()))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_command_of_ours_is_one(page: Path) -> None:
    commands: dict[str, object] = get_command(app).commands  # type: ignore[attr-defined]
    for line in fences(page.read_text()):
        called = re.search(r"python -m (coordinator_tasks|spark_apps)(\.[\w.]+)?(?: (.*))?$", line)
        if called is None:
            continue
        package, module, rest = called.groups()
        if module is not None:
            assert (ROOT / f"{(package + module).replace('.', '/')}.py").exists(), line
            continue
        name, *arguments = (rest or "").split()
        assert name in commands, line
        command: Any = commands[name]
        if isinstance(command, TyperGroup):
            command = command.commands[arguments[0]]
        known = {option for one in command.params for option in one.opts}
        used = {argument.split("=")[0] for argument in arguments if argument.startswith("--")}
        assert used <= known | {"--json"}, line


def test_every_strategy_has_its_line_in_the_table_of_strategies() -> None:
    page = (ROOT / "docs" / "assignors.md").read_text().split("## The strategies")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == ASSIGNORS.keys()


def test_every_field_of_every_znode_is_explained() -> None:
    page = "".join((ROOT / "docs" / "reference" / name).read_text() for name in ("znodes.md", "http.md"))
    explained = set(re.findall(r"`([^`\s]+)`", page)) | set(re.findall(r'"(\w)"', page))
    for name in ("codec", "member_codec", "history_codec", "status_codec", "upgrade_codec"):
        missing = written_fields(CODECS / f"{name}.py") - explained
        assert not missing, (
            f"{name}.py writes {sorted(missing)}, which coordinator_tasks/core/codecs/fields.py does not name"
        )


def written_fields(source: Path) -> set[str]:
    """The keys of all dictionaries in the functions that write JSON."""
    keys: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Dict):
            keys |= {key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return keys


def test_the_field_finder_finds_fields() -> None:
    assert {"handoff", "from", "supersedes", "topicId"} <= written_fields(CODECS / "codec.py")


def test_every_direct_dependency_earns_its_line() -> None:
    wanted = {re.split(r"[\[=<>~]", line)[0].strip() for line in (ROOT / "requirements.in").read_text().splitlines()}
    page = (ROOT / "docs" / "dependencies.md").read_text()
    rows = re.findall(r"^\| ([\w-]+) \| (.+) \|$", page, re.MULTILINE)
    explained = {name for name, why in rows if len(why) > 4} - {"package"}
    assert explained == wanted - {""}


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


def test_the_project_is_named_and_licensed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert project["scripts"]["coordinator"] == "coordinator_tasks.cli:main"


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


def test_who_is_told_where_to_change_something_finds_it() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    roots = (ROOT, ROOT / "coordinator_tasks")
    named = re.findall(r"`([\w/]+(?:/|\.py|\.md))`", text)
    assert len(named) > 20
    assert [one for one in named if not any((root / one).exists() for root in roots)] == []


def test_the_map_of_the_tests_names_every_folder_and_no_other() -> None:
    named = set(re.findall(r"^\| `(\w+)/`", (ROOT / "tests" / "README.md").read_text(), re.MULTILINE))
    assert named == {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}


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
