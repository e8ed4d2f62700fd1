"""The tool server as HTTP and JSON-RPC: everything that a proper client never sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manydesks.domain.mail import Content, Inbound
from manydesks.runner import toolserver_rpc as rpc
from manydesks.runner.tools import registry
from manydesks.runner.toolserver import MAX_CONNECTIONS, ToolServer
from manydesks.runner.toolserver_http import BODY_BYTES


class Desk:
    def __init__(self) -> None:
        self.server = ToolServer()
        self.sent: list[Content] = []

    async def send(self, message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        self.sent.append(content)
        return 1

    @property
    def port(self) -> int:
        return int(self.server.url.split(":")[2].split("/")[0])


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    await desk.server.start()
    row = Inbound(id="m1", run="r", fence=1, kind="chat", at=1, tries=1, content={})
    with desk.server.turn(registry.Toolbox(registry.find(), [row], desk.send), "m1"):
        yield desk
    await desk.server.close()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


def request(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def post(client: httpx.AsyncClient, desk: Desk, value: Any, **headers: str) -> httpx.Response:
    return await client.post(desk.server.url, json=value, headers={n.replace("_", "-"): v for n, v in headers.items()})


async def test_a_handshake(desk: Desk, client: httpx.AsyncClient) -> None:
    for asked, given_ in (("2025-03-26", "2025-03-26"), ("2024-11-05", "2024-11-05"), ("1999-01-01", rpc.VERSIONS[-1])):
        answer = await post(client, desk, request("initialize", protocolVersion=asked))
        assert answer.status_code == 200
        assert answer.json()["result"]["protocolVersion"] == given_
        assert answer.json()["result"]["capabilities"] == {"tools": {"listChanged": False}}
    session = answer.headers["mcp-session-id"]
    done = await post(client, desk, {"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
    assert (done.status_code, done.content) == (202, b"")
    assert (await post(client, desk, request("ping"), mcp_session_id=session)).json()["result"] == {}
    gone = await client.delete(desk.server.url, headers={"mcp-session-id": session})
    assert gone.status_code == 204
    assert (await post(client, desk, request("ping"), mcp_session_id=session)).status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, rpc.PARSE_ERROR),
        (b"{", 400, rpc.PARSE_ERROR),
        (b"\xff\xfe", 400, rpc.PARSE_ERROR),
        (b"[" * 100_000, 400, rpc.PARSE_ERROR),
        (b"[]", 400, rpc.INVALID_REQUEST),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', 400, rpc.INVALID_REQUEST),
        (b"7", 400, rpc.INVALID_REQUEST),
        (b'{"id": 1, "method": "ping"}', 400, rpc.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1}', 400, rpc.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', 400, rpc.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', 400, rpc.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', 400, rpc.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', 400, rpc.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', 200, rpc.METHOD_NOT_FOUND),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', 200, rpc.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', 200, rpc.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}}', 200, rpc.INVALID_PARAMS),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a", "arguments": []}}',
            200,
            rpc.INVALID_PARAMS,
        ),
    ],
)
async def test_garbage_gets_an_error(
    desk: Desk, client: httpx.AsyncClient, body: bytes, status: int, code: int
) -> None:
    answer = await client.post(desk.server.url, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert answer.json()["error"]["message"].endswith(".")
    assert (await post(client, desk, request("ping"))).status_code == 200  # on the same connection


@given(body=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_nothing_that_can_be_sent_breaks_the_reader(body: bytes) -> None:
    try:
        answer = rpc.answer(1, {"heard": rpc.read(body).method})
    except rpc.RpcError as error:
        answer = error.as_json()
    assert json.dumps(answer)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"mcp-protocol-version": "2099-01-01"}, 400),
        ({"mcp-session-id": "made-up"}, 404),
    ],
)
async def test_what_a_web_page_could_send_is_refused(
    desk: Desk, client: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    body = json.dumps(request("tools/call", name="send_message", arguments={"text": "x"}))
    answer = await client.post(desk.server.url, content=body, headers={"content-type": "application/json", **headers})
    assert answer.status_code == status
    assert desk.sent == []


async def test_its_own_addresses_are_fine(desk: Desk, client: httpx.AsyncClient) -> None:
    for host in ("127.0.0.1", "localhost"):
        origin = f"http://{host}:{desk.port}"
        answer = await post(client, desk, request("ping"), host=f"{host}:{desk.port}", origin=origin)
        assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/", "/mcp", "/x/mcp", "/%2e%2e/mcp"])
async def test_the_path_is_a_secret(desk: Desk, client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(f"http://127.0.0.1:{desk.port}{path}", json=request("tools/list"))
    assert answer.status_code == 404
    assert "send_message" not in answer.text


def test_every_server_has_a_path_of_its_own() -> None:
    paths = {ToolServer().url.partition(":0")[2] for _ in range(20)}
    assert len(paths) == 20
    assert all(len(path) > 30 for path in paths)


async def test_there_is_no_stream_of_its_own(desk: Desk, client: httpx.AsyncClient) -> None:
    answer = await client.get(desk.server.url, headers={"accept": "text/event-stream"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST, DELETE")


async def test_a_body_has_an_end(desk: Desk, client: httpx.AsyncClient) -> None:
    answer = await client.post(
        desk.server.url, content=b"x" * (BODY_BYTES + 1), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100_000

    # without a length: it is read up to the limit, and then the line is cut
    try:
        answer = await client.post(desk.server.url, content=endless(), headers={"content-type": "application/json"})
        assert answer.status_code == 413
    except httpx.TransportError:
        pass
    assert (await post(client, desk, request("ping"))).status_code == 200


async def test_what_is_no_http_is_answered_and_cut(desk: Desk) -> None:
    for raw in (b"HELLO\r\n\r\n", b"POST / HTTP/1.1\r\n" + b"x: " + b"y" * 100_000, b"\x16\x03\x01\x02"):
        reader, writer = await asyncio.open_connection("127.0.0.1", desk.port)
        writer.write(raw + b"\r\n\r\n")
        async with asyncio.timeout(20):
            answer = await reader.read()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        writer.close()
        await writer.wait_closed()


async def test_a_flood_of_connections_is_not_taken(desk: Desk, client: httpx.AsyncClient) -> None:
    lines = [await asyncio.open_connection("127.0.0.1", desk.port) for _ in range(MAX_CONNECTIONS)]
    reader, writer = await asyncio.open_connection("127.0.0.1", desk.port)
    async with asyncio.timeout(20):
        assert await reader.read() == b""  # one too many
    for line in (*(line for _, line in lines), writer):
        line.close()
        await line.wait_closed()
    async with asyncio.timeout(20):
        while True:
            try:
                assert (await post(client, desk, request("ping"))).status_code == 200
                break
            except httpx.TransportError:
                continue


async def test_a_client_without_streams_waits_for_one_answer(desk: Desk, client: httpx.AsyncClient) -> None:
    answer = await post(client, desk, request("tools/call", name="send_message", arguments={"text": "x"}), accept="*/*")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["isError"] is False


async def test_an_answer_of_a_client_is_taken_for_nothing(desk: Desk, client: httpx.AsyncClient) -> None:
    assert (await post(client, desk, {"jsonrpc": "2.0", "id": 1, "result": {}})).status_code == 202
    unknown = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}
    assert (await post(client, desk, unknown)).status_code == 202


async def test_a_tool_that_breaks_is_an_error_of_the_server(
    desk: Desk, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int:
        raise RuntimeError("a secret detail")

    row = Inbound(id="m1", run="r", fence=1, kind="chat", at=1, tries=1, content={})
    with desk.server.turn(registry.Toolbox(registry.find(), [row], broken), "m1"):
        answer = await post(client, desk, request("tools/call", name="send_message", arguments={"text": "x"}))
    assert answer.json()["error"] == {"code": rpc.INTERNAL_ERROR, "message": "The tool failed (RuntimeError)."}
    assert "a secret detail" in caplog.text
