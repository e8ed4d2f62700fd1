"""A proxy with real Unix sockets in front of a real server on loopback, and desks that speak to it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest

from manydesks.proxy.gate import Call, Gate
from manydesks.proxy.limits import Limits
from manydesks.proxy.server import Proxy
from manydesks.proxy.upstream import Upstream
from manydesks.settings.home import Home

KEY = "sk-real-0123456789abcdef"
#: made once: reading the trusted certificates takes longer than most tests
TLS = httpx.create_ssl_context(trust_env=False)


@dataclass
class Seen:
    """A request as the model server got it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name]


class Out:
    """How a script answers; it may also stop in the middle."""

    def __init__(self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._http = http
        self.reader = reader
        self.writer = writer

    async def head(self, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> None:
        await self._send(h11.Response(status_code=status, headers=list(headers)))

    async def data(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def end(self) -> None:
        await self._send(h11.EndOfMessage())

    async def answer(self, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        await self.head(status, [("content-length", str(len(body))), *headers])
        await self.data(body)
        await self.end()

    async def gone(self) -> None:
        """Waits until the caller has hung up."""
        while await self.reader.read(65_536):
            pass

    async def _send(self, event: Any) -> None:
        self.writer.write(self._http.send(event) or b"")
        await self.writer.drain()


Script = Callable[[Seen, Out], Awaitable[None]]


async def hello(seen: Seen, out: Out) -> None:
    await out.answer(200, b'{"hello": "desk"}', [("content-type", "application/json")])


class ModelServer:
    """Answers every request by its script."""

    def __init__(self) -> None:
        self.script: Script = hello
        self.seen: list[Seen] = []
        self.port = 0
        #: connections that were ended by the other side or by the script
        self.hung_up = asyncio.Event()
        self.arrived = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ModelServer]:
        tasks: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                http = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
                if not await self._one(http, reader, writer):
                    return
        except ConnectionError:
            pass
        finally:
            self.hung_up.set()
            writer.transport.abort()

    async def _one(self, http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        seen: Seen | None = None
        while True:
            try:
                event = http.next_event()
            except h11.RemoteProtocolError:
                return False  # the caller broke off in the middle of its body
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65_536))
            elif isinstance(event, h11.Request):
                headers = [(name.decode(), value.decode("latin-1")) for name, value in event.headers]
                seen = Seen(event.method.decode(), event.target.decode(), headers)
                self.seen.append(seen)
                self.arrived.set()
            elif isinstance(event, h11.Data):
                assert seen is not None
                seen.body += event.data
            elif isinstance(event, h11.EndOfMessage):
                assert seen is not None
                await self.script(seen, Out(http, reader, writer))
                return http.our_state is h11.DONE and http.their_state is h11.DONE
            else:
                return False


@dataclass
class Office:
    """The office's side of the gate, as a test sets it."""

    key: str = KEY
    #: a sentence: nobody may spend
    cut: str | None = None
    asked: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    booked: asyncio.Event = field(default_factory=asyncio.Event)

    def gate(self) -> Gate:
        return Gate(key_of=lambda upstream: self.key, may_spend=self.may_spend, called=self.called)

    async def may_spend(self, session: str) -> str | None:
        self.asked.append(session)
        return self.cut

    def called(self, call: Call) -> None:
        self.calls.append(call)
        self.booked.set()


@dataclass
class World:
    home: Home
    model: ModelServer
    office: Office
    proxy: Proxy
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    async def desk(self, session: str = "s1", upstreams: Iterable[str] = ("anthropic", "openai")) -> httpx.AsyncClient:
        """Opens a session's door; returns a client that knows no key."""
        return self.client(await self.proxy.open(session, upstreams))

    def client(self, path: Path) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        self.clients.append(httpx.AsyncClient(transport=transport, base_url="http://desk", timeout=30))
        return self.clients[-1]


@asynccontextmanager
async def world_with(limits: Limits) -> AsyncIterator[World]:
    before = asyncio.all_tasks()
    with tempfile.TemporaryDirectory(prefix="md-") as folder:
        home = Home(Path(folder))
        home.prepare()
        async with ModelServer().running() as model:
            office = Office()
            base = f"http://127.0.0.1:{model.port}"
            upstreams = [
                Upstream(name="anthropic", kind="anthropic", base_url=base, key="anthropic_key"),
                Upstream(name="openai", kind="openai", base_url=f"{base}/v1", key="openai_key"),
                Upstream(name="local", kind="openai", base_url=f"{base}/local", key=None),
            ]
            proxy = Proxy(home, upstreams, office.gate(), limits=limits, tls=TLS)
            world = World(home=home, model=model, office=office, proxy=proxy)
            try:
                yield world
            finally:
                for client in world.clients:
                    await client.aclose()
                await proxy.stop()
        assert list(home.run.iterdir()) == []
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:  # generators of httpx that the loop is just closing; whatever waits for something is a leak
        left = (await asyncio.wait(left, timeout=1))[1]
    assert left == set(), "a task was left behind"


@pytest.fixture
def make_world() -> Callable[[Limits], Any]:
    """A world with limits of the test's own: `async with make_world(Limits(...)) as world`."""
    return world_with


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with world_with(Limits()) as world:
        yield world
