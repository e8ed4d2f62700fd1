from __future__ import annotations

from pathlib import Path

import pytest

from manydesks.desk.sandboxes.base import Descriptor
from manydesks.desk.sandboxes.registry import GROUP, Sandboxes
from manydesks.domain.errors import BadInput


def test_the_built_in_ones_are_there() -> None:
    assert {"none", "bubblewrap"} <= set(Sandboxes().names())
    assert Sandboxes().get("bubblewrap").isolates
    assert not Sandboxes().get("none").isolates


def test_an_unknown_one_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"no sandbox 'jail'; there are bubblewrap, none"):
        Sandboxes().get("jail")


def test_a_stranger_comes_through_the_same_door_but_takes_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stranger_with_a_box.py").write_text(
        "from manydesks.desk.sandboxes.base import Descriptor\n"
        "one = Descriptor(name='box', isolates=True, load=lambda: None)\n"
        "taken = Descriptor(name='bubblewrap', isolates=False, load=lambda: None)\n"
    )
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\na = stranger_with_a_box:one\nb = stranger_with_a_box:taken\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = Sandboxes()
    assert isinstance(found.get("box"), Descriptor)
    assert found.get("bubblewrap").isolates
