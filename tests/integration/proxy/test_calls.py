"""Calls through the proxy: what the upstream gets, what the desk gets back, and when."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import socket
import stat
from typing import Any

import httpx
import pytest

from manydesks.domain.errors import BadInput, SettingsError
from manydesks.proxy.gate import Gate
from manydesks.proxy.limits import Limits
from manydesks.proxy.server import PREFIX, Proxy, socket_path
from manydesks.proxy.upstream import Upstream

KEY = "sk-real-0123456789abcdef"
SSE = [("content-type", "text/event-stream")]
PLAIN = [("content-type", "application/json")]


async def test_the_real_key_replaces_the_desks(world: Any) -> None:
    desk = await world.desk()
    fake = {"x-api-key": "fake-1", "authorization": "Bearer fake-2", "cookie": "a=fake-3", "api-key": "fake-4"}
    more = {"proxy-authorization": "Basic fake-5", "x-goog-api-key": "fake-6", "openai-organization": "fake-7"}
    passing = {"anthropic-version": "2023-06-01", "x-claude-code-session-id": "abc", "user-agent": "claude-cli"}
    answer = await desk.post(
        "/anthropic/v1/messages?beta=true&api_key=fake-8", json={"model": "m"}, headers=fake | more | passing
    )
    assert (answer.status_code, answer.json()) == (200, {"hello": "desk"})
    [seen] = world.model.seen
    assert (seen.method, seen.target, bytes(seen.body)) == ("POST", "/v1/messages?beta=true", b'{"model":"m"}')
    assert seen.header("x-api-key") == [KEY]
    assert seen.header("authorization") == []
    assert seen.header("host") == [f"127.0.0.1:{world.model.port}"]
    assert [seen.header(name) for name in passing] == [[value] for value in passing.values()]
    assert "fake-" not in repr(seen)


async def test_openai_gets_a_bearer_token_below_its_base_url(world: Any) -> None:
    desk = await world.desk()
    await desk.post("/openai/responses", json={}, headers={"x-api-key": "fake", "authorization": "Bearer fake"})
    [seen] = world.model.seen
    assert (seen.target, seen.header("authorization")) == ("/v1/responses", [f"Bearer {KEY}"])
    assert seen.header("x-api-key") == []


async def test_an_upstream_without_a_key_gets_none(world: Any) -> None:
    desk = await world.desk(upstreams=["local"])
    assert (await desk.get("/local/models", headers={"authorization": "Bearer fake"})).status_code == 200
    [seen] = world.model.seen
    assert (seen.method, seen.target, seen.header("authorization")) == ("GET", "/local/models", [])
    assert seen.header("transfer-encoding") == []
    assert world.office.asked == []


async def test_a_changed_key_counts_at_once_on_a_line_that_is_open(world: Any) -> None:
    desk = await world.desk()
    await desk.post("/anthropic/v1/messages", json={})
    world.office.key = "sk-another-key"
    await desk.post("/anthropic/v1/messages", json={})
    assert [seen.header("x-api-key") for seen in world.model.seen] == [[KEY], ["sk-another-key"]]


async def test_a_key_that_is_repeated_never_reaches_the_desk(world: Any) -> None:
    async def echo(seen: Any, out: Any) -> None:
        # in a header, at once, and cut in every place
        await out.head(200, [("content-type", f"text/{KEY}"), ("x-request-id", KEY), ("x-unknown", KEY)])
        for cut in range(len(KEY) + 1):
            await out.data(b"<" + KEY[:cut].encode())
            await out.data(KEY[cut:].encode() + b">")
        await out.data(KEY[:-1].encode())
        await out.end()

    world.model.script = echo
    desk = await world.desk()
    answer = await desk.post("/anthropic/v1/messages", json={})
    assert KEY not in answer.text + repr(answer.headers.raw)
    # neither is anything lost: an unfinished key at the end is the end
    assert answer.text == f"<{'*' * len(KEY)}>" * (len(KEY) + 1) + KEY[:-1]


async def test_a_refused_key_is_said_without_the_upstreams_words(world: Any) -> None:
    async def refuse(seen: Any, out: Any) -> None:
        await out.answer(401, b'{"error": {"message": "Incorrect API key provided: sk-re***cdef"}}')

    world.model.script = refuse
    desk = await world.desk()
    answer = await desk.post("/openai/responses", json={})
    assert answer.status_code == 401
    assert answer.headers["manydesks-refusal"] == "key_refused"
    assert answer.headers["x-should-retry"] == "false"
    assert "does not accept the office's key" in answer.json()["error"]["message"]
    assert "cdef" not in answer.text
    assert world.office.calls[0].status == 401


async def test_other_errors_of_the_upstream_are_handed_on(world: Any) -> None:
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'

    async def overloaded(seen: Any, out: Any) -> None:
        account = [("anthropic-organization-id", "org-1"), ("set-cookie", "a=b"), ("server", "x")]
        await out.answer(529, body, [*PLAIN, ("retry-after", "7"), ("x-should-retry", "true"), *account])

    world.model.script = overloaded
    desk = await world.desk()
    answer = await desk.post("/anthropic/v1/messages", json={})
    assert (answer.status_code, answer.content) == (529, body)
    assert dict(answer.headers) == {
        "content-length": str(len(body)),
        "content-type": "application/json",
        "retry-after": "7",
        "x-should-retry": "true",
    }
    assert world.office.calls[0].usage is None


async def test_events_pass_one_by_one(world: Any) -> None:
    go_on = asyncio.Event()

    async def stream(seen: Any, out: Any) -> None:
        await out.head(200, SSE)
        await out.data(b"event: one\ndata: {}\n\n")
        await go_on.wait()  # only the desk, once it has the first, lets it go on
        await out.data(b"event: two\ndata: {}\n\n")
        await out.end()

    world.model.script = stream
    desk = await world.desk()
    async with desk.stream("POST", "/anthropic/v1/messages", json={"stream": True}) as answer:
        pieces = answer.aiter_raw()
        assert await anext(pieces) == b"event: one\ndata: {}\n\n"
        assert world.office.calls == []
        go_on.set()
        assert await anext(pieces) == b"event: two\ndata: {}\n\n"
        assert [piece async for piece in pieces] == []
    assert world.office.calls[0].outcome == "answered"


@pytest.mark.parametrize("chunked", [False, True])
async def test_ten_megabytes_each_way(world: Any, chunked: bool) -> None:
    body = os.urandom(1024) * 10_240

    async def echo(seen: Any, out: Any) -> None:
        await out.answer(200, bytes(seen.body))

    async def pieces() -> Any:
        for at in range(0, len(body), 100_000):
            yield body[at : at + 100_000]

    world.model.script = echo
    desk = await world.desk()
    answer = await desk.post("/anthropic/v1/messages", content=pieces() if chunked else body)
    assert answer.content == body
    [seen] = world.model.seen
    assert bool(seen.header("content-length")) is not chunked
    [call] = world.office.calls
    assert (call.sent_bytes, call.received_bytes) == (len(body), len(body))


async def test_a_packed_answer_is_unpacked(world: Any) -> None:
    body = b'{"usage": {"input_tokens": 5, "output_tokens": 7}}'

    async def packed(seen: Any, out: Any) -> None:
        assert seen.header("accept-encoding") == ["identity"]
        await out.answer(200, gzip.compress(body), [*PLAIN, ("content-encoding", "gzip")])

    world.model.script = packed
    desk = await world.desk()
    answer = await desk.post("/anthropic/v1/messages", json={}, headers={"accept-encoding": "br"})
    assert answer.content == body
    assert "content-encoding" not in answer.headers
    assert world.office.calls[0].usage.output == 7


@pytest.mark.parametrize(
    ("status", "headers", "code"),
    [(307, [("location", "http://elsewhere/")], "redirected"), (200, [("content-encoding", "br")], "bad_answer")],
)
async def test_answers_that_are_not_handed_on(world: Any, status: int, headers: Any, code: str) -> None:
    async def strange(seen: Any, out: Any) -> None:
        await out.answer(status, b"...", headers)

    world.model.script = strange
    desk = await world.desk()
    answer = await desk.post("/anthropic/v1/messages", json={})
    assert (answer.status_code, answer.headers["manydesks-refusal"]) == (502, code)
    assert len(world.model.seen) == 1
    assert world.office.calls[0].outcome == "refused"


# budgets


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/anthropic/v1/messages", {"type": "billing_error", "message": "No money left today."}),
        (
            "/openai/chat/completions",
            {"message": "No money left today.", "type": "insufficient_quota", "param": None, "code": "over_budget"},
        ),
    ],
)
async def test_no_call_above_the_budget(world: Any, path: str, error: dict[str, Any]) -> None:
    world.office.cut = "No money left today."
    desk = await world.desk("s7")
    answer = await desk.post(path, json={})
    assert (answer.status_code, answer.json()["error"]) == (402, error)
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["manydesks-refusal"] == "over_budget"
    assert (world.model.seen, world.office.calls, world.office.asked) == ([], [], ["s7"])
    world.office.cut = None
    assert (await desk.post(path, json={})).status_code == 200


async def test_nothing_is_spent_when_the_books_cannot_be_read(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(session: str) -> str | None:
        raise RuntimeError("no books")

    gate = Gate(key_of=lambda upstream: KEY, may_spend=broken, called=world.office.called)
    desk = await desk_of(world, gate)
    answer = await desk.post("/anthropic/v1/messages", json={})
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")
    assert "no books" not in answer.text
    assert "no books" in caplog.text
    assert world.model.seen == []


async def test_what_cannot_be_booked_is_logged_and_the_answer_stays(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: object) -> None:
        raise RuntimeError("the pen is dry")

    gate = Gate(key_of=lambda upstream: KEY, may_spend=world.office.may_spend, called=broken)
    desk = await desk_of(world, gate)
    assert (await desk.post("/anthropic/v1/messages", json={})).json() == {"hello": "desk"}
    assert "the pen is dry" in caplog.text


async def desk_of(world: Any, gate: Gate) -> httpx.AsyncClient:
    """A desk whose office has another gate."""
    world.proxy._gate = gate
    client: httpx.AsyncClient = await world.desk()
    return client


async def test_a_missing_key_names_no_file_of_the_host(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    def missing(upstream: Upstream) -> str:
        raise SettingsError(reason="/home/ada/secrets.toml has no anthropic_key.")

    gate = Gate(key_of=missing, may_spend=world.office.may_spend, called=world.office.called)
    desk = await desk_of(world, gate)
    answer = await desk.post("/anthropic/v1/messages", json={})
    assert (answer.status_code, answer.headers["manydesks-refusal"]) == (403, "no_key")
    assert "secrets.toml" not in answer.text
    assert "/home/ada/secrets.toml has no anthropic_key" in caplog.text


@pytest.mark.parametrize("key", ["sk-line\r\nx-evil: 1", "sk-schlüssel", "", " sk-blank"])
async def test_a_key_that_fits_into_no_header_is_not_sent_and_not_said(
    world: Any, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    world.office.key = key
    desk = await world.desk()
    answer = await desk.post("/anthropic/v1/messages", json={})
    assert (answer.status_code, answer.headers["manydesks-refusal"]) == (403, "no_key")
    assert world.model.seen == []
    assert not key.strip() or key.strip() not in answer.text + caplog.text


async def test_the_key_is_in_no_log(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    desk = await world.desk()
    await desk.post("/anthropic/v1/messages", json={})

    async def hang_up(seen: Any, out: Any) -> None:
        out.writer.transport.abort()

    world.model.script = hang_up
    await desk.post("/openai/responses", json={})
    assert [call.outcome for call in world.office.calls] == ["answered", "upstream_failed"]
    assert "A model call of" in caplog.text
    assert KEY not in caplog.text


# doors


async def test_each_session_has_a_socket_of_its_own(world: Any) -> None:
    one, two = await world.desk("s1", ["anthropic"]), await world.desk("s2", ["openai"])
    await one.post("/anthropic/v1/messages", json={}, headers={"x-session": "s2", "x-claude-code-session-id": "s2"})
    await two.post("/openai/responses", json={})
    assert [call.session for call in world.office.calls] == ["s1", "s2"]
    # an upstream that it was not given is not there
    answer = await one.post("/openai/responses", json={})
    assert (answer.status_code, answer.headers["manydesks-refusal"]) == (404, "not_open")
    assert len(world.model.seen) == 2


async def test_a_socket_is_short_and_the_owners_alone(world: Any) -> None:
    path = await world.proxy.open("agent:" + "x" * 110 + ":1", ["anthropic"])
    status = path.stat()
    assert stat.S_ISSOCK(status.st_mode)
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert len(os.fsencode(path)) <= 100


async def test_doors_come_and_go(world: Any) -> None:
    first = await world.proxy.open("s1", ["anthropic"])
    with pytest.raises(BadInput, match="has its door already"):
        await world.proxy.open("s1", ["anthropic"])
    with pytest.raises(BadInput, match="there is no upstream 'gemini'; there are: anthropic, local, openai"):
        await world.proxy.open("s2", ["gemini"])
    await world.proxy.close("s1")
    assert not first.exists()
    await world.proxy.close("s1")
    assert await world.proxy.open("s1", ["anthropic"]) == first
    assert (await world.client(first).post("/anthropic/v1/messages", json={})).status_code == 200


async def test_what_a_dead_host_left_is_swept_and_replaced(world: Any) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(socket_path(world.home, "s1")))
    left.close()
    other = world.home.run / f"{PREFIX}note"
    other.write_text("no socket")
    assert world.proxy.sweep() == 1
    assert list(world.home.run.iterdir()) == [other]
    other.unlink()
    socket_path(world.home, "s1").touch()
    desk = await world.desk("s1")
    assert (await desk.post("/anthropic/v1/messages", json={})).status_code == 200


async def test_closing_a_door_cuts_its_calls_and_no_others(world: Any) -> None:
    go_on = asyncio.Event()

    async def stream(seen: Any, out: Any) -> None:
        await out.head(200, SSE)
        await out.data(b'data: {"message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}\n\n')
        if b"cut me" in seen.body:
            await out.gone()
        else:
            await go_on.wait()
            await out.end()

    world.model.script = stream
    one, two = await world.desk("s1"), await world.desk("s2")
    async with (
        one.stream("POST", "/anthropic/v1/messages", content=b"cut me") as cut,
        two.stream("POST", "/anthropic/v1/messages", content=b"keep me") as kept,
    ):
        await anext(cut_pieces := cut.aiter_raw())
        await anext(kept_pieces := kept.aiter_raw())
        await world.proxy.close("s1")
        with pytest.raises(httpx.TransportError):
            await anext(cut_pieces)
        [call] = world.office.calls
        assert (call.session, call.outcome) == ("s1", "closed")
        assert (call.usage.input, call.usage.output, call.usage.final) == (3, 1, False)
        await world.model.hung_up.wait()
        go_on.set()
        assert [piece async for piece in kept_pieces] == []
    assert [call.outcome for call in world.office.calls] == ["closed", "answered"]


# slow and broken sides


async def test_a_desk_that_leaves_ends_the_call(world: Any) -> None:
    async def silent(seen: Any, out: Any) -> None:
        await out.gone()

    world.model.script = silent
    path = await world.proxy.open("s1", ["anthropic"])
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: desk\r\ncontent-length: 2\r\n\r\n{}")
    await world.model.arrived.wait()
    writer.close()
    await world.office.booked.wait()
    assert (world.office.calls[0].outcome, world.office.calls[0].status) == ("desk_left", None)
    await world.model.hung_up.wait()


async def test_a_desk_that_leaves_in_the_middle_of_its_body(world: Any) -> None:
    path = await world.proxy.open("s1", ["anthropic"])
    _, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: desk\r\ncontent-length: 100\r\n\r\n{")
    await world.model.arrived.wait()
    writer.close()
    await world.office.booked.wait()
    assert world.office.calls[0].outcome == "desk_left"
    await world.model.hung_up.wait()


async def test_a_slow_desk_slows_the_upstream_down(world: Any) -> None:
    """The upstream cannot get rid of more than the buffers on the way hold, however much it has."""
    sent = 0
    total = 64 * 1024 * 1024

    async def flood(seen: Any, out: Any) -> None:
        nonlocal sent
        await out.head(200, [("content-length", str(total))])
        while sent < total:
            await out.data(b"x" * 65_536)
            sent += 65_536
        await out.end()

    world.model.script = flood
    path = await world.proxy.open("s1", ["anthropic"])
    reader, writer = await asyncio.open_unix_connection(str(path), limit=65_536)
    writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: desk\r\ncontent-length: 2\r\n\r\n{}")
    await reader.readuntil(b"\r\n\r\n")
    last = -1
    while sent != last:  # until it stands still
        last = sent
        for _ in range(1000):
            await asyncio.sleep(0)
    assert sent < total / 2
    rest = total
    while rest:
        rest -= len(await reader.read(65_536))
    assert sent == total
    await world.office.booked.wait()
    assert world.office.calls[0].received_bytes == total
    writer.close()


async def test_a_desk_that_takes_nothing_is_cut(make_world: Any) -> None:
    async def flood(seen: Any, out: Any) -> None:
        await out.head(200)
        while True:
            await out.data(b"x" * 65_536)

    async with make_world(Limits(desk_seconds=0.05)) as world:
        world.model.script = flood
        path = await world.proxy.open("s1", ["anthropic"])
        _, writer = await asyncio.open_unix_connection(str(path), limit=1)
        writer.write(b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: desk\r\ncontent-length: 2\r\n\r\n{}")
        await world.office.booked.wait()
        assert world.office.calls[0].outcome == "desk_left"
        writer.close()


async def test_a_silent_upstream(make_world: Any) -> None:
    async def silent(seen: Any, out: Any) -> None:
        await out.gone()

    async with make_world(Limits(upstream_seconds=0.05)) as world:
        world.model.script = silent
        desk = await world.desk()
        answer = await desk.post("/anthropic/v1/messages", json={})
        assert answer.status_code == 504
        assert answer.json() == {
            "type": "error",
            "error": {
                "type": "timeout_error",
                "message": "The upstream 'anthropic' did not answer within 0.05 s.",
            },
        }
        assert "x-should-retry" not in answer.headers
        assert world.office.calls[0].outcome == "upstream_failed"


@pytest.mark.parametrize("how", ["silence", "reset"])
async def test_an_answer_that_breaks_off_is_seen_to_be_broken(make_world: Any, how: str) -> None:
    async def half(seen: Any, out: Any) -> None:
        await out.head(200, SSE)
        await out.data(b"data: {}\n\n")
        if how == "reset":
            out.writer.transport.abort()
        await out.gone()

    # long enough for its first words on a busy machine
    async with make_world(Limits(upstream_seconds=1)) as world:
        world.model.script = half
        desk = await world.desk()
        with pytest.raises(httpx.TransportError):
            await desk.post("/anthropic/v1/messages", json={})
        assert world.office.calls[0].outcome == "upstream_failed"
        assert world.office.calls[0].status == 200


async def test_an_upstream_that_hangs_up_at_once(world: Any) -> None:
    async def hang_up(seen: Any, out: Any) -> None:
        out.writer.transport.abort()

    world.model.script = hang_up
    desk = await world.desk()
    answer = await desk.post("/openai/responses", json={})
    assert (answer.status_code, answer.headers["manydesks-refusal"]) == (502, "upstream_failed")
    assert answer.json()["error"]["message"] == "The upstream 'openai' broke off before it answered."


async def test_an_upstream_that_is_not_there(world: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        upstream = Upstream(
            name="down", kind="anthropic", base_url=f"http://127.0.0.1:{taken.getsockname()[1]}", key=None
        )
        proxy = Proxy(world.home, [upstream], world.office.gate())
        desk = world.client(await proxy.open("s9", ["down"]))
        answer = await desk.post("/down/v1/messages", json={})
        await proxy.stop()
    assert answer.status_code == 502
    assert answer.json()["error"]["message"] == "The upstream 'down' cannot be reached: there is no connection."


async def test_more_calls_than_allowed_are_told_to_wait(make_world: Any) -> None:
    go_on = asyncio.Event()

    async def wait(seen: Any, out: Any) -> None:
        await go_on.wait()
        await out.answer(200, b"{}")

    async with make_world(Limits(calls=1)) as world:
        world.model.script = wait
        desk, other = await world.desk("s1"), await world.desk("s2")
        first = asyncio.create_task(desk.post("/anthropic/v1/messages", json={}))
        await world.model.arrived.wait()
        answer = await desk.post("/anthropic/v1/messages", json={})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert answer.json()["error"]["type"] == "rate_limit_error"
        second = asyncio.create_task(other.post("/anthropic/v1/messages", json={}))
        go_on.set()
        assert [(await first).status_code, (await second).status_code] == [200, 200]
        assert (await desk.post("/anthropic/v1/messages", json={})).status_code == 200


# usage


async def test_usage_is_reported_for_each_call(world: Any) -> None:
    async def plain(seen: Any, out: Any) -> None:
        await out.answer(200, json.dumps({"model": "m", "usage": {"input_tokens": 5, "output_tokens": 7}}).encode())

    world.model.script = plain
    desk = await world.desk()
    await desk.post("/anthropic/v1/messages", json={})
    await desk.post("/anthropic/v1/messages/count_tokens", json={})
    counted, free = world.office.calls
    assert (counted.usage.input, counted.usage.output, counted.usage.model) == (5, 7, "m")
    assert counted.usage.cache_read is None
    assert counted.usage.final
    assert free.usage is None
    assert world.office.asked == ["s1"]


async def test_usage_of_a_stream_that_the_desk_leaves(world: Any) -> None:
    async def stream(seen: Any, out: Any) -> None:
        await out.head(200, SSE)
        await out.data(b'data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":9}}}\n\n')
        await out.gone()

    world.model.script = stream
    desk = await world.desk()
    async with desk.stream("POST", "/anthropic/v1/messages", json={}) as answer:
        await anext(answer.aiter_raw())
    await world.office.booked.wait()
    [call] = world.office.calls
    assert (call.outcome, call.usage.input, call.usage.output, call.usage.final) == ("desk_left", 9, None, False)
