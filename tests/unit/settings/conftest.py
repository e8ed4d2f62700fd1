from __future__ import annotations

from collections.abc import Callable
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
def disk(tmp_path: Path, mount: Callable[..., None]) -> Mount:
    """Makes a disk with the given options: root ignores modes, so only a real file system can refuse it."""

    def make(options: str) -> Path:
        mount(options, at=tmp_path / "disk")
        return tmp_path / "disk"

    return make
