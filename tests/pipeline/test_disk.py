"""`manydesks pipeline` on disks that are full or read-only: real file systems, in a mount namespace of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'manydesks[pipeline]'")

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return tried.returncode == 0


pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not _can_mount(), reason="no file system can be mounted here (unshare and mount are needed)"),
]

#: `md` is the command; every call's exit code and its words go to stdout
PRELUDE = """
md() { "$PYTHON" -c 'from manydesks.cli.main import main; main()' "$@" 2>&1; echo "= $?"; }
fill() { cat /dev/zero > "$1/fill" 2>/dev/null; }
quiet() { md "$@" | grep -qx '= 0' || { echo "failed: $*"; exit 1; }; }
"""

#: events whose texts do not shrink when they are packed: about 800 kB
EVENTS = (
    "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
    "head = db.execute('select max(seq) from events').fetchone()[0];"
    "db.executemany('insert into events (seq, at, kind, data) values (?, 1, ?, ?)',"
    " [(head + at, 'agent_added', os.urandom(1000).hex()) for at in range(1, 401)]); db.commit(); db.close()"
)

#: a lake of two small files that could be one, made without Spark
SMALL_FILES = (
    "import pathlib, sys; from manydesks.domain.clock import SystemClock;"
    "from manydesks.pipeline import tables; from manydesks.pipeline.bronze import PIPELINE_RUNS;"
    "from manydesks.pipeline.lock import hold; held = hold(pathlib.Path(sys.argv[1])).__enter__();"
    "row = {'job': 'run', 'started_at': 1, 'ended_at': 2, 'seconds': 0.1, 'ok': True};"
    "[tables.append_row(held, PIPELINE_RUNS, row, SystemClock()) for _ in range(2)]"
)


def inside(mount: Path, size: str, script: str, **environ: str) -> list[str]:
    """The lines that the script prints, run with a small file system at `mount`."""
    mount.mkdir(exist_ok=True)
    variables = {**os.environ, "PYTHON": sys.executable, "MANYDESKS_PIPELINE__MASTER": "local[2]", **environ}
    lines = f'mount -t tmpfs -o size={size} none "{mount}" || exit 1\n{PRELUDE}{script}'
    command = [*UNSHARE, "sh", "-c", lines]
    ran = subprocess.run(command, capture_output=True, text=True, env={**variables, "MOUNT": str(mount)}, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_a_full_home_at_the_first_run(home: Path) -> None:
    told = inside(
        home.parent / "disk",
        "3m",
        "quiet agent add coder; fill $MOUNT; md pipeline run; md pipeline status",
        MANYDESKS_HOME=str(home.parent / "disk" / "home"),
    )
    store = home.parent / "disk" / "home" / "office.db"
    assert told == [f"manydesks: The pipeline failed: the store {store} cannot be read (the disk is full).", "= 1"] * 2


def test_a_full_home_before_spark_starts(home: Path) -> None:
    """Something holds the store's index of the log, as a running office does."""
    hold = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('select max(seq) from events')"
    told = inside(
        home.parent / "disk",
        "3m",
        f'quiet agent add coder; mkfifo "$MOUNT/fifo"\n'
        f'"$PYTHON" -c "{hold}; print(flush=True); sys.stdin.read()" "$MANYDESKS_HOME/office.db" <"$MOUNT/fifo" '
        '>"$MOUNT/held" & exec 3>"$MOUNT/fifo"; until [ -s "$MOUNT/held" ]; do :; done\n'
        'fill "$MOUNT"; md pipeline run; exec 3>&-; wait',
        MANYDESKS_HOME=str(home.parent / "disk" / "home"),
    )
    assert told[-1] == "= 1"
    assert len(told) == 2
    assert told[0].endswith("cannot be used, the disk is full.")


def test_a_read_only_lake(home: Path) -> None:
    told = inside(
        home.parent / "disk",
        "1m",
        "quiet agent add coder; mount -o remount,ro $MOUNT; md pipeline run",
        MANYDESKS_HOME=str(home),
        MANYDESKS_PIPELINE__LAKE=str(home.parent / "disk"),
    )
    lock = home.parent / "disk" / ".lock"
    assert told == [f"manydesks: The pipeline failed: {lock} cannot be used, the file system is read-only.", "= 1"]


def test_a_full_lake_cannot_be_compacted(home: Path) -> None:
    told = inside(
        home.parent / "disk",
        "8m",
        f'quiet agent add coder; "$PYTHON" -c "{SMALL_FILES}" "$MOUNT/lake"; fill "$MOUNT"; md pipeline compact',
        MANYDESKS_HOME=str(home),
        MANYDESKS_PIPELINE__LAKE=str(home.parent / "disk" / "lake"),
    )
    lake = home.parent / "disk" / "lake"
    assert told == [f"manydesks: The pipeline failed: {lake} cannot be used, the disk is full.", "= 1"]


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_lake_that_fills_up_loses_nothing(home: Path) -> None:
    told = inside(
        home.parent / "disk",
        "256k",
        f'quiet agent add coder; "$PYTHON" -c "{EVENTS}" "$MANYDESKS_HOME/office.db"\n'
        "md pipeline run; mount -o remount,size=8m $MOUNT; quiet pipeline run; md pipeline status --check",
        MANYDESKS_HOME=str(home),
        MANYDESKS_PIPELINE__LAKE=str(home.parent / "disk" / "lake"),
    )
    lake = home.parent / "disk" / "lake"
    assert told[:2] == [f"manydesks: The pipeline failed: {lake} cannot be used, the disk is full.", "= 1"]
    assert any(line.startswith("check ") and line.endswith("events compared, all alike") for line in told)
    assert told[-1] == "= 0"
