from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.settings.home import Home

Mount = Callable[..., Path]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a tmpfs with the given options: root ignores modes, so only a real file system can refuse it."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system of its own needs root")
    mounted: list[Path] = []

    def make(options: str) -> Path:
        point = tmp_path / f"disk{len(mounted)}"
        point.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this machine does not let root mount a tmpfs: {done.stderr.strip()}")
        mounted.append(point)
        return point

    yield make
    for point in mounted:
        subprocess.run(["umount", str(point)], check=True)
