from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.office import search
from manydesks.office.search import holds


def test_found_or_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\0" * 1000 + "süß".encode() + b"\xff" * 1000)
    assert holds(path, ["nothing", "süß"])
    assert not holds(path, ["nothing"])
    with pytest.raises(OSError, match="could not be looked through"):
        holds(tmp_path / "gone", ["x"])


def test_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 13 + b"needle" + b"b" * 30)
    for size in range(1, 25):
        monkeypatch.setattr(search, "BLOCK", size)
        assert search.search(path, [b"needle"])
        assert not search.search(path, [b"needles", b"nothing at all"])
