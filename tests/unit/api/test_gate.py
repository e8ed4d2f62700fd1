"""The gate, asked as the server asks it: with the address that a request came from."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException

from manydesks.api import gate as gate_module
from manydesks.api.gate import Gate
from manydesks.office.inforce import InForce
from manydesks.settings.home import Home
from manydesks.settings.model import Settings
from manydesks.settings.token import token_of
from manydesks.testing.clock import ManualClock

Answer = tuple[int, dict[str, str], dict[str, Any]]


class Asked:
    """A gate before a room that answers 200, and says what it was sent."""

    def __init__(self, home: Home, listening: str | None = None, **api: Any) -> None:
        self.clock = ManualClock()
        self.token = token_of(home)
        settings = Settings.model_validate({"api": {"host": "0.0.0.0", **api}})
        in_force = InForce(settings)
        in_force.listening = listening
        self._gate = Gate(
            self._room,
            has_route=lambda scope: True,
            strange=lambda scope: None,
            home=home,
            in_force=in_force,
            clock=self.clock,
        )

    async def _room(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps({"body": body.decode()}).encode()})

    async def ask(
        self, address: str | None, path: str = "/api/queue/status", *, token: str | None = None, **headers: str
    ) -> Answer:
        given = {"host": "192.0.2.1:3777", "authorization": f"Bearer {token or self.token}", **headers}
        given = {name: value for name, value in given.items() if value}
        scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "scheme": "http",
            "client": (address, 40_000) if address is not None else None,
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        said: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await self._gate(scope, receive, send)
        heads = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        return said[0]["status"], heads, json.loads(said[1]["body"])


@pytest.fixture
def at_home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


@pytest.mark.parametrize("address", ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7", "10.0.0.7"])
async def test_another_machine_is_counted_by_the_minute(at_home: Home, address: str) -> None:
    asked = Asked(at_home, per_minute=5)
    assert [(await asked.ask(address))[0] for _ in range(7)] == [200] * 5 + [429] * 2
    status, headers, body = await asked.ask(address)
    assert (status, list(body)) == (429, ["error"])
    assert 1 <= int(headers["retry-after"]) <= 12
    # that is when the next one may come, and no sooner
    asked.clock.advance((int(headers["retry-after"]) - 1) * 1000)
    assert (await asked.ask(address))[0] == 429
    asked.clock.advance(1000)
    assert (await asked.ask(address))[0] == 200


async def test_nobody_comes_in_unknown_where_other_machines_ask(at_home: Home) -> None:
    """Whatever the settings say by now: what counts is the address that is listened at."""
    asked = Asked(at_home, "192.0.2.1", host="127.0.0.1", auth="none")
    assert (await asked.ask("192.0.2.7", authorization="", host="localhost"))[0] == 401
    assert (await asked.ask("192.0.2.7", host="localhost"))[0] == 200
    asked = Asked(at_home, "127.0.0.1", host="127.0.0.1", auth="none")
    assert (await asked.ask("127.0.0.1", authorization="", host="127.0.0.1"))[0] == 200


async def test_other_addresses_are_its_names_where_it_listens_at_one(at_home: Home) -> None:
    assert (await Asked(at_home, "192.0.2.1", host="127.0.0.1").ask("192.0.2.7"))[0] == 200
    assert (await Asked(at_home, "127.0.0.1", host="192.0.2.1").ask("127.0.0.1"))[0] == 403


async def test_each_machine_for_itself_and_this_one_not_at_all(at_home: Home) -> None:
    asked = Asked(at_home, per_minute=1)
    for address in ("192.0.2.7", "192.0.2.8"):
        assert [(await asked.ask(address))[0] for _ in range(2)] == [200, 429]
    for address in ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"):
        assert {(await asked.ask(address))[0] for _ in range(20)} == {200}
    # nobody knows where it came from, so it is not from here
    assert [(await asked.ask(None))[0] for _ in range(2)] == [200, 429]


async def test_who_is_counted_cannot_say_that_he_is_another(at_home: Home) -> None:
    asked = Asked(at_home, per_minute=1)
    tricks = ({"x-forwarded-for": "127.0.0.1"}, {"forwarded": "for=127.0.0.1"}, {"x-real-ip": "::1"})
    assert (await asked.ask("192.0.2.7"))[0] == 200
    for headers in tricks:
        assert (await asked.ask("192.0.2.7", **headers))[0] == 429


async def test_documents_and_wrong_tokens_count_too(at_home: Home) -> None:
    asked = Asked(at_home, per_minute=2)
    assert (await asked.ask("192.0.2.7", "/api/docs"))[0] == 200
    assert (await asked.ask("192.0.2.7", token="x" * 43))[0] == 401
    assert (await asked.ask("192.0.2.7"))[0] == 429


async def test_a_body_that_does_not_come_to_its_end_is_408(at_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_module, "BODY_SECONDS", 0.2)
    came = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Any:
        if not came:
            await asyncio.Event().wait()
        return came.pop()

    limited = gate_module._Limited(receive, 100)
    assert (await limited())["body"] == b"{"
    with pytest.raises(HTTPException) as refused:
        await limited()
    assert refused.value.status_code == 408
