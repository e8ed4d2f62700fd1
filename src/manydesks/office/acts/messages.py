"""Messages: sent, tried again, let go on, given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manydesks.channels.api import CHANNEL as API
from manydesks.channels.api import ApiSection
from manydesks.channels.registry import Channels
from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput
from manydesks.domain.ids import is_name, new_id
from manydesks.office.acts.base import Act, Means, strings, strings_if_given, texts
from manydesks.office.files import kept_files
from manydesks.office.intake import Intake
from manydesks.settings.problems import section_of
from manydesks.store.rooms import CHANNEL as ROOM


class MessageActs:
    def __init__(self, means: Means) -> None:
        self._store = means.store
        self._home = means.home
        self._in_force = means.in_force
        self._stop_runs = means.stop_runs
        self._intake = Intake(means)

    def acts(self) -> Mapping[str, Act]:
        return {
            "send": self.send,
            "message": self.message,
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
        texts(text=text)
        strings(sender=sender)
        strings_if_given(to=to, message_id=message_id)
        _whole(priority)
        incoming = Incoming(
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
        )
        return await self._taken(incoming)

    async def message(
        self,
        *,
        text: str,
        conversation: str = "client",
        sender: str = "client",
        sender_id: str = "",
        thread: str = "",
        agent: str | None = None,
        priority: int = 0,
        message_id: str | None = None,
        files: list[dict[str, Any]] | None = None,
        channel: str = API.name,
        not_before: int | None = None,
    ) -> dict[str, Any]:
        """A client of the API; its answers wait for it (`responses_pending`).

        `conversation` is the client's own name for the place: each has its default agent, and its answers keep their
        order. A `message_id` that was used before is `Duplicate`, so a client that got no answer asks again with the
        same one. Slash commands are text, unless `channels.api.commands` allows them. `channel`: of a client that is
        itself the way to people, by a name of its own. `not_before`: milliseconds UTC before which nobody begins.
        """
        texts(text=text)
        strings(conversation=conversation, sender=sender, sender_id=sender_id, thread=thread)
        strings_if_given(agent=agent, message_id=message_id)
        _whole(priority)
        if not conversation:
            raise BadInput("A conversation has a name.")
        section = section_of(ApiSection, f"channels.{API.name}", self._in_force.settings.channels.get(API.name, {}))
        if not section.enabled:
            raise BadInput(f"The channel '{API.name}' is switched off (channels.{API.name}.enabled).")
        strings(channel=channel)
        if channel != API.name and (not is_name(channel) or channel in (*Channels().names(), ROOM)):
            raise BadInput(
                f"'{channel[:60]}' is no channel for clients: it is '{API.name}', or a name of their own (lowercase "
                "letters, digits, and _ - inside) that no channel of the office has."
            )
        if not_before is not None and (type(not_before) is not int or not 0 <= not_before < 2**53):
            raise BadInput("'not_before' is a moment in milliseconds UTC.")
        incoming = Incoming(
            source=API.name,
            key=message_id or new_id(API.name),
            text=text,
            channel=channel,
            platform_id=conversation,
            conversation_kind="api",
            thread=thread,
            sender=sender,
            sender_id=sender_id,
            to=agent,
            priority=priority,
            files=kept_files(files or [], self._home),
            commands=section.commands,
            not_before=not_before,
        )
        return await self._taken(incoming)

    async def _taken(self, incoming: Incoming) -> dict[str, Any]:
        said = await self._intake.hand_in(incoming)
        return {
            "messageId": said.message_id,
            "traceId": said.trace,
            "messages": list(said.messages),
            "notices": list(said.notices),
        }

    async def retry(self, *, id: str, text: str | None = None) -> dict[str, Any]:
        strings(id=id)
        if text is not None:
            texts(text=text)
        await self._store.retry(id, text, message_bytes=self._in_force.settings.limits.message_bytes)
        return {"messageId": id, "status": "pending"}

    async def release(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        return {"messageId": id, "status": await self._store.release_held(id)}

    async def drop(self, *, id: str) -> dict[str, Any]:
        strings(id=id)
        await self._store.drop(id)
        return {"messageId": id, "status": "cancelled"}

    async def cancel(
        self, *, id: str | None = None, agent: str | None = None, everything: bool = False
    ) -> dict[str, Any]:
        """What has this id, or everything of an agent or of all, shall not go on. `more`: ask again for the rest.

        `id` is that of a message, a run, a session or a trace. Runs are told to end when this returns, and end by and
        by; what they say meanwhile does not count for what was cancelled.
        """
        strings_if_given(id=id, agent=agent)
        if sum((id is not None, agent is not None, everything is True)) != 1:
            raise BadInput("Say what to cancel: one id, one agent, or everything.")
        host = self._stop_runs is not None
        done = await (self._store.cancel(id, host=host) if id is not None else self._store.cancel_all(agent, host=host))
        if self._stop_runs is not None:
            self._stop_runs(done.runs)
        return {"cancelled": done.messages, "stopped": len(done.runs), "left": done.left, "more": done.more}


def _whole(priority: object) -> None:
    if type(priority) is not int:
        raise BadInput("A priority is a whole number from -100 to 100.")
