"""The disk keeps what was synced, and of the rest what it likes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from manydesks.testing.power import SECTOR, Disk, _apply, _Kept, _torn


def test_it_is_the_default_only_while_it_is_entered() -> None:
    before = apsw.vfs_names()
    with Disk():
        assert apsw.vfs_names()[0].startswith("disk-")
    assert apsw.vfs_names() == before


def rows_after(folder: Path) -> int | None:
    """How many rows a plain SQLite finds; None: no table, or not even a database."""
    with closing(apsw.Connection(str(folder / "a.db"))) as db:
        try:
            assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
            found = db.execute("select count(*) from t").fetchall()[0][0]
            assert isinstance(found, int)
            return found
        except apsw.SQLError:
            return None


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_what_was_synced_is_left(tmp_path: Path, mode: str) -> None:
    cuts = []
    with Disk(seed=1) as disk, closing(apsw.Connection(str(tmp_path / "a.db"))) as db:
        db.execute(f"pragma journal_mode = {mode}")
        db.execute("pragma synchronous = extra; create table t (n)")
        for n in range(20):
            db.execute("insert into t values (randomblob(3000))")
            cuts.append((n + 1, tmp_path / f"cut-{n}"))
            disk.cut(cuts[-1][1])
    for n, cut in cuts:
        assert rows_after(cut) == n


def test_what_was_not_synced_may_be_lost(tmp_path: Path) -> None:
    found = set()
    with Disk(seed=1) as disk, closing(apsw.Connection(str(tmp_path / "a.db"))) as db:
        db.execute("pragma journal_mode = wal; pragma synchronous = normal; create table t (n)").fetchall()
        for _ in range(20):
            db.execute("insert into t values (randomblob(3000))")
        assert disk.at_risk > 40
        for n in range(20):
            disk.cut(tmp_path / f"cut-{n}")
            found.add(rows_after(tmp_path / f"cut-{n}"))
    # all, none and something between
    assert 20 in found
    assert None in found
    assert len(found) > 3


def test_the_same_seed_leaves_the_same(tmp_path: Path) -> None:
    left = []
    for run in range(2):
        with Disk(seed=7) as disk, closing(apsw.Connection(str(tmp_path / f"run-{run}.db"))) as db:
            db.execute("pragma journal_mode = wal; pragma synchronous = normal; create table t (n)").fetchall()
            db.execute("pragma user_version = 5")
            disk.cut(tmp_path / f"cut-{run}")
        left.append([path.stat().st_size for path in sorted((tmp_path / f"cut-{run}").iterdir())])
    assert left[0] == left[1]


def test_cutting_does_not_disturb_whoever_writes(tmp_path: Path) -> None:
    with Disk(seed=1) as disk, closing(apsw.Connection(str(tmp_path / "a.db"))) as db:
        db.execute("pragma journal_mode = wal; create table t (n)").fetchall()
        for n in range(50):
            db.execute("insert into t values (?)", (n,))
            disk.cut(tmp_path / "cut")
        assert db.execute("select count(*) from t").fetchall() == [(50,)]
    assert rows_after(tmp_path) == 50


def test_a_watch_that_raises_fails_the_act(tmp_path: Path) -> None:
    acts: list[str] = []
    full = False

    def watch(act: str, path: str) -> None:
        acts.append(act)
        if full and act == "write":
            raise apsw.FullError("no room")

    with Disk(watch=watch), closing(apsw.Connection(str(tmp_path / "a.db"))) as db:
        db.execute("pragma journal_mode = wal; create table t (n)").fetchall()
        assert {"write", "sync", "delete"} <= set(acts)
        full = True
        with pytest.raises(apsw.FullError):
            db.execute("insert into t values (1)")
        full = False
        db.execute("insert into t values (2)")
        assert db.execute("select n from t").fetchall() == [(2,)]


def test_a_file_that_was_there_before_is_left(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / "a.db"))) as db:
        db.execute("create table t (n); insert into t values (1)")
    with Disk() as disk, closing(apsw.Connection(str(tmp_path / "a.db"))) as db:
        assert db.execute("select n from t").fetchall() == [(1,)]
        disk.cut(tmp_path / "cut")
    assert (tmp_path / "cut" / "a.db").read_bytes() == (tmp_path / "a.db").read_bytes()


class Dice:
    """Random numbers that are not."""

    def __init__(self, *values: float) -> None:
        self._values = list(values)

    def random(self) -> float:
        return self._values.pop(0) if len(self._values) > 1 else self._values[0]

    def randbytes(self, n: int) -> bytes:
        return b"?" * n


def test_a_torn_write_keeps_to_its_own_bytes() -> None:
    write = (SECTOR - 2, b"a" * (SECTOR + 4))
    assert _torn(write, Dice(0.0)) == [(SECTOR - 2, b"aa"), (SECTOR, b"a" * SECTOR), (2 * SECTOR, b"aa")]  # type: ignore[arg-type]
    assert _torn(write, Dice(0.9, 0.55, 0.9)) == [(SECTOR, b"?" * SECTOR)]  # type: ignore[arg-type]


def test_changes_are_applied_as_a_file_system_would() -> None:
    image = bytearray(b"abc")
    _apply(image, (5, b"xy"))
    assert image == b"abc\0\0xy"
    _apply(image, 2)
    assert image == b"ab"
    _apply(image, 4)
    assert image == b"ab\0\0"


def test_a_deletion_that_was_not_synced_may_not_have_happened() -> None:
    kept = _Kept(b"old")
    kept.delete(for_good=False)
    assert kept.left(Dice(0.9), 0.5) == b"old"  # type: ignore[arg-type]
    assert kept.left(Dice(0.1), 0.5) is None  # type: ignore[arg-type]
    kept.begin_anew()
    kept.changes.append((0, b"new"))
    kept.sync()
    assert kept.left(Dice(0.9), 0.5) == b"old"  # type: ignore[arg-type]
    kept.forget_deleted()
    assert kept.left(Dice(0.9), 0.5) == b"new"  # type: ignore[arg-type]
    kept.delete(for_good=True)
    assert kept.left(Dice(0.9), 0.5) is None  # type: ignore[arg-type]
