"""A program that calls itself claude and behaves badly: each day ends classified, with a readable reason."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manydesks.domain.mail import Inbound
from manydesks.runner.providers.base import Answer, Endpoint, Failed, Station, Step, Turn, Usage
from manydesks.runner.providers.claude import PROVIDER
from manydesks.runner.providers.claude_cli.provider import Claude
from manydesks.runner.tools.registry import Toolbox

HEAD = f"""#!{sys.executable}
import json, os, sys, time

def say(**line):
    print(json.dumps(line), flush=True)

def read():
    line = json.loads(sys.stdin.readline())
    if line["type"] == "user":
        say(type="user", isReplay=True, uuid=line["uuid"], message=line["message"])
    return line

def answer(text="Yes.", **more):
    say(**{{"type": "result", "subtype": "success", "is_error": False, "result": text, "session_id": "s", **more}})

"""


async def nothing(*_: Any) -> int:
    raise AssertionError("no tool is called")


def turn(text: str = "hi") -> Turn:
    message = Inbound(
        id="api_aaaaaaaa", run="run_aaaaaaaa", fence=1, kind="chat", at=0, tries=1, content={"text": text}, seq=2
    )
    return Turn(agent="coder", name="Coder", messages=(message,), tools=Toolbox({}, (message,), nothing))


Made = Callable[..., Any]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A provider whose program is this script."""

    @asynccontextmanager
    async def make(script: str, **options: Any) -> AsyncIterator[Claude]:
        program = tmp_path / "claude"
        program.write_text(HEAD + script)
        program.chmod(0o755)
        for name in ("workspace", "state"):
            (tmp_path / name).mkdir(exist_ok=True)
        claude = Claude(
            Station(
                agent="coder",
                name="Coder",
                workspace=tmp_path / "workspace",
                state=tmp_path / "state",
                options={"program": str(program), **options},
                endpoint=Endpoint(kind="anthropic", socket=tmp_path / "none.sock"),
            )
        )
        try:
            yield claude
        finally:
            await claude.close()

    return make


async def last_of(claude: Claude, batch: Turn | None = None) -> Step:
    async with asyncio.timeout(30):
        return [step async for step in claude.turn(batch or turn())][-1]


@pytest.mark.parametrize(
    ("script", "failure", "reason"),
    [
        ("read()", "transient", "claude ended in the middle of its turn, with exit code 0, and said nothing"),
        ("read(); print('What?', file=sys.stderr); sys.exit(3)", "transient", "with exit code 3: What?"),
        ("read(); print('no JSON at all'); print('[1, 2]'); print('{}')", "transient", "no JSON at all | [1, 2] | {}"),
        ("read(); print('{' * 100_000)", "transient", "exit code 0"),
        ("read(); os.kill(os.getpid(), 9)", "transient", "by signal 9"),
        ("read(); answer('no', is_error=True, api_error_status=529)", "transient", "answered 529: no"),
        ("read(); answer('', subtype='error_max_turns', is_error=True)", "permanent", "error_max_turns"),
        ("read(); answer('', subtype='error_new_kind')", "transient", "error_new_kind"),
        ("read(); answer('Not logged in · Please run /login', is_error=True)", "permanent", "office's key"),
        ("sys.exit(\"error: unknown option '--settings'\")", "permanent", "too old, it does not know --settings"),
        (
            "sys.exit('--dangerously-skip-permissions cannot be used with root/sudo privileges')",
            "permanent",
            "as root",
        ),
        (
            "read(); print('x-api-key: sk-ant-REAL0123456789', file=sys.stderr); sys.exit(1)",
            "transient",
            "x-api-key: ***",
        ),
        ("read(); os.close(1); time.sleep(0.2); sys.exit(1)", "transient", "exit code 1"),
    ],
)
async def test_each_ends_in_a_classified_outcome(made: Made, script: str, failure: str, reason: str) -> None:
    async with made(script) as claude:
        failed = await last_of(claude)
    assert isinstance(failed, Failed)
    assert (failed.failure, failed.message) == (failure, "api_aaaaaaaa")
    assert reason in failed.reason


async def test_rubbish_between_the_lines_is_passed_over(made: Made) -> None:
    script = "read(); print('warning: hm'); print('null'); say(type='news'); say(type='assistant'); answer()"
    async with made(script) as claude:
        answer = await last_of(claude)
    assert answer == Answer(text="Yes.", answers=("api_aaaaaaaa",), continuation="s")


async def test_a_line_of_five_megabytes(made: Made) -> None:
    async with made("read(); answer('x' * 5_000_000)") as claude:
        answer = await last_of(claude)
    assert isinstance(answer, Answer)
    assert len(answer.text) == 5_000_000


async def test_a_line_without_an_end(made: Made) -> None:
    async with made("read()\nwhile True: sys.stdout.write('x' * 1_000_000)") as claude:
        failed = await last_of(claude)
        assert claude.pid is None
    assert isinstance(failed, Failed)
    assert failed.reason == "claude printed a line longer than 64 MiB"


