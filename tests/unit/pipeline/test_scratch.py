"""The folder of a process's own: it goes with the process, and that of a killed one with the next."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WORKS = """
import sys
from pathlib import Path
from manydesks.pipeline.scratch import scratch
own = scratch(Path(sys.argv[1]))
assert scratch(Path(sys.argv[1])) == own
(own / "shuffled").mkdir()
print(own, flush=True)
sys.stdin.read()
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKS, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().rstrip("\n"))


def end(process: subprocess.Popen[str]) -> None:
    with process:
        process.communicate()
    assert process.returncode == 0


def test_what_a_killed_process_has_left_goes_when_the_next_begins(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    works, its_own = start(folder)
    killed, left = start(folder)
    with killed:
        killed.kill()
    assert (left / "shuffled").is_dir()

    last, new = start(folder)
    # not that of one which still works
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {its_own.name, new.name}
    assert (its_own / "shuffled").is_dir()
    end(works)
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {new.name}
    end(last)
    assert list(folder.iterdir()) == []


def test_nobody_else_can_look_into_it(tmp_path: Path) -> None:
    process, own = start(tmp_path / "a" / "scratch")
    assert [path.stat().st_mode & 0o077 for path in (own, own.parent)] == [0, 0]
    end(process)
