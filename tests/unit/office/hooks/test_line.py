"""A plugin's process that has ended, has company, or will say no more: what it said itself counts, and nobody waits for
the rest."""

from __future__ import annotations

import asyncio
import contextlib
import os
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


async def ask(line: Line, hook: str, text: str, seconds: float = 10.0) -> str:
    return str(
        (await line.ask(hook, "f" if hook == "incoming" else "g", {"text": text}, seconds, lambda: None))["text"]
    )


FORKS = {
    # the child comes back from the function, as its parent does
    "returns": "os.fork() if 'fork' in message.text else 0",
    "raises": "if 'fork' in message.text and os.fork() == 0: open('/nonexistent/x')",
    "exits": "if 'fork' in message.text and os.fork() == 0: raise SystemExit(3)",
    "prints": 'if \'fork\' in message.text and os.fork() == 0: print(\'{"number": 1, "text": "no"}\', flush=True)',
    "writes": "if 'fork' in message.text and os.fork() == 0: [os.write(n, b'{}\\n') for n in range(3, 9) if open_(n)]",
}


@pytest.mark.parametrize("code", FORKS.values(), ids=FORKS)
async def test_a_process_that_a_hook_forks_has_no_part_in_the_line(plugin: Write, line: Open, code: str) -> None:
    plugin("forker", f"""
        import os
        def open_(number):
            try:
                os.fstat(number)
            except OSError:
                return False
            return True
        @incoming
        def f(message):
            {code}
            message.text += " [seen]"
        @outgoing
        def g(answer):
            answer.text += " [sent]"
        """)  # fmt: skip
    one = line()
    for number in range(4):
        assert await ask(one, "incoming", f"fork {number}") == f"fork {number} [seen]"
        assert await ask(one, "outgoing", f"answer {number}") == f"answer {number} [sent]"


async def test_an_async_hook_that_forks_answers_once(plugin: Write, line: Open) -> None:
    plugin("forker", "import asyncio, os\n@incoming\nasync def f(message):\n    os.fork()\n    await asyncio.sleep(0)")
    one = line()
    assert [await ask(one, "incoming", text) for text in "abc"] == ["a", "b", "c"]


async def test_a_plugin_that_forks_while_it_is_loaded_is_loaded_once(plugin: Write, line: Open) -> None:
    plugin("forker", "import os\nos.fork()\n@incoming\ndef f(message): message.text += '!'")
    one = line()
    assert [await ask(one, "incoming", text) for text in "ab"] == ["a!", "b!"]


async def test_an_answer_to_another_call_ends_the_process_and_is_nobodys(plugin: Write, line: Open) -> None:
    # something on the line that is not ours: the answer to the next call is there before it is asked
    plugin("odd", """
        import gc, io
        @incoming
        def f(message):
            if "odd" in message.text:
                (out,) = [o for o in gc.get_objects() if isinstance(o, io.BufferedWriter) and o.fileno() > 2]
                out.write(b'{"number": 0, "text": "of another", "metadata": {}}\\n')
        @outgoing
        def g(answer): answer.text += " [sent]"
        """)  # fmt: skip
    one = line()
    with pytest.raises(ProcessLost, match="something else than the answer to this call"):
        await ask(one, "incoming", "odd")
    assert await ask(one, "outgoing", "answer") == "answer [sent]"
    assert await ask(one, "incoming", "even") == "even"


APART = {
    "session": "subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=out)",
    "session without our environment": "subprocess.Popen(['sleep', '600'], start_new_session=True, env={}, stdout=out)",
    # its parent is gone, and its session its own: nothing in the tree tells whose it is
    "daemon": "subprocess.run(['setsid', '--fork', 'sleep', '600'], stdout=out)",
}


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("how", ["hangs", "ends", "is closed"])
@pytest.mark.parametrize("start", APART.values(), ids=APART)
async def test_all_that_it_started_ends_with_it(
    plugin: Write, line: Open, start: str, how: str, tmp_path: Path
) -> None:
    if how == "ends" and "env={}" in start:
        pytest.skip("not promised: it has lost its parent, and nothing says whose it was")
    os.mkfifo(fifo := tmp_path / "fifo")
    then = {"hangs": "time.sleep(600)", "ends": "os._exit(3)", "is closed": "pass"}[how]
    plugin("busy", f"""
        import os, subprocess, time
        @incoming
        def f(message):
            with open({str(fifo)!r}, 'w') as out:
                print('begun', file=out, flush=True)
                p = {start}
            {then}
        """)  # fmt: skip
    one, held = line(), os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if how == "is closed":
            await ask(one, "incoming", "hello")
            assert os.read(held, 100) == b"begun\n"
            with pytest.raises(BlockingIOError):  # somebody has it open
                os.read(held, 100)
            await one.close()
        else:
            with pytest.raises(ProcessLost):
                await ask(one, "incoming", "hello", 2.0)
            assert os.read(held, 100) == b"begun\n"
        assert os.read(held, 100) == b""
    finally:
        os.close(held)
