"""A plugin's process that has ended, or will say no more: what it said counts, and nobody waits for the rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from manydesks.office.hooks.found import find
from manydesks.office.hooks.line import HookFailed, Line, ProcessLost
from manydesks.settings.home import Home

Write = Callable[[str, str], Path]
Open = Callable[[], Line]


@pytest.fixture
async def line(the_home: Home) -> AsyncIterator[Open]:
    """The line to the one plugin that there is."""
    opened: list[Line] = []

    def open_line() -> Line:
        (found,) = find(the_home.plugins)
        opened.append(Line(found, the_home))
        return opened[-1]

    yield open_line
    for one in opened:
        await one.close()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The office gets to a process only when it has ended and its pipe is seen to be closed, as on a busy machine."""
    begin = asyncio.create_subprocess_exec

    async def begin_and_wait(*argv: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await begin(*argv, **options)
        assert process.stdin is not None
        await process.wait()
        with contextlib.suppress(ConnectionError):
            await process.stdin.wait_closed()
        return process

    monkeypatch.setattr("manydesks.office.hooks.line.asyncio.create_subprocess_exec", begin_and_wait)


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize(
    ("code", "words"), [("this is no Python", "SyntaxError"), ("import os; os._exit(4)", "ended with 4")]
)
async def test_the_last_words_of_a_process_that_has_ended_are_read(
    plugin: Write, line: Open, code: str, words: str
) -> None:
    plugin("bad", code)
    with pytest.raises(HookFailed, match=words):
        await line().hooks()


async def test_one_that_hangs_up_and_stays_is_ended_when_its_time_is_over(plugin: Write, line: Open) -> None:
    plugin("deaf", "import os, time\n@incoming\ndef f(message):\n    os.closerange(3, 64)\n    time.sleep(600)")
    asked = line().ask("incoming", "f", {"text": "hello"}, 0.3, lambda: None)
    async with asyncio.timeout(20):
        with pytest.raises(ProcessLost, match=r"it took more than 0\.3 s"):
            await asked
