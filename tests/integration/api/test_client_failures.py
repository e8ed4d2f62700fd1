"""The clients for Python where something is not as it should be; what one promises, the other does."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from manydesks.client import AsyncClient, Client, Event
from manydesks.client.tries import MARGIN_SECONDS
from manydesks.domain.errors import ApiRefused, BadInput, OfficeError
from manydesks.settings.token import rotate_token
from manydesks.testing.api import ServedOffice

#: on a machine that has other things to do
SLOW_SECONDS = 2.0


class Coroutines:
    """The client for coroutines, one call after the other, as the one that blocks is used."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._client = AsyncClient(*given, **named)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **named: self._runner.run(getattr(self._client, name)(*given, **named))

    def follow(self, **named: Any) -> Generator[Event, None, None]:
        seen = self._client.follow(**named)

        async def more() -> Event:
            return await anext(seen)

        def events() -> Generator[Event, None, None]:
            try:
                while True:
                    yield self._runner.run(more())
            finally:
                self._runner.run(seen.aclose())

        return events()


Kind = type[Client] | type[Coroutines]


@pytest.fixture(params=[Client, Coroutines], ids=["blocking", "coroutines"])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


Answer = tuple[int, dict[str, str], bytes]


class Scripted(BaseHTTPRequestHandler):
    """Answers one after the other, the last of them for ever, and when they were asked for."""

    answers: tuple[Answer, ...] = ()
    asked: tuple[float, ...] = ()

    def do_GET(self) -> None:
        kind = type(self)
        status, headers, body = kind.answers[min(len(kind.asked), len(kind.answers) - 1)]
        kind.asked += (time.monotonic(),)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


class Listening(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        pass  # who speaks another language is what is tested here


@contextmanager
def scripted(*answers: Answer, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, type[Scripted]]]:
    handler = type("One", (Scripted,), {"answers": answers})
    with serving(handler, tls) as url:
        yield url, handler


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    with Listening(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


HTML = (200, {"Content-Type": "text/html"}, b"<p>Welcome to the router.")
STREAM = (200, {"Content-Type": "text/event-stream"}, b"id: 1\nevent: a\ndata: {}\n\n")
ONE = Event(seq=1, kind="a", data={})


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key, file = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}.lan",
         "-keyout", key, "-out", file],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, file


@contextmanager
def encrypted(folder: Path, *answers: Answer) -> Iterator[str]:
    key, file = certificate(folder, "desk")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    with scripted(*answers, tls=context) as (url, _):
        yield url


def refusal(kind: Kind, url: str, **named: Any) -> str:
    """What following says of whoever is there, at once."""
    began = time.monotonic()
    with (
        kind(url, token="") as client,
        contextlib.closing(client.follow(after=0, **named)) as seen,
        pytest.raises(OfficeError) as raised,
    ):
        next(seen)
    assert time.monotonic() - began < SLOW_SECONDS
    return str(raised.value)


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


# the token


def test_a_token_may_end_with_its_line(kind: Kind, served: ServedOffice) -> None:
    with kind(served.url(), token=f"{served.token()}\n") as client:
        assert client.status()


# who is there


@pytest.mark.parametrize("wait", [False, True])
def test_following_whoever_is_no_office_says_so_at_once(kind: Kind, wait: bool, tmp_path: Path) -> None:
    with scripted(HTML) as (url, _):
        assert refusal(kind, url, wait=wait).startswith(f"What answers at {url} is no office: ")
        url = url.replace("http:", "https:")
        assert refusal(kind, url, wait=wait).startswith(f"What answers at {url} does not speak TLS as it should: ")
    with encrypted(tmp_path, STREAM) as url:
        assert refusal(kind, url, wait=wait).startswith(f"The certificate of whoever answers at {url} is not trusted: ")
    with socket.create_server(("127.0.0.1", 0)) as other:
        url = f"http://127.0.0.1:{other.getsockname()[1]}"

        def greet() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"+OK POP3 ready\r\n\r\n")
                connection.recv(65536)

        thread = threading.Thread(target=greet)
        thread.start()
        assert refusal(kind, url, wait=wait).startswith(f"What answers at {url} is no office: it does not speak HTTP")
        thread.join()


