from __future__ import annotations

import stat
from pathlib import Path

import pytest

from manydesks.domain.errors import MailboxError
from manydesks.runner.orders import FILE, Orders, read_orders


def orders(folder: Path, **more: object) -> Orders:
    given = {
        "agent": "amy",
        "name": "Amy «A»",
        "provider": "rehearsal",
        "model": None,
        "workspace": "/w",
        "folder": str(folder),
        "sandboxed": True,
        "idle_seconds": 5,
        "poll_seconds": 1.5,
    }
    return Orders(**{**given, **more})  # type: ignore[arg-type]


def test_what_is_laid_down_is_what_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    way = {"kind": "anthropic", "socket": "/run/px", "prefix": "/lm"}
    given = orders(tmp_path, options={"warm": True, "list": [1, "a"]}, endpoint=way, continuation="c-1")
    for _ in range(2):
        given.write()
    assert read_orders(tmp_path / "in") == given
    assert stat.S_IMODE((tmp_path / "in" / FILE).stat().st_mode) == 0o600
    assert [path.name for path in (tmp_path / "in").iterdir()] == [FILE]


def test_the_station_of_a_desk(tmp_path: Path) -> None:
    way = {"kind": "anthropic", "socket": "/run/px", "prefix": "/lm"}
    station = orders(tmp_path, endpoint=way).station(tools_url="http://127.0.0.1:1/mcp")
    assert station.endpoint is not None
    assert (station.endpoint.kind, station.endpoint.socket, station.endpoint.prefix) == (
        "anthropic",
        Path("/run/px"),
        "/lm",
    )
    assert (station.state, station.inbox) == (tmp_path / "state", tmp_path / "in" / "inbox")
    assert (station.sandboxed, station.tools_url) == (True, "http://127.0.0.1:1/mcp")
    assert orders(tmp_path).station().endpoint is None


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"agent": "amy"}', '{"unknown": 1}'])
def test_what_is_not_whole_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises(MailboxError, match=r"desk\.json cannot be read"):
        read_orders(tmp_path)
