"""The server, for use in an event loop; `threaded.py` has it for everybody else."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from manydesks.domain.clock import Clock, SystemClock
from manydesks.domain.errors import BadInput
from manydesks.testing.model.asked import Asked
from manydesks.testing.model.chat import Chat
from manydesks.testing.model.connection import Connection, Heard
from manydesks.testing.model.dialect import Dialect, Reply
from manydesks.testing.model.front import other
from manydesks.testing.model.messages import Messages
from manydesks.testing.model.plan import Plan, answer, refusal
from manydesks.testing.model.record import SECONDS, Ending, How, Record, Request, key_of
from manydesks.testing.model.responses import Responses
from manydesks.testing.model.script import Play, Player, Script
from manydesks.testing.model.turn import Turn

DIALECTS: Mapping[str, Dialect] = {
    "/v1/messages": Messages(),
    "/v1/responses": Responses(),
    "/v1/chat/completions": Chat(),
}

#: headers by which clients name a conversation: any client, claude, codex
CONVERSATION = ("x-conversation-id", "x-claude-code-session-id", "thread-id", "session-id")


class ModelServer:
    """Listens on loopback, or on a Unix socket, and nowhere else."""

    def __init__(
        self,
        script: Script | Iterable[Play] = (),
        *,
        port: int = 0,
        socket: Path | None = None,
        key: str | None = None,
        keep: int | None = None,
        salt: str | None = None,
        clock: Clock | None = None,
        on_request: Callable[[Request], object] | None = None,
    ) -> None:
        """`port` 0 takes a free one; `socket` is used instead of a port. Requests with a key other than `key` get 401.
        Of requests and endings the last `keep` are remembered, or all. `salt` begins every id; it is drawn by lot if
        not given, so that ids of two servers differ."""
        self._player = Player(script if isinstance(script, Script) else Script(turns=tuple(script)))
        self._port = port
        self.socket = socket
        self._key = key
        self._salt = secrets.token_hex(4) if salt is None else salt
        self._clock = clock or SystemClock()
        self._on_request = on_request
        self._keep = keep
        self._count = 0
        #: conversations that go on from an answer of ours, by its id
        self._answers: dict[str, str] = {}
        self._listening: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []

    async def start(self) -> None:
        """Raises OSError if the port or the path cannot be had."""
        self._record = Record(self._keep)
        self._released = asyncio.Event()
        if self.socket is not None:
            self._listening = await asyncio.start_unix_server(self._serve, self.socket)
        else:
            self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._listening.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """End every connection, also in the middle of an answer. Raises what a function of the script raised."""
        if self._listening is None:
            return
        self._listening.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._listening.wait_closed()
        self._listening = None
        if self.socket is not None:
            self.socket.unlink(missing_ok=True)
        if self._errors:
            raise self._errors.pop(0)

    async def __aenter__(self) -> ModelServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def base_url(self) -> str:
        """For Anthropic's clients; on a Unix socket a placeholder that clients want beside the socket."""
        return "http://localhost" if self.socket is not None else f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        """For OpenAI's clients, whose base ends with the version."""
        return f"{self.base_url}/v1"

    @property
    def requests(self) -> tuple[Request, ...]:
        """Requests for answers, oldest first; also those that were refused before the script was asked."""
        return tuple(self._record.requests)

    @property
    def others(self) -> tuple[Request, ...]:
        """All other requests."""
        return tuple(self._record.others)

    @property
    def endings(self) -> tuple[Ending, ...]:
        """How answers ended, in the order in which they did; those of other requests are not among them."""
        return tuple(self._record.endings)

    def play(self, *turns: Play) -> None:
        """Add turns at the end of the script."""
        self._player.script = self._player.script.plus(turns)

    def release(self) -> None:
        """Let every answer go on that stands still now; later ones will stand still again."""
        self._released.set()
        self._released = asyncio.Event()

    async def wait_requests(self, count: int, seconds: float = SECONDS) -> tuple[Request, ...]:
        """All requests for answers, once there were so many. Raises AssertionError when the time is up."""
        await self._record.wait(lambda: self._record.seen >= count, f"{count} requests", seconds)
        return self.requests

    async def wait_endings(self, count: int, seconds: float = SECONDS) -> tuple[Ending, ...]:
        await self._record.wait(lambda: self._record.ended >= count, f"{count} endings", seconds)
        return self.endings

    async def wait_hanging(self, count: int, seconds: float = SECONDS) -> None:
        """Return when so many answers stand still."""
        await self._record.wait(lambda: self._record.hanging >= count, f"{count} hanging", seconds)

    # What connections ask for.

    def plan(self, heard: Heard) -> tuple[int, Plan]:
        self._count += 1
        path, _, query = heard.target.partition("?")
        dialect = DIALECTS.get(path) if heard.method == "POST" else None
        body = _parsed(heard.body)
        asked, turn, plan = self._decide(dialect, path, heard, body)
        request = Request(
            number=self._count,
            method=heard.method,
            path=path,
            query=query,
            headers=heard.headers,
            body=body,
            asked=asked,
            turn=turn,
        )
        self._record.saw(request, for_answer=dialect is not None)
        if self._on_request is not None:
            self._on_request(request)
        return self._count if dialect is not None else 0, plan

    def ended(self, number: int, how: How) -> None:
        if number:
            self._record.ends(Ending(number=number, how=how))

    async def stand(self, ping: Callable[[], Any], seconds: float | None) -> None:
        released = self._released
        self._record.hangs(1)
        try:
            while not released.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await released.wait()
                        return
                ping()
        finally:
            self._record.hangs(-1)

    def _decide(
        self, dialect: Dialect | None, path: str, heard: Heard, body: Mapping[str, Any] | None
    ) -> tuple[Asked | None, Turn | None, Plan]:
        token = f"{self._salt}{self._count:06d}"
        if dialect is None:
            return None, None, other(heard.method, path, len(heard.body))
        if self._key is not None and key_of(heard.headers) != self._key:
            return None, None, refusal(dialect, 401, token, "The key is not valid.")
        try:
            if body is None:
                raise BadInput(reason="the body must be a JSON object")
            asked = dialect.read(body, heard.headers, self._conversation(heard.headers, body))
        except BadInput as error:
            return None, None, refusal(dialect, 400, token, str(error))
        turn = self._player.choose(asked)
        self._answers[f"resp_{token}"] = asked.conversation
        return asked, turn, answer(dialect, self._reply(asked, turn, token, len(heard.body)))

    def _conversation(self, headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
        """The name of the conversation; empty if nothing says it."""
        named = next((headers[name] for name in CONVERSATION if name in headers), "")
        return named or self._answers.get(str(body.get("previous_response_id")), "")

    def _reply(self, asked: Asked, turn: Turn, token: str, size: int) -> Reply:
        usage = turn.usage
        written = len(turn.text) + len(turn.thinking) + sum(len(str(call.arguments)) for call in turn.calls)
        return Reply(
            asked=asked,
            turn=turn,
            token=token,
            created=self._clock.now() // 1000,
            input=max(1, size // 4) if usage.input is None else usage.input,
            output=max(1, written // 4) if usage.output is None else usage.output,
        )

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: Python 3.11 complains of every one of its own that is cancelled.
        client = asyncio.get_running_loop().create_task(Connection(reader, writer, self).serve())
        self._clients.add(client)
        client.add_done_callback(self._served)

    def _served(self, client: asyncio.Task[None]) -> None:
        self._clients.discard(client)
        if not client.cancelled() and (error := client.exception()) is not None:
            self._errors.append(error)


def _parsed(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
