"""What a runner sets up for programs, by what the provider's descriptor says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from manydesks.runner.equipment import equipped
from manydesks.runner.orders import Orders
from manydesks.runner.providers.base import Descriptor
from manydesks.runner.providers.rehearsal import Rehearsal


def descriptor(**more: Any) -> Descriptor:
    return Descriptor(name="fake", in_process=False, load=lambda station: Rehearsal(), **more)


def orders(folder: Path, socket: Path | None) -> Orders:
    way = {"kind": "openai", "socket": str(socket), "prefix": "/openai"} if socket else None
    given: dict[str, Any] = {"agent": "amy", "name": "Amy", "provider": "fake", "model": None, "endpoint": way}
    places = {"workspace": str(folder), "folder": str(folder)}
    return Orders(**given, **places, sandboxed=True, idle_seconds=1, poll_seconds=1)


async def test_a_program_that_speaks_tcp_reaches_the_door(home: Path) -> None:
    async def door(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.readline())
        writer.close()

    socket = home.parent / "door"
    server = await asyncio.start_unix_server(door, str(socket))
    async with equipped(descriptor(endpoint="openai", needs_tcp=True), orders(home, socket)) as equipment:
        endpoint = equipment.station.endpoint
        assert endpoint is not None
        assert endpoint.port is not None
        assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/openai"
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"hello\n")
        assert await reader.read() == b"heard hello\n"
        writer.close()
        await writer.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", endpoint.port)
    server.close()


async def test_nothing_that_was_not_asked_for(home: Path) -> None:
    async with equipped(descriptor(endpoint="openai"), orders(home, home.parent / "door")) as equipment:
        assert equipment.tools is None
        assert equipment.station.tools_url is None
        assert equipment.station.endpoint is not None
        assert equipment.station.endpoint.port is None
    async with equipped(descriptor(needs_tcp=True), orders(home, None)) as equipment:
        assert equipment.station.endpoint is None


async def test_a_program_gets_the_tools(home: Path) -> None:
    async with equipped(descriptor(program="x"), orders(home, None)) as equipment:
        assert equipment.tools is not None
        assert equipment.station.tools_url is not None
        assert equipment.station.tools_url.startswith("http://127.0.0.1:")
