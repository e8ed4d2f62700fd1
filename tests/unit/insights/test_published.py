"""A file that cannot be read is one clear sentence."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from manydesks.domain.errors import NoInsights
from manydesks.domain.insight import TABLES, VERSION
from manydesks.insights.damage import damage
from manydesks.insights.published import Insights, is_day


def make(path: Path, version: int = VERSION) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table meta (name text primary key, value text)")
        rows = {"version": version, "to_seq": 40, "built_at": 9}
        db.executemany("insert into meta values (?, ?)", [(name, str(value)) for name, value in rows.items()])
        for name in TABLES:
            db.execute(f"create table {name} (day text, agent text, ratio real)")
        db.execute("insert into slo values ('2026-01-01', 'ada', 0.5)")
        db.commit()


def drop(path: Path, table: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"drop table {table}")
        db.commit()


def test_a_file_is_read_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "odd ?name%20#.db"
    make(path)
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        found = Insights(path).table("slo", agent="ada")
        assert (found.rows, found.more, found.stamp.behind(43)) == ((("2026-01-01", "ada", 0.5),), False, 3)
        assert [(found.stamp.behind(head), found.stamp.ahead(head)) for head in (39, 40)] == [(0, 1), (0, 0)]
        assert [one.name for one in tmp_path.iterdir()] == [path.name]
    finally:
        tmp_path.chmod(0o700)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(NoInsights, match=r"none are published yet; `manydesks pipeline run` makes them"):
        Insights(tmp_path / "gold.db").table("slo")


@pytest.mark.parametrize("content", [b"", b"half a file", b"SQLite format 3\0" + b"\0" * 2_000])
def test_half_a_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gold.db"
    path.write_bytes(content)
    with pytest.raises(NoInsights, match="is damaged"):
        Insights(path).table("slo")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("delete from meta where name = 'to_seq'", "does not say how far it reaches"),
        ("update meta set value = 'far' where name = 'built_at'", "does not say how far it reaches"),
        ("update slo set agent = cast(x'ff' as text)", "decode"),
    ],
)
def test_words_that_nobody_published(tmp_path: Path, sql: str, words: str) -> None:
    path = tmp_path / "gold.db"
    make(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(sql)
        db.commit()
    with pytest.raises(NoInsights, match=f"is damaged .*{words}.*; `manydesks pipeline run` makes them"):
        Insights(path).table("slo")


def test_damage_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = tmp_path / "gold.db"
    assert damage(path) is None
    make(path)
    with closing(sqlite3.connect(path)) as db:
        db.executemany("insert into slo values ('2026-01-01', ?, 0.5)", [("ada" * 500,)] * 40)
        db.commit()
    whole = path.read_bytes()
    assert damage(path) is None
    for content, words in (
        (b"", "it is empty"),
        (b"garbage" * 400, "not a database"),
        (whole[:-1], f"it has {len(whole) - 1:,} of {len(whole):,} bytes"),
        (whole[:4096], f"it has 4,096 of {len(whole):,} bytes"),
        # a page that nobody looks at who only asks how far the file reaches
        (whole[:-4096] + b"\x55" * 4096, "page"),
        # for SQLite any bytes are text
        (whole.replace(b"adaada", b"ada\xff\xfea", 1), "utf-8"),
    ):
        path.write_bytes(content)
        assert words in str(damage(path))
    path.unlink()
    path.mkdir()
    assert damage(path) == "it is no file"
    with pytest.raises(NoInsights, match="is damaged"):
        Insights(path).stamp()
    make_without = tmp_path / "other.db"
    make(make_without)
    with closing(sqlite3.connect(make_without)) as db:
        db.execute("delete from meta where name = 'to_seq'")
        db.commit()
    assert damage(make_without) == "it does not say its to_seq"


def test_a_table_that_is_gone_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "gold.db"
    make(path)
    drop(path, "slo")
    assert damage(path) == "it has no table 'slo'"
    path.unlink()
    # another version may have called its tables otherwise
    make(path, version=VERSION + 1)
    drop(path, "slo")
    assert damage(path) is None


def test_another_version(tmp_path: Path) -> None:
    path = tmp_path / "gold.db"
    make(path, version=VERSION + 1)
    with pytest.raises(NoInsights, match="was made by another version"):
        Insights(path).stamp()


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "gold.db"
    make(path)
    drop(path, "busy_hours")
    with pytest.raises(NoInsights, match="has no table 'busy_hours'"):
        Insights(path).table("busy_hours")


def test_days() -> None:
    assert is_day("2026-02-28")
    assert not any(map(is_day, ("2026-02-29", "2026-2-1", "20260201", "today", "")))
