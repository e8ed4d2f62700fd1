"""The host's side of the socket: commands ask, the clerk acts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from manydesks.domain.errors import BadInput, ManyDesksError, OfficeError
from manydesks.office.wire import LINE_BYTES, encode, refusal

log = logging.getLogger(__name__)

Act = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Control:
    """Answers one request per connection."""

    def __init__(self, path: Path, act: Act) -> None:
        self._path = path
        self._act = act
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._ours = 0

    async def start(self) -> None:
        # we hold the office's lock: whatever lies here was left by a host that died
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, path=str(self._path), limit=LINE_BYTES)
        self._path.chmod(0o600)
        self._ours = self._path.stat().st_ino

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for task in tuple(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            # it may be another's by now, if somebody deleted ours
            with contextlib.suppress(FileNotFoundError):
                if self._path.stat().st_ino == self._ours:
                    self._path.unlink()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            answer = await self._answer(reader)
            if answer is not None:
                writer.write(encode(answer))
                await writer.drain()
        except ConnectionError:
            log.info("A command left before its answer", extra={"action": "command_left"})
        except asyncio.CancelledError:
            # the office closes; this task has no caller that would have to know
            log.info("A command was left without an answer", extra={"action": "command_cut_off"})
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        try:
            line = await reader.readline()
            if not line:
                return None
            request = json.loads(line)
            verb, args = request["verb"], request["args"]
            if not isinstance(verb, str) or not isinstance(args, dict):
                raise TypeError("verb must be text and args an object")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            return refusal(BadInput(f"A request is one JSON line with verb and args: {error}."))
        try:
            return {"result": await self._act(verb, args)}
        except ManyDesksError as error:
            return refusal(error)
        except Exception as error:
            # a fault of ours: without an answer the command would take the office for dead, and ask again
            log.exception("'%s' failed", verb, extra={"action": "act_failed"})
            return refusal(OfficeError(reason=f"internal error ({type(error).__name__}); its log says more."))
