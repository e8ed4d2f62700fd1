"""Messages: sent, tried again, let go on, given up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import new_id
from manydesks.office.acts.base import Act, Means, strings, strings_if_given
from manydesks.office.files import kept_files


class MessageActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._home = means.home
        self._in_force = means.in_force

    def acts(self) -> Mapping[str, Act]:
        return {
            "send": self.send,
            "retry": self.retry,
            "release": self.release,
            "drop": self.drop,
            "cancel": self.cancel,
        }

    async def send(
        self,
        *,
        text: str,
        to: str | None = None,
        sender: str = "you",
        priority: int = 0,
        message_id: str | None = None,
        files: list[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The owner's console: it alone may give slash commands. `files` lie in the home already (`keep_file`)."""
        strings(text=text, sender=sender)
        strings_if_given(to=to, message_id=message_id)
        if type(priority) is not int:
            raise BadInput("A priority is a whole number from -100 to 100.")
        settings = self._in_force.settings
        accepted = await self._store.accept(
            Incoming(
                source="console",
                key=message_id or new_id("console"),
                text=text,
                channel="console",
                platform_id="terminal",
                sender=sender,
                to=to,
                priority=priority,
                files=kept_files(files or [], self._home),
                commands=True,
            ),
            default_agent=settings.office.default_agent,
            message_bytes=settings.limits.message_bytes,
        )
        said = asdict(accepted)
        return {
            "messageId": said["message_id"],
            "traceId": said["trace"],
            "messages": list(said["messages"]),
            "notices": list(said["notices"]),
        }

    async def retry(self, *, id: str, text: str | None = None) -> dict[str, Any]:
        strings(id=id)
        strings_if_given(text=text)
        await self._store.retry(id, text, message_bytes=self._in_force.settings.limits.message_bytes)
        return {"messageId": id, "status": "pending"}

    async def release(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        await self._store.release_held(id)
        return {"messageId": id, "status": "pending"}

    async def drop(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        await self._store.drop(id)
        return {"messageId": id, "status": "cancelled"}

    async def cancel(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        await self._store.cancel(id)
        return {"messageId": id, "status": "cancelled"}