def test_http_where_https_is_spoken_is_said_at_once(kind: Kind, tmp_path: Path) -> None:
    with encrypted(tmp_path, STREAM) as url:
        url = url.replace("https:", "http:")
        assert refusal(kind, url).endswith("; is it https there?")


def test_nobody_at_all_is_said_at_once(kind: Kind) -> None:
    url = f"http://127.0.0.1:{a_free_port()}"
    assert refusal(kind, url).startswith(f"The office does not answer at {url}: ")


def test_one_who_is_not_there_yet_is_waited_for_if_that_is_wanted(kind: Kind) -> None:
    down: Answer = (503, {}, b"the office is down")
    with scripted(down, down, STREAM) as (url, handler), kind(url, token="") as client:
        with contextlib.closing(client.follow(after=0, wait=True)) as seen:
            assert next(seen) == ONE
        assert len(handler.asked) == 3
    with scripted(down) as (url, _), kind(url, token="") as client:
        with contextlib.closing(client.follow(after=0)) as seen, pytest.raises(ApiRefused) as refused:
            next(seen)
        assert refused.value.status == 503


def test_an_answer_that_no_office_gives_is_one_sentence(kind: Kind) -> None:
    for body in (HTML[2], b"", b"[]", b"null", b'{"hello": "world"}'):
        with scripted((200, {}, body)) as (url, handler), kind(url, token="") as client:
            asking: list[Callable[[], Any]] = [
                lambda: client.send("hello"),
                lambda: client.wait("m", 5),
                lambda: client.ask("hello", seconds=5),
            ]
            if b"hello" not in body:
                asking += [client.status, lambda: client.message("m")]
            for ask in asking:
                with pytest.raises(OfficeError, match=f"^What answers at {url} is no office: "):
                    ask()
            assert len(handler.asked) == len(asking)


def test_a_closed_client_says_that_it_is(kind: Kind, served: ServedOffice) -> None:
    with kind(home=served.home.path) as client:
        seen = client.follow(after=0)
        assert next(seen).seq == 1
        client.close()
        for ask in (client.status, lambda: client.send("hello"), lambda: next(client.follow())):
            with pytest.raises(OfficeError, match=r"^This client was closed"):
                ask()
        with pytest.raises(OfficeError, match=r"^This client was closed"):
            list(seen)


# what changes


def test_an_office_that_begins_to_encrypt_or_has_a_new_certificate_is_known_again(
    kind: Kind, home: Path, make_served: Callable[..., ServedOffice], tmp_path: Path
) -> None:
    office = make_served(port=a_free_port())
    with kind(home=home) as client, contextlib.closing(client.follow(after=0)) as seen:
        count = next(seen).seq or 0
        for name in ("first", "second"):
            key, file = certificate(tmp_path, name)
            office.stop()
            home.joinpath("settings.toml").write_text(f'[api]\ntls_certificate = "{file}"\ntls_key = "{key}"\n')
            office.start()
            assert client.ask(f"!say {name}") == name
            for event in seen:
                count += 1
                assert event.seq == count
                if event.kind == "message_received":
                    break
        assert office.url().startswith("https:")


def test_a_new_token_is_found_by_whom_the_old_one_was(
    kind: Kind, home: Path, make_served: Callable[..., ServedOffice]
) -> None:
    office = make_served()
    given = office.token()
    with (
        kind(home=home) as client,
        kind(home=home, token=given) as other,
        contextlib.closing(client.follow(after=0)) as seen,
    ):
        assert next(seen).seq == 1
        rotate_token(office.home)
        assert client.ask("!say open") == "open"
        assert next(seen).seq == 2
        with pytest.raises(ApiRefused) as refused:
            other.send("hello")
        assert refused.value.status == 401
        office.stop()
        rotate_token(office.home)
        office.start()
        with contextlib.closing(client.follow(after=0)) as again:
            assert next(again).seq == 1
        assert next(seen).seq == 3
        assert client.ask("!say closed") == "closed"


