"""Real offices, each a process of its own, on a home of its own."""

from __future__ import annotations

import os
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
