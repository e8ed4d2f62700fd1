"""Real offices, each a process of its own, on a home of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manydesks.testing.office import OfficeProcess
from manydesks.testing.shell import Shell

#: retries without waiting for them
QUICK = {"MANYDESKS_RETRY__BASE_SECONDS": "0.02", "MANYDESKS_RETRY__JITTER": "0"}


@pytest.fixture
def make_office(home: Path) -> Iterator[Callable[..., OfficeProcess]]:
    """An office on the test's home that is not open yet, with settings as keywords: `runner__run_seconds=1`."""
    made: list[OfficeProcess] = []

    def make(**settings: object) -> OfficeProcess:
        given = {f"MANYDESKS_{name.upper()}": str(value) for name, value in settings.items()}
        made.append(OfficeProcess(home, {**os.environ, **QUICK, **given}))
        return made[-1]

    yield make
    for office in made:
        office.kill()


@pytest.fixture
def office(make_office: Callable[..., OfficeProcess]) -> OfficeProcess:
    """An open office."""
    office = make_office()
    office.start()
    return office


@pytest.fixture
def shell(home: Path) -> Iterator[Shell]:
    """A person called ada; what she leaves open is closed."""
    shell = Shell(home)
    yield shell
    if home.exists():
        shell.run("down")


@pytest.fixture
def mount(home: Path) -> Iterator[Callable[..., None]]:
    """Put a file system of its own, in memory, under the home or a part of it; again, with "remount", changes it."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")

    mounted: list[Path] = []

    def mount(*options: str, at: Path = home) -> None:
        at.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(at)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(at)

    yield mount
    for at in reversed(dict.fromkeys(mounted)):
        subprocess.run(["umount", "--lazy", str(at)], check=False, capture_output=True)
