"""Finds tools: the files of this folder and the entry points of the group `manydesks.tools`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from manydesks.domain.errors import BadInput
from manydesks.domain.mail import Content, Inbound
from manydesks.runner import members, tools
from manydesks.runner.tools.base import Call, Means, Outcome, Tool

GROUP = "manydesks.tools"


class Send(Protocol):
    """Writes one outbound row that answers a message; its number."""

    async def __call__(self, message: Inbound, kind: str, content: Content, *, id: str | None = None) -> int: ...


@cache
def find() -> Mapping[str, Tool]:
    """Every tool by its name; a built-in's name cannot be taken by a stranger.

    Looked up once per process: reading all entry points takes longer than a turn.
    """
    found = {tool.name: tool for tool in members.strangers(GROUP, Tool)}
    return MappingProxyType(found | {tool.name: tool for tool in members.built_in(tools, "TOOL", Tool)})


class Toolbox:
    """The tools of one turn, as `Tools`: each call belongs to one message of the batch."""

    def __init__(
        self, offered: Mapping[str, Tool], messages: Iterable[Inbound], send: Send, means: Means | None = None
    ) -> None:
        self._tools = offered
        self._messages = {message.id: message for message in messages}
        self._send = send
        self._means = means or Means()

    def add(self, messages: Iterable[Inbound]) -> None:
        """More messages have joined the turn."""
        self._messages |= {message.id: message for message in messages}

    def offered(self) -> tuple[Tool, ...]:
        return tuple(self._tools.values())

    async def call(self, name: str, arguments: Any, *, message: str) -> Outcome:
        tool = self._tools.get(name)
        if tool is None:
            return Outcome(ok=False, result=f"There is no tool '{name}'; there are: {', '.join(sorted(self._tools))}.")
        complaint = tool.complaint(arguments)
        if complaint is not None:
            return Outcome(ok=False, result=complaint)
        row = self._messages.get(message)
        if row is None:
            return Outcome(ok=False, result=f"'{message}' is not a message that you were given.")

        async def send(kind: str, content: Content, *, id: str | None = None) -> int:
            return await (self._send(row, kind, content) if id is None else self._send(row, kind, content, id=id))

        try:
            return await tool.run(Call(message=row, send=send, means=self._means), arguments)
        except BadInput as error:
            # too much for one row, half a character: the model can mend that
            return Outcome(ok=False, result=str(error))
