"""Responses: fetched and acknowledged by clients, sent again and given up by people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.domain.errors import BadInput, UnknownResponse
from manydesks.office.acts.base import Act, Means, strings, strings_if_given

#: responses that one request gives at most
MOST = 1000


class ResponseActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store

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
        """What waits for the clients of a channel, oldest first. Each comes again until it is acknowledged."""
        strings(channel=channel)
        strings_if_given(instance=instance)
        if type(limit) is not int or not 1 <= limit <= MOST:
            raise BadInput(f"A limit is a whole number from 1 to {MOST}.")
        if type(after) is not int or not 0 <= after < 2**63:
            raise BadInput("'after' is the number of a response.")
        found = await self._store.fetch_responses(channel, limit=limit, instance=instance, after=after)
        return {"responses": found}

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


def _number(id: int | str) -> int:
    text = str(id) if type(id) in (int, str) else ""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UnknownResponse(response=str(id)[:40])
    return int(text)
