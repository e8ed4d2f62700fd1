from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.domain.errors import PipelineError
from manydesks.pipeline.place import check_place


@pytest.mark.parametrize("name", ["lake", "a:b", "[old] {lake} *?", "back\\slash"])
def test_most_names_are_fine_and_nothing_is_made(tmp_path: Path, name: str) -> None:
    check_place(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a:[b]", "*/a:b", "a:b/{c}", "a:?", "a:\\"])
def test_a_colon_and_a_pattern_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="must not have both a ':' and one of"):
        check_place(tmp_path / name)


def test_a_percent_sign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="must not have a '%' in its path"):
        check_place(tmp_path / "my%20lake")


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="file cannot be used, it is not a folder"):
        check_place(tmp_path / "file")
    with pytest.raises(PipelineError, match="a part of the path is not a folder"):
        check_place(tmp_path / "file" / "lake")
