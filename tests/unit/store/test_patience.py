"""Waiting for another process that writes: short retries up to a limit, and only for that."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import apsw
import pytest

from manydesks.store import patience
from manydesks.store.patience import patiently


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


def begin(db: apsw.Connection) -> str:
    db.execute("begin immediate")
    return "begun"


def test_at_once_if_nobody_writes(path: Path) -> None:
    db = apsw.Connection(str(path))
    assert patiently(lambda: begin(db)) == "begun"
    db.close()


def test_as_soon_as_the_other_lets_go(path: Path) -> None:
    other, db = apsw.Connection(str(path)), apsw.Connection(str(path))
    other.execute("begin immediate")
    tried = threading.Event()

    def act() -> str:
        try:
            return begin(db)
        except apsw.BusyError:
            tried.set()
            raise

    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(patiently(act)))
    thread.start()
    assert tried.wait(30)
    other.execute("rollback")
    thread.join(30)
    assert answers == ["begun"]
    other.close()
    db.close()


def test_not_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.05)
    other, db = apsw.Connection(str(path)), apsw.Connection(str(path))
    other.execute("begin immediate")
    began = time.monotonic()
    with pytest.raises(apsw.BusyError):
        patiently(lambda: begin(db))
    assert time.monotonic() - began >= 0.05
    other.close()
    db.close()


def test_other_errors_are_not_tried_again() -> None:
    calls = []

    def act() -> None:
        calls.append(1)
        raise apsw.FullError("disk full")

    with pytest.raises(apsw.FullError):
        patiently(act)
    assert calls == [1]
