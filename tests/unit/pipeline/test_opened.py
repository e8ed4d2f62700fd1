"""Tables that are kept open: nobody ever sees an old snapshot because of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from deltalake.exceptions import TableNotFoundError

from manydesks.pipeline import opened as module
from manydesks.pipeline.opened import is_table, opened


def add(folder: Path, *numbers: int) -> None:
    deltalake.write_deltalake(folder, pa.table({"number": list(numbers)}), mode="append")


def count(folder: Path) -> int:
    return sum(entry["num_records"] for entry in opened(folder).files)


def test_a_table_is_opened_once_until_somebody_writes_to_it(tmp_path: Path) -> None:
    add(tmp_path, 1, 2)
    first = opened(tmp_path)
    assert opened(tmp_path) is first
    assert opened(tmp_path).files is first.files
    assert count(tmp_path) == 2
    add(tmp_path, 3)
    assert count(tmp_path) == 3
    assert opened(tmp_path).table.version() == 1
    assert first.table.version() == 0, "whoever holds an older snapshot keeps it"


def test_a_count_is_that_of_the_snapshot(tmp_path: Path) -> None:
    add(tmp_path, 1)
    before = opened(tmp_path)
    assert before.count("x") == 0
    counted = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("x", 7)])
    deltalake.write_deltalake(tmp_path, pa.table({"number": [2]}), mode="append", commit_properties=counted)
    assert opened(tmp_path).count("x") == 7
    assert before.count("x") == 0


def test_a_table_that_is_made_anew_is_another(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    for numbers in ((1, 2), (3,)):
        add(folder, *numbers)
    assert count(folder) == 3
    shutil.rmtree(folder)
    assert not is_table(folder)
    with pytest.raises(TableNotFoundError):
        opened(folder)
    for numbers in ((1,), (2,)):
        add(folder, *numbers)
    assert count(folder) == 2


def test_an_older_entry_may_go_from_the_log(tmp_path: Path) -> None:
    for number in range(3):
        add(tmp_path, number)
    opened(tmp_path).table.create_checkpoint()
    before = opened(tmp_path)
    for number in range(2):
        (tmp_path / "_delta_log" / f"{number:020d}.json").unlink()
    assert opened(tmp_path) is not before, "it would look for what is gone"
    assert opened(tmp_path).count("x") == 0
    assert count(tmp_path) == 3
    add(tmp_path, 3)
    assert count(tmp_path) == 4


def test_not_all_tables_are_kept_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    monkeypatch.setattr(module, "_known", {})
    for name in "abc":
        add(tmp_path / name, 1)
        opened(tmp_path / name)
    assert list(module._known) == [tmp_path / "b", tmp_path / "c"]
    assert count(tmp_path / "a") == 1