async def test_a_new_token_is_found_by_a_crowd(home: Path, make_served: Callable[..., ServedOffice]) -> None:
    office = make_served()
    async with AsyncClient(home=home) as client:
        rotate_token(office.home)
        # more than are kept waiting for being wrong; the others are told that they are too many
        assert all(await asyncio.gather(*(client.status() for _ in range(100))))


# time


@contextmanager
def silent() -> Iterator[str]:
    """Takes every connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


class Endless(BaseHTTPRequestHandler):
    """A byte now and then, for as long as somebody listens."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b" ")
            time.sleep(0.05)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def endless() -> Iterator[str]:
    with serving(Endless) as url:
        yield url


@pytest.mark.parametrize("server", [silent, endless])
def test_the_seconds_are_kept_by_whoever_is_not_answered(
    kind: Kind, server: Callable[[], contextlib.AbstractContextManager[str]]
) -> None:
    with server() as url, kind(url, token="") as client:
        asking: tuple[Callable[[], Any], ...] = (
            lambda: client.wait("m", 0.2),
            lambda: client.ask("hello", seconds=0.2, message_id="mine"),
        )
        for ask in asking:
            began = time.monotonic()
            with pytest.raises(OfficeError, match=f"^The office does not answer at {url}: ") as raised:
                ask()
            assert time.monotonic() - began < 0.2 + MARGIN_SECONDS + SLOW_SECONDS
    assert str(raised.value).endswith(
        "The message 'mine' may have been stored; sent again with this id (`message_id`) it is not stored twice."
    )
    assert raised.value.details == {"message": "mine"}


def test_the_seconds_are_kept_where_nobody_is(kind: Kind) -> None:
    with kind(f"http://127.0.0.1:{a_free_port()}", token="") as client:
        began = time.monotonic()
        with pytest.raises(OfficeError, match=r"The message 'mine' was not sent\.$"):
            client.ask("hello", seconds=0.2, message_id="mine")
        assert time.monotonic() - began < 0.2 + SLOW_SECONDS
        with pytest.raises(BadInput, match="`seconds` is a number"):
            client.wait("m", float("nan"))


def test_a_message_that_is_stored_and_not_heard_of_is_said_to_be(kind: Kind) -> None:
    stored: Answer = (200, {}, b'{"messageId": "mine", "traceId": "t", "messages": [], "notices": []}')
    with scripted(stored, (200, {"Content-Length": "9"}, b"")) as (url, _), kind(url, token="") as client:
        with pytest.raises(OfficeError, match="The message 'mine' is stored; `wait` waits for it") as raised:
            client.ask("hello", seconds=0.2)
        assert raised.value.details == {"message": "mine"}


# many


def test_too_many_requests_are_fewer_later(kind: Kind) -> None:
    busy = (429, {"Retry-After": "1"}, b'{"ok": false, "error": "Ask again in 1 s."}')
    with scripted(busy, STREAM) as (url, handler), kind(url, token="") as client:
        with contextlib.closing(client.follow(after=0)) as seen:
            assert next(seen) == ONE
        assert handler.asked[1] - handler.asked[0] >= 1.0


def test_no_kinds_are_not_all_kinds(kind: Kind, served: ServedOffice) -> None:
    with kind(home=served.home.path) as client, pytest.raises(BadInput, match="`types` is a list of one or more"):
        client.follow(types=[])


def test_many_may_follow_with_one_client(kind: Kind, served: ServedOffice) -> None:
    with kind(home=served.home.path) as client, contextlib.ExitStack() as stack:
        for _ in range(105):
            seen = stack.enter_context(contextlib.closing(client.follow(after=0)))
            assert next(seen).seq == 1
        assert client.status()
