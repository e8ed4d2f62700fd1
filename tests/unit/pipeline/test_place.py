from __future__ import annotations

import os
from pathlib import Path

import pytest

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.place import check_place, here, place_of, spark_path, spark_pattern, uri
from manydesks.pipeline.remote import Remote


@pytest.mark.parametrize("name", ["lake", "a:b", "[old] {lake} *?", "^|~ ü\x85"])
def test_most_names_are_fine_and_nothing_is_made(tmp_path: Path, name: str) -> None:
    check_place(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a:[b]", "*/a:b", "a:b/{c}", "a:?"])
def test_a_colon_and_a_pattern_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="must not have both a ':' and one of"):
        check_place(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my%20lake", r"my%20lake/lake must not have a '%' in its path\.$"),
        ("back\\slash", r"back\\slash/lake must not have a '\\' in its path\.$"),
        ("two\nlines", r"two\\nlines/lake' must have no control characters and only UTF-8 in its path\.$"),
        ("\x01", r"/\\x01/lake' must have no control characters"),
        ("\x7f", r"/\\x7f/lake' must have no control characters"),
        (os.fsdecode(b"\xff"), r"/\\udcff/lake' must have no control characters and only UTF-8"),
    ],
)
def test_what_delta_does_not_take_is_refused(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(PipelineError, match=told):
        check_place(tmp_path / name / "lake")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "link").symlink_to(name)
    with pytest.raises(PipelineError, match=told):
        check_place(tmp_path / "link" / "lake")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="file cannot be used, it is not a folder"):
        check_place(tmp_path / "file")
    with pytest.raises(PipelineError, match="a part of the path is not a folder"):
        check_place(tmp_path / "file" / "lake")


def test_a_link_to_nothing_is_no_empty_lake(tmp_path: Path) -> None:
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    with pytest.raises(PipelineError, match=r"lake cannot be used, it is a link to .*disk, where nothing is"):
        check_place(tmp_path / "lake")
    (tmp_path / "disk").mkdir()
    check_place(tmp_path / "lake")


def test_a_place_of_a_setting(tmp_path: Path) -> None:
    own = tmp_path / "lake"
    assert place_of("", own) == own
    assert place_of("/srv/lake", own) == Path("/srv/lake")
    lake = place_of("s3a://bucket/a//lake/", own)
    assert isinstance(lake, Remote)
    assert (here(lake), here(own)) == (own, own)
    check_place(lake)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "delta", "spark"),
    [
        ("s3://bucket/lake", "s3://bucket/lake", "s3a://bucket/lake"),
        ("s3a://bucket/lake/", "s3://bucket/lake", "s3a://bucket/lake"),
        ("gs://bucket/a/b", "gs://bucket/a/b", "gs://bucket/a/b"),
        ("abfss://box@who.dfs.core.windows.net/lake", *["abfss://box@who.dfs.core.windows.net/lake"] * 2),
        ("hdfs://node:9000/lake", "hdfs://node:9000/lake", "hdfs://node:9000/lake"),
    ],
)
def test_how_delta_and_spark_write_a_uri(setting: str, delta: str, spark: str) -> None:
    lake = place_of(setting, Path("/home/lake"))
    assert uri(lake) == str(lake) == delta
    assert spark_path(lake) == spark_pattern(lake) == spark
    assert spark_path(lake / "silver/runs" / "data") == f"{spark}/silver/runs/data"


def test_what_lies_in_a_remote_place() -> None:
    lake = Remote.at("s3://bucket/lake", Path("/home/lake"))
    file = lake / "bronze/events" / "data" / "abc" / "part.parquet"
    assert file.name == "part.parquet"
    assert file.relative_to(lake / "bronze/events").as_posix() == "data/abc/part.parquet"
    assert file.relative_to(lake).as_posix() == "bronze/events/data/abc/part.parquet"
    assert str(file.absolute()) == "s3://bucket/lake/bronze/events/data/abc/part.parquet"
    assert file == lake / "bronze" / "events/data/abc/part.parquet"
    assert sorted([lake / "b", lake / "a"]) == [lake / "a", lake / "b"]
    assert "secret" not in repr(file)


def test_a_path_is_as_spark_takes_it(tmp_path: Path) -> None:
    assert spark_pattern(Path("/a/[b]*")) == r"/a/\[b\]\*"
    assert spark_path(Path("/a/[b]*")) == "/a/[b]*"
