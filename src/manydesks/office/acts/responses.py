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
from manydesks.domain.ids import is_name
from manydesks.office.acts.base import Act, Means, strings, strings_if_given, texts
from manydesks.office.files import keep_text, kept_files
from manydesks.store.accept import check_text
from manydesks.store.rooms import CHANNEL as ROOM

log = logging.getLogger(__name__)

#: the one place of the console
CONSOLE = "terminal"
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
            "response_say": self.say,
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

    async def say(
        self,
        *,
        channel: str,
        sender: str,
        text: str,
        sender_id: str = "",
        agent: str | None = None,
        files: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Something that nobody asked for, to somebody on a channel. `files` lie in the home already (`keep_file`)."""
        texts(text=text)
        strings(channel=channel, sender=sender, sender_id=sender_id)
        strings_if_given(agent=agent)
        if not is_name(channel) or channel == ROOM:
            raise BadInput(f"'{channel[:60]}' is no channel.")
        if not sender:
            raise BadInput("'sender' says to whom it goes.")
        check_text(text, self._in_force.settings.limits.message_bytes)
        place = CONSOLE if channel == "console" else sender_id or sender
        return await self._store.say(
            channel=channel,
            platform_id=place,
            sender=sender,
            sender_id=sender_id,
            text=text,
            agent=agent,
            files=kept_files(files or [], self._home),
        )

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
