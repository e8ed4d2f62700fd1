from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from manydesks.runner.bell import LINE_BYTES, PIECE, WRITTEN, HostPipe, progress_of


class Pipes:
    def __init__(self) -> None:
        self.stdin, self.to_runner = os.pipe()
        self.from_runner, self.stdout = os.pipe()

    def heard(self) -> bytes:
        os.set_blocking(self.from_runner, False)
        try:
            return os.read(self.from_runner, 1 << 20)
        except BlockingIOError:
            return b""


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    yield made
    for handle in (made.stdin, made.to_runner, made.from_runner, made.stdout):
        try:
            os.close(handle)
        except OSError:
            continue  # the test closed it


async def test_a_byte_is_a_nudge_and_the_end_is_the_end(pipes: Pipes) -> None:
    pipe = HostPipe(pipes.stdin, pipes.stdout)
    pipe.open()
    os.write(pipes.to_runner, b"\n\n\n")
    async with asyncio.timeout(10):
        await pipe.nudged.wait()
    assert not pipe.gone.is_set()
    pipe.nudged.clear()
    os.close(pipes.to_runner)
    async with asyncio.timeout(10):
        await pipe.gone.wait()
    assert pipe.nudged.is_set()


async def test_what_is_said_comes_in_short_lines(pipes: Pipes) -> None:
    pipe = HostPipe(pipes.stdin, pipes.stdout)
    pipe.open()
    pipe.written()
    text = "ünïcödé 🎈 " * 200
    pipe.progress(text)
    pipe.close()
    first, *lines = pipes.heard().splitlines(keepends=True)
    assert first == WRITTEN
    assert all(len(line) <= LINE_BYTES for line in lines)
    assert "".join(progress_of(line) or "?" for line in lines) == text


async def test_a_host_that_does_not_listen_holds_nobody_up(pipes: Pipes) -> None:
    pipe = HostPipe(pipes.stdin, pipes.stdout)
    pipe.open()
    for _ in range(200_000):
        pipe.written()
    pipe.progress("x" * PIECE * 10)
    assert pipes.heard().startswith(WRITTEN)
    os.close(pipes.from_runner)
    pipe.written()
    pipe.close()


@pytest.mark.parametrize(
    "line", [b".", b"", b"{", b"{}", b'{"progress": 1}', b'{"progress": null}', b"[1]", b"{" * 4000, b'{"x": "y"}']
)
def test_other_lines_are_no_progress(line: bytes) -> None:
    assert progress_of(line) is None


def test_a_long_piece_is_cut() -> None:
    assert progress_of(b'{"progress": "' + b"x" * 3000 + b'"}') == "x" * PIECE
