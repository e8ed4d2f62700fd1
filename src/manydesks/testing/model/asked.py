"""What a request asks of the model, whatever its dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DialectName = Literal["messages", "responses", "chat"]

#: how texts begin that agent programs put into a person's mouth
NOT_THE_PERSON = (
    "<system-reminder>",
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "# AGENTS.md instructions",
    "[Request interrupted",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    dialect: DialectName
    model: str
    #: True: the client wants events
    stream: bool
    #: turns are counted for each conversation
    conversation: str
    #: system prompt and all other texts that nobody said
    system: str = field(repr=False)
    #: what the person said, oldest first; every text block is one
    said: tuple[str, ...]
    #: results of tools since the model's last answer, in the order of the request
    tool_results: tuple[str, ...]
    #: names of the tools on offer; those in a namespace as `namespace__name`
    tools: tuple[str, ...] = field(repr=False)
    #: the whole request
    body: Mapping[str, Any] = field(repr=False)

    @property
    def user(self) -> str:
        """The last thing that the person said."""
        return self.said[-1] if self.said else ""


class Listener:
    """Goes through a conversation in its order and keeps what matters."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.said: list[str] = []
        self.results: list[str] = []

    def person(self, text: str) -> None:
        """A text in the person's name; those of programs are not taken for theirs."""
        if text.lstrip().startswith(NOT_THE_PERSON):
            self.system.append(text)
        elif text.strip():
            self.said.append(text)

    def model(self) -> None:
        """The model answered: results from before it are no news."""
        self.results.clear()

    def asked(
        self, dialect: DialectName, body: Mapping[str, Any], conversation: str, tools: Iterable[str], model: str
    ) -> Asked:
        return Asked(
            dialect=dialect,
            model=model,
            stream=body.get("stream") is True,
            conversation=conversation or (self.said[0] if self.said else ""),
            system="\n".join(self.system),
            said=tuple(self.said),
            tool_results=tuple(self.results),
            tools=tuple(tools),
            body=body,
        )


def texts(content: Any) -> list[str]:
    """The texts in a content: a string, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
