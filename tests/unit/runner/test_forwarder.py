"""Bytes between a port on loopback and a Unix socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from manydesks.runner.forwarder import Forwarder

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def forwarding(home: Path, serve: Serve) -> AsyncIterator[Forwarder]:
    before = asyncio.all_tasks()
    server = await asyncio.start_unix_server(serve, str(home.parent / "s"))
    forwarder = Forwarder(home.parent / "s")
    await forwarder.start()
    try:
        yield forwarder
    finally:
        await forwarder.stop()
        server.close()
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left or not (await asyncio.wait(left, timeout=1))[1]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65_536):
        writer.write(piece)
        await writer.drain()
    writer.write(b"the end")
    writer.close()


async def test_bytes_go_both_ways_and_each_half_ends_by_itself(home: Path) -> None:
    body = os.urandom(1024) * 4096
    async with forwarding(home, echo) as forwarder:
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        heard = asyncio.ensure_future(reader.read())
        writer.write(body)
        writer.write_eof()
        assert await heard == body + b"the end"
        writer.close()


async def test_many_lines_at_once(home: Path) -> None:
    async def ask(port: int, word: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(word)
        writer.write_eof()
        heard = await reader.read()
        writer.close()
        return heard

    async with forwarding(home, echo) as forwarder:
        words = [b"word %d " % number for number in range(50)]
        assert await asyncio.gather(*(ask(forwarder.port, word) for word in words)) == [w + b"the end" for w in words]


async def test_a_program_that_leaves_is_seen_by_the_proxy(home: Path) -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()
        writer.close()

    async with forwarding(home, silent) as forwarder:
        _, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        writer.write(b"hello")
        await writer.drain()
        writer.close()
        await left.wait()


async def test_a_proxy_that_breaks_off_is_seen_by_the_program(home: Path) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"half")
        await writer.drain()
        writer.close()

    async with forwarding(home, half) as forwarder:
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        writer.write(b"x")
        assert await reader.read() == b"half"
        writer.close()


async def test_without_a_proxy_the_line_breaks(home: Path) -> None:
    forwarder = Forwarder(home / "nothing")
    await forwarder.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
    assert await reader.read() == b""
    writer.close()
    await forwarder.stop()


async def test_stopping_cuts_what_is_open(home: Path) -> None:
    arrived = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await reader.read()
        writer.close()

    async with forwarding(home, silent) as forwarder:
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        await arrived.wait()
        await forwarder.stop()
        assert await reader.read() == b""
        writer.close()


async def test_a_port_that_is_taken_is_said(home: Path) -> None:
    async with forwarding(home, echo) as forwarder:
        with pytest.raises(OSError, match="in use"):
            await Forwarder(home.parent / "s", port=forwarder.port).start()
