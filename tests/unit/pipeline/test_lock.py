from __future__ import annotations

import os
from pathlib import Path

import pytest

from manydesks.domain.errors import LakeBusy, PipelineError
from manydesks.pipeline.lock import hold


def test_the_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with hold(lake) as held:
        assert held.folder == lake
        with pytest.raises(LakeBusy, match=f"process {os.getpid()}"), hold(lake):
            pass
    with hold(lake):
        pass


def test_the_lock_is_freed_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(tmp_path):
        raise ZeroDivisionError
    with hold(tmp_path):
        pass


def test_a_lake_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(PipelineError, match="file/lake cannot be used, a part of the path is not a folder"):
        hold(tmp_path / "file" / "lake").__enter__()
    assert (tmp_path / "file").read_text() == "kept"


def test_a_lock_that_is_a_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(PipelineError, match=r"\.lock cannot be used, it is a folder"):
        hold(tmp_path).__enter__()


def test_another_lake_is_another_lock(tmp_path: Path) -> None:
    with hold(tmp_path / "one"), hold(tmp_path / "two"):
        pass
