"""Whether bytes are in a file, looked for by a process of its own.

Whoever has a SQLite file open must not open it a second time: closing that one would drop every lock of the process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BLOCK = 1 << 22
#: its exit codes: a Python that fails by itself ends with 1
FOUND, NOT_FOUND = 10, 11


def holds(path: Path, pieces: Sequence[str]) -> bool:
    """Whether one of these texts is anywhere in the file, also in what no row refers to. Blocks."""
    command = [sys.executable, "-I", "-m", __name__, str(path)]
    done = subprocess.run(command, input=json.dumps(list(pieces)), text=True, check=False, capture_output=True)
    if done.returncode not in (FOUND, NOT_FOUND):
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        raise OSError(f"{path} could not be looked through: {last[0]}")
    return done.returncode == FOUND


def search(path: Path, needles: Sequence[bytes]) -> bool:
    """Also across the borders of blocks."""
    longest, before = max(map(len, needles), default=0), b""
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            window = before + block
            if any(needle in window for needle in needles):
                return True
            before = window[-longest:]
    return False


if __name__ == "__main__":
    found = search(Path(sys.argv[1]), [piece.encode() for piece in json.load(sys.stdin)])
    sys.exit(FOUND if found else NOT_FOUND)
