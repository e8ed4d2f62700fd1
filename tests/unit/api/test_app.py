"""The application when something in it fails that nobody expected."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.api.app import make_app
from manydesks.api.hub import Hub
from manydesks.api.readers import Readers
from manydesks.office.inforce import InForce
from manydesks.office.surface import Premises
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.settings.token import token_of
from manydesks.testing.clock import ManualClock


async def test_a_fault_is_told_as_every_error_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    home = Home(tmp_path / "home")
    home.prepare()

    async def act(verb: str, args: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError("only for the log")

    async def reread() -> None:
        pass

    premises = Premises(
        home=home,
        in_force=InForce(Settings()),
        clock=ManualClock(),
        act=act,
        show=lambda line: None,
        reread=reread,
        at_work=frozenset,
        on_commit=lambda bell: None,
        on_live=lambda bell: None,
    )
    readers = Readers(home)
    app = make_app(premises, readers, Hub(readers))
    headers = {"Authorization": f"Bearer {token_of(home)}"}
    transport = httpx.ASGITransport(app=app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as api:
            with caplog.at_level(logging.ERROR):
                answer = await api.get("/api/hooks")
    finally:
        readers.close()
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/json")
    assert answer.json() == {"error": "The office failed to do this; its log says more (`manydesks logs`)."}
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "only for the log" in caplog.text
