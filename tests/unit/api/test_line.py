"""Connections that say nothing, too little or nonsense are not kept, and those who speak are."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manydesks.api.server import Server, listen, port_of

HEAD = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
LARGE = 64 << 20
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """`/` at once, whatever its body; `/wait` never; `/large` and `/stream` more than a kernel keeps."""
    if scope["path"] == "/body":
        while (await receive()).get("more_body", False):
            pass
    if scope["path"] == "/wait":
        await asyncio.Event().wait()
    if scope["path"] in ("/large", "/stream"):
        if scope["path"] == "/stream":
            scope["manydesks.followed"]()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(LARGE // 65_536):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def serving(**bounds: Any) -> AsyncIterator[int]:
    server, listener = Server(answering, **bounds), listen("127.0.0.1", 0)
    port = port_of(listener)
    await server.open(listener)
    try:
        yield port
    finally:
        await server.close()


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What was still said until the other side hung up."""
    said = b""
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            while part := await reader.read(1 << 16):
                said += part
    return said


async def trickle(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("first", [b"", b"G", HEAD])
async def test_who_says_nothing_or_half_a_head_is_closed(first: bytes) -> None:
    async with serving(idle_seconds=0.3) as port:
        reader, writer = await connected(port)
        writer.write(first)
        assert await closed(reader) == b""
        writer.close()


async def test_a_head_that_comes_byte_by_byte_does_not_put_it_off() -> None:
    async with serving(idle_seconds=0.5) as port:
        reader, writer = await connected(port)
        slow = asyncio.create_task(trickle(writer, HEAD + b"X-A: " + b"y" * 10_000))
        assert await closed(reader) == b""
        slow.cancel()
        writer.close()


async def test_nor_does_a_second_one_or_a_body_that_nobody_reads() -> None:
    async with serving(idle_seconds=0.5) as port:
        for asked, more in ((HEAD + b"\r\n", HEAD + b"X-A: " + b"y" * 10_000), (POST, b"1\r\nx\r\n" * 2000)):
            reader, writer = await connected(port)
            writer.write(asked)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            slow = asyncio.create_task(trickle(writer, more))
            assert await closed(reader) == b""
            slow.cancel()
            writer.close()


async def test_who_is_being_answered_is_waited_for() -> None:
    async with serving(idle_seconds=0.2) as port:
        reader, writer = await connected(port)
        writer.write(HEAD.replace(b"/ ", b"/wait ", 1) + b"\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await reader.read(1)
        writer.close()


async def test_an_answer_that_nobody_reads_is_not_kept() -> None:
    async with serving(idle_seconds=0.3) as port:
        reader, writer = await connected(port)
        writer.write(HEAD.replace(b"/ ", b"/large ", 1) + b"\r\n")
        await asyncio.sleep(1.0)
        assert len(await closed(reader)) < LARGE
        writer.close()


async def test_one_that_is_read_slowly_is_sent_to_its_end_and_who_follows_may_rest() -> None:
    async with serving(idle_seconds=0.3) as port:
        for path, rests in ((b"/large ", 0.01), (b"/stream ", 1.0)):
            reader, writer = await connected(port)
            writer.write(HEAD.replace(b"/ ", path, 1) + b"Connection: close\r\n\r\n")
            read = 0
            await asyncio.sleep(rests)
            while part := await reader.read(1 << 20):
                read += len(part)
            assert read > LARGE
            writer.close()


async def test_with_too_many_the_one_that_is_silent_for_longest_goes() -> None:
    async with serving(most=3, idle_seconds=60) as port:
        busy_reader, busy = await connected(port)
        busy.write(HEAD.replace(b"/ ", b"/wait ", 1) + b"\r\n")
        await busy.drain()
        await asyncio.sleep(0.1)
        lines = []
        for _ in range(6):
            lines.append(await connected(port))
            await asyncio.sleep(0.02)
        for reader, _ in lines[:4]:
            assert await closed(reader) == b""
        for reader, writer in lines[4:]:
            writer.write(HEAD + b"\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert not busy_reader.at_eof()
        for _, writer in (*lines, (busy_reader, busy)):
            writer.close()


async def test_when_all_are_being_answered_the_newcomer_goes() -> None:
    async with serving(most=2, idle_seconds=60) as port:
        lines = [await connected(port) for _ in range(2)]
        for _, writer in lines:
            writer.write(HEAD.replace(b"/ ", b"/wait ", 1) + b"\r\n")
            await writer.drain()
        await asyncio.sleep(0.1)
        reader, writer = await connected(port)
        assert await closed(reader) == b""
        assert not any(reader.at_eof() for reader, _ in lines)
        for _, one in (*lines, (reader, writer)):
            one.close()


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"hello\r\n\r\n",
        HEAD + b"Host: evil\r\n\r\n",
        HEAD + b"Content-Length: +2\r\n\r\n",
    ],
)
async def test_nonsense_is_400_in_the_shape_of_all_errors(nonsense: bytes) -> None:
    async with serving() as port:
        reader, writer = await connected(port)
        writer.write(nonsense)
        head, _, body = (await closed(reader)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        assert b"application/json" in head
        assert list(json.loads(body)) == ["error"]
        writer.close()


async def test_nonsense_behind_an_answer_only_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as port:
        reader, writer = await connected(port)
        writer.write(POST)
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        writer.write(b"zz\r\nno chunk\r\n")
        assert await closed(reader) == b""
        writer.close()
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("begun", ["/body", "/wait"])
async def test_what_is_not_over_when_the_office_closes_leaves_no_traceback(
    begun: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("manydesks.api.server.CLOSING_SECONDS", 0)
    lines = []
    async with serving() as port:
        for _ in range(3):
            reader, writer = await connected(port)
            writer.write(f"POST {begun} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf".encode())
            await writer.drain()
            lines.append((reader, writer))
        other, asks = await connected(port)
        asks.write(HEAD + b"\r\n")
        await other.readuntil(b"ok")
        asks.close()
    for reader, writer in lines:
        assert await closed(reader) == b""
        writer.close()
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert "without starting response" not in caplog.text
