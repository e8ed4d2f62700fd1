"""A batch of messages as the agent reads it: sections by kind, in the order of their numbers, every field escaped.

```text
<context now="2026-05-01T09:30:00+02:00" zone="Europe/Berlin" agent="coder"/>
<messages>
<message id="api_k2j5h8d1" seq="4" from="api:ada" sender="Ada" time="2026-05-01T09:29:58+02:00">Is it done?</message>
</messages>
<task id="task_p3m1c7x9" seq="6" schedule="morning" time="…">Write the report.</task>
<webhook id="…" seq="8" source="ci" event="failed" time="…">{"build": 7}</webhook>
<host-notice id="…" seq="10" action="create_agent" status="denied">…</host-notice>
```

In what others wrote, `<`, `>` and `&` are always escaped. So a `<host-notice>` is the office's, whoever sent the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from manydesks.domain.command import command_word
from manydesks.domain.envelope import NOTICES
from manydesks.domain.mail import Inbound
from manydesks.runner.attachment import MAX_ALL, FilePart, attach
from manydesks.runner.markup import escaped, opening
from manydesks.runner.wording import text_of

AGAIN = (
    "This is attempt {attempt} at this work. An earlier one was broken off, so parts of it may be done already: look "
    "before you repeat anything that cannot be undone."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """Whom prompts are written for."""

    #: the agent's id
    agent: str
    #: in which times are given, such as `Europe/Berlin`
    zone: str = "UTC"
    #: where files of messages are; None: there are none
    inbox: Path | None = None
    #: media types that go to the model as they are; others are named by their path
    takes: frozenset[str] = frozenset()
    #: slash commands that the provider carries out itself, without the slash
    commands: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What is said to the model at once."""

    text: str
    #: `<attachment part="1" …>` of the text is the first of these
    files: tuple[FilePart, ...] = ()
    #: ids of the messages that it holds
    messages: tuple[str, ...]
    #: a slash command, passed raw and alone; None: a prompt
    command: str | None = None


def prompts(
    messages: Sequence[Inbound], *, reader: Reader, now: int, notices: Sequence[str] = ()
) -> tuple[Prompt, ...]:
    """One prompt for the batch; slash commands are prompts of their own, and part what is before from what is after.

    `notices` are sentences of the office itself, put at the top. Reads files: call it in a thread.
    """
    made: list[Prompt] = []
    for command, group in groupby(messages, key=lambda message: command_of(message, reader.commands)):
        rows = tuple(group)
        if command is None:
            said = notices if not any(prompt.command is None for prompt in made) else ()
            made.append(_prompt(rows, reader, now, said))
        else:
            made += [
                Prompt(text=text_of(row).strip(), messages=(row.id,), command=command_of(row, reader.commands))
                for row in rows
            ]
    return tuple(made)


def command_of(message: Inbound, commands: frozenset[str]) -> str | None:
    """The slash command that this message is, if its sender may give it and the provider knows it; else None.

    `isCommand` is the office's word that the sender may; the text alone proves nothing.
    """
    text = message.content.get("text")
    if message.kind != "chat" or message.content.get("isCommand") is not True or not isinstance(text, str):
        return None
    word = command_word(text)
    return word if word in commands else None


def _prompt(messages: tuple[Inbound, ...], reader: Reader, now: int, notices: Sequence[str]) -> Prompt:
    writing = _Writing(reader)
    lines = [opening("context", {"now": writing.time(now), "zone": reader.zone, "agent": reader.agent}, empty=True)]
    attempt = max((message.tries for message in messages), default=1)
    said = [*notices, *_told(messages), *([AGAIN.format(attempt=attempt)] if attempt > 1 else [])]
    lines += [f"<host-notice>{escaped(notice)}</host-notice>" for notice in said]
    for kind, group in groupby(messages, key=lambda message: message.kind):
        sections = [writing.section(message) for message in group]
        lines += ["<messages>", *sections, "</messages>"] if kind == "chat" else sections
    return Prompt(text="\n".join(lines), files=tuple(writing.files), messages=tuple(message.id for message in messages))


def _told(messages: tuple[Inbound, ...]) -> list[str]:
    """What the office says about these messages: once, however many of them bring it."""
    given = [message.content.get(NOTICES) for message in messages]
    lists = [found for found in given if isinstance(found, list)]
    return list(dict.fromkeys(said for found in lists for said in found if isinstance(said, str)))


