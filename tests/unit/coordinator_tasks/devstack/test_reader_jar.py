"""The jars of the reader in the JVM: compiled when a source has changed, the same for the same sources, or the old ones."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.errors import ReaderNotCompiled
from coordinator_tasks.devstack.java_compiler import check_sources, provided_jars
from coordinator_tasks.devstack.reader_jar import CHECKSUMS, CLIENTS, READER, build
from coordinator_tasks.java import find_java
from spark_apps.errors import ReaderJarsBroken
from spark_apps.jvm import jars

SOURCE = """package example;

public record Example(int number) {
    public static void main(String[] arguments) {
        System.out.println(new Example(42));
    }
}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "java"
    (folder / "example").mkdir(parents=True)
    (folder / "example" / "Example.java").write_text(SOURCE)
    (folder / "META-INF" / "services").mkdir(parents=True)
    (folder / "META-INF" / "services" / "example.Service").write_text("example.Example\n")
    return folder


def changed(sources: Path, old: str, new: str) -> None:
    file = sources / "example" / "Example.java"
    file.write_text(file.read_text().replace(old, new))


def test_the_jar_is_built_when_a_source_has_changed_and_is_the_same_for_the_same_sources(
    sources: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "jars"
    assert build(sources, folder)
    assert not build(sources, folder)
    assert {file.name for file in folder.iterdir()} == {READER, CLIENTS, CHECKSUMS, "inputs.sha256"}
    first = (folder / READER).read_bytes()
    assert zipfile.ZipFile(folder / READER).namelist() == [
        "META-INF/MANIFEST.MF",
        "META-INF/services/example.Service",
        "example/Example.class",
    ]
    command = [str(find_java().executable), "-cp", str(folder / READER), "example.Example"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "Example[number=42]\n"
    assert [path.name for path in jars.paths(folder)] == [READER, CLIENTS]

    changed(sources, "42", "43")
    assert build(sources, folder)
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "Example[number=43]\n"
    changed(sources, "43", "42")
    shutil.rmtree(folder)
    assert build(sources, folder)
    assert (folder / READER).read_bytes() == first


def test_a_source_with_an_error_leaves_the_former_jar_and_shows_the_compilers_words(
    sources: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "jars"
    build(sources, folder)
    changed(sources, "42", '"text"')
    with pytest.raises(
        ReaderNotCompiled, match=r"Example\.java \(at line 5\)\s[^^]*\^+\sThe constructor Example\(String\)"
    ):
        build(sources, folder)
    assert [path.name for path in jars.paths(folder)] == [READER, CLIENTS]
    assert not list(folder.glob("build-*"))
    changed(sources, '"text"', "42")
    assert not build(sources, folder)


def test_a_jar_that_was_changed_is_refused_and_built_again(sources: Path, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    build(sources, folder)
    with (folder / READER).open("ab") as jar:
        jar.write(b"x")
    with pytest.raises(ReaderJarsBroken, match=r"assigned-kafka\.jar is not the jar .* run make install"):
        jars.paths(folder)
    assert build(sources, folder)
    (folder / CLIENTS).unlink()
    with pytest.raises(ReaderJarsBroken, match=r"kafka-clients-4\.3\.1\.jar.* run make install"):
        jars.paths(folder)
    assert build(sources, folder)
    assert len(jars.paths(folder)) == 2


def test_a_warning_fails_the_lint_and_not_the_build(sources: Path, tmp_path: Path) -> None:
    check_sources([sources], provided_jars())
    changed(sources, "System.out", "int unused = 1;\n        System.out")
    with pytest.raises(ReaderNotCompiled, match="The value of the local variable unused is not used"):
        check_sources([sources], provided_jars())
    assert build(sources, tmp_path / "jars")
