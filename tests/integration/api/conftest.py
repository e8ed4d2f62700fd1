"""Offices with an API, each a process of its own, and who asks them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from manydesks.testing.api import ServedOffice

#: retries without waiting for them
QUICK = {"retry__base_seconds": 0.02, "retry__jitter": 0}


@pytest.fixture
def make_served(home: Path) -> Iterator[Callable[..., ServedOffice]]:
    """An open office on the test's own home, with settings as keywords."""
    made: list[ServedOffice] = []

    def make(**settings: object) -> ServedOffice:
        made.append(ServedOffice(home, **{**QUICK, **settings}))
        made[-1].start()
        return made[-1]

    yield make
    for office in made:
        office.kill()


@pytest.fixture(scope="module")
def served() -> Iterator[ServedOffice]:
    """One for the tests of a file; they leave nothing behind that another would trip over."""
    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        office = ServedOffice(Path(folder) / "home", **QUICK)
        office.start()
        try:
            yield office
        finally:
            office.kill()


@pytest.fixture(scope="module")
def api(served: ServedOffice) -> Iterator[httpx.Client]:
    with served.caller() as client:
        yield client
