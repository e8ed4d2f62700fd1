"""The tools of a desk for programs that speak MCP: JSON-RPC over streamable HTTP, in the runner's own process.

The official library takes half a second and 65 MB to import; what is spoken here is the part that tools need. It is
held against the official client and against the real programs.

* It listens on 127.0.0.1 only, on a port of the system's choice. The path holds a random word, so nobody else on the
  same loopback can guess it, and requests that a web page could make are refused by their Host and Origin.
* Calls belong to the turn that is under way; between turns, and when the turn ends first, a call is told so.
* A call that takes longer gets a stream: progress if the client asked for it, else comments, so that it stays open.
* A client that hangs up, or says `notifications/cancelled`, ends its call: what it would have given is for nobody.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from manydesks import __version__
from manydesks.runner import toolserver_rpc as rpc
from manydesks.runner.tools import registry
from manydesks.runner.tools.base import Outcome, Tool, Tools
from manydesks.runner.toolserver_rpc import Heard, RpcError

if TYPE_CHECKING:
    from manydesks.runner.toolserver_http import Reply, Request

log = logging.getLogger(__name__)

#: a call that is done by then is answered in one piece
QUICK_SECONDS = 1.0
PROGRESS_SECONDS = 5.0
MAX_CONNECTIONS = 64
#: clients that have shaken hands; beyond this the oldest has to do so again
MAX_SESSIONS = 64

_HOSTS = ("127.0.0.1", "localhost", "[::1]")
_NO_TURN = "No turn is under way, so nothing can be sent; tools work while you answer a message."
_TURN_OVER = "The turn ended before the tool did."

#: (session, id of the request)
_Key = tuple[str, str | int]


class ToolServer:
    """One runner's tools as an MCP server. `start` it, give its `url` to the provider, `close` it."""

    def __init__(
        self,
        *,
        tools: Mapping[str, Tool] | None = None,
        quick_seconds: float = QUICK_SECONDS,
        progress_seconds: float = PROGRESS_SECONDS,
    ) -> None:
        self._tools = tools
        self._quick = quick_seconds
        self._progress = progress_seconds
        self._path = f"/{secrets.token_urlsafe(24)}/mcp"
        self._port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._sessions: OrderedDict[str, None] = OrderedDict()
        #: the turn under way: its tools, and the message that calls belong to
        self._turn: tuple[Tools, str] | None = None
        self._calls: dict[_Key, asyncio.Task[Outcome]] = {}

    async def start(self) -> str:
        """Listen; the address for clients, which is a secret of this desk."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self.url

    def load(self) -> None:
        """Import and find what answering takes: not needed to listen, and wanted before the first client comes."""
        from manydesks.runner import toolserver_http as _  # noqa: F401

        self._offered()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{self._path}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @contextmanager
    def turn(self, tools: Tools, message: str) -> Iterator[None]:
        """While it lasts, calls are calls of this turn, for the message with this id; then they are ended."""
        self._turn = (tools, message)
        try:
            yield
        finally:
            self._turn = None
            for call in self._calls.values():
                call.cancel(_TURN_OVER)

    def _offered(self) -> Mapping[str, Tool]:
        return registry.find() if self._tools is None else self._tools

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from manydesks.runner.toolserver_http import serve

        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            await serve(reader, writer, self._answer)
        except asyncio.CancelledError:
            # the runner leaves; this task has no caller that would have to know
            log.debug("A connection was closed with the tool server")
        finally:
            self._connections.discard(task)

    async def _answer(self, request: Request, reply: Reply) -> None:
        if (refusal := self._refusal(request)) is not None:
            status, sentence = refusal
            more = [("allow", "POST, DELETE")] if status == 405 else []
            await reply.json(status, {"error": sentence}, more)
            return
        session = request.headers.get("mcp-session-id", "")
        if session and session not in self._sessions:
            await reply.json(404, {"error": "That session is over; initialize again."})
            return
        if request.method == "DELETE":
            self._sessions.pop(session, None)
            await reply.empty(204)
            return
        try:
            heard = rpc.read(request.body)
        except RpcError as error:
            await reply.json(400, error.as_json())
            return
        try:
            self._check_version(request, heard)
            await self._handle(heard, session, request, reply)
        except RpcError as error:
            error.id = heard.id
            status = 400 if error.code == rpc.UNSUPPORTED_VERSION else 200
            await (reply.json(status, error.as_json()) if heard.id is not None else reply.empty(202))

    def _refusal(self, request: Request) -> tuple[int, str] | None:
        """What no client of ours would ask."""
        if request.headers.get("host", "") not in [f"{host}:{self._port}" for host in _HOSTS]:
            return 403, "The tool server answers to its own address only."
        origin = request.headers.get("origin")
        if origin is not None and origin not in [f"http://{host}:{self._port}" for host in _HOSTS]:
            return 403, "The tool server does not answer web pages."
        if not hmac.compare_digest(request.path.encode(), self._path.encode()):
            return 404, "There is nothing here."
        if request.method not in ("POST", "DELETE"):
            return 405, "Messages are sent by POST; there is no stream of the server's own."
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind != "application/json":
            return 415, "A message is application/json."
        return None

    def _check_version(self, request: Request, heard: Heard) -> None:
        spoken = request.headers.get("mcp-protocol-version")
        if spoken is not None and spoken not in rpc.VERSIONS and heard.method != "initialize":
            data = {"supported": list(rpc.VERSIONS), "requested": spoken[:40]}
            raise RpcError(rpc.UNSUPPORTED_VERSION, f"Spoken here are {', '.join(rpc.VERSIONS)}.", data=data)

    async def _handle(self, heard: Heard, session: str, request: Request, reply: Reply) -> None:
        if heard.id is None:
            if heard.method == "notifications/cancelled":
                self._cancel(session, heard.params.get("requestId"))
            await reply.empty(202)
            return
        match heard.method:
            case "initialize":
                version, fresh = rpc.negotiated(heard.params), secrets.token_urlsafe(16)
                self._sessions[fresh] = None
                if len(self._sessions) > MAX_SESSIONS:
                    self._sessions.popitem(last=False)
                result: dict[str, Any] = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": False}},
                    "serverInfo": {"name": "manydesks", "version": __version__},
                }
                await reply.json(200, rpc.answer(heard.id, result), [("mcp-session-id", fresh)])
            case "ping":
                await reply.json(200, rpc.answer(heard.id, {}))
            case "tools/list":
                tools = [
                    {"name": tool.name, "description": tool.description, "inputSchema": tool.schema()}
                    for tool in self._offered().values()
                ]
                await reply.json(200, rpc.answer(heard.id, {"tools": tools}))
            case "tools/call":
                await self._call(heard, heard.id, session, request, reply)
            case _:
                raise RpcError(rpc.METHOD_NOT_FOUND, f"There is no method '{heard.method[:100]}' here.")

    async def _call(self, heard: Heard, id: str | int, session: str, request: Request, reply: Reply) -> None:
        name, arguments = heard.params.get("name"), heard.params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RpcError(rpc.INVALID_PARAMS, "tools/call has a name, and arguments as an object.")
        key = (session, id)
        if key in self._calls:
            raise RpcError(rpc.INVALID_REQUEST, f"The request {id!r} is under way already.")
        call = self._calls[key] = asyncio.create_task(self._run(name, arguments))
        streams = "text/event-stream" in request.headers.get("accept", "")
        try:
            await asyncio.wait({call}, timeout=self._quick if streams else None)
            if call.done():
                await reply.json(200, _result(id, call))
                return
            await reply.stream()
            await self._hold(call, rpc.progress_token(heard.params), reply)
            await reply.event(_result(id, call))
            await reply.end()
        finally:
            del self._calls[key]
            call.cancel()

    async def _hold(self, call: asyncio.Task[Outcome], token: str | int | None, reply: Reply) -> None:
        """Keep the stream open while the tool works."""
        beats = 0
        while not call.done():
            if token is None:
                await reply.comment()
            else:
                params = {"progressToken": token, "progress": beats, "message": "at work"}
                await reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            beats += 1
            await asyncio.wait({call}, timeout=self._progress)

    async def _run(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        if self._turn is None:
            return Outcome(ok=False, result=_NO_TURN)
        tools, message = self._turn
        return await tools.call(name, arguments, message=message)

    def _cancel(self, session: str, id: Any) -> None:
        # a bool is equal to a number, and no id
        call = self._calls.get((session, id)) if isinstance(id, str | int) and not isinstance(id, bool) else None
        if call is not None:
            call.cancel("cancelled")


def _result(id: str | int, call: asyncio.Task[Outcome]) -> dict[str, Any]:
    """The answer to a call that is done, one way or another."""
    try:
        outcome = call.result()
    except asyncio.CancelledError as cancelled:
        if cancelled.args != (_TURN_OVER,):
            return RpcError(rpc.CANCELLED, "The request was cancelled.", id=id).as_json()
        outcome = Outcome(ok=False, result=_TURN_OVER)
    except Exception as error:
        # said to the client and to the log; whatever the mailbox suffers from shows in the loop as well
        log.error("A tool failed", exc_info=error)
        return RpcError(rpc.INTERNAL_ERROR, f"The tool failed ({type(error).__name__}).", id=id).as_json()
    text = outcome.result if isinstance(outcome.result, str) else json.dumps(outcome.result, ensure_ascii=False)
    return rpc.answer(id, {"content": [{"type": "text", "text": text}], "isError": not outcome.ok})