@pytest.mark.parametrize(
    "script",
    [
        "read(); time.sleep(1000)",
        "read()\nwhile True: print('rubbish')",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nread()\nwhile True: time.sleep(1)",
    ],
)
async def test_one_that_never_ends(made: Made, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manydesks.runner.providers.claude_cli.session.INTERRUPT_SECONDS", 0.3)
    async with made(script, silence_seconds=0.5) as claude:
        failed = await last_of(claude)
        assert isinstance(failed, Failed)
        assert (failed.failure, failed.reason) == ("transient", "claude said nothing for 0.5 s")
        # it did not heed the interrupt either, so it is gone
        assert claude.pid is None


async def test_a_daemon_that_holds_the_output_open_is_not_waited_for(made: Made, tmp_path: Path) -> None:
    script = """
read()
if os.fork() == 0:
    open("daemon", "w").write(str(os.getpid()))
    time.sleep(1000)
while not os.path.exists("daemon") or not open("daemon").read():
    time.sleep(0.01)
sys.exit(4)
"""
    async with made(script) as claude:
        failed = await last_of(claude)
    assert isinstance(failed, Failed)
    assert "exit code 4" in failed.reason
    assert _is_gone(int((tmp_path / "workspace" / "daemon").read_text()))


async def test_one_that_reads_nothing_gets_a_long_prompt(made: Made) -> None:
    async with made("time.sleep(0.3); sys.exit(5)") as claude:
        failed = await last_of(claude, turn("x" * 3_000_000))
    assert isinstance(failed, Failed)
    assert "exit code 5" in failed.reason


async def test_one_that_ends_between_turns_is_started_again(made: Made, tmp_path: Path) -> None:
    async with made("read(); answer(); open('ran', 'a').write('x')") as claude:
        assert isinstance(await last_of(claude), Answer)
        assert isinstance(await last_of(claude), Answer)
    assert (tmp_path / "workspace" / "ran").read_text() == "xx"


async def test_a_result_of_its_own_is_not_taken_for_the_answer(made: Made) -> None:
    script = """
line = json.loads(sys.stdin.readline())
answer("About something in the background.", user_message_uuids=["another"], usage={"input_tokens": 3})
say(type="user", isReplay=True, uuid=line["uuid"], message=line["message"])
answer("Yours.", user_message_uuids=[line["uuid"]])
"""
    async with made(script) as claude:
        async with asyncio.timeout(30):
            steps = [step async for step in claude.turn(turn())]
    assert [step.text for step in steps if isinstance(step, Answer)] == ["Yours."]


async def test_totals_of_an_older_program_become_differences(made: Made) -> None:
    script = """
for total, cost in ((10, 0.5), (15, 0.75)):
    read()
    answer(session_id="s", modelUsage={"m": {"inputTokens": total, "outputTokens": 1, "costUSD": cost}})
"""
    async with made(script) as claude:
        seen: list[Usage] = []
        for _ in range(2):
            batch = turn() if not seen else Turn(**{**_fields(turn()), "continuation": "s"})
            async with asyncio.timeout(30):
                seen += [step async for step in claude.turn(batch) if isinstance(step, Usage)]
    assert [(usage.input, usage.output, usage.cost_usd, usage.model) for usage in seen] == [
        (10, 1, 0.5, "m"),
        (5, 0, 0.25, "m"),
    ]


async def test_what_is_missing_is_said(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with made("", program=str(tmp_path / "nowhere")) as claude:
        failed = await last_of(claude)
        assert isinstance(failed, Failed)
        assert failed.failure == "permanent"
        assert "names no program that can be run" in failed.reason
    assert not PROVIDER.check({"program": str(tmp_path / "nowhere")}).works
    assert PROVIDER.check({"program": str(tmp_path / "claude")}).works
    assert "claude has no option 'colour'" in PROVIDER.check({"colour": "red"}).why


async def test_a_workspace_that_is_missing(made: Made, tmp_path: Path) -> None:
    async with made("read(); answer()") as claude:
        (tmp_path / "workspace").rmdir()
        failed = await last_of(claude)
    assert isinstance(failed, Failed)
    assert (failed.failure, "cannot be started" in failed.reason) == ("permanent", True)


async def test_a_state_folder_that_cannot_be_written(made: Made, tmp_path: Path) -> None:
    async with made("read(); answer()") as claude:
        (tmp_path / "state").rmdir()
        (tmp_path / "state").write_text("not a folder")
        failed = await last_of(claude)
    assert isinstance(failed, Failed)
    assert (failed.failure, "the session's folder cannot be used" in failed.reason) == ("transient", True)


async def test_nobody_is_left_behind(made: Made) -> None:
    async with made("read(); answer(); time.sleep(1000)") as claude:
        assert isinstance(await last_of(claude), Answer)
        pid = claude.pid
        assert pid is not None
    assert _is_gone(pid)


def _fields(batch: Turn) -> dict[str, Any]:
    return {name: getattr(batch, name) for name in Turn.__slots__}


def _is_gone(pid: int) -> bool:
    """It is, or will be in a moment: a kill takes one."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], 10)[0])
    finally:
        os.close(handle)
