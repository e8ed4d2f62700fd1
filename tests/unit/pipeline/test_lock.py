from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from manydesks.domain.errors import LakeBusy, LakeWatched, PipelineError
from manydesks.pipeline.lock import hold, watcher, watching, worker


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


class Enough(Exception): ...


def test_who_waits_comes_before_who_comes_back(tmp_path: Path) -> None:
    """A watch under load takes the lake again at once: a run beside it must get its turn all the same."""
    waiting, order = threading.Event(), []

    def wait() -> None:
        with hold(tmp_path, patience=60, waits=lambda pid: waiting.set()):
            order.append("who waited")

    with ThreadPoolExecutor() as pool:
        with hold(tmp_path):
            other = pool.submit(wait)
            assert waiting.wait(60)
        with hold(tmp_path, patience=60):
            order.append("who came back")
        other.result()
    assert order == ["who waited", "who came back"]


def test_patience_ends(tmp_path: Path) -> None:
    with hold(tmp_path), pytest.raises(LakeBusy, match="wait for it to end"):
        hold(tmp_path, patience=0.1).__enter__()


def test_who_waits_can_be_called_away(tmp_path: Path) -> None:
    def call_away(pid: str) -> None:
        raise Enough

    with hold(tmp_path):
        with pytest.raises(Enough):
            hold(tmp_path, patience=60, waits=call_away).__enter__()
        with pytest.raises(Enough):  # its place in the line is free again
            hold(tmp_path, patience=60, waits=call_away).__enter__()
    with hold(tmp_path):
        pass


def test_one_watch_is_enough(tmp_path: Path) -> None:
    with watching(tmp_path):
        with pytest.raises(LakeWatched, match=rf"process {os.getpid()}\); one is enough"):
            watching(tmp_path).__enter__()
        with hold(tmp_path):  # but others may write between its rounds
            pass
    with watching(tmp_path):
        pass


def test_who_is_there_can_be_asked_without_being_in_the_way(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    assert (worker(lake), watcher(lake)) == (None, None)
    assert not lake.exists()
    me = str(os.getpid())
    with watching(lake), hold(lake):
        assert (worker(lake), watcher(lake)) == (me, me)
    assert (worker(lake), watcher(lake)) == (None, None)  # the files stay, with the old signature
    with hold(lake):
        pass
