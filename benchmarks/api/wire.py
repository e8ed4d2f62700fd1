"""Connections that cost little on this side: requests written by hand, answers read just as far as is needed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class Line:
    """One connection that is kept."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        self._host, self._port = str(place.hostname), int(place.port or 80)
        self._head = f"Host: {place.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> Line:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, value: Any = None) -> int:
        """The status; the body is read and thrown away."""
        body = json.dumps(value).encode() if value is not None else b""
        kind = "Content-Type: application/json\r\n" if value is not None else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind}Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        found = await self._reader.readuntil(b"\r\n\r\n")
        length = int(found.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await self._reader.readexactly(length)
        return int(found[9:12])

    async def follow(self, heard: Callable[[int, int, float], None]) -> None:
        """Each event: its number, when it happened (ms), and when it was here."""
        self._writer.write(f"GET /api/events/stream HTTP/1.1\r\n{self._head}\r\n".encode())
        seq = 0
        async for line in self._reader:
            if line.startswith(b"id: "):
                seq = int(line[4:])
            elif line.startswith(b"data: ") and seq:
                at = int(line.split(b'"at":')[1].split(b",")[0])
                heard(seq, at, time.time() * 1000)
                seq = 0


async def lines(url: str, token: str, count: int) -> list[Line]:
    return [await Line(url, token).open() for _ in range(count)]
