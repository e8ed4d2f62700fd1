"""A desk finds the runner's code compiled."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

import manydesks
from manydesks.desk.code import compile_code


def test_everything_that_a_runner_may_import_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "manydesks"
    shutil.copytree(
        manydesks.__path__[0], package, ignore=shutil.ignore_patterns("__pycache__", "pipeline", "testing", "cli")
    )
    monkeypatch.setattr(manydesks, "__path__", [str(package)])
    compile_code()
    for room in ("domain", "mailbox", "runner"):
        sources = list((package / room).rglob("*.py"))
        assert sources
        assert [file for file in sources if not Path(importlib.util.cache_from_source(str(file))).exists()] == []
    assert not list((package / "office").rglob("*.pyc"))


def test_a_package_that_cannot_be_written_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "manydesks"
    (package / "domain").mkdir(parents=True)
    (package / "domain" / "broken.py").write_text("def (")
    (package / "domain" / "__pycache__").write_text("in the way")
    monkeypatch.setattr(manydesks, "__path__", [str(package)])
    compile_code()
