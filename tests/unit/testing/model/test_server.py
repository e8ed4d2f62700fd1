"""The server itself: what it remembers, how it is waited for, where it listens, how it ends."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from manydesks.testing import model as kit
from manydesks.testing.model import Asked, Hang, ModelServer, Script, ScriptedModel, Turn

if TYPE_CHECKING:
    from conftest import Client


def test_what_is_exported_is_there() -> None:
    assert sorted(kit.__all__) == kit.__all__
    assert all(hasattr(kit, name) for name in kit.__all__)


def test_requests_are_remembered_without_showing_their_keys(client: Client) -> None:
    with ScriptedModel() as model:
        client.post(model, "first", headers={"x-api-key": "sk-secret"})
        client.post(model, "first", "second", headers={"Authorization": "Bearer sk-other"})
        first, second = model.wait_requests(2)
    assert (first.number, first.method, first.path, first.query) == (1, "POST", client.path, "")
    assert first.body == client.body("first")
    assert (first.key, second.key) == ("sk-secret", "sk-other")
    assert second.headers["authorization"] == "Bearer sk-other"
    assert second.asked is not None
    assert second.asked.said == ("first", "second")
    assert second.asked.stream is client.stream
    assert second.asked.dialect == client.dialect
    assert "sk-" not in repr((first, second))


def test_a_wrong_key_is_refused_and_uses_nothing_up(client: Client) -> None:
    with ScriptedModel([Turn(text="Welcome.")], key="right") as model:
        assert client.post(model, headers={"x-api-key": "wrong"}).status_code == 401
        assert client.post(model).status_code == 401
        assert client.ask(model, headers={"authorization": "Bearer right"}).text == "Welcome."


def test_conversations_by_their_name(client: Client) -> None:
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model:
        for header in ("x-conversation-id", "x-claude-code-session-id", "thread-id", "session-id"):
            heard = [client.ask(model, "hi", headers={header: name}).text for name in ("a" + header, "b" + header)]
            assert heard == ["one", "one"]
            assert client.ask(model, "hi", headers={header: "a" + header}).text == "two"


def test_conversations_by_their_beginning(client: Client) -> None:
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model:
        assert [client.ask(model, *said).text for said in (["a"], ["b"], ["a", "more"])] == ["one", "one", "two"]


def test_a_response_that_goes_on_from_another() -> None:
    with ScriptedModel([Turn(text="one"), Turn(text="two")]) as model, httpx.Client(trust_env=False) as http:
        url = f"{model.openai_url}/responses"
        first = http.post(url, json={"model": "m", "input": "hi"}).json()
        more = {"model": "m", "previous_response_id": first["id"]}
        result = [{"type": "function_call_output", "call_id": "call_kept_by_the_service", "output": "42"}]
        second = http.post(url, json={**more, "input": result}).json()
        assert second["output"][0]["content"][0]["text"] == "two"
        assert second["previous_response_id"] == first["id"]


def test_turns_can_be_added(plain: Client) -> None:
    with ScriptedModel([Turn(text="one")]) as model:
        model.play(Turn(text="two"), Turn(text="three"))
        assert [plain.ask(model).text for _ in range(4)] == ["one", "two", "three", "hi"]


def test_only_so_much_is_kept(plain: Client) -> None:
    with ScriptedModel(keep=2) as model:
        for said in "abc":
            plain.post(model, said)
        model.wait_requests(3)
        model.wait_endings(3)
        assert [request.number for request in model.requests] == [2, 3]
        assert [ending.number for ending in model.endings] == [2, 3]


async def test_a_wait_that_is_in_vain_says_so() -> None:
    async with ModelServer() as model:
        with pytest.raises(AssertionError, match=r"not 1 requests within 0\.01 s; there were 0 requests"):
            await model.wait_requests(1, seconds=0.01)
        with pytest.raises(AssertionError, match="not 2 hanging"):
            await model.wait_hanging(2, seconds=0.01)


async def test_many_at_once(client: Client) -> None:
    url, headers = client.path, {"anthropic-version": "x"}
    async with (
        ModelServer([Turn(text="x", fault=Hang())]) as model,
        httpx.AsyncClient(base_url=model.base_url, trust_env=False, timeout=20) as http,
    ):
        asking = [
            asyncio.create_task(http.post(url, json=client.body(str(n)), headers=headers, timeout=20))
            for n in range(20)
        ]
        await model.wait_hanging(20)
        model.release()
        answers = await asyncio.gather(*asking)
    assert [client.heard(answer).text for answer in answers] == ["x"] * 20


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/", 200),
        ("GET", "/v1/models", 200),
        ("GET", "/v1/models/some-model", 200),
        ("HEAD", "/api/hello", 200),
        ("POST", "/api/event_logging/batch", 200),
        ("POST", "/v1/messages/count_tokens", 200),
        ("GET", "/v1/messages", 404),
        ("POST", "/v1/embeddings", 404),
    ],
)
def test_what_else_clients_ask_for(method: str, path: str, status: int) -> None:
    with ScriptedModel() as model:
        answer = httpx.request(method, model.base_url + path, trust_env=False)
        assert [(request.method, request.path) for request in model.others] == [(method, path)]
        assert model.requests == ()
    assert answer.status_code == status
    if method != "HEAD":
        assert isinstance(answer.json(), dict)


def test_tokens_are_counted_and_models_listed(plain: Client) -> None:
    with ScriptedModel() as model, httpx.Client(base_url=model.base_url, trust_env=False) as http:
        assert http.post("/v1/messages/count_tokens", json=plain.body("x" * 400)).json()["input_tokens"] > 100
        assert http.get("/v1/models/some-model").json()["id"] == "some-model"
        [listed] = http.get("/v1/models").json()["data"]
        assert listed["object"] == listed["type"] == "model"


def test_a_connection_is_used_again(client: Client) -> None:
    with ScriptedModel() as model, httpx.Client(base_url=model.base_url, trust_env=False) as http:
        ports = set()
        for _ in range(3):
            with http.stream("POST", client.path, json=client.body("hi"), headers={"anthropic-version": "x"}) as answer:
                answer.read()
                ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(ports) == 1


def test_a_client_that_waits_to_be_told_to_go_on(plain: Client) -> None:
    with ScriptedModel() as model, socket.create_connection(address(model), timeout=10) as line:
        line.sendall(b"POST /v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
        assert line.recv(1000).startswith(b"HTTP/1.1 100 ")
        line.sendall(b"{}")
        assert line.recv(1000).startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_hung_up_on() -> None:
    with ScriptedModel() as model, socket.create_connection(address(model), timeout=10) as line:
        line.sendall(b"hello\r\n\r\n")
        assert line.recv(1000) == b""


def address(model: ScriptedModel) -> tuple[str, int]:
    url = httpx.URL(model.base_url)
    return url.host, url.port or 0


def test_a_unix_socket(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "m.sock"
    body: dict[str, Any] = client.body("hi")
    with ScriptedModel(socket=path) as model:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url=model.base_url) as http:
            answer = http.post(client.path, json=body, headers={"anthropic-version": "x"})
        assert client.heard(answer).text == "hi"
    assert not path.exists()


def test_a_port_that_is_taken() -> None:
    with ScriptedModel() as model, pytest.raises(OSError, match="in use"):
        ScriptedModel(port=address(model)[1]).start()


def test_it_listens_on_loopback_only() -> None:
    with ScriptedModel() as model:
        assert address(model)[0] == "127.0.0.1"


def test_what_a_function_of_the_script_raises_comes_out(plain: Client) -> None:
    def breaks(asked: Asked) -> Turn | None:
        raise ZeroDivisionError(asked.user)

    model = ScriptedModel(Script(turns=(breaks,)))
    model.start()
    with pytest.raises(httpx.RemoteProtocolError):
        plain.post(model, "boom")
    with pytest.raises(ZeroDivisionError, match="boom"):
        model.close()


def test_closing_twice_is_fine() -> None:
    model = ScriptedModel()
    model.close()
    model.start()
    model.close()
    model.close()
