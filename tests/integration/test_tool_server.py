"""The runner's tool server, used by the official MCP client and by the real `claude`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from manydesks.domain.mail import Content, Inbound
from manydesks.runner.answers import Answers
from manydesks.runner.tools import registry
from manydesks.runner.tools.base import Means
from manydesks.runner.toolserver import ToolServer
from manydesks.runner.toolserver_rpc import VERSIONS
from manydesks.testing.model import ScriptedModel, ToolCall, Turn


class Desk:
    """A tool server with a turn under way, and what its tools wrote."""

    def __init__(self) -> None:
        self.server = ToolServer(quick_seconds=0.05, progress_seconds=0.01)
        self.sent: list[tuple[str, Content]] = []
        self.asked = asyncio.Event()
        self.answers = Answers()
        row = Inbound(id="m1", run="r", fence=1, kind="chat", at=1, tries=1, content={}, seq=2)
        self.tools = registry.Toolbox(registry.find(), [row], self._send, Means(answer=self.answers.wait))

    async def _send(self, message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        self.sent.append((kind, content))
        if content.get("operation") == "ask_question":
            self.asked.set()
        return 2 * len(self.sent) - 1

    def answer(self, text: str) -> None:
        id = next(content["questionId"] for _, content in self.sent if content.get("operation") == "ask_question")
        self.answers.say({"questionId": id, "status": "answered", "text": text})


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.server.start()
    with desk.server.turn(desk.tools, "m1"):
        yield desk
    await desk.server.close()


def text(result: Any) -> str:
    (content,) = result.content
    assert content.type == "text"
    return str(content.text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_lists_and_calls_tools(desk: Desk, mode: Any) -> None:
    async with Client(desk.server.url, mode=mode) as client:
        assert client.protocol_version == VERSIONS[-1]
        assert client.server_info is not None
        assert client.server_info.name == "manydesks"
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == list(registry.find())
        for tool in listed:
            assert tool.input_schema == registry.find()[tool.name].schema()
        done = await client.call_tool("send_message", {"text": "größer 👍"})
        assert not done.is_error
        assert json.loads(text(done)) == {"sent": True, "messageId": 1}
    assert desk.sent == [("chat", {"text": "größer 👍", "files": []})]


async def test_a_wrong_call_is_an_answer_that_the_model_can_act_on(desk: Desk) -> None:
    async with Client(desk.server.url) as client:
        for name, arguments, sentence in (
            ("dance", {}, "There is no tool 'dance'; there are: add_reaction"),
            ("send_message", {"txt": "x"}, "has no argument 'txt'"),
            ("edit_message", {"messageId": "one", "text": "x"}, "must be of type integer"),
        ):
            done = await client.call_tool(name, arguments)
            assert done.is_error
            assert sentence in text(done)
    assert desk.sent == []


async def test_a_held_call_shows_progress_and_ends_with_its_answer(desk: Desk) -> None:
    seen: list[float] = []
    enough = asyncio.Event()

    async def progress(value: float, total: float | None, message: str | None) -> None:
        seen.append(value)
        if len(seen) >= 3:
            enough.set()

    async with Client(desk.server.url) as client, asyncio.timeout(30):
        call = asyncio.create_task(
            client.call_tool("ask_user_question", {"question": "Tea?"}, progress_callback=progress)
        )
        await enough.wait()
        # others are served meanwhile
        assert not (await client.call_tool("send_message", {"text": "I wait"})).is_error
        desk.answer("yes, green")
        assert json.loads(text(await call)) == {"answered": True, "text": "yes, green"}
    assert seen == sorted(set(seen))
    assert [content.get("action") for _, content in desk.sent][-1] == "question_heard"


async def test_a_held_call_without_a_wish_for_progress_ends_too(desk: Desk) -> None:
    async with Client(desk.server.url) as client, asyncio.timeout(30):
        call = asyncio.create_task(client.call_tool("ask_user_question", {"question": "Tea?"}))
        await desk.asked.wait()
        desk.answer("no")
        assert json.loads(text(await call))["text"] == "no"


async def test_a_call_that_the_client_gives_up_is_ended(desk: Desk) -> None:
    async with Client(desk.server.url) as client, asyncio.timeout(30):
        call = asyncio.create_task(client.call_tool("ask_user_question", {"question": "Tea?"}))
        await desk.asked.wait()
        assert desk.answers.wanted.is_set()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        while desk.answers.wanted.is_set():
            await client.call_tool("dance", {})
        # the answer stays with the host: nobody at the desk has heard it
        assert [kind for kind, _ in desk.sent] == ["chat"]
        assert not (await client.call_tool("send_message", {"text": "on we go"})).is_error


async def test_a_call_ends_with_its_turn() -> None:
    desk = Desk()
    await desk.server.start()
    try:
        async with Client(desk.server.url) as client, asyncio.timeout(30):
            with desk.server.turn(desk.tools, "m1"):
                call = asyncio.create_task(client.call_tool("ask_user_question", {"question": "Tea?"}))
                await desk.asked.wait()
            done = await call
            assert (done.is_error, text(done)) == (True, "The turn ended before the tool did.")
            done = await client.call_tool("send_message", {"text": "too late"})
            assert done.is_error
            assert "No turn is under way" in text(done)
        assert len(desk.sent) == 1
    finally:
        await desk.server.close()


async def test_many_clients_at_once(desk: Desk) -> None:
    async def one(number: int) -> None:
        async with Client(desk.server.url) as client:
            for _ in range(5):
                assert not (await client.call_tool("send_message", {"text": str(number)})).is_error

    async with asyncio.timeout(60):
        await asyncio.gather(*(one(number) for number in range(8)))
    assert sorted(int(content["text"]) for _, content in desk.sent) == sorted(list(range(8)) * 5)


def test_it_costs_little_to_import() -> None:
    """An idle runner has 60 MB in all; the official library alone would take more."""
    code = (
        "import sys, manydesks.runner.toolserver, manydesks.runner.loop; "
        "print([m for m in ('mcp', 'httpx', 'pydantic', 'starlette', 'apsw') if m in sys.modules]); "
        # not `ru_maxrss`: that begins with what the parent had
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy, kilobytes = done.stdout.splitlines()
    assert heavy == "[]"
    assert int(kilobytes) < 60_000


# the real program


def bundled() -> Path | None:
    spec = find_spec("claude_agent_sdk")
    found = Path(spec.origin).parent / "_bundled" / "claude" if spec is not None and spec.origin else None
    return found if found is not None and found.exists() else None


CLAUDE = bundled()


class Claude:
    """The program, run once for each message, with the desk's tools and a model that is told what to say."""

    def __init__(self, folder: Path, model: ScriptedModel, url: str) -> None:
        self.folder = folder
        self.environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
            "ANTHROPIC_BASE_URL": model.base_url,
            "ANTHROPIC_API_KEY": "sk-placeholder",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_AUTOUPDATER": "1",
            "ENABLE_TOOL_SEARCH": "false",
            "IS_SANDBOX": "1" if os.geteuid() == 0 else "",
        }
        self.config = folder / "mcp.json"
        self.config.write_text(json.dumps({"mcpServers": {"desk": {"type": "http", "url": url}}}))

    async def ask(self, text: str) -> dict[str, Any]:
        process = await asyncio.create_subprocess_exec(
            str(CLAUDE), "-p", "--output-format", "json", "--model", "scripted", "--mcp-config", str(self.config),
            "--strict-mcp-config", "--allowedTools", "mcp__desk", "--", text,
            cwd=self.folder, env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, errors = await asyncio.wait_for(process.communicate(), 60)
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        assert process.returncode == 0, (out, errors)
        result: dict[str, Any] = json.loads(out)
        return result


@pytest.mark.skipif(CLAUDE is None, reason="claude is not installed: pip install 'manydesks[dev]'")
async def test_the_real_claude_calls_the_tools(desk: Desk, tmp_path: Path) -> None:
    calls = (
        ToolCall(name="mcp__desk__send_message", arguments={"text": "on it"}),
        ToolCall(name="mcp__desk__edit_message", arguments={"messageId": 77, "text": "x"}),
    )
    with ScriptedModel([Turn(text="I will tell them.", calls=calls), Turn(text="Told.")]) as model:
        result = await Claude(tmp_path, model, desk.server.url).ask("work")
        first, last = model.requests[0].asked, model.requests[-1].asked
    assert (result["is_error"], result["result"]) == (False, "Told.")
    assert desk.sent == [("chat", {"text": "on it", "files": []})]
    assert first is not None
    assert {f"mcp__desk__{name}" for name in registry.find()} <= set(first.tools)
    assert last is not None
    told = "\n".join(last.tool_results)
    assert '"messageId": 1' in told
    assert "You have sent no message 77" in told


@pytest.mark.skipif(CLAUDE is None, reason="claude is not installed: pip install 'manydesks[dev]'")
async def test_the_real_claude_waits_for_a_person(desk: Desk, tmp_path: Path) -> None:
    call = ToolCall(name="mcp__desk__ask_user_question", arguments={"question": "Deploy?", "options": ["yes", "no"]})
    with ScriptedModel([Turn(calls=(call,))]) as model:
        work = asyncio.create_task(Claude(tmp_path, model, desk.server.url).ask("work"))
        async with asyncio.timeout(60):
            await desk.asked.wait()
        desk.answer("no, tomorrow")
        result = await work
    assert "no, tomorrow" in result["result"]  # the model echoes the tool's result
