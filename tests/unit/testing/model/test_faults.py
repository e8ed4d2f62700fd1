"""Every fault, in every dialect, streamed and not: seen by a client that knows nothing of scripts."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from manydesks.testing.model import Cut, Fail, Garble, Hang, ModelServer, Pace, Refuse, ScriptedModel, Turn

if TYPE_CHECKING:
    from conftest import Client

TEXT = "word " * 100


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_a_refusal_and_then_an_answer(client: Client, status: int) -> None:
    refusal = Refuse(status=status, message="Not now.", headers={"Retry-After": "7"})
    with ScriptedModel([Turn(fault=refusal), Turn(text="Now.")]) as model:
        refused = client.post(model)
        assert client.ask(model).text == "Now."
    assert refused.status_code == status
    assert refused.headers["retry-after"] == "7"
    assert refused.headers["content-type"] == "application/json"
    assert refused.json()["error"]["message"] == "Not now."
    assert ("type" in refused.json()) == (client.dialect == "messages")


def test_types_of_errors(plain: Client) -> None:
    with ScriptedModel([Turn(fault=Refuse(status=status)) for status in (429, 529, 500, 401)]) as model:
        types = [plain.post(model).json()["error"]["type"] for _ in range(4)]
    assert types == ["rate_limit_error", "overloaded_error", "api_error", "authentication_error"]


def test_the_page_of_a_gateway(client: Client) -> None:
    with ScriptedModel([Turn(fault=Refuse(status=502, body="<h1>Bad gateway</h1>"))]) as model:
        answer = client.post(model)
    assert (answer.status_code, answer.text) == (502, "<h1>Bad gateway</h1>")
    assert answer.headers["content-type"] == "text/html"


@pytest.mark.parametrize("reset", [False, True])
def test_cut_before_the_answer(client: Client, reset: bool) -> None:
    with ScriptedModel([Turn(text=TEXT, fault=Cut(reset=reset)), Turn(text="Now.")]) as model:
        with pytest.raises(httpx.ReadError if reset else httpx.RemoteProtocolError):
            client.post(model)
        assert client.ask(model).text == "Now."
        assert [ending.how for ending in model.wait_endings(2)] == ["cut", "whole"]


@pytest.mark.parametrize("most", [0, 1, 300])
def test_cut_after_some_bytes(client: Client, most: int) -> None:
    with ScriptedModel([Turn(text=TEXT, fault=Cut(after_byte=most))]) as model:
        assert len(read_until_broken(client, model)) == most


def test_cut_after_some_events(client: Client) -> None:
    with ScriptedModel([Turn(text=TEXT, fault=Cut(after_event=3))]) as model:
        came = read_until_broken(client, model)
    if client.stream:
        assert came.count(b"\n\n") == 3
        assert came.endswith(b"\n\n")
    else:
        assert len(came) > 200
        with pytest.raises(ValueError, match="Unterminated"):
            json.loads(came)


def read_until_broken(client: Client, model: ScriptedModel) -> bytes:
    """What came before the connection broke; it must break."""
    came = bytearray()
    url, headers = model.base_url + client.path, {"anthropic-version": "x"}

    def read(answer: httpx.Response) -> None:
        for piece in answer.iter_raw():
            came.extend(piece)

    with (
        httpx.Client(trust_env=False) as http,
        http.stream("POST", url, json=client.body("hi"), headers=headers) as answer,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        read(answer)
    return bytes(came)


def test_an_event_that_is_no_json(client: Client) -> None:
    with ScriptedModel([Turn(text=TEXT, fault=Garble(event=2))]) as model:
        answer = client.post(model)
    assert answer.status_code == 200
    if client.stream:
        datas = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ") and "[DONE]" not in line]
        assert [is_json(data) for data in datas] == [number != 2 for number in range(len(datas))]
    else:
        assert not is_json(answer.text)


@pytest.mark.parametrize("event", [0, 10_000])
def test_a_broken_event_is_one_of_those_there_are(streaming: Client, event: int) -> None:
    with ScriptedModel([Turn(text="x", fault=Garble(event=event))]) as model, pytest.raises(ValueError, match="line 1"):
        streaming.ask(model)


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("after", [0, 2])
def test_an_error_in_a_stream_that_began_well(client: Client, after: int) -> None:
    with ScriptedModel([Turn(text=TEXT, fault=Fail(after_event=after, status=529, message="Too much."))]) as model:
        answer = client.post(model)
    if not client.stream:
        assert (answer.status_code, answer.json()["error"]["message"]) == (529, "Too much.")
        return
    assert answer.status_code == 200
    assert answer.text.count("\n\n") == after + 1
    if client.dialect == "responses":
        last = json.loads(answer.text.split("data: ")[-1])
        assert (last["type"], last["sequence_number"]) == ("response.failed", after)
        assert last["response"]["error"]["message"] == "Too much."
    else:
        assert client.heard(answer).error["message"] == "Too much."


def test_slow_bytes(client: Client) -> None:
    with ScriptedModel([Turn(text="x", pace=Pace(bytes=100, seconds=0.002))]) as model:
        url, headers = model.base_url + client.path, {"anthropic-version": "x"}
        began = time.monotonic()
        with (
            httpx.Client(trust_env=False) as http,
            http.stream("POST", url, json=client.body("hi"), headers=headers) as answer,
        ):
            pieces = list(answer.iter_raw())
        took = time.monotonic() - began
    assert max(map(len, pieces)) <= 100 or not client.stream
    assert took >= 0.002 * (sum(map(len, pieces)) // 100)


def test_a_delay_comes_before_the_status(plain: Client) -> None:
    with ScriptedModel([Turn(text="x", delay=0.05), Turn(fault=Refuse(status=500), delay=0.05)]) as model:
        began = time.monotonic()
        plain.post(model)
        assert time.monotonic() - began >= 0.05
        began = time.monotonic()
        plain.post(model)
        assert time.monotonic() - began >= 0.05


async def asks(client: Client, model: ModelServer, http: httpx.AsyncClient) -> httpx.Response:
    url, headers = model.base_url + client.path, {"anthropic-version": "x"}
    return await http.post(url, json=client.body("hi"), headers=headers)


@pytest.mark.parametrize("after", [None, 0, 3, 10_000])
async def test_a_hang_ends_when_it_is_released(client: Client, after: int | None) -> None:
    turn = Turn(text=TEXT, fault=Hang(after_event=after), times=None)
    async with ModelServer([turn]) as model, httpx.AsyncClient(trust_env=False, timeout=20) as http:
        for _ in range(2):  # the second stands still again
            asking = asyncio.create_task(asks(client, model, http))
            await model.wait_hanging(1)
            assert not asking.done()
            model.release()
            assert client.heard(await asking).text == TEXT
        assert [ending.how for ending in await model.wait_endings(2)] == ["whole", "whole"]


async def test_a_hang_in_the_middle_keeps_what_came_before(streaming: Client) -> None:
    async with (
        ModelServer([Turn(text=TEXT, fault=Hang(after_event=2))]) as model,
        httpx.AsyncClient(trust_env=False) as http,
        http.stream("POST", model.base_url + streaming.path, json=streaming.body("hi"), headers=VERSION) as answer,
    ):
        chunks = answer.aiter_bytes()
        came = b""
        while came.count(b"\n\n") < 2:
            came += await anext(chunks)
        await model.wait_hanging(1)
        assert b"message_start" in came
        assert b"content_block" not in came
        model.release()
        async for chunk in chunks:
            came += chunk
        assert came.count(b"content_block_stop") == 2  # its name and its type


async def test_a_client_that_goes_away_is_noticed(client: Client) -> None:
    async with ModelServer([Turn(text=TEXT, fault=Hang())]) as model, httpx.AsyncClient(trust_env=False) as http:
        asking = asyncio.create_task(asks(client, model, http))
        await model.wait_hanging(1)
        asking.cancel()
        [ending] = await model.wait_endings(1)
    assert ending.how == "left"


async def test_pings_while_it_stands_still(streaming: Client) -> None:
    turn = Turn(text="x", fault=Hang(after_event=1, ping_seconds=0.005))
    async with (
        ModelServer([turn]) as model,
        httpx.AsyncClient(trust_env=False) as http,
        http.stream("POST", model.base_url + streaming.path, json=streaming.body("hi"), headers=VERSION) as answer,
    ):
        came = b""
        async for chunk in answer.aiter_bytes():
            came += chunk
            if came.count(b"event: ping") == 3:
                model.release()
    assert came.count(b"event: ping") >= 4  # one belongs to every stream
    assert b"message_stop" in came


async def test_closing_ends_what_hangs(client: Client) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:
        async with ModelServer([Turn(text=TEXT, fault=Hang())]) as model:
            asking = asyncio.create_task(asks(client, model, http))
            await model.wait_hanging(1)
        with pytest.raises(httpx.RemoteProtocolError):
            await asking
    assert [ending.how for ending in model.endings] == ["closed"]


VERSION: dict[str, Any] = {"anthropic-version": "x"}
