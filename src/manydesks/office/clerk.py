"""The clerk: every act that a surface may ask for, the same whether the host performs it or a lone command does."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from manydesks.desk.furnish import checked_options
from manydesks.desk.sandboxes.registry import Sandboxes
from manydesks.domain.envelope import Incoming
from manydesks.domain.errors import BadInput, HomeError
from manydesks.domain.ids import is_name, new_id
from manydesks.office.files import kept_files
from manydesks.office.keeper import prune
from manydesks.office.workspace.furnish import furnish_workspace
from manydesks.runner.providers.registry import Providers
from manydesks.settings.home import Home, reason_of
from manydesks.settings.model import Settings
from manydesks.store.store import Store

FIRST_AGENT = "assistant"

#: steps of retention for one request: each is a few milliseconds, and whoever asks waits 10 s at most
PRUNE_STEPS = 40


class Clerk:
    """Checks what it is asked, then asks the store."""

    def __init__(self, store: Store, home: Home, settings: Settings) -> None:
        self._store = store
        self._home = home
        self._settings = settings
        self._verbs: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "send": self.send,
            "agent_add": self.agent_add,
            "agent_remove": self.agent_remove,
            "retry": self.retry,
            "release": self.release,
            "drop": self.drop,
            "cancel": self.cancel,
            "pause": self.pause,
            "resume": self.resume,
            "prune": self.prune,
            "questions": self.questions,
            "answer": self.answer,
            "mark_archived": self.mark_archived,
        }

    async def perform(self, verb: str, args: dict[str, Any]) -> dict[str, Any]:
        """One act by its name; the arguments come from another process and are checked by the act."""
        act = self._verbs.get(verb)
        if act is None:
            raise BadInput(f"There is no act '{verb}'; there are {', '.join(self._verbs)}.")
        try:
            inspect.signature(act).bind(**args)
        except TypeError as error:
            raise BadInput(f"'{verb}' does not take these arguments: {error}.") from error
        return await act(**args)

    async def furnish(self) -> None:
        """An office that never had an agent gets its first one."""
        if await self._store.is_new():
            await self.agent_add(id=FIRST_AGENT, name="Assistant")

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
        _strings(text=text, sender=sender)
        _strings_if_given(to=to, message_id=message_id)
        if type(priority) is not int:
            raise BadInput("A priority is a whole number from -100 to 100.")
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
            default_agent=self._settings.office.default_agent,
            message_bytes=self._settings.limits.message_bytes,
        )
        said = asdict(accepted)
        return {
            "messageId": said["message_id"],
            "traceId": said["trace"],
            "messages": list(said["messages"]),
            "notices": list(said["notices"]),
        }

    async def agent_add(
        self,
        *,
        id: str,
        name: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        sandbox: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        _strings(id=id)
        _strings_if_given(name=name, provider=provider, model=model, sandbox=sandbox)
        provider = provider or "rehearsal"
        if provider not in (known := Providers().names()):
            raise BadInput(f"There is no provider '{provider}'; there are {', '.join(known)}.")
        if sandbox is not None and sandbox not in (known := Sandboxes().names()):
            raise BadInput(f"There is no sandbox '{sandbox}'; there are {', '.join(known)}.")
        checked_options(Providers().get(provider), options or {}, self._settings)
        if is_name(id):  # else the store says what a name is
            self._furnish_workspace(id, name or id)
        return await self._store.add_agent(
            id=id, name=name, provider=provider, model=model, sandbox=sandbox, options=options
        )

    def _furnish_workspace(self, agent: str, name: str) -> None:
        """Before the agent is stored: an agent without a folder could not be mended by adding it again."""
        folder = self._home.workspace(agent)
        try:
            furnish_workspace(folder, agent=agent, name=name)
        except OSError as error:
            raise HomeError(home=self._home.path, reason=f"{folder} cannot be created, {reason_of(error)}.") from error

    async def agent_remove(self, *, id: str) -> dict[str, Any]:
        _strings(id=id)
        return await self._store.remove_agent(id)

    async def retry(self, *, id: str, text: str | None = None) -> dict[str, Any]:
        _strings(id=id)
        _strings_if_given(text=text)
        await self._store.retry(id, text, message_bytes=self._settings.limits.message_bytes)
        return {"messageId": id, "status": "pending"}

    async def release(self, *, id: str) -> dict[str, Any]:
        _strings(id=id)
        await self._store.release_held(id)
        return {"messageId": id, "status": "pending"}

    async def drop(self, *, id: str) -> dict[str, Any]:
        _strings(id=id)
        await self._store.drop(id)
        return {"messageId": id, "status": "cancelled"}

    async def cancel(self, *, id: str) -> dict[str, Any]:
        _strings(id=id)
        await self._store.cancel(id)
        return {"messageId": id, "status": "cancelled"}

    async def pause(self, *, id: str) -> dict[str, Any]:
        _strings(id=id)
        return {"agent": id, "paused": True, "changed": await self._store.pause(id)}

    async def resume(self, *, id: str) -> dict[str, Any]:
        _strings(id=id)
        return {"agent": id, "paused": False, "changed": await self._store.resume(id)}

    async def prune(self) -> dict[str, Any]:
        """What retention would do by and by, as much as an answer may take; `more`: ask again."""
        done = await prune(self._store, self._settings.retention, steps=PRUNE_STEPS)
        return asdict(done)

    async def questions(self) -> dict[str, Any]:
        return {"questions": await self._store.open_questions()}

    async def answer(self, *, id: str, answer: str, by: str = "you", own_words: bool = False) -> dict[str, Any]:
        """A person's answer to an agent's question: an option, or own words, also those that look like an option."""
        _strings(id=id, answer=answer, by=by)
        return await self._store.answer_question(id, answer, by=by, own_words=own_words is True)

    async def mark_archived(self, *, seq: int) -> dict[str, Any]:
        if type(seq) is not int or not 0 <= seq < 2**63:
            raise BadInput("An archived mark is a whole number from 0 that fits into 64 bits.")
        return {"seq": await self._store.mark_archived(seq)}


def _strings(**given: object) -> None:
    for name, value in given.items():
        if not isinstance(value, str):
            raise BadInput(f"'{name}' must be text.")
        try:
            value.encode()
        except UnicodeEncodeError:
            # half a surrogate pair: valid in JSON, but nothing that could be stored
            raise BadInput(f"'{name}' is not valid Unicode text.") from None


def _strings_if_given(**given: object) -> None:
    _strings(**{name: value for name, value in given.items() if value is not None})
