"""For authors of channels: a parcel to send, a line to be given, and what is wrong with a descriptor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from manydesks.channels.base import ChannelSection, Descriptor
from manydesks.domain.attachment import Attachment
from manydesks.domain.envelope import Accepted, Incoming, Parcel
from manydesks.domain.errors import Duplicate
from manydesks.domain.splitting import LEAST

#: what an agent can do, each with what goes with it; a channel takes all of it, as well as it can
OPERATIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "message": {},
        "notice": {},
        "edit": {"target": "r1"},
        "reaction": {"text": "👍", "target": None},
        "card": {"metadata": {"card": {"title": "Done", "description": None, "fields": [], "actions": []}}},
        "ask_question": {
            "metadata": {"question": {"id": "question_1", "title": "", "question": "Tea?", "options": []}}
        },
    }
)


def parcel(id: int = 1, **changes: Any) -> Parcel:
    """A response, as delivery would hand it over."""
    values: dict[str, Any] = {
        "id": id,
        "fence": 1,
        "message_id": "console_aaaaaaaa",
        "part": 1,
        "attempt": 1,
        "channel": "console",
        "instance": "",
        "platform_id": "terminal",
        "thread": "",
        "sender": "ada",
        "agent": "assistant",
        "operation": "message",
        "text": "hello",
        "created_at": 0,
    }
    return Parcel(**{**values, **changes})


class TestLine:
    """As `channels.base.Line`: keeps what is handed in, and what is said, for the test to look at."""

    __test__ = False

    def __init__(
        self,
        section: ChannelSection,
        *,
        instance: str = "",
        folder: Path = Path(),
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.section = section
        self.instance = instance
        self.arrivals: list[Incoming] = []
        self.reasons: list[str] = []
        self.lines: list[str] = []
        self._folder = folder
        self._secrets = secrets

    async def hand_in(self, incoming: Incoming) -> Accepted:
        if any((known.source, known.key) == (incoming.source, incoming.key) for known in self.arrivals):
            raise Duplicate(message=incoming.key)
        self.arrivals.append(incoming)
        return Accepted(message_id=incoming.key, trace="trace_aaaaaaaa", messages=(), notices=())

    def down(self, reason: str) -> None:
        self.reasons.append(reason)

    def secret(self, name: str) -> str | None:
        return self._secrets.get(name)

    def path(self, file: Attachment) -> Path:
        return self._folder / file.path

    def show(self, line: str) -> None:
        self.lines.append(line)


def complaints(channel: Descriptor) -> list[str]:
    """What is wrong with a descriptor, a sentence each."""
    said = []
    if re.fullmatch(r"[a-z][a-z0-9_]{0,31}", channel.name) is None:
        said.append("The name is 1 to 32 lowercase letters, digits and _, and begins with a letter.")
    for name, field in channel.section.model_fields.items():
        if not field.description:
            said.append(f"The setting {name} says nothing about itself.")
        if channel.by_itself and field.is_required():
            said.append(f"A channel that is there by itself cannot need {name}.")
    if channel.longest is not None and channel.longest < LEAST:
        said.append(f"The longest text is at least {LEAST}.")
    if channel.long_as_file and channel.files == "none":
        said.append("A channel that takes no files cannot get a long answer as one.")
    if channel.cut_off not in ("ask", "resend", "drop"):
        said.append("The rule for what was cut off is ask, resend or drop.")
    if not channel.summary:
        said.append("The summary is one line for people.")
    return said
