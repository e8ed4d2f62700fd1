"""Clients of real models, through the forwarder and the proxy, to a scripted model that demands the real key."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from manydesks.proxy.server import Proxy
from manydesks.proxy.upstream import Upstream
from manydesks.runner.forwarder import Forwarder
from manydesks.testing.model import ModelServer, Turn

KEY = "sk-real-0123456789abcdef"


def bundled_claude() -> Path | None:
    found = importlib.util.find_spec("claude_agent_sdk")
    if found is None or found.origin is None:
        return None
    binary = Path(found.origin).parent / "_bundled" / "claude"
    return binary if binary.exists() else None


@asynccontextmanager
async def port_to_model(world: Any, turns: list[Turn]) -> AsyncIterator[int]:
    """A port as programs at a desk see it."""
    async with ModelServer(turns, key=KEY) as model:
        upstreams = [
            Upstream(name="anthropic", kind="anthropic", base_url=model.base_url, key="k"),
            Upstream(name="openai", kind="openai", base_url=f"{model.base_url}/v1", key="k"),
        ]
        proxy = Proxy(world.home, upstreams, world.office.gate())
        forwarder = Forwarder(await proxy.open("s1", ["anthropic", "openai"]))
        await forwarder.start()
        try:
            yield forwarder.port
        finally:
            await forwarder.stop()
            await proxy.stop()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/anthropic/v1/messages", {"max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}),
        ("/openai/responses", {"input": "hi"}),
        (
            "/openai/chat/completions",
            {"messages": [{"role": "user", "content": "hi"}], "stream_options": {"include_usage": True}},
        ),
    ],
)
async def test_every_wire_is_counted(world: Any, path: str, body: dict[str, Any], stream: bool) -> None:
    if not stream:
        body = {name: value for name, value in body.items() if name != "stream_options"}
    async with (
        port_to_model(world, [Turn(text="Hello.")]) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as desk,
    ):
        headers = {"authorization": "Bearer placeholder", "anthropic-version": "2023-06-01"}
        answer = await desk.post(path, json={"model": "m", "stream": stream, **body}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert "Hello." in answer.text
    [call] = world.office.calls
    assert (call.outcome, call.usage.final, call.usage.model) == ("answered", True, "m")
    assert call.usage.input > 0
    assert call.usage.output > 0


async def claude(port: int, folder: Path) -> dict[str, Any]:
    binary = bundled_claude()
    assert binary is not None
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / ".claude"),
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}/anthropic",
        "ANTHROPIC_API_KEY": "placeholder",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    process = await asyncio.create_subprocess_exec(
        binary, "-p", "hi", "--output-format", "json",
        env=environment, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    answer: dict[str, Any] = json.loads(said)
    return answer


needs_claude = pytest.mark.skipif(
    bundled_claude() is None, reason="claude is not installed: pip install claude-agent-sdk"
)


@needs_claude
async def test_claude_answers_without_a_key(world: Any, tmp_path: Path) -> None:
    async with port_to_model(world, [Turn(text="Hello from the model.")]) as port:
        answer = await claude(port, tmp_path)
    assert (answer["is_error"], answer["result"]) == (False, "Hello from the model.")
    [call] = world.office.calls
    assert (call.usage.input, call.usage.output) == (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"])
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())  # noqa: ASYNC240
    assert b"hi" in left
    assert KEY.encode() not in left


@needs_claude
async def test_claude_shows_why_the_budget_cuts_and_asks_once(world: Any, tmp_path: Path) -> None:
    world.office.cut = "The budget of 5 USD a day is used up."
    async with port_to_model(world, []) as port:
        answer = await claude(port, tmp_path)
    assert answer["is_error"]
    assert answer["api_error_status"] == 402
    assert answer["result"] == "API Error: 402 The budget of 5 USD a day is used up."
    assert len(world.office.asked) == 1
