"""The proxy, spoken to by a desk that wants more than it was given."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manydesks.proxy.limits import Limits

KEY = b"sk-real-0123456789abcdef"
HEAD = b"POST /anthropic/v1/messages HTTP/1.1\r\nhost: desk\r\n"


async def speak(path: Any, *words: bytes, end: bool = True) -> bytes:
    """Everything that the proxy answers to these bytes before it hangs up."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    heard = b""
    try:
        for part in words:
            writer.write(part)
            await writer.drain()
        if end:
            writer.write_eof()
        while piece := await reader.read(65_536):
            heard += piece
    except ConnectionError:
        pass
    finally:
        writer.close()
    return heard


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        for _ in itertools.count():
            if condition():
                return
            await asyncio.sleep(0)


def status(heard: bytes) -> int:
    return int(heard.split(b" ", 2)[1])


def code(heard: bytes) -> str:
    [line] = [line for line in heard.split(b"\r\n") if line.startswith(b"manydesks-refusal: ")]
    return line.partition(b": ")[2].decode()


#: what is refused before anything is forwarded, with the status and its word
REFUSED = {
    "a whole URL": (b"POST http://evil.example/v1/messages HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "a tunnel": (b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n", 400, "bad_path"),
    "a star": (b"OPTIONS * HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "a way up": (b"GET /anthropic/v1/../v1/models HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "an encoded way up": (b"GET /anthropic/v1/%2e%2e/admin HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "an encoded slash": (b"GET /anthropic/v1%2fmodels HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "a backslash": (b"GET /anthropic/v1\\models HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "two slashes": (b"GET //anthropic/v1/models HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "two slashes inside": (b"GET /anthropic//v1/models HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "a fragment": (b"GET /anthropic/v1/models?#x HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "another host's name": (b"GET /@evil.example/ HTTP/1.1\r\nhost: desk\r\n\r\n", 400, "bad_path"),
    "a path that is not open": (b"GET /anthropic/v1/files HTTP/1.1\r\nhost: desk\r\n\r\n", 404, "not_open"),
    "a path that only begins well": (
        b"POST /anthropic/v1/messages/batches HTTP/1.1\r\nhost: d\r\n\r\n",
        404,
        "not_open",
    ),
    "a method that is not open": (b"DELETE /anthropic/v1/messages HTTP/1.1\r\nhost: desk\r\n\r\n", 404, "not_open"),
    "an upstream of another desk": (b"GET /local/models HTTP/1.1\r\nhost: desk\r\n\r\n", 404, "not_open"),
    "length and chunks": (
        HEAD + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
        400,
        "bad_framing",
    ),
    "chunks in HTTP/1.0": (
        b"POST /anthropic/v1/messages HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "bad_framing",
    ),
    "two lengths": (HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab", 400, "bad_request"),
    "a length that is none": (HEAD + b"content-length: +5\r\n\r\nabcde", 400, "bad_request"),
    "a negative length": (HEAD + b"content-length: -5\r\n\r\n", 400, "bad_request"),
    "another transfer encoding": (HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, "bad_request"),
    "a blank before the colon": (HEAD + b"content-length : 5\r\n\r\nabcde", 400, "bad_request"),
    "a zero byte": (HEAD + b"x: a\0b\r\n\r\n", 400, "bad_request"),
    "a lone carriage return": (HEAD + b"user-agent: a\rx-api-key: b\r\n\r\n", 400, "bad_request"),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "bad_request"),
    "no host": (b"GET /anthropic/v1/models HTTP/1.1\r\n\r\n", 400, "bad_request"),
    "a body where there is none": (
        b"GET /anthropic/v1/models HTTP/1.1\r\nhost: desk\r\ncontent-length: 2\r\n\r\n{}",
        400,
        "bad_framing",
    ),
    "a huge header": (HEAD + b"x: " + b"a" * 100_000 + b"\r\n\r\n", 431, "head_too_large"),
    "a header just above": (HEAD + b"x: " + b"a" * 32_768 + b"\r\n\r\n", 431, "head_too_large"),
    "a header without end": (HEAD + b"x: " + b"a" * 100_000, 431, "head_too_large"),
    "a thousand headers": (
        HEAD + b"x-stainless-a: aaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 1000 + b"\r\n",
        431,
        "head_too_large",
    ),
    "a long line": (b"GET /anthropic/" + b"a" * 40_000 + b" HTTP/1.1\r\nhost: desk\r\n\r\n", 431, "head_too_large"),
    "a long query": (
        b"GET /anthropic/v1/models?beta=" + b"a" * 4000 + b" HTTP/1.1\r\nhost: d\r\n\r\n",
        400,
        "bad_path",
    ),
    "a body that is too large": (HEAD + b"content-length: 99999999\r\n\r\n" + b"x" * 5_000_000, 413, "too_large"),
    "a length beyond all measure": (HEAD + b"content-length: 99999999999999999999\r\n\r\n", 413, "too_large"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_refused(world: Any, what: str) -> None:
    words, wanted, word = REFUSED[what]
    path = await world.proxy.open("s1", ["anthropic"])
    heard = await speak(path, words)
    assert (status(heard), code(heard)) == (wanted, word)
    # one answer, then the line is closed: nothing that follows is taken for a request
    assert heard.count(b"HTTP/1.1 ") == 1
    assert b"\r\nconnection: close\r\n" in heard.lower()
    error = json.loads(heard.partition(b"\r\n\r\n")[2])["error"]
    assert error["message"].endswith((".", ".)"))
    assert (world.model.seen, world.office.calls, world.office.asked) == ([], [], [])


async def test_a_head_request_is_refused_without_a_body(world: Any) -> None:
    path = await world.proxy.open("s1", ["anthropic"])
    heard = await speak(path, b"HEAD /anthropic/api/hello HTTP/1.1\r\nhost: desk\r\n\r\n")
    assert status(heard) == 404
    assert heard.endswith(b"\r\n\r\n")


async def test_chunks_are_counted(make_world: Any) -> None:
    async with make_world(Limits(body_bytes=1000)) as world:
        path = await world.proxy.open("s1", ["anthropic"])
        chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
        heard = await speak(path, HEAD + b"transfer-encoding: chunked\r\n\r\n", *[chunk] * 50)
        assert (status(heard), code(heard)) == (413, "too_large")
        await world.office.booked.wait()
        assert world.office.calls[0].outcome == "refused"
        whole = await speak(
            path, HEAD + b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n", chunk * 10, b"0\r\n\r\n", end=False
        )
        assert status(whole) == 200
        assert len(world.model.seen[-1].body) == 1000


async def test_what_the_desk_names_as_hop_headers_changes_nothing(world: Any) -> None:
    path = await world.proxy.open("s1", ["anthropic"])
    extra = b"connection: close, x-api-key, host\r\nte: trailers\r\nupgrade: websocket\r\nx-forwarded-for: 1.2.3.4\r\n"
    heard = await speak(path, HEAD + extra + b"content-length: 2\r\n\r\n{}", end=False)
    assert status(heard) == 200
    [seen] = world.model.seen
    assert seen.header("x-api-key") == [KEY.decode()]
    names = {name for name, _ in seen.headers}
    assert names == {"host", "accept-encoding", "content-length", "x-api-key"}


async def test_folded_lines_smuggle_no_header(world: Any) -> None:
    path = await world.proxy.open("s1", ["anthropic"])
    heard = await speak(
        path, HEAD + b"user-agent: a\r\n x-api-key: b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", end=False
    )
    assert status(heard) == 200
    [seen] = world.model.seen
    assert seen.header("x-api-key") == [KEY.decode()]
    assert all("\n" not in value and "\r" not in value for _, value in seen.headers)


async def test_requests_on_one_line_are_answered_in_order(world: Any) -> None:
    async def echo(seen: Any, out: Any) -> None:
        await out.answer(200, bytes(seen.body))

    world.model.script = echo
    path = await world.proxy.open("s1", ["anthropic"])
    many = [HEAD + b"content-length: 2\r\n\r\n%02d" % number for number in range(20)]
    last = HEAD + b"connection: close\r\ncontent-length: 4\r\n\r\nlast"
    heard = await speak(path, b"".join(many) + last, end=False)
    assert [bytes(seen.body) for seen in world.model.seen] == [*(b"%02d" % number for number in range(20)), b"last"]
    assert heard.count(b"HTTP/1.1 200") == 21
    assert heard.endswith(b"last")


async def test_a_body_is_no_request(world: Any) -> None:
    """What looks like a request inside of a body stays a body."""
    path = await world.proxy.open("s1", ["anthropic"])
    inner = b"GET /anthropic/v1/models HTTP/1.1\r\nhost: desk\r\n\r\n"
    heard = await speak(path, HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(inner) + inner, end=False)
    assert heard.count(b"HTTP/1.1 ") == 1
    [seen] = world.model.seen
    assert bytes(seen.body) == inner


async def test_a_desk_that_floods_ahead_is_not_listened_to(world: Any) -> None:
    """While an answer is under way, what the desk sends on is kept within bounds, and the answer still arrives."""
    go_on = asyncio.Event()

    async def wait(seen: Any, out: Any) -> None:
        await go_on.wait()
        await out.answer(200, b"{}")

    world.model.script = wait
    path = await world.proxy.open("s1", ["anthropic"])
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(HEAD + b"content-length: 0\r\n\r\n")
    await world.model.arrived.wait()
    writer.write(b"x" * 4_000_000)
    left = -1
    while left != (left := writer.transport.get_write_buffer_size()):  # until nobody takes any more of it
        for _ in range(1000):
            await asyncio.sleep(0)
    assert left > 3_000_000
    go_on.set()
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()


async def test_100_continue(world: Any) -> None:
    path = await world.proxy.open("s1", ["anthropic"])
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(HEAD + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    writer.write(b"{}")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    assert world.model.seen[0].header("expect") == []
    writer.close()


# time and numbers


async def test_half_open_lines_end_by_themselves(make_world: Any) -> None:
    async with make_world(
        Limits(idle_seconds=0.05, head_seconds=0.05, desk_seconds=0.05, linger_seconds=0.05)
    ) as world:
        path = await world.proxy.open("s1", ["anthropic"])
        nothing, half_head, half_body = await asyncio.gather(
            speak(path, end=False),
            speak(path, b"POST /anthropic/v1/mess", end=False),
            speak(path, HEAD + b"content-length: 100\r\n\r\n{", end=False),
        )
        assert nothing == b""
        assert [status(half_head), status(half_body)] == [408, 408]
        assert [code(half_head), code(half_body)] == ["too_slow", "too_slow"]
        await asyncio.gather(*world.proxy._doors["s1"]._open)


async def test_a_head_that_drips_is_not_waited_for(make_world: Any) -> None:
    """The time counts from the first byte, not from the last one."""
    async with make_world(Limits(head_seconds=0.1, linger_seconds=0.01)) as world:
        path = await world.proxy.open("s1", ["anthropic"])
        reader, writer = await asyncio.open_unix_connection(str(path))
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b"P")
            await asyncio.wait([answer], timeout=0.01)
        assert answer.result().startswith(b"HTTP/1.1 408")
        writer.close()


async def test_more_lines_than_allowed_are_hung_up_on(make_world: Any) -> None:
    async with make_world(Limits(connections=3)) as world:
        path = await world.proxy.open("s1", ["anthropic"])
        lines = [await asyncio.open_unix_connection(str(path)) for _ in range(3)]
        assert await speak(path, HEAD + b"content-length: 0\r\n\r\n") == b""
        lines.pop()[1].close()
        await asyncio.wait(world.proxy._doors["s1"]._open, return_when=asyncio.FIRST_COMPLETED)
        assert status(await speak(path, HEAD + b"connection: close\r\ncontent-length: 0\r\n\r\n", end=False)) == 200
        for _, writer in lines:
            writer.close()


async def test_closing_ends_every_line_whatever_it_does(world: Any) -> None:
    async def silent(seen: Any, out: Any) -> None:
        await out.gone()

    world.model.script = silent
    path = await world.proxy.open("s1", ["anthropic"])
    starts = [b"", b"POST /anth", HEAD + b"content-length: 9\r\n\r\n{", HEAD + b"content-length: 0\r\n\r\n"]
    talks = [asyncio.ensure_future(speak(path, start, end=False)) for start in starts]
    await world.model.arrived.wait()
    await until(lambda: len(world.proxy._doors["s1"]._open) == len(starts))
    await world.proxy.close("s1")
    assert await asyncio.gather(*talks) == [b"", b"", b"", b""]


# chance


# the fixture only hands over a function
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_mangled_requests_never_show_the_key_or_break_the_door(make_world: Any, seed: int) -> None:
    rng = random.Random(seed)
    parts = [words for words, _, _ in REFUSED.values()]
    parts += [HEAD + b"content-length: 2\r\n\r\n{}", HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"]
    words = bytearray(b"".join(rng.choices(parts, k=rng.randint(1, 3)))[:5000])
    for _ in range(rng.randint(0, 6)):
        at = rng.randrange(len(words))
        words[at : at + rng.randint(0, 3)] = rng.choice([b"", b"\r\n", b"\0", b":", b" ", b"%0d%0a", b"\n", b"\xff"])

    async def attack() -> None:
        async def echo(seen: Any, out: Any) -> None:
            assert seen.header("x-api-key") == [KEY.decode()]
            await out.answer(200, repr(seen).encode(), [("content-type", "text/plain")])

        async with make_world(Limits(linger_seconds=0.05)) as world:
            world.model.script = echo
            path = await world.proxy.open("s1", ["anthropic"])
            assert KEY not in await speak(path, bytes(words))
            heard = await speak(path, HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\n{}", end=False)
            assert status(heard) == 200
            assert all(seen.target.partition("?")[0] in ("/v1/messages", "/v1/models") for seen in world.model.seen)

    asyncio.run(attack())