class _Writing:
    """The writing of one prompt; keeps the files that go with it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._zone = UTC if reader.zone == "UTC" else ZoneInfo(reader.zone)
        self._room = MAX_ALL
        self.files: list[FilePart] = []

    def time(self, at: int) -> str:
        try:
            return datetime.fromtimestamp(at / 1000, self._zone).isoformat(timespec="seconds")
        except (OverflowError, ValueError, OSError):
            return str(at)  # the last day of the year 9999 has no later zone

    def section(self, message: Inbound) -> str:
        match message.kind:
            case "chat":
                return self._chat(message)
            case "task":
                return self._task(message)
            case "system":
                return self._notice(message)
            case _:
                return self._webhook(message)

    def _chat(self, message: Inbound) -> str:
        content = message.content
        quoted = content.get("replyTo")
        head = {
            **self._numbers(message),
            "from": content.get("senderId"),
            "sender": content.get("sender"),
            "room": content.get("room"),
            "time": self.time(message.at),
            "reply_to": message.reply_to,
            "own": "yes" if content.get("isFromMe") is True else None,
            "mention": "yes" if content.get("isMention") is True else None,
            "context": None if message.trigger else "yes",
        }
        inner: list[str] = []
        if isinstance(quoted, dict):
            known = {"id": quoted.get("id"), "sender": quoted.get("sender")}
            inner.append(f"{opening('quoted', known)}{escaped(_text(quoted.get('text')))}</quoted>")
        if content.get("links"):
            inner.append(f"<links>{escaped(_text(content['links']))}</links>")
        attachments = content.get("attachments")
        for given in attachments if isinstance(attachments, list) else ():
            inner.append(self._attachment(given if isinstance(given, dict) else {"name": given}))
        return _element("message", head, text_of(message), inner)

    def _attachment(self, given: dict[str, Any]) -> str:
        attached = attach(given, inbox=self._reader.inbox, takes=self._reader.takes, room=self._room)
        if attached.part is not None:
            self.files.append(attached.part)
            self._room -= len(attached.part.data)
        head = {
            "part": len(self.files) if attached.part is not None else None,
            "name": given.get("name"),
            "type": given.get("type"),
            "mime": given.get("mime"),
            "bytes": given.get("bytes"),
            "path": attached.path,
            "missing": "yes" if attached.path is None else None,
        }
        return opening("attachment", head, empty=True)

    def _task(self, message: Inbound) -> str:
        content = message.content
        slot = content.get("slotAt")
        head = {
            **self._numbers(message),
            "schedule": content.get("schedule"),
            "time": self.time(slot if type(slot) is int else message.at),
        }
        output = content.get("scriptOutput")
        inner = [] if output is None else [f"<script-output>{escaped(_text(output))}</script-output>"]
        return _element("task", head, text_of(message), inner)

    def _webhook(self, message: Inbound) -> str:
        content = message.content
        head = {
            **self._numbers(message),
            "source": content.get("source"),
            "event": content.get("event"),
            "time": self.time(message.at),
        }
        headers = content.get("headers")
        inner = [f"<headers>{escaped(_text(headers))}</headers>"] if headers else []
        return _element("webhook", head, text_of(message), inner)

    def _notice(self, message: Inbound) -> str:
        content = message.content
        head: dict[str, object] = {**self._numbers(message), "time": self.time(message.at)}
        if content.get("type") == "question_response":
            head |= {"about": "question_response", "question": content.get("questionId")}
            given = {"user": content.get("userId"), "option": content.get("selectedOption")}
            # a person's words: they stay in an element of their own also here
            inner = [f"{opening('answer', given)}{escaped(_text(content.get('text')))}</answer>"]
            return _element("host-notice", head, "", inner)
        head |= {"action": content.get("action"), "status": content.get("status")}
        return _element("host-notice", head, text_of(message), [])

    def _numbers(self, message: Inbound) -> dict[str, object]:
        attempt = message.tries if message.tries > 1 else None
        return {"id": message.id, "seq": message.seq, "attempt": attempt}


def _element(name: str, head: dict[str, object], text: str, inner: list[str]) -> str:
    body = "\n".join([escaped(text), *inner, ""]) if inner else escaped(text)
    return f"{opening(name, head)}{body}</{name}>"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
