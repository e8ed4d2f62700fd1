"""The store's file, looked at page by page."""

from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import StoreCorrupt, StoreError
from manydesks.store.health import examine
from manydesks.store.store import Store


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    store = Store(tmp_path / "office.db")
    await store.add_agent(id="coder", name="Coder", provider="rehearsal")
    store.close()
    return tmp_path / "office.db"


def test_a_sound_store(path: Path) -> None:
    found = examine(path, seconds=10)
    assert (found.whole, found.bytes) == (True, path.stat().st_size)


def test_time_that_is_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.store.health.STEPS", 1)
    assert not examine(path, seconds=-1).whole


def test_a_page_that_was_overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 4096 * 3)
        file.write(b"\xff" * 4096 * 2)
    with pytest.raises(StoreCorrupt, match="restore a backup"):
        examine(path, seconds=10)


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no store"):
        examine(tmp_path / "office.db", seconds=10)
