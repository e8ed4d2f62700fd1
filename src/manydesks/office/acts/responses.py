"""Responses: fetched and acknowledged by clients, sent again and given up by people."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manydesks.channels.packing import ANSWER, wants_file
from manydesks.channels.registry import Channels
from manydesks.domain.errors import BadInput, UnknownResponse
from manydesks.office.acts.base import Act, Means, strings, strings_if_given
from manydesks.office.files import keep_text

log = logging.getLogger(__name__)

#: responses that one request gives at most
MOST = 1000


class ResponseActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._home = means.home
        self._in_force = means.in_force
        self._channels = Channels()

    def acts(self) -> Mapping[str, Act]:
        return {
            "responses_pending": self.pending,
            "response_ack": self.ack,
            "response_resend": self.resend,
            "response_drop": self.drop,
        }

    async def pending(
        self, *, channel: str, limit: int = 100, instance: str | None = None, after: int = 0
    ) -> dict[str, Any]:
        """What waits for the clients of a channel, oldest first. Each comes again until it is acknowledged.

        A long answer also comes as a file, where the channel says so; the same one every time.
        """
        strings(channel=channel)
        strings_if_given(instance=instance)
        if type(limit) is not int or not 1 <= limit <= MOST:
            raise BadInput(f"A limit is a whole number from 1 to {MOST}.")
        if type(after) is not int or not 0 <= after < 2**63:
            raise BadInput("'after' is the number of a response.")
        found = await self._store.fetch_responses(channel, limit=limit, instance=instance, after=after)
        return {"responses": await asyncio.to_thread(self._with_files, channel, found)}

    def _with_files(self, name: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if name not in self._channels.names():
            return found  # a program of somebody's own is the channel, and makes of a text what it likes
        channel, over = self._channels.get(name), self._in_force.settings.delivery.file_over
        for response in found:
            operation, text, files = response["operation"], response["text"] or "", response["files"]
            names = [file["name"] for file in files]
            if wants_file(channel, over, operation=operation, text=text, files=names):
                response["files"] = [*files, *_whole(text, self._home.files)]
        return found

    async def ack(self, *, id: int | str) -> dict[str, Any]:
        """The client has it; saying so again changes nothing."""
        number = _number(id)
        return {"id": number, "status": "acked", "changed": await self._store.acknowledge(number)}

    async def resend(self, *, id: int | str) -> dict[str, Any]:
        """A dead, unsure or expired response gets new attempts."""
        number = _number(id)
        await self._store.resend(number)
        return {"id": number, "status": "pending"}

    async def drop(self, *, id: int | str) -> dict[str, Any]:
        """A response that is not out is given up."""
        number = _number(id)
        await self._store.drop_response(number)
        return {"id": number, "status": "withdrawn"}


def _whole(text: str, files: Path) -> list[dict[str, Any]]:
    try:
        return [keep_text(text, ANSWER, files).as_json()]
    except OSError as error:
        # all of it is in the text too
        log.warning("An answer is given without its file: %s", error, extra={"action": "answer_file_failed"})
        return []


def _number(id: int | str) -> int:
    text = str(id) if type(id) in (int, str) else ""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UnknownResponse(response=str(id)[:40])
    return int(text)
