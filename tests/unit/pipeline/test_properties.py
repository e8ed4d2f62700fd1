from __future__ import annotations

import stat
from pathlib import Path

from manydesks.pipeline.properties import properties_file


def test_only_its_owner_can_read_it_and_it_goes(tmp_path: Path) -> None:
    with properties_file(tmp_path, {"spark.a": "b"}) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == "spark.a=b\n"
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_left_behind_is_replaced(tmp_path: Path) -> None:
    with properties_file(tmp_path, {}) as path:
        pass
    path.write_text("old")
    path.chmod(0o644)
    with properties_file(tmp_path, {"spark.a": "new"}) as again:
        assert again == path
        assert stat.S_IMODE(again.stat().st_mode) == 0o600


def test_a_value_is_written_as_java_reads_it(tmp_path: Path) -> None:
    values = {"spark.a": " x ", "spark.b": "a\\b=c:d#e", "spark.c": "one\ntwo\tthree", "spark.d": "é"}
    with properties_file(tmp_path, values) as path:
        assert path.read_text(encoding="utf-8").splitlines() == [
            "spark.a=\\ x ",
            "spark.b=a\\\\b=c:d#e",
            "spark.c=one\\ntwo\\tthree",
            "spark.d=é",
        ]
