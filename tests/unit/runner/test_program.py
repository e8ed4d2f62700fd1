from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.runner.program import BUNDLED, find_program


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_option_rules_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "tool")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    given = program(tmp_path / "other")
    assert find_program("tool", given=str(given)) == given
    assert find_program("tool", given=str(tmp_path / "nowhere")) is None


def test_the_path_and_links_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = program(tmp_path / "lib" / "tool-1.0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_program("tool") == real


def test_the_copy_that_a_package_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "brings_tool").mkdir()
    (tmp_path / "brings_tool" / "__init__.py").write_text("raise RuntimeError('is not imported')")
    inside = program(tmp_path / "brings_tool" / "_bundled" / "tool")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_program("tool") is None
    for package, place, found in (
        ("brings_tool", "_bundled/tool", inside),
        ("brings_tool", "_bundled/gone", None),
        ("not_installed_at_all", "tool", None),
    ):
        monkeypatch.setitem(BUNDLED, "tool", (package, place))
        assert find_program("tool") == found


def test_what_cannot_be_run_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    assert find_program("tool", given=str(tmp_path / "text")) is None
    assert find_program("tool", given=str(tmp_path)) is None
